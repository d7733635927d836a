"""Plays a game of several players in the terminal: people and agents at one table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import known_part
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import batch_frames
from entity_env.drawing import entity_table
from entity_env.environment import call_environment
from entity_env.errors import EntityEnvError, SeatError, SpaceError, nearest, shorten
from entity_env.kinds.table import typed_actions
from entity_env.player.proposers import NamedAgent, make_proposer
from entity_env.player.terminal import Asker
from entity_env.recording.replays import RecordSeats
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.seat_player import call_if_there, copied
from entity_env.seats.seat_rows import MOST_IDLE_STEPS
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName

__all__ = ["SeatGame", "named_seats"]


class SeatGame:
    """A game, who sits where, and what is shown of it.

    Args:
        game: The game, seeded.
        agent: Plays the seats of nobody else, and proposes to people; each seat has a copy.
        people: The names of the seats that are asked in the terminal.
        seed: Seeds the agents.
        auto: Take every proposal without asking.
        trust: The consent to import code that the agent's folder names.

    Attributes:
        returns: For each game what each seat was paid in it, by the seat's name.
        replay: Gets all that is played, where it is set.

    Raises:
        EntityEnvError: The agent cannot be loaded or copied, or plays another game.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        agent: NamedAgent,
        people: Collection[str],
        seed: int,
        *,
        auto: bool,
        trust: bool,
    ) -> None:
        self.game, self._table = game, Table(game)
        self.reader = FrameReader(game.obs_space(), game.action_space())
        self.names = [str(seat) for seat in self._table.seats]
        self.people = set(people)
        self._who = agent if isinstance(agent, str) else type(agent).__name__
        spaces = self.reader.obs_space, self.reader.action_space
        made = make_proposer(agent, *spaces, seed, trust)
        if not known_part(made, *spaces).is_whole:
            raise SpaceError(
                "the agent knows less than the game shows",
                expected=f"the entities {list(spaces[0].entities)} with all their features",
                received=f"an agent for {list(made.obs_space.entities)}",
            )
        # An agent may remember what it has seen, which belongs to a seat.
        self._agents = [copied(made) for _ in self.names]
        for seat, own in enumerate(self._agents):
            call_if_there(own, "seed", seed + seat)
        self._asker = Asker(*spaces, auto=auto)
        self._asked: dict[int, Frame] = {}
        self.returns: list[dict[str, float]] = []
        self.replay: RecordSeats | None = None

    def who_is_who(self) -> str:
        """Return the player of each seat, in one line."""
        return ", ".join(
            f"{name}: {'you' if name in self.people else self._who}" for name in self.names
        )

    def play(self) -> None:
        """One game, to its end."""
        number = len(self.returns) + 1
        self.returns.append(dict.fromkeys(self.names, 0.0))
        self._asked = {}
        for agent in self._agents:
            call_if_there(agent, "reset")
        told = self._table.reset()
        idle = 0
        for step in range(1 << 62):
            print(f"\n--- game {number}, step {step}")
            self._show(told)
            if self._table.is_over:
                break
            idle = 0 if self._asked else idle + 1
            if idle > MOST_IDLE_STEPS:
                raise self._table.asks_nobody(MOST_IDLE_STEPS)
            asked, self._asked = self._asked, {}
            chosen = {seat: self._choose(seat, frame) for seat, frame in asked.items()}
            space = self.reader.action_space
            told = self._table.act(
                {seat: typed_actions(asked[seat], own, space) for seat, own in chosen.items()}
            )
            if self.replay is not None:
                self.replay.act(asked, chosen)
        print(f"\ngame {number} is over")
        width = max(map(len, self.names))
        for name, total in self.returns[-1].items():
            print(f"  {name:<{width}}  return {total:g}")

    def summary(self) -> str:
        """Return the mean return of each seat over all games."""
        means = {name: np.mean([own[name] for own in self.returns]) for name in self.names}
        texts = [f"{name} {mean:g}" for name, mean in means.items()]
        return f"{len(self.returns)} games, mean return: {', '.join(texts)}"

    def _show(self, told: Told) -> None:
        """Print the game's own text, and the news of the seats."""
        text = _own_text(self.game)
        if text is not None:
            print(text)
        for seat, observation in told.items():
            name = self.names[seat]
            try:
                frame = self.reader.read(observation)
            except EntityEnvError as error:
                raise error.located(f"seat {name!r}") from error.__cause__
            self.returns[-1][name] += float(frame.reward)
            if frame.asks:
                self._asked[seat] = frame
            else:
                self._asked.pop(seat, None)
            notes = [f"reward {frame.reward:g}"] if frame.reward else []
            if frame.done:
                notes.append("cut off by a limit" if frame.truncated else "out")
                notes += [f"{metric} {value:g}" for metric, value in frame.metrics.items()]
            if notes:
                print(f"  {name}: {', '.join(notes)}")

    def _choose(self, seat: int, frame: Frame) -> Mapping[ActionName, npt.NDArray[Any]]:
        """Return what somebody types, or what the agent of the seat decides; as in ``Decision``."""
        spaces = self.reader.obs_space, self.reader.action_space
        decision = self._agents[seat].decide(batch_frames([frame], *spaces))
        name = self.names[seat]
        if name not in self.people:
            # What others choose is not shown: who sits here may have to guess it.
            return decision.chosen  # type: ignore[no-any-return]
        print(f"\nseat {name} sees\n{entity_table(frame, spaces[0])}")
        return self._asker.choose(frame, decision)


def named_seats(game: MultiPlayerEnvironment, text: str) -> list[str]:
    """Return the seats that somebody means by ``all``, or by their names with commas in between.

    Raises:
        SeatError: One of them does not exist.
    """
    names = [str(seat) for seat in Table(game).seats]
    if text == "all":
        return names
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in names:
            raise SeatError(
                f"there is no seat {shorten(name)}",
                options=[*names, "all"],
                hint=nearest(name, names),
            )
    return wanted


def _own_text(game: MultiPlayerEnvironment) -> str | None:
    """Return the game's own text, or None."""
    return call_environment("render_text", _text_of, game)


def _text_of(game: MultiPlayerEnvironment) -> str | None:
    try:
        return game.render_text()
    except NotImplementedError:
        return None
