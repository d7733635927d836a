"""One seat of a PettingZoo environment as an ``Environment``.

env = PettingZooEnv("classic/tictactoe", seat="player_1")  # the other player is random
observation = env.reset()

python -m ppo_trainer env._target_=entity_env.interop.PettingZooEnv env.env=classic/connect_four

"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from entity_env.actions import Action, GlobalCategoricalAction, GlobalContinuousAction
from entity_env.arguments import named_arguments
from entity_env.environment import MOST_RESETS
from entity_env.errors import MaskShapeError, ObservationError, SettingError, shorten, unknown_name
from entity_env.interop.translated.choices import ChoiceWriter
from entity_env.interop.translated.pettingzoo_play import News, make_pettingzoo, play_of
from entity_env.interop.translated.rows import Entities
from entity_env.interop.translated.translated_env import TranslatedEnv
from entity_env.interop.translated.translation import SpaceTranslation, split_mask
from entity_env.kinds.continuous import bounds_of, random_numbers
from entity_env.observation import Observation
from entity_env.spaces import ActionName, GlobalCategoricalActionSpace, GlobalContinuousActionSpace

__all__ = ["Others", "PettingZooEnv", "any_allowed"]

Others: TypeAlias = Callable[[Any, Any, Any, spaces.Space[Any], np.random.Generator], Any]
"""A function from (agent, observation, mask or None, action space, generator) to an action."""


@named_arguments(SettingError)
class PettingZooEnv(TranslatedEnv):
    """An environment for one agent of a PettingZoo game; functions play the other agents.

    Entities:
        Read from the agent's observation space, as in ``GymnasiumEnv``. In observations with the
        keys ``observation`` and ``action_mask``, the second is the mask.
    Actions:
        Read from the agent's action space, as in ``GymnasiumEnv``. If agents take turns, the
        others move until it is the agent's turn again.
    Reward:
        The sum of the agent's rewards since its last action. Rewards before its first action are
        dropped.
    End:
        The agent is terminated, truncated or removed, even if the other agents could continue.
    Randomness:
        The environment's, seeded by the reset after ``seed``, and ``self.rng``, from which
        ``others`` draw.

    Args:
        env: An id of PettingZoo's registry, such as ``classic/tictactoe``; or the path of a module
            with a function ``parallel_env`` or ``env``; or a function or class that makes an
            environment; or an environment. A parallel environment is preferred if there is one.
        seat: The agent that acts; None is the first one.
        others: Player of all other agents. None draws uniformly among the allowed choices.
        ignore: Parts of the agent's observation to leave out, as in ``GymnasiumEnv``.
        entities: Tables in the agent's observation that become entities, as in ``GymnasiumEnv``.
        **kwargs: Arguments of the environment. With ``render_mode="rgb_array"`` the environment
            draws pictures.

    Raises:
        UnknownEnvironmentError: The id or the path does not exist.
        SettingError: The seat does not exist, or ``ignore`` or ``entities`` name a part that does
            not exist.
        SpaceError: A part of a space cannot be translated.
    """

    def __init__(
        self,
        env: Any,
        seat: Any = None,
        others: Others | None = None,
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        **kwargs: Any,
    ) -> None:
        made = make_pettingzoo(env, kwargs)
        self.agent = _checked_seat(seat, list(made.possible_agents))
        self.others = any_allowed if others is None else others
        if not callable(self.others):
            raise SettingError(
                "others is not a function",
                expected="a function of (agent, observation, action_mask, action_space, rng)",
                received=shorten(others),
            )
        self._play = play_of(made, only=self.agent)
        self._told: Mapping[Any, News] = {}
        observes, acts = made.observation_space(self.agent), made.action_space(self.agent)
        super().__init__(made, SpaceTranslation(observes, acts, ignore, entities))

    def _begin(self, seed: int | None) -> Observation:
        for _ in range(MOST_RESETS):  # skip games that end before the agent's first turn
            self._told = self._play.reset(seed)
            if self.agent not in self.env.agents:
                raise ObservationError(
                    f"agent {self.agent!r} takes no part in a new episode",
                    expected="an agent that takes part from the first step",
                    received=shorten(list(self.env.agents)),
                )
            news, seed = self._until_turn(), None
            if not news.is_over:
                return self._translation.observe(news.observation, news.info)
        raise ObservationError(
            f"agent {self.agent!r} had no turn in {MOST_RESETS} games", hint="choose another seat"
        )

    def _step(self, actions: Mapping[ActionName, Action]) -> Observation:
        self._move({self.agent: self._translation.act(actions)})
        return self._translation.observe(*self._until_turn())

    def _until_turn(self) -> News:
        """Let the others move until the agent must act, or is out."""
        while self.agent not in self._told:
            if self.agent not in self._play.inside and self.agent not in self.env.agents:
                return News(None, terminated=True)  # it had no observation
            self._move({})
        return self._told[self.agent]

    def _move(self, own: dict[Any, Any]) -> None:
        """Step the environment with the action of the agent, if any, and of all others."""
        for agent, news in self._told.items():
            if agent != self.agent and not news.is_over:
                seen, mask = split_mask(news.observation, news.info)
                space = self.env.action_space(agent)
                own[agent] = self.others(agent, seen, mask, space, self.rng)
        self._told = self._play.step(own)


def any_allowed(
    agent: Any,
    observation: Any,
    action_mask: Any,
    action_space: spaces.Space[Any],
    rng: np.random.Generator,
) -> Any:
    """Return an action drawn uniformly among those that the mask allows."""
    if isinstance(action_space, spaces.Discrete):
        allowed = np.ones(action_space.n) if action_mask is None else np.asarray(action_mask)
        if allowed.shape != (action_space.n,) or not allowed.any():
            raise MaskShapeError(
                f"the action mask of agent {agent!r} allows no action",
                expected=f"({action_space.n},) with at least one choice",
                received=shorten(action_mask),
            )
        return action_space.dtype.type(action_space.start + rng.choice(np.flatnonzero(allowed)))
    if action_mask is None:
        # The space has its own random generator, which is seeded here.
        action_space.seed(int(rng.integers(2**31)))
        return action_space.sample()
    return _drawn_of_parts(agent, action_mask, action_space, rng)


def _drawn_of_parts(
    agent: Any, action_mask: Any, action_space: spaces.Space[Any], rng: np.random.Generator
) -> Any:
    """Return an action with a choice for each part, drawn uniformly among the allowed ones."""
    writer = ChoiceWriter(action_space)
    actions: dict[str, Action] = {}
    for name, mask in writer.masks(action_mask).items():
        space = writer.action_space[name]
        if isinstance(space, GlobalContinuousActionSpace):
            actions[name] = GlobalContinuousAction(random_numbers(1, *bounds_of(space), rng)[0])
            continue
        assert isinstance(space, GlobalCategoricalActionSpace)
        given = getattr(mask, "mask", None)
        allowed = np.arange(len(space)) if given is None else np.flatnonzero(given)
        if not len(allowed):
            raise MaskShapeError(
                f"the action mask of agent {agent!r} allows no action",
                received=shorten(action_mask),
            )
        index = int(rng.choice(allowed))
        actions[name] = GlobalCategoricalAction(index, str(index))
    return writer.write(actions)


def _checked_seat(seat: Any, agents: list[Any]) -> Any:
    if not agents:
        raise SettingError("the environment has no agents")
    if seat is None:
        return agents[0]
    if seat not in agents:
        raise unknown_name(SettingError, f"there is no agent {shorten(seat)}", seat, agents)
    return seat
