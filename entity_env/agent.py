"""Agents, which act on single observations or on the rows of a ``VecEnv``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.action_checks import check_actions
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.answers import flat_answers
from entity_env.batching.kinds.table import answer_forms, kind_of, typed_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.unbatch import batched_actions, observations_of
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.errors import EntityEnvError
from entity_env.observation import Observation
from entity_env.plugins import AGENTS, load_plugins
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = [
    "Agent",
    "Decision",
    "LoadedAgent",
    "ObservationAgent",
    "Policy",
    "Proposer",
    "RandomAgent",
    "RunningAgent",
    "SpacedAgent",
    "VecPolicy",
    "decided_actions",
    "load_agent",
    "random_policy",
]


VecPolicy: TypeAlias = Callable[[VecObs], Mapping[ActionName, ActionBuffer]]
Policy: TypeAlias = Callable[[Observation], Mapping[ActionName, Action]]


@dataclass(frozen=True)
class Decision:
    """The decision of an agent in one frame.

    Args:
        chosen: For each action one number for each actor: the index of the choice or, for a
            select-entity action, the index of the entity in its frame. Shape: (A,), int64. For a
            continuous action its numbers. Shape: (A, K), float32.
        probs: The probability of each choice, (A, C), or of each actee, (A, E), for actions with
            known probabilities. float32.
        value: The expected return, if known.
        normal: For continuous actions the means and standard deviations, both (A, K), of the
            distributions of the numbers, if known.
    """

    chosen: Mapping[ActionName, npt.NDArray[Any]]
    probs: Mapping[ActionName, npt.NDArray[np.float32]] = field(default_factory=dict)
    value: float | None = None
    normal: Mapping[ActionName, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = field(
        default_factory=dict
    )


class Agent(Protocol):
    """A player: random play, a script, a network, a search, or a person at the terminal.

    An agent may also have ``seed(seed)``, which restarts its random numbers, and ``get_state()``
    and ``set_state(state)``, which save and restore its random numbers and memory as JSON values.
    """

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the actions for one observation, as ``Environment.act`` takes them.

        The calls belong to one game; call ``reset`` when another one begins.
        """

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the actions for each frame of ``obs``, as ``VecEnv.act`` takes them.

        Args:
            obs: The frames, of the rows in ``rows``. ``done`` (R,) marks the rows whose episode
                has ended since the last call. The frame of such a row is the first one of its next
                episode, for which the agent forgets the episode before.
        """

    def reset(self) -> None:
        """Forget all games, because new ones begin."""


class Proposer(Protocol):
    """An agent that proposes actions, with their probabilities, to a person who plays."""

    @property
    def obs_space(self) -> ObsSpace:
        """The observation space."""

    @property
    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """The action space."""

    def decide(self, obs: VecObs) -> Decision:
        """Return the decision in the one row of ``obs``."""


class LoadedAgent(Agent, Proposer, Protocol):
    """An agent of ``load_agent``: it plays or proposes, and can be seeded again."""

    def seed(self, seed: int) -> None:
        """Restart the random numbers of the agent."""


class RunningAgent(LoadedAgent, Protocol):
    """An agent of a run folder, which can make its game and detect newer checkpoints."""

    @property
    def version(self) -> str:
        """The name of the checkpoint that the agent plays with."""

    def is_newest(self) -> bool:
        """Return False if there is a newer checkpoint."""

    def make_game(self, trust: bool = False) -> Any:
        """Make the environment, or the game of several players, that the agent was trained on."""


class SpacedAgent:
    """Base of agents that have spaces; subclasses define ``act_rows``, from which ``act`` follows.

    Args:
        obs_space: The observation space.
        action_space: The action space.

    Attributes:
        name: Name of the agent among several players.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self.name = type(self).__name__
        self.obs_space = obs_space
        self.action_space = action_space
        self._forms = answer_forms(action_space)
        self._reader: FrameReader | None = None

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the actions for one observation, as a batch of one row."""
        if self._reader is None:
            self._reader = FrameReader(self.obs_space, self.action_space)
        frame = self._reader.read(observation)
        actions = self.act_rows(batch_frames([frame], self.obs_space, self.action_space))
        chosen = {name: flat_answers(actions[name], form) for name, form in self._forms.items()}
        return typed_actions(frame, chosen, self.action_space)

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the actions for each frame."""
        raise NotImplementedError

    def decide(self, obs: VecObs) -> Decision:
        """Return the actions in the one row of ``obs``, without probabilities."""
        answers = self.act_rows(obs)
        return Decision(
            {name: flat_answers(answers[name], form) for name, form in self._forms.items()}
        )

    def reset(self) -> None:
        """Do nothing: this agent has no memory."""


