"""One agent at several seats of a game: the seats that must act are one batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env.actions import Action
from entity_env.agent import Agent, ObservationAgent, RandomAgent, load_agent
from entity_env.batching.action_checks import check_actions
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import answers_of_frames
from entity_env.batching.kinds.table import answer_forms, typed_actions
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import SettingError, shorten
from entity_env.multi_player import Seat
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["SeatPlayer", "call_if_there", "copied"]


class SeatPlayer:
    """A player of some seats of one game, with a memory for each seat.

    Agents with ``act_rows`` get the seats that must act as the rows of one batch. Other agents are
    copied for each seat.

    Args:
        given: ``random``, a run folder, an agent, or a function from an observation to actions.
        seats: All seats of the game.
        spaces: The observation space and the action space.
        trust: Consent to import code that a run folder names.

    Raises:
        SettingError: The agent is not valid, or cannot be copied.
    """

    def __init__(
        self,
        given: Any,
        seats: tuple[Seat, ...],
        spaces: tuple[ObsSpace, Mapping[ActionName, ActionSpace]],
        trust: bool = False,
    ) -> None:
        self.name = given if isinstance(given, str) else _name_of(given)
        self._seats, self._spaces = seats, spaces
        if isinstance(given, str):
            made: Any = RandomAgent(*spaces) if given == "random" else load_agent(given, 0, trust)
        else:
            made = copied(given)
        self._agent = made
        acts = any(callable(getattr(made, how, None)) for how in ("decide", "act"))
        if not acts and not callable(made):
            raise SettingError(
                "an opponent is not valid",
                expected="'random', a run folder, an agent, or a function of an observation",
                received=shorten(given),
            )
        own = getattr(type(made), "act_rows", None)
        self._plays_rows = own not in (None, Agent.act_rows, ObservationAgent.act_rows)
        self._copies: dict[int, Any] = {}
        self._seed: int | None = None
        self._ended = np.zeros(len(seats), np.bool_)  # since its last batch

    def act(
        self, asked: Mapping[int, tuple[Observation, Frame]]
    ) -> dict[int, Mapping[ActionName, Action]]:
        """Return the actions of the seats that must act.

        Args:
            asked: The observation and the frame of each seat that must act, by its number.
        """
        if self._plays_rows:
            return self._act_rows({seat: frame for seat, (_, frame) in asked.items()})
        return {seat: self._act_alone(seat, *shown) for seat, shown in asked.items()}

    def ended(self, seat: int) -> None:
        """Reset the memory of a seat that is out of the game."""
        self._ended[seat] = True
        call_if_there(self._copies.get(seat), "reset")

    def seed(self, seed: int) -> None:
        """Restart the agent's random numbers, if it can be seeded."""
        self._seed = seed
        call_if_there(self._agent, "seed", seed)
        self._copies.clear()  # each has the random numbers of its seat

    def reset(self) -> None:
        """Forget the last game."""
        self._ended[:] = False
        for own in (self._agent, *self._copies.values()):
            call_if_there(own, "reset")

    def _act_rows(self, asked: Mapping[int, Frame]) -> dict[int, Mapping[ActionName, Action]]:
        obs_space, action_space = self._spaces
        count = len(self._seats)
        obs = replace(
            batch_frames(list(asked.values()), obs_space, action_space),
            rows=np.array(list(asked), np.int64),
            reward=np.zeros(count, np.float32),
            done=self._ended.copy(),
            truncated=np.zeros(count, np.bool_),
        )
        self._ended[:] = False
        taken = check_actions(self._agent.act_rows(obs), obs, action_space)
        answers = answers_of_frames(taken, obs.action_masks, answer_forms(action_space))
        return {
            seat: typed_actions(frame, own, action_space)
            for (seat, frame), own in zip(asked.items(), answers, strict=True)
        }

    def _act_alone(
        self, seat: int, observation: Observation, frame: Frame
    ) -> Mapping[ActionName, Action]:
        agent = self._copy_of(seat)
        if callable(act := getattr(agent, "act", None)):
            return act(observation)  # type: ignore[no-any-return]
        if callable(decide := getattr(agent, "decide", None)):
            return typed_actions(
                frame, decide(batch_frames([frame], *self._spaces)).chosen, self._spaces[1]
            )
        return agent(observation)  # type: ignore[no-any-return]

    def _copy_of(self, seat: int) -> Any:
        """Return the copy of the agent that plays a seat."""
        if seat not in self._copies:
            own = self._copies[seat] = copied(self._agent)
            if self._seed is not None or len(self._copies) > 1:
                draws = np.random.default_rng((self._seed or 0, seat))
                call_if_there(own, "seed", int(draws.integers(2**32)))
        return self._copies[seat]


def call_if_there(agent: Any, name: str, *arguments: Any) -> None:
    """Call a method of an agent if the agent has it."""
    if callable(method := getattr(agent, name, None)):
        method(*arguments)


def copied(agent: Any) -> Any:
    """Return a copy of an agent; functions are not copied."""
    try:
        return copy.deepcopy(agent)
    except Exception as error:  # an agent's own __deepcopy__ may raise anything
        raise SettingError(
            f"an agent cannot be copied: {type(error).__name__}: {error}",
            expected="an agent that copy.deepcopy can copy, because each seat has its own memory",
            received=shorten(agent),
        ) from error


def _name_of(agent: Any) -> str:
    own = getattr(agent, "name", None) or getattr(agent, "__name__", None)
    return own if isinstance(own, str) else type(agent).__name__
