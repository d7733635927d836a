"""Source of games that are played in the viewer, by agents, by people in the page, or by both."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision, Proposer
from entity_env.batching.frame import Frame
from entity_env.environment import Playable, call_environment, hints_of, y_axis_of
from entity_env.errors import ActionShapeError, SettingError, counted
from entity_env.kinds.table import answer_forms
from entity_env.metrics import EpisodeTracker
from entity_env.player.proposers import decide_at
from entity_env.seats.seat_player import call_if_there
from entity_env.seats.table_rows import TableRows
from entity_env.viewer.frames import frame_json, number, spaces_json
from entity_env.viewer.messages import from_message, to_message
from entity_env.viewer.metrics import MetricsFile
from entity_env.viewer.source import Source, curve_json

__all__ = ["LiveSource"]

_MOST_BYTES = 256 << 20
"""The largest number of bytes of stored frames; the oldest are dropped."""
_LARGEST = 1 << 31
"""The largest index that is compared with the choices; larger ones would not fit an integer."""


@dataclass
class _SeatFrames:
    """The frames of one seat in an episode, and its rewards, returns and values."""

    steps: list[int] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)


@dataclass
class _Game:
    """One episode: the frames of each seat, the names of the agents, and the length.

    ``pictures`` has those of the steps since a picture was first requested.
    """

    seats: list[_SeatFrames]
    who: str
    pictures: dict[int, bytes] = field(default_factory=dict)
    length: int = 0
    is_over: bool = False
    metrics: Mapping[str, float | None] = field(default_factory=dict)


class LiveSource(Source):
    """The games of a table, played step by step.

    Args:
        table: The game.
        title: Title of the page.
        agents: For each seat the agent that plays it, or that proposes choices to a person.
        people: The names of the seats that people play in the page.
        who: Names of the agents.
        renew: Function called before each episode except the first; returns new agents and their
            names, or None to keep the agents.
        metrics: The metrics file of the run of the agent, or None.
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
        metrics: MetricsFile | None = None,
    ) -> None:
        self._renew, self._metrics = renew, metrics
        self.table, self.title, self.agents, self.who = table, title, agents, who
        self._people = [seat for seat, name in enumerate(table.names) if name in people]
        self._spaces = table.obs_space(), table.action_space()
        self._forms = answer_forms(self._spaces[1])
        game: Any = table.game
        super().__init__(*self._spaces, y_axis_of(game), hints_of(game))
        self._games: list[_Game] = []
        self._forgotten = self._bytes = 0
        self._decisions: dict[int, Decision] = {}
        self._trackers: list[EpisodeTracker] = []
        self._draws = False
        self.restart()

    def about(self) -> dict[str, Any]:
        """Return the game, its spaces and its seats."""
        game: Any = self.table.game
        return {
            "kind": "game",
            "title": self.title,
            "notice": "",
            "has_curves": self._metrics is not None,
            "has_pictures": self.is_live and _draws_itself(game),
            "layers": list(getattr(getattr(game, "unwrapped", game), "overlays", ())),
            "seats": [] if self.table.is_alone else self.table.names,
            "people": self._people,
            **spaces_json(*self._spaces, self.scenes),
        }

    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode so far, and the seats that must act in the newest one."""
        number, game = self._find(number)
        is_newest = game is self._games[-1]
        waits = is_newest and not game.is_over
        return {
            "number": number,
            "count": self._forgotten + len(self._games),
            "is_growing": waits,
            "is_newest": is_newest,
            "who": game.who,
            "length": game.length,
            "done": game.is_over,
            "metrics": game.metrics,
            "waits_for": [own for own in self._people if waits and own in self.table.asked],
        }

    def frame(self, episode: int, step: int, seat: int) -> dict[str, Any]:
        """Return the frame of a seat at a step, or its last frame before it."""
        _, game = self._find(episode)
        step = max(0, min(step, game.length - 1))
        if not 0 <= seat < len(game.seats):
            raise SettingError("the seat does not exist", received=seat)
        shown = game.seats[seat]
        place = int(np.searchsorted(shown.steps, step, "right")) - 1
        if place < 0:
            return {"step": step, "entities": {}, "actions": {}, "globals": [], "waits": True}
        if not shown.frames[place]:
            raise SettingError(f"step {step} is no longer stored; only later steps are")
        own: dict[str, Any] = from_message(shown.frames[place])
        own |= {"step": step, "total": number(shown.total[place])}
        return own | ({"waits": True, "actions": {}} if shown.steps[place] < step else {})

    def curve(self, episode: int, seat: int) -> dict[str, Any]:
        """Return reward, return and value along an episode."""
        _, game = self._find(episode)
        shown = game.seats[seat]
        # While a seat waits, its last numbers are repeated.
        last = np.searchsorted(shown.steps, np.arange(game.length), "right") - 1
        there = last >= 0
        reward = np.zeros(game.length)
        reward[shown.steps] = shown.reward
        total = np.where(there, np.array([*shown.total, 0.0])[last], 0.0)
        known = [np.nan if own is None else own for own in shown.value]
        value = np.where(there, np.array([*known, np.nan])[last], np.nan)
        return curve_json(reward, total, value)  # type: ignore[arg-type]

    def picture(self, episode: int, step: int, layer: str = "", seat: int = 0) -> dict[str, Any]:
        """Return the game's own picture of a step; None of those before the first one asked for.

        With a ``layer``, one of the ``overlays`` of the game, only the last step has a picture.

        Raises:
            EntityEnvError: The game fails to draw itself.
        """
        _, game = self._find(episode)
        step = max(0, min(step, game.length - 1))
        if layer:
            is_now = game is self._games[-1] and step == game.length - 1
            return {"picture": self._overlaid(layer, seat) if is_now else None}
        if not self._draws:
            self._draws = True
            self._draw()
        if step not in game.pictures:
            return {"picture": None}
        picture: dict[str, Any] = from_message(zlib.decompress(game.pictures[step]))
        return picture

    def restart(self) -> dict[str, Any]:
        """Begin another episode."""
        if self._games and not self.table.is_over and self._games[-1].length == 1:
            return self.episode(-1)
        newer = self._renew() if self._games else None
        if newer is not None:
            self.agents, self.who = newer
        for agent in self.agents:
            call_if_there(agent, "reset")
        self._obs = self.table.reset()
        self._begin()
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
                decided[seat] = self._read(seat, given)
        asked = dict(self.table.asked)
        own = {
            name: [np.zeros(0, form.dtype), *(decided[seat].chosen[name].ravel() for seat in asked)]
            for name, form in self._forms.items()
        }
        lengths = {name: mask.actors.size1() for name, mask in self._obs.action_masks.items()}
        # Check all choices before anything is changed.
        self._obs = self.table.act(
            {
                name: form.buffer(np.concatenate(own[name]), lengths[name])
                for name, form in self._forms.items()
            }
        )
        for seat in set(decided) & set(self._people):
            self._keep(seat, asked[seat], decided[seat])
        self._note()
        return self.episode(-1)

    def training(self) -> dict[str, Any]:
        """Return the curves of the training whose agent plays."""
        return super().training() if self._metrics is None else self._metrics.read()

    def close(self) -> None:
        """Close the game."""
        self.table.close()

    def _begin(self) -> None:
        """Store the first frames of an episode."""
        self._trackers = [EpisodeTracker() for _ in self.table.names]
        self._games.append(_Game([_SeatFrames() for _ in self.table.names], self.who))
        self._note()

    def _decide(self) -> dict[int, Decision]:
        """Return the decisions of the agents at the seats that must act."""
        return {seat: decide_at(self.table, seat, self.agents[seat]) for seat in self.table.asked}

    def _note(self) -> None:
        """Store the current frames of the seats, and the decisions of their agents."""
        game, table = self._games[-1], self.table
        self._decisions = self._decide()
        for seat, frame in table.told.items():
            tracker = self._trackers[seat]
            tracker.add(frame.reward, frame.metrics, steps=int(game.length > 0))
            decision = self._decisions.get(seat)
            shown = game.seats[seat]
            shown.steps.append(game.length)
            shown.reward.append(frame.reward)
            shown.total.append(tracker.reward)
            shown.value.append(None if decision is None else decision.value)
            shown.frames.append(b"")
            is_person = seat in self._people
            self._keep(seat, frame, _unchosen(decision) if is_person else decision)
        game.length += 1
        if self._draws:
            self._draw()
        game.is_over = table.is_over
        if game.is_over:
            game.metrics = self._summary()
        self._forget()

    def _draw(self) -> None:
        """Keep the picture of the last step."""
        game = self._games[-1]
        picture = np.asarray(call_environment("render", self.table.game.render), np.uint8)
        game.pictures[game.length - 1] = zlib.compress(to_message({"picture": picture}), 1)
        self._bytes += len(game.pictures[game.length - 1])

    def _overlaid(self, layer: str, seat: int) -> npt.NDArray[np.uint8]:
        """Return the picture of the last step with an overlay, as the agent of a seat sees it."""
        judge: Any = getattr(self.agents[seat], "decide_rows", None)
        own: dict[str, Any] = {"overlay": layer, "seat": seat}
        if judge is not None:
            own["value"] = lambda obs: [decision.value for decision in judge(obs)]
        game: Any = self.table.game
        return np.asarray(call_environment("render", partial(game.render, **own)), np.uint8)

    def _forget(self) -> None:
        """Drop the oldest episodes, or the first half of the only one, if too much is stored."""
        while self._bytes > _MOST_BYTES and len(self._games) > 1:
            first = self._games.pop(0)
            self._bytes -= sum(len(own) for seat in first.seats for own in seat.frames)
            self._bytes -= sum(map(len, first.pictures.values()))
            self._forgotten += 1
        if self._bytes > _MOST_BYTES:
            pictures = self._games[0].pictures
            for step in list(pictures)[: len(pictures) // 2]:
                self._bytes -= len(pictures.pop(step))
            for seat in self._games[0].seats:
                for place in range(len(seat.frames) // 2):
                    self._bytes -= len(seat.frames[place])
                    seat.frames[place] = b""

    def _keep(self, seat: int, frame: Frame, decision: Decision | None) -> None:
        """Store the frame of a seat as its last one."""
        frames = self._games[-1].seats[seat].frames
        self._bytes -= len(frames[-1])
        frames[-1] = to_message(frame_json(frame, decision))
        self._bytes += len(frames[-1])

    def _summary(self) -> dict[str, float | None]:
        if self.table.is_alone:
            return {n: number(v) for n, v in self._trackers[0].summary().items()}
        names = zip(self.table.names, self._trackers, strict=True)
        return {f"return of {name}": number(own.reward) for name, own in names}

    def _read(self, seat: int, given: Mapping[str, Any]) -> Decision:
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
                raise ActionShapeError(
                    f"{name} was not chosen for each actor",
                    expected=f"{counted(count, 'actor')}, {counted(form.width, 'number')} for each",
                )
            own = values.astype(form.dtype)
            chosen[name] = own if form.is_real or form.width != 1 else own[:, 0]
        return Decision(chosen)

    def _find(self, number: int) -> tuple[int, _Game]:
        count = self._forgotten + len(self._games)
        place = number + count if number < 0 else number
        if not self._forgotten <= place < count:
            raise SettingError(
                "the episode does not exist", expected=f"{self._forgotten} to {count - 1}"
            )
        return place, self._games[place - self._forgotten]


def _draws_itself(game: Any) -> bool:
    """Return True for a game with a ``render`` of its own."""
    return type(getattr(game, "unwrapped", game)).render is not Playable.render


def _unchosen(decision: Decision | None) -> Decision | None:
    """Return a decision as a proposal, without its choices."""
    if decision is None:
        return None
    return Decision({}, decision.probs, decision.value, decision.normal)