class ObservationAgent(SpacedAgent):
    """Base of agents that act on one observation at a time; subclasses define ``act``.

    ``act_rows`` calls ``act`` for one frame after the other. The ids in these observations are
    those of ``observations_of``: the type of an entity, and its index among those of its type.
    """

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the actions for one observation."""
        raise NotImplementedError

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the actions for each frame.

        Raises:
            EntityEnvError: An action is missing or not valid.
        """
        shown = observations_of(obs, self.obs_space, self.action_space)
        actions = [self.act(observation) for observation in shown]
        chosen = batched_actions(actions, shown, obs, self.obs_space, self.action_space)
        return check_actions(chosen, obs, self.action_space)


class RandomAgent(SpacedAgent):
    """An agent that draws uniformly among the choices that the masks allow.

    Args:
        obs_space: The observation space.
        action_space: The action space.
        seed: Seed of the random numbers.
    """

    def __init__(
        self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], seed: int = 0
    ) -> None:
        super().__init__(obs_space, action_space)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the random numbers."""
        self._rng = np.random.default_rng(seed)

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return choices drawn uniformly among those that are allowed."""
        return random_policy(self._rng)(obs)

    def get_state(self) -> Any:
        """Return the state of the random numbers."""
        return self._rng.bit_generator.state

    def set_state(self, state: Any) -> None:
        """Restore the state of the random numbers."""
        self._rng.bit_generator.state = state


def load_agent(path: str, seed: int, trust: bool = False) -> LoadedAgent:
    """Load the agent at ``path``, such as a run folder, with a loader of an installed package.

    Args:
        path: Path of the agent.
        seed: Seed of the agent's random numbers.
        trust: The user's consent to import code that the agent names; passed to loaders that
            take it.

    Raises:
        EntityEnvError: No loader is installed, or none can load the agent; the latter is the
            error of the first loader.
    """
    failures: list[EntityEnvError] = []
    for load in load_plugins(AGENTS):
        consent = {"trust": True} if trust and "trust" in signature(load).parameters else {}
        try:
            agent: LoadedAgent = load(path, seed, **consent)
        except EntityEnvError as error:
            failures.append(error)
        else:
            return agent
    if failures:
        raise failures[0]
    raise EntityEnvError(
        f"no installed package can load the agent {path!r}",
        expected=f"a package with an entry point in the group {AGENTS!r}",
        hint="install this package itself: pip install -e .",
    )


def decided_actions(
    frame: Frame, decision: Decision, action_space: Mapping[ActionName, ActionSpace]
) -> dict[ActionName, Action]:
    """Return a decision as actions for an environment, with the known probabilities.

    Args:
        frame: The frame of the decision.
        decision: The decision, in the format of ``Proposer.decide``.
        action_space: The environment's action space.
    """
    actions = typed_actions(frame, decision.chosen, action_space)
    for name, action in actions.items():
        is_global = kind_of(action_space[name]).is_global
        known: dict[str, Any] = {}
        if name in decision.probs:
            known = {"probs": decision.probs[name]}
        elif name in decision.normal:
            known = dict(zip(("mean", "std"), decision.normal[name], strict=True))
        if known:
            own = {part: rows[0] if is_global else rows for part, rows in known.items()}
            actions[name] = replace(action, **own)
    return actions


def random_policy(seed: int | np.random.Generator) -> VecPolicy:
    """Return a policy that draws uniformly among the allowed choices."""
    rng = np.random.default_rng(seed)

    def act(obs: VecObs) -> dict[ActionName, ActionBuffer]:
        return {name: mask.draw(rng) for name, mask in obs.action_masks.items()}

    return act
