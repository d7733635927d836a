"""Source of games that are played in the viewer, by agents, by people in the page, or by both."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision, Proposer
from entity_env.batching.frame import Frame
from entity_env.environment import Playable, call_environment, hints_of
from entity_env.errors import ActionError, SettingError, counted
from entity_env.metrics import EpisodeTracker
from entity_env.seats.seat_agents import call_if_there
from entity_env.seats.table_rows import TableRows
from entity_env.viewer.source import Episode, Line, Source

__all__ = ["LiveSource", "TableSource"]

_MOST_BYTES = 256 << 20
"""The largest number of bytes of stored frames; the oldest are dropped."""
_LARGEST = 1 << 31
"""The largest index that is compared with the choices; larger ones would not fit an integer."""


class TableSource(Source):
    """The games of a table, whose frames are stored while they are played.

    Args:
        table: The game.
        about: See ``Source``.
        **feed: See ``Source``.
    """

    def __init__(self, table: TableRows, about: Mapping[str, Any], **feed: Any) -> None:
        self.table = table
        self._bytes = 0
        self._trackers: list[EpisodeTracker] = []
        game: Any = table.game
        seats = {"seats": [] if table.is_alone else table.names}
        super().__init__(
            {**about, **seats}, table.obs_space(), table.action_space(), hints_of(game), **feed
        )

    def close(self) -> None:
        """Close the game."""
        self.table.close()

    def _begin(self, who: str) -> None:
        """Begin an episode."""
        self._trackers = [EpisodeTracker() for _ in self.table.names]
        self._episodes.append(Episode([Line() for _ in self.table.names], who))

    def _note(self, decisions: Mapping[int, Decision]) -> None:
        """Store the current frames of the seats with decisions in them."""
        game, table = self._episodes[-1], self.table
        for seat, frame in table.told.items():
            self._trackers[seat].add(frame.reward, frame.metrics, steps=int(game.length > 0))
            decision = decisions.get(seat)
            value = None if decision is None else decision.value
            game.lines[seat].add(game.length, None, frame.reward, value)
            self._store(seat, frame, decision)
        game.length += 1
        if table.is_over:
            game.done, game.truncated = True, any(frame.truncated for frame in table.told.values())
            game.metrics = self._summary()
        self._drop()

    def _store(self, seat: int, frame: Frame, decision: Decision | None) -> None:
        """Store the frame of a seat as its last one.

        It is copied, because the game may change its arrays; ids need not be copied.
        """
        stored = self._episodes[-1].lines[seat].stored
        self._bytes -= _size(stored[-1])
        stored[-1] = pickle.dumps((replace(frame, ids=()), decision)), list(frame.ids)
        self._bytes += _size(stored[-1])

    def _load(self, stored: Any) -> tuple[Frame, Decision | None]:
        packed, ids = stored
        frame, decision = pickle.loads(packed)  # written by ``_store`` of this process
        return replace(frame, ids=ids), decision

    def _drop(self) -> None:
        """Drop the oldest episodes, or the first half of the only one, if too much is stored."""
        while self._bytes > _MOST_BYTES and len(self._episodes) > 1:
            first = self._episodes.pop(0)
            self._bytes -= sum(_size(stored) for line in first.lines for stored in line.stored)
            self._dropped += 1
        if self._bytes > _MOST_BYTES:
            for line in self._episodes[0].lines:
                half = len(line.stored) // 2
                self._bytes -= sum(map(_size, line.stored[:half]))
                line.stored[:half] = [None] * half

    def _summary(self) -> Mapping[str, float]:
        """Return the metrics of the episode, or the returns of several seats."""
        if self.table.is_alone:
            return self._trackers[0].summary()
        names = zip(self.table.names, self._trackers, strict=True)
        return {f"return of {name}": tracker.reward for name, tracker in names}


class LiveSource(TableSource):
    """The games of a table, played step by step.

    Args:
        table: The game.
        title: Title of the page.
        agents: For each seat the agent that plays it, or that proposes choices to a person.
        people: The names of the seats that people play in the page.
        who: Names of the agents.
        renew: Function called before each episode except the first; returns new agents and their
            names, or None to keep the agents.
    """

    is_live = True

    def __init__(
        self,
        table: TableRows,
        title: str,
        agents: Sequence[Proposer],
        people: Collection[str] = (),
        who: str = "random",
        renew: Callable[[], tuple[Sequence[Proposer], str] | None] = lambda: None,
    ) -> None:
        self.agents, self._who, self._renew = agents, who, renew
        self._people = [seat for seat, name in enumerate(table.names) if name in people]
        self._decisions: dict[int, Decision] = {}
        inner: Any = getattr(table.game, "unwrapped", table.game)
        self._layers = list(getattr(inner, "overlays", ()))
        about = {
            "kind": "game",
            "title": title,
            "people": self._people,
            "has_pictures": type(inner).render is not Playable.render,
            "layers": self._layers,
        }
        super().__init__(table, about)
        self.restart()

    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode so far, and the seats that must act in the newest one."""
        given = super().episode(number)
        is_newest = given["number"] == given["count"] - 1
        waits = is_newest and not given["done"]
        waits_for = [seat for seat in self._people if waits and seat in self.table.asked]
        return {**given, "is_newest": is_newest, "waits_for": waits_for}

    def frame(
        self, episode: int, step: int, seat: int, zoom: float = 1.0, layer: str | None = None
    ) -> dict[str, Any]:
        """Return a frame; only the newest one may have a picture.

        Raises:
            EntityEnvError: The game fails to draw itself, or has no such overlay.
        """
        given = super().frame(episode, step, seat, zoom)
        _, game = self._find(episode)
        is_now = game is self._episodes[-1] and given["step"] == game.length - 1
        picture = None if layer is None or not is_now else self._picture(layer, seat)
        return {**given, "picture": picture}

    def restart(self) -> dict[str, Any]:
        """Begin another episode."""
        if self._episodes and not self.table.is_over and self._episodes[-1].length == 1:
            return self.episode(-1)
        newer = self._renew() if self._episodes else None
        if newer is not None:
            self.agents, self._who = newer
        for agent in self.agents:
            call_if_there(agent, "reset")
        self._obs = self.table.reset()
        self._begin(self._who)
        self._decide()
        return self.episode(-1)

    def advance(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Play one step, or begin another episode if this one is over.

        Raises:
            EntityEnvError: A choice does not exist, or the mask forbids it.
        """
        if self.table.is_over:
            return self.restart()
        decided = dict(self._decisions)
        for seat in self._people:
            if seat in self.table.asked and self.table.asked[seat].asks:
                given = chosen.get(str(seat))
                if not isinstance(given, Mapping):
                    raise SettingError(
                        f"{self.table.names[seat]} has not chosen yet",
                        expected="a choice for each actor",
                    )
                decided[seat] = self._read_choices(seat, given)
        asked = dict(self.table.asked)
        values = {
            name: [np.zeros(0, form.dtype), *(decided[seat].chosen[name].ravel() for seat in asked)]
            for name, form in self._forms.items()
        }
        lengths = {name: mask.actors.size1() for name, mask in self._obs.action_masks.items()}
        # Check all choices before anything is changed.
        self._obs = self.table.act(
            {
                name: form.buffer(np.concatenate(values[name]), lengths[name])
                for name, form in self._forms.items()
            }
        )
        for seat in set(decided) & set(self._people):
            self._store(seat, asked[seat], decided[seat])
        self._decide()
        return self.episode(-1)

    def _decide(self) -> None:
        """Store the current frames, with the decisions of agents; people get them as proposals."""
        asked = self.table.asked
        self._decisions = {seat: self.table.decide(seat, self.agents[seat]) for seat in asked}
        self._note(
            {
                seat: replace(decision, chosen={}) if seat in self._people else decision
                for seat, decision in self._decisions.items()
            }
        )

    def _picture(self, layer: str, seat: int) -> npt.NDArray[np.uint8]:
        """Return the game's own picture, with an overlay as the agent of a seat sees it."""
        game: Any = self.table.game
        if layer not in ("", *self._layers):
            raise SettingError("the overlay does not exist", received=layer, options=self._layers)
        judge: Any = getattr(self.agents[seat], "decide_rows", None)
        settings: dict[str, Any] = {"overlay": layer, "seat": seat} if layer else {}
        if layer and judge is not None:
            settings["value"] = lambda obs: [decision.value for decision in judge(obs)]
        return np.asarray(call_environment("render", partial(game.render, **settings)), np.uint8)

    def _read_choices(self, seat: int, given: Mapping[str, Any]) -> Decision:
        """Return the choices of a person as arrays; the table checks masks and bounds."""
        chosen, frame = {}, self.table.asked[seat]
        for name, form in self._forms.items():
            who = frame.actions.get(name)
            count = 0 if who is None else len(who.actors)
            try:
                values = np.array(given.get(name, []), np.float64)
                values = values.reshape(count, form.width)
                fits = form.is_real or bool(
                    ((values == np.floor(values)) & (abs(values) <= _LARGEST)).all()
                )
            except (TypeError, ValueError, OverflowError):
                fits = False
            if not fits or not np.isfinite(values).all():
                raise ActionError(
                    f"{name} was not chosen for each actor",
                    expected=f"{counted(count, 'actor')}, {counted(form.width, 'number')} for each",
                )
            chosen[name] = form.answers(values)
        return Decision(chosen)


def _size(stored: Any) -> int:
    """Return the number of bytes of a stored frame."""
    return 0 if stored is None else len(stored[0]) + 8 * len(stored[1])
