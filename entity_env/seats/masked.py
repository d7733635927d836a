"""One seat of a game of several players as an ``Environment``; opponents play the other seats."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.agent import Proposer
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.table import typed_actions
from entity_env.environment import MOST_RESETS, Environment, never_begins
from entity_env.errors import ResetNeededError, SeatError, SettingError, shorten, unknown_name
from entity_env.multi_player import MultiPlayerEnvironment, Seat
from entity_env.observation import Observation
from entity_env.seats.seat_agents import NamedAgent, call_if_there, copied, decide, make_agent
from entity_env.seats.seat_rows import MOST_IDLE_STEPS
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["MaskedEnvironment", "who_is_who"]


@named_arguments(SettingError)
class MaskedEnvironment(Environment):
    """An environment for one player of a game; opponents play the other seats.

    The learner sees the observations of its seat only. Its reward is the sum of the rewards of the
    seat since its last action. An episode ends when the seat is out of the game, even if the other
    seats could continue. A game that ends before the learner's first turn is not an episode.

    Args:
        game: The game, or its class.
        opponents: Players of the other seats: ``random``, a run folder, an agent, or a function
            from an observation to actions; one for all, or a list with one for each seat. If seats
            are shuffled, a list of opponents is shuffled in each episode, too. Copies of an agent
            play, so that each seat has its own memory.
        shuffle_seats: True to draw the learner's seat in each episode.
        seat: Seat of the learner if seats are not shuffled; None is the first one.
        trust: Consent to import code that opponents' run folders name.
        **settings: Settings of the game.

    Raises:
        SettingError: An opponent is not valid, or there is a wrong number of them.
        SeatError: The seat does not exist.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment | Callable[..., MultiPlayerEnvironment],
        opponents: NamedAgent | Sequence[NamedAgent] = "random",
        shuffle_seats: bool = True,
        seat: Seat | None = None,
        trust: bool = False,
        **settings: Any,
    ) -> None:
        self._game = _game(game, settings)
        self._table = Table(self._game)
        self._reader = FrameReader(self._game.obs_space(), self._game.action_space())
        others = len(self._table.seats) - 1
        each: list[Any] = (
            list(opponents) if isinstance(opponents, list | tuple) else [opponents] * others
        )
        if len(each) != others:
            raise SettingError(
                "the number of opponents differs from the number of the other seats",
                expected=f"one opponent for all, or a list of {others}",
                received=len(each),
            )
        self._spaces = self._reader.obs_space, self._reader.action_space
        # An agent that is named twice is loaded once.
        made = {
            key: make_agent(given, *self._spaces, 0, trust)
            for key, given in {_key(given): given for given in each}.items()
        }
        self._opponents = [_Opponent(_name_of(given), made[_key(given)]) for given in each]
        self._shuffle = shuffle_seats
        self._learner = self._number_of(seat)
        self._players: dict[int, _Opponent] = {}
        self._asked: dict[int, tuple[Observation, Frame]] = {}

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._reader.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._reader.action_space

    @property
    def unwrapped(self) -> MultiPlayerEnvironment:
        """The game, including its hidden state."""
        return self._game

    @property
    def seat(self) -> Seat:
        """The learner's seat in this episode."""
        return self._table.seats[self._learner]

    @property
    def players(self) -> dict[Seat, str]:
        """The player of each seat in this episode, the learner included."""
        names = {seat: player.name for seat, player in self._players.items()}
        return {
            seat: "the learner" if i == self._learner else names.get(i, "nobody")
            for i, seat in enumerate(self._table.seats)
        }

    def seed(self, seed: int) -> None:
        """Seed the order of the seats, the game, and the opponents."""
        super().seed(seed)
        self._game.seed(int(self.rng.integers(2**32)))
        for opponent in self._opponents:
            opponent.seed(int(self.rng.integers(2**32)))

    def reset(self) -> Observation:
        """Draw the seats, and play until the learner must act.

        If a game ends before that, another one begins.
        """
        for _ in range(MOST_RESETS):
            shown = self._deal()
            if shown is not None:
                return shown
        raise never_begins()

    def _deal(self) -> Observation | None:
        """Begin a game; return the learner's observation at its first turn, or None without one."""
        opponents = list(self._opponents)
        if self._shuffle:
            self._learner = int(self.rng.integers(len(self._table.seats)))
            self.rng.shuffle(opponents)  # type: ignore[arg-type]
        others = [i for i in range(len(self._table.seats)) if i != self._learner]
        self._players = dict(zip(others, opponents, strict=True))
        for seat, opponent in self._players.items():
            opponent.begin(seat)
        self._asked = {}
        shown = self._play_on(self._table.reset())
        if shown is None or shown.done:
            return None
        shown.reward = 0.0
        return shown

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play until the learner must act again, or is out of the game.

        Raises:
            ResetNeededError: The learner is not in a game.
        """
        if self._learner not in self._table.inside:
            raise ResetNeededError("the learner is not in a game", hint="call reset() first")
        shown = self._play_on(self._next({self._learner: actions}))
        assert shown is not None  # ``Table`` checks that no seat is in a game that is over
        return shown

    def _play_on(self, told: Told) -> Observation | None:
        """Play until the learner must act or is out; return None if the game ends before that."""
        reward, metrics = 0.0, dict[str, float]()
        for _ in range(MOST_IDLE_STEPS):
            asked = self._note(told)
            own = told.get(self._learner)
            if own is not None:
                reward += float(own.reward)
                metrics = {**metrics, **own.metrics}
                if own.done or own.truncated or asked:
                    shown = copy.copy(own)
                    shown.reward, shown.metrics = reward, metrics
                    return shown
            if self._table.is_over:
                return None
            told = self._next({})
        raise SeatError(
            f"the learner did not have to act in {MOST_IDLE_STEPS:,} steps",
            expected="an observation with actors for its seat, or done=True",
        )

    def _note(self, told: Told) -> bool:
        """Store the seats that must act; return True if the learner is among them."""
        for seat, observation in told.items():
            frame = self._reader.read(observation)
            self._asked.pop(seat, None)
            if frame.done and seat in self._players:
                self._players[seat].begin(seat)
            if not frame.done and any(len(mask.actors) for mask in frame.actions.values()):
                self._asked[seat] = observation, frame
        return self._asked.pop(self._learner, None) is not None

    def _next(self, actions: dict[int, Mapping[ActionName, Action]]) -> Told:
        """Let all seats act that must act, the learner with ``actions``."""
        for seat, opponent in self._players.items():
            if seat in self._asked:
                observation, frame = self._asked.pop(seat)
                chosen = decide(opponent.agent, observation, frame, *self._spaces).chosen
                actions[seat] = typed_actions(frame, chosen, self._spaces[1])
        return self._table.act(actions)

    def has_state(self) -> bool:
        """Return False: opponents may have states of their own."""
        return False

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the game's picture, which may show hidden information."""
        return self._game.render(**kwargs)

    def render_text(self) -> str:
        """Return the game as text."""
        return self._game.render_text()

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _number_of(self, seat: Seat | None) -> int:
        seats = self._table.seats
        if seat is None:
            return 0
        if seat not in seats:
            raise unknown_name(SeatError, f"there is no seat {shorten(seat)}", seat, seats)
        return seats.index(seat)


