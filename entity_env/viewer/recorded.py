"""Source of recorded episodes for the viewer, which reads only the visible parts of files."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import YAxis
from entity_env.errors import EntityEnvError, RecordingError, SettingError
from entity_env.hints import ViewerHints
from entity_env.kinds.answers import flat_answers
from entity_env.kinds.table import answer_forms
from entity_env.recording import RecordedStep, Recording
from entity_env.recording.outline import Outline
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.viewer.frames import frame_json, frame_of, number, one_frame, spaces_json
from entity_env.viewer.source import Source, curve_json

__all__ = ["JudgingAgent", "RecordedSource", "SoughtSteps"]


_Line: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""The steps of the decisions in an episode, and its rewards."""
_MOST_LINES, _MOST_JUDGED = 8, 100


@dataclass
class _Episode:
    """The place of an episode of one row: from step ``first`` up to, not including, ``end``."""

    row: int
    first: int
    end: int
    is_whole: bool
    done: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


class JudgingAgent(Protocol):
    """An agent that can decide in frames which do not follow each other."""

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return a decision for each frame of ``obs``."""


class SoughtSteps(Protocol):
    """Steps of rows with random access: a ``Recording``, or a replay that is played."""

    obs_space: ObsSpace
    action_space: dict[ActionName, ActionSpace]

    def step(self, number: int) -> RecordedStep:
        """Return the step with this number, counted from 0."""

    def outlines(self) -> Iterator[Outline]:
        """Yield rewards and ends of all steps, part by part."""


class RecordedSource(Source):
    """The episodes of a recording, or of other steps with random access.

    A thread reads the outlines of the file, while the first episodes can be viewed already.

    Args:
        recording: The steps.
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
        recording: SoughtSteps,
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
        self._open: dict[int, _Episode | None] = {}
        self._parts: list[Outline] = []
        self._changed = threading.Condition()
        self._is_read = False
        self._lines: dict[tuple[int, int, int], _Line] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def about(self) -> dict[str, Any]:
        """Return the title, the spaces, the seats, and a message about damage."""
        return {**self._about, "notice": self._notice}

    @classmethod
    def open(
        cls, path: str | Path, y_axis: YAxis = "up", judge: JudgingAgent | None = None
    ) -> RecordedSource:
        """Open a file of recorded episodes.

        Args:
            path: Path of the file.
            y_axis: Direction of greater y.
            judge: See the class.

        Raises:
            RecordingError: The file is not a recording, or has no steps.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recording = Recording(path)
        if not recording.num_steps:
            raise RecordingError(f"{path} has no steps", hint="its recorder has written none yet")
        notice = "; ".join(str(one.message) for one in caught)
        title = recording.path.name
        return cls(recording, title, y_axis=y_axis, notice=notice, judge=judge)

    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode, and the number of episodes found so far."""
        with self._changed:
            episode = self._find(number)
            count = len(self._episodes)
            return {
                "number": number % count,
                "count": count,
                "is_growing": not self._is_read,
                "length": len(self._line(episode)[0]) + episode.truncated,
                "row": episode.row,
                "notice": self._notice,
                "done": episode.done,
                "truncated": episode.truncated,
                "metrics": _numbers(episode.metrics),
            }

    def frame(self, episode: int, step: int, seat: int) -> dict[str, Any]:
        """Return the frame of a step, with its choices."""
        with self._changed:
            own = self._find(episode)
            steps, rewards = self._line(own)
            seated = self._line(replace(own, row=own.row + seat)) if self._seats else None
        if not 0 <= seat < max(len(self._seats), 1):
            raise SettingError("the seat does not exist", received=seat)
        if not len(steps):
            return _unasked(own)
        at = max(0, min(step, len(steps) - 1 + own.truncated))
        if seat and seated is not None:
            return {
                **self._other(own.row + seat, int(steps[min(at, len(steps) - 1)]), seated),
                "step": at,
            }
        if at == len(steps):  # the last observation of an episode that a limit ended
            taken = self._recording.step(own.end - 1)
            final = taken.final
            place = int(taken.truncated[: own.row].sum())
            given = None if final is None else frame_json(frame_of(final, place))
        else:
            given = self._seen(own.row, int(steps[at]))
        if given is None:
            raise RecordingError("the last observation of the episode is not in the recording")
        given |= {"reward": number(rewards[at]), "truncated": False, "ends": False}
        if at == len(steps) - 1 + own.truncated:
            given |= {
                "ends": own.done,
                "last_reward": number(rewards[at + 1 :].sum()),
                "truncated": own.truncated,
                "metrics": _numbers(own.metrics),
            }
        return {**given, "step": at, "total": number(float(rewards[: at + 1].sum()))}

    def _seen(self, row: int, step: int) -> dict[str, Any]:
        """Return the frame and the choices of a row in a step in which it acted."""
        taken = self._recording.step(step)
        place = int(np.searchsorted(taken.obs.rows, row))
        decision = self._decision(taken, place)
        if self._judge is not None:
            (judged,) = self._judge.decide_rows(one_frame(taken.obs, place))
            decision = replace(judged, chosen=decision.chosen)
        return frame_json(frame_of(taken.obs, place), decision)

    def _other(self, row: int, step: int, line: _Line) -> dict[str, Any]:
        """Return the frame of another seat at a step, or its last frame before it."""
        steps, rewards = line
        at = int(np.searchsorted(steps, step, "right")) - 1
        if at < 0:
            return {"entities": {}, "actions": {}, "globals": [], "waits": True}
        given = self._seen(row, int(steps[at]))
        given |= {"reward": number(rewards[at]), "total": number(float(rewards[: at + 1].sum()))}
        return given | ({"waits": True, "actions": {}} if steps[at] < step else {})

    def curve(self, episode: int, seat: int) -> dict[str, Any]:
        """Return reward and return along an episode."""
        with self._changed:
            own = self._find(episode)
            steps, rewards = self._line(replace(own, row=own.row + seat))
        values: list[float | None] = [None] * len(rewards)
        if self._judge is not None and len(steps):
            shown = np.unique(np.linspace(0, len(steps) - 1, _MOST_JUDGED).astype(int)).tolist()
            for place in shown:
                values[place] = self._seen(own.row + seat, int(steps[place]))["value"]
            known = np.interp(np.arange(len(steps)), shown, [values[i] or 0.0 for i in shown])
            values[: len(steps)] = known.tolist()
        return curve_json(rewards, np.cumsum(rewards, dtype=np.float64), values)

    def _read(self) -> None:
        """Read the outlines, one after the other."""
        try:
            for outline in self._recording.outlines():
                with self._changed:
                    self._add(outline)
                    self._changed.notify_all()
        except EntityEnvError as error:
            self._notice = f"{self._notice}; {error}".removeprefix("; ")
        with self._changed:
            self._is_read = True
            self._changed.notify_all()

    def _add(self, outline: Outline) -> None:
        """Add the episodes that begin and end in some steps."""
        self._parts.append(outline)
        count, rows = outline.done.shape
        begins_anew = not outline.continues or len(self._open) != rows
        if begins_anew:
            self._open = dict.fromkeys(range(rows))
        for row, own in self._open.items():
            if own is None:
                is_whole = outline.after_reset or not begins_anew
                self._open[row] = self._begin(row, outline.first, is_whole)
        for step, row in np.argwhere(outline.done).tolist():
            ended, end = self._open[row], outline.first + step + 1
            assert ended is not None
            ended.end, ended.done = end, True
            ended.truncated = bool(outline.truncated[step, row])
            metrics = {n: float(line[row]) for n, line in outline.metrics.get(step, {}).items()}
            ended.metrics = {name: value for name, value in metrics.items() if value == value}
            self._open[row] = self._begin(row, end, True) if step + 1 < count else None
        for own in self._open.values():
            if own is not None:
                own.end = outline.first + count

    def _begin(self, row: int, first: int, is_whole: bool) -> _Episode:
        own = _Episode(row, first, first, is_whole)
        if row % max(len(self._seats), 1) == 0:
            self._episodes.append(own)
        return own

    def _find(self, place: int) -> _Episode:
        """Return an episode by its number; wait for it while the file is read."""
        while not -len(self._episodes) <= place < len(self._episodes):
            if self._is_read:
                expected = f"0 to {len(self._episodes) - 1}"
                raise SettingError("the episode does not exist", expected=expected, received=place)
            self._changed.wait(1.0)
        return self._episodes[place]

    def _line(self, episode: _Episode) -> _Line:
        """Return the numbers of the steps in which the row acted, (L,), and its rewards.

        The rewards are those before each decision, and after the last one. Shape: (L + 1,).
        """
        key = episode.row, episode.first, episode.end
        if key not in self._lines:
            numbers: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
            rewards: list[npt.NDArray[Any]] = [np.zeros(1)]
            for part, start, end in self._span(episode):
                own = slice(start - part.first, end - part.first), episode.row
                steps = np.arange(start, end)
                numbers.append(steps if part.asked is None else steps[part.asked[own]])
                rewards.append(part.reward[own])
            steps = np.concatenate(numbers)
            paid = np.cumsum(np.concatenate(rewards), dtype=np.float64)
            until = paid[np.append(steps, episode.end) - episode.first]
            self._lines[key] = steps, np.diff(until, prepend=0.0)
            while len(self._lines) > _MOST_LINES:
                del self._lines[next(iter(self._lines))]
        return self._lines[key]

    def _span(self, episode: _Episode) -> list[tuple[Outline, int, int]]:
        """Return the parts of an episode, each with its first step and its end in the part."""
        found = []
        for part in self._parts:
            start = max(part.first, episode.first)
            end = min(part.first + len(part.done), episode.end)
            if start < end:
                found.append((part, start, end))
        return found

    def _decision(self, taken: RecordedStep, place: int) -> Decision:
        """Return the choices in one frame, with their probabilities if known."""
        chosen, probs, normal = {}, {}, {}
        for name, form in self._forms.items():
            mask: Any = taken.obs.action_masks[name]
            lengths = mask.actors.size1()
            start = int(lengths[:place].sum())
            chosen[name] = flat_answers(taken.actions[name], form)[start : start + lengths[place]]
            logits = None if taken.logits is None else taken.logits[name]
            if logits is None or not lengths[place]:
                continue
            first = int(logits.size1()[:place].sum())
            values = logits.as_array()[first : first + logits.size1()[place]]
            values = values.reshape(int(lengths[place]), -1)
            if form.is_real:
                normal[name] = tuple(np.split(values, 2, axis=1))
            else:
                probs[name] = _softmax(values)
        return Decision(chosen, probs, None, normal)


def _unasked(episode: _Episode) -> dict[str, Any]:
    """Return the frame of a row that was out before it had to act."""
    own: dict[str, Any] = {"ends": episode.done, "truncated": episode.truncated}
    own |= {"metrics": _numbers(episode.metrics)}
    nothing: dict[str, Any] = {
        "entities": {},
        "globals": [],
        "actions": {},
        "value": None,
        "reward": 0.0,
    }
    return {**nothing, **own, "step": 0, "total": 0.0}


def _softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):  # a forged file may contain any numbers
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs = powers / powers.sum(axis=1, keepdims=True)
    known: npt.NDArray[np.float32] = np.nan_to_num(probs).astype(np.float32)
    return known


def _numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: number(value) for name, value in metrics.items()}
