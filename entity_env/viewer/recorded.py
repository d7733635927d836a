"""Source of recorded episodes for the viewer, which reads only the visible parts of recordings."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import YAxis
from entity_env.errors import EntityEnvError, RecordingError, SettingError
from entity_env.hints import ViewerHints
from entity_env.kinds.answers import flat_answers
from entity_env.kinds.table import answer_forms
from entity_env.recording import DamageWarning, EpisodeDataset, RecordedBatch
from entity_env.recording.records import Outcomes
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.viewer.frames import frame_json, frame_of, number, one_frame, spaces_json
from entity_env.viewer.source import Source, curve_json

__all__ = ["JudgingAgent", "RecordedFrames", "RecordedSource"]

Ints = npt.NDArray[np.int64]
_MOST_KEPT, _MOST_JUDGED = 4, 100


@dataclass(frozen=True)
class _Line:
    """The L decisions of a row in an episode.

    Args:
        steps: The steps of the rows in which the row acted. Shape: (L,).
        parts: The parts of the recording with their frames. Shape: (L,).
        places: The places of their frames in the parts. Shape: (L,).
        rewards: The rewards before each decision, and after the last one. Shape: (L + 1,).
    """

    steps: Ints
    parts: Ints
    places: Ints
    rewards: npt.NDArray[np.float64]


@dataclass
class _Episode:
    """An episode of one row, between the steps ``begin`` and ``end`` of the rows.

    ``pieces`` has the part, the places and the outcomes of its decisions; ``last`` the part and the
    place of the observation after them.
    """

    row: int
    begin: int
    end: int = 0
    done: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    pieces: list[tuple[int, Ints, Outcomes]] = field(default_factory=list)
    last: tuple[int, int] | None = None

    def line(self) -> _Line:
        """Return its decisions."""
        outcomes = Outcomes.cat([own for _, _, own in self.pieces])
        return _Line(
            steps=outcomes.step,
            parts=np.repeat(
                [part for part, _, _ in self.pieces], [len(own) for _, own, _ in self.pieces]
            ),
            places=np.concatenate([places for _, places, _ in self.pieces]),
            rewards=np.concatenate([[0.0], outcomes.reward]),
        )


class JudgingAgent(Protocol):
    """An agent that can decide in frames which do not follow each other."""

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return a decision for each frame of ``obs``."""


class RecordedFrames(Protocol):
    """Frames in parts with random access: an ``EpisodeDataset``, or a replay that is played."""

    obs_space: ObsSpace
    action_space: dict[ActionName, ActionSpace]

    def outcomes(self) -> Iterator[Outcomes]:
        """Yield the outcomes of the frames, part by part."""

    def frames(self, number: int) -> RecordedBatch:
        """Return all frames of a part."""