class _Opponent:
    """A player of one seat at a time, with a copy of an agent.

    Args:
        name: The name of the agent.
        agent: The agent. One that has a policy for each seat has ``of_seat(number)``.
    """

    def __init__(self, name: str, agent: Proposer) -> None:
        self.name, self.agent = name, copied(agent)
        self._of_seat = getattr(self.agent, "of_seat", None)
        self._agents: dict[int, Proposer] = {}  # of the seats, for one with several policies
        self._seed = 0

    def seed(self, seed: int) -> None:
        """Restart the agent's random numbers, if it can be seeded."""
        self._seed = seed
        self._agents.clear()
        call_if_there(self.agent, "seed", seed)

    def begin(self, seat: int) -> None:
        """Begin an episode of a seat."""
        if self._of_seat is not None:
            if seat not in self._agents:
                self._agents[seat] = self._of_seat(seat)
                call_if_there(self._agents[seat], "seed", self._seed + seat)
            self.agent = self._agents[seat]
        call_if_there(self.agent, "reset")


def who_is_who(env: Environment) -> str:
    """Return the player of each seat as one line; empty for a game of one player."""
    while isinstance(inner := getattr(env, "env", None), Environment):
        env = inner
    if not isinstance(env, MaskedEnvironment):
        return ""
    return ", ".join(f"{seat}: {player}" for seat, player in env.players.items())


def _name_of(agent: Any) -> str:
    if isinstance(agent, str):
        return agent
    name = getattr(agent, "name", None) or getattr(agent, "__name__", None)
    return name if isinstance(name, str) else type(agent).__name__


def _key(opponent: Any) -> Any:
    """Return a key that is equal for two mentions of the same opponent."""
    return opponent if isinstance(opponent, str) else id(opponent)


def _game(
    game: MultiPlayerEnvironment | Callable[..., MultiPlayerEnvironment],
    settings: Mapping[str, Any],
) -> MultiPlayerEnvironment:
    made: Any = game
    if not isinstance(made, MultiPlayerEnvironment) and callable(made):
        made = made(**settings)
    if not isinstance(made, MultiPlayerEnvironment):
        raise SettingError(
            "the game of a MaskedEnvironment has no seats",
            expected="a subclass of MultiPlayerEnvironment, or an instance",
            received=shorten(game),
        )
    return made
