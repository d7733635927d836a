"""A PettingZoo environment as a game of several players, with all of its seats.

rows = SeatRows(lambda: PettingZooGame("classic/tictactoe"), num_envs=16)

python -m ppo_trainer env._target_=entity_env.interop.PettingZooGame env.env=classic/connect_four

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.arguments import named_arguments
from entity_env.errors import ResetNeededError, SettingError, SpaceError, shorten
from entity_env.interop.pettingzoo_env import by_name
from entity_env.interop.pettingzoo_seats import KINDS
from entity_env.interop.rows import Entities
from entity_env.interop.translated_env import make_or_take
from entity_env.interop.translation import SpaceTranslation
from entity_env.observation import Observation
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    SeatActions,
    SeatObservations,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["PettingZooGame"]


@named_arguments(SettingError)
class PettingZooGame(MultiPlayerEnvironment):
    """All agents of a PettingZoo environment as seats, whether they act at once or in turn.

    Entities:
        As ``GymnasiumEnv``, from the agents' observation space, which must be the same for all.
    Actions:
        As ``GymnasiumEnv``, from the agents' action space, the same for all.
    Reward:
        Each agent's own; of agents that take turns what they get while they wait comes with what
        they see next.
    End:
        An agent that is terminated, truncated or gone is out.
    Randomness:
        The environment's, which the reset after ``seed`` seeds.

    Args:
        env: An id, the path of a module, what makes an environment, or an environment; as in
            ``PettingZooEnv``.
        ignore: Parts of the observation that are left out, as in ``GymnasiumEnv``.
        entities: Tables in the observation that become entities, as in ``GymnasiumEnv``.
        **kwargs: Arguments for what makes the environment.

    Raises:
        UnknownEnvironmentError: An id or a path that leads nowhere.
        SettingError: No agents; ``ignore`` or ``entities`` name something that is not there.
        SpaceError: A space that cannot be translated, or agents with different spaces.
    """

    code_settings: ClassVar = ("env",)
    """Settings that name code, which is imported: of a stranger's run they need consent."""

    def __init__(
        self,
        env: Any,
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        **kwargs: Any,
    ) -> None:
        self.env = make_or_take(env, kwargs, "PettingZoo", "classic/tictactoe", by_name, KINDS)
        self._agents = list(self.env.possible_agents)
        if not self._agents:
            raise SettingError("the environment has no agents")
        self._translation = SpaceTranslation(
            *_common_spaces(self.env, self._agents), ignore, entities
        )
        self._seed: int | None = None
        self._in: dict[Any, Observation] = {}  # who is in the game, and what each saw last
        self._owed: dict[Any, float] = {}
        self._playing = self._closed = False
        self._at_once = isinstance(self.env, ParallelEnv)
        if getattr(self.env, "render_mode", None) == "rgb_array":
            # Only now: whoever looks at the class sees that not every environment draws itself.
            self.render = self._draw  # type: ignore[method-assign]

    def obs_space(self) -> ObsSpace:
        """What the observation space was translated to."""
        return self._translation.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """What the action space was translated to."""
        return self._translation.action_space

    def seats(self) -> Sequence[Any]:
        """All possible agents."""
        return list(self._agents)

    def seed(self, seed: int) -> None:
        """Seed ``self.rng`` now, and the environment at its next reset."""
        super().seed(seed)
        self._seed = seed

    def reset(self) -> SeatObservations:
        """Start an episode."""
        seed, self._seed = self._seed, None
        self._in, self._owed, self._playing = {}, {}, True
        if self._at_once:
            seen, infos = self.env.reset(seed=seed)
            told = {
                agent: self._translation.observe(seen[agent], infos.get(agent, {}))
                for agent in self.env.agents
            }
        else:
            self.env.reset(seed=seed)
            self._taking_part = list(self.env.agents)
            told = self._until_asked({})
        return self._noted(told)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play on with the actions of those who are asked."""
        if not self._playing:
            raise ResetNeededError("there is no game to play", hint="call reset() first")
        own = {agent: self._translation.act(taken) for agent, taken in actions.items()}
        return self._noted(self._together(own) if self._at_once else self._in_turn(own))

    def close(self) -> None:
        """Close the environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        return np.asarray(self.env.render(**kwargs), np.uint8)

    def _together(self, own: Mapping[Any, Any]) -> dict[Any, Observation]:
        seen, rewards, terminated, truncated, infos = self.env.step(dict(own))
        told = {}
        for agent in [*self._in, *(new for new in self.env.agents if new not in self._in)]:
            reward = float(rewards.get(agent, 0.0))
            if agent not in seen or (
                agent not in self.env.agents
                and not terminated.get(agent, False)
                and not truncated.get(agent, False)
            ):
                told[agent] = self._gone(agent, reward)  # without another word
                continue
            told[agent] = self._translation.observe(
                seen[agent],
                infos.get(agent, {}),
                reward,
                bool(terminated.get(agent, False)),
                bool(truncated.get(agent, False)),
            )
        return told

    def _in_turn(self, own: Mapping[Any, Any]) -> dict[Any, Observation]:
        ((_, action),) = own.items()
        self._step(action)
        return self._until_asked({})

    def _step(self, action: Any) -> None:
        """A step of the environment, which may pay anybody."""
        self.env.step(action)
        for agent, reward in self.env.rewards.items():
            if reward:
                self._owed[agent] = self._owed.get(agent, 0.0) + float(reward)

    def _until_asked(self, told: dict[Any, Observation]) -> dict[Any, Observation]:
        """Let those go who are out, and show the next one what it sees."""
        env = self.env
        while env.agents:
            agent = env.agent_selection
            ended = bool(env.terminations[agent]), bool(env.truncations[agent])
            told[agent] = self._translation.observe(
                env.observe(agent), env.infos.get(agent, {}), self._owed.pop(agent, 0.0), *ended
            )
            if not any(ended):
                return told
            self._step(None)
        for agent in self._taking_part:
            if agent in self._in and agent not in told:
                told[agent] = self._gone(agent, self._owed.pop(agent, 0.0))
        return told

    def _gone(self, agent: Any, reward: float) -> Observation:
        last = self._in.get(agent)
        features: Any = {} if last is None else last.features
        known: Any = None if last is None else last.global_features
        if known is None:
            known = [0.0] * len(self.obs_space().global_names)
        return Observation(features=features, global_features=known, reward=reward, done=True)

    def _noted(self, told: dict[Any, Observation]) -> dict[Any, Observation]:
        for agent, observation in told.items():
            if observation.done:
                self._in.pop(agent, None)
            else:
                self._in[agent] = observation
        self._playing = bool(self._in)
        return told


def _common_spaces(env: Any, agents: Sequence[Any]) -> tuple[Any, Any]:
    """The observation space and the action space that all agents have."""
    first = agents[0]
    spaces = env.observation_space(first), env.action_space(first)
    for agent in agents[1:]:
        other = env.observation_space(agent), env.action_space(agent)
        for kind, own, known in zip(("observation", "action"), other, spaces, strict=True):
            if own != known:
                raise SpaceError(
                    f"agents {first!r} and {agent!r} have different {kind} spaces",
                    expected=shorten(known),
                    received=shorten(own),
                    hint="all seats of a game have the same spaces; PettingZooEnv plays one agent",
                )
    return spaces