class RecordedSource(Source):
    """The episodes of a recording, or of a replay.

    A thread reads the outcomes of all decisions, while the first episodes can be viewed already.

    Args:
        recording: The frames.
        title: Title of the page.
        kind: Kind of the source.
        y_axis: Direction of greater y.
        hints: Hints for drawing the game.
        seats: The names of the seats, if rows are seats of games; an episode is then a game, as
            long as its first seat plays.
        notice: Message about damage.
        judge: An agent whose values and choices are shown in each frame.
    """

    def __init__(
        self,
        recording: RecordedFrames,
        title: str,
        kind: str = "recording",
        *,
        y_axis: YAxis = "up",
        hints: ViewerHints | None = None,
        seats: Sequence[str] = (),
        notice: str = "",
        judge: JudgingAgent | None = None,
    ) -> None:
        self._recording, self._seats, self._notice = recording, list(seats), notice
        self._judge = judge
        spaces = recording.obs_space, recording.action_space
        super().__init__(*spaces, y_axis, hints or ViewerHints())
        self._about = {
            "kind": kind,
            "title": title,
            "seats": self._seats,
            "people": [],
            **spaces_json(*spaces, self.scenes),
        }
        self._forms = answer_forms(self._recording.action_space)
        # In the order in which they begin, so that their numbers do not change during reading.
        self._episodes: list[_Episode] = []
        self._of_rows: dict[int, list[_Episode]] = {}
        self._found: dict[int, _Episode] = {}  # by their numbers in the recording
        self._kept: dict[int, RecordedBatch] = {}  # frames of the last few parts
        self._changed = threading.Condition()
        self._is_read = False
        threading.Thread(target=self._read, daemon=True).start()

    def about(self) -> dict[str, Any]:
        """Return the title, the spaces, the seats, and a message about damage."""
        return {**self._about, "notice": self._notice}

    @classmethod
    def open(
        cls, path: str | Path, y_axis: YAxis = "up", judge: JudgingAgent | None = None
    ) -> RecordedSource:
        """Open a recording.

        Args:
            path: Path of the recording.
            y_axis: Direction of greater y.
            judge: See the class.

        Raises:
            RecordingError: It is not a recording, or has no decisions.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)  # shown as the notice
            recording = EpisodeDataset(path)
        if not recording.num_frames:
            raise RecordingError(f"{path} has no decisions")
        notice = "; ".join(recording.problems)
        return cls(recording, Path(path).name, y_axis=y_axis, notice=notice, judge=judge)

    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode, and the number of episodes found so far."""
        with self._changed:
            episode = self._find(number)
            count = len(self._episodes)
            return {
                "number": number % count,
                "count": count,
                "is_growing": not self._is_read,
                "length": len(episode.line().steps) + episode.truncated,
                "row": episode.row,
                "notice": self._notice,
                "done": episode.done,
                "truncated": episode.truncated,
                "metrics": _numbers(episode.metrics),
            }

    def frame(self, episode: int, step: int, seat: int) -> dict[str, Any]:
        """Return the frame of a step, with its choices."""
        if not 0 <= seat < max(len(self._seats), 1):
            raise SettingError("the seat does not exist", received=seat)
        with self._changed:
            own = self._find(episode)
            line = own.line()
            seated = self._line_of(own, seat) if seat else line
        count = len(line.steps)
        at = max(0, min(step, count - 1 + own.truncated))
        if seat:
            return {**self._other(seated, int(line.steps[min(at, count - 1)])), "step": at}
        if at == count:  # the last observation of an episode that a limit ended
            if own.last is None:
                raise RecordingError("the last observation of the episode is not in the recording")
            part, place = own.last
            given = frame_json(frame_of(self._frames(part).obs, place))
        else:
            given = self._frame_at(line, at)
        rewards = line.rewards
        given |= {"reward": number(rewards[at]), "truncated": False, "ends": False}
        if at == count - 1 + own.truncated:
            given |= {
                "ends": own.done,
                "last_reward": number(rewards[at + 1 :].sum()),
                "truncated": own.truncated,
                "metrics": _numbers(own.metrics),
            }
        return {**given, "step": at, "total": number(float(rewards[: at + 1].sum()))}

    def _frame_at(self, line: _Line, at: int) -> dict[str, Any]:
        """Return the frame and the choices of a decision."""
        batch, place = self._frames(int(line.parts[at])), int(line.places[at])
        decision = self._decision(batch, place)
        if self._judge is not None:
            (judged,) = self._judge.decide_rows(one_frame(batch.obs, place))
            decision = replace(judged, chosen=decision.chosen)
        return frame_json(frame_of(batch.obs, place), decision)

    def _frames(self, part: int) -> RecordedBatch:
        """Return the frames of a part, from memory if it is one of the last few."""
        kept = self._kept.pop(part, None)
        self._kept[part] = frames = self._recording.frames(part) if kept is None else kept
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return frames

    def _other(self, line: _Line, step: int) -> dict[str, Any]:
        """Return the frame of another seat at a step, or its last frame before it."""
        at = int(np.searchsorted(line.steps, step, "right")) - 1
        if at < 0:
            return {"entities": {}, "actions": {}, "globals": [], "waits": True}
        given, rewards = self._frame_at(line, at), line.rewards
        given |= {"reward": number(rewards[at]), "total": number(float(rewards[: at + 1].sum()))}
        return given | ({"waits": True, "actions": {}} if line.steps[at] < step else {})

    def curve(self, episode: int, seat: int) -> dict[str, Any]:
        """Return reward and return along an episode."""
        with self._changed:
            own = self._find(episode)
            line = self._line_of(own, seat) if seat else own.line()
        count = len(line.steps)
        values: list[float | None] = [None] * (count + 1)
        if self._judge is not None and count:
            shown = np.unique(np.linspace(0, count - 1, _MOST_JUDGED).astype(int)).tolist()
            judged = [self._frame_at(line, place)["value"] or 0.0 for place in shown]
            values[:count] = np.interp(np.arange(count), shown, judged).tolist()
        return curve_json(line.rewards, np.cumsum(line.rewards, dtype=np.float64), values)

    def _line_of(self, game: _Episode, seat: int) -> _Line:
        """Return the decisions of another seat in a game."""
        found = self._of_rows.get(game.row + seat, [])
        lines = [own.line() for own in found if own.end > game.begin and own.begin < game.end]
        nothing = np.zeros(0, np.int64)
        lines.append(_Line(nothing, nothing, nothing, np.zeros(1)))
        steps = np.concatenate([line.steps for line in lines])
        inside = (steps >= game.begin) & (steps < game.end)
        return _Line(
            steps=steps[inside],
            parts=np.concatenate([line.parts for line in lines])[inside],
            places=np.concatenate([line.places for line in lines])[inside],
            rewards=np.concatenate(
                [[0.0], np.concatenate([line.rewards[1:] for line in lines])[inside]]
            ),
        )

    def _read(self) -> None:
        """Read the outcomes of all parts, one after the other."""
        try:
            for part, outcomes in enumerate(self._recording.outcomes()):
                with self._changed:
                    self._add(part, outcomes)
                    self._changed.notify_all()
        except EntityEnvError as error:
            self._notice = f"{self._notice}; {error}".removeprefix("; ")
        with self._changed:
            self._is_read = True
            self._changed.notify_all()

    def _add(self, part: int, outcomes: Outcomes) -> None:
        """Add the decisions and the last observations of a part to their episodes."""
        order = np.lexsort((outcomes.step, outcomes.episode))
        keys, starts = np.unique(outcomes.episode[order], return_index=True)
        for key, places in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
            own = outcomes.select(places)
            is_decision, row = own.is_decision, int(own.row[0])
            if key not in self._found:
                if not is_decision[0]:
                    continue  # after a gap, the last observation of an episode before it
                self._found[key] = self._begin(row)
            episode = self._found[key]
            if not is_decision[-1]:
                episode.last = part, int(places[-1])
            if is_decision.any():
                decided = own.select(np.flatnonzero(is_decision))
                episode.pieces.append((part, places[is_decision], decided))
                episode.end = int(decided.next_step[-1])
                episode.done, episode.truncated = (
                    bool(decided.done[-1]),
                    bool(decided.truncated[-1]),
                )
                episode.metrics = decided.metrics[-1]

    def _begin(self, row: int) -> _Episode:
        earlier = self._of_rows.setdefault(row, [])
        earlier.append(_Episode(row, earlier[-1].end if earlier else 0))
        if row % max(len(self._seats), 1) == 0:
            self._episodes.append(earlier[-1])
        return earlier[-1]

    def _find(self, place: int) -> _Episode:
        """Return an episode by its number; wait for it while the file is read."""
        while not -len(self._episodes) <= place < len(self._episodes):
            if self._is_read:
                expected = f"0 to {len(self._episodes) - 1}"
                raise SettingError("the episode does not exist", expected=expected, received=place)
            self._changed.wait(1.0)
        return self._episodes[place]

    def _decision(self, batch: RecordedBatch, place: int) -> Decision:
        """Return the choices in one frame, with their probabilities if known."""
        chosen, probs, normal = {}, {}, {}
        for name, form in self._forms.items():
            one = np.array([place])
            chosen[name] = flat_answers(batch.actions[name][one].materialize(), form)
            logits = None if batch.logits is None else batch.logits[name]
            if logits is None or not len(chosen[name]):
                continue
            values = logits[one].as_array().reshape(len(chosen[name]), -1)
            if form.is_real:
                normal[name] = tuple(np.split(values, 2, axis=1))
            else:
                probs[name] = _softmax(values)
        return Decision(chosen, probs, None, normal)


def _softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):  # a forged file may contain any numbers
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs = powers / powers.sum(axis=1, keepdims=True)
    known: npt.NDArray[np.float32] = np.nan_to_num(probs).astype(np.float32)
    return known


def _numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: number(value) for name, value in metrics.items()}
