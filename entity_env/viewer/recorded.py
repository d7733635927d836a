"""Source of recorded episodes for the viewer, which reads only the visible parts of recordings."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import flat_answers
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import RecordingError
from entity_env.hints import ViewerHints, YAxis
from entity_env.recording import DamageWarning, EpisodeDataset, RecordedBatch
from entity_env.recording.records import Outcomes
from entity_env.viewer.frames import frame_of, one_frame
from entity_env.viewer.source import Episode, Line, Source

__all__ = ["JudgingAgent", "RecordedSource"]

_MOST_KEPT, _MOST_JUDGED = 4, 100
"""Largest numbers of parts in memory, and of frames whose values are computed for a curve."""


class JudgingAgent(Protocol):
    """An agent that can decide in frames which do not follow each other."""

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return a decision for each frame of ``obs``."""


class RecordedSource(Source):
    """The episodes of a recording, whose outcomes are read at once and whose frames when needed.

    Args:
        path: Path of the recording.
        y_axis: Direction of greater y.
        judge: An agent whose values and probabilities are shown in each frame.

    Raises:
        RecordingError: It is not a recording, or has no decisions.
    """

    def __init__(
        self, path: str | Path, y_axis: YAxis = "up", judge: JudgingAgent | None = None
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)  # shown as the notice
            dataset = EpisodeDataset(path)
        if not dataset.num_frames:
            raise RecordingError(f"{path} has no decisions")
        self._judge = judge
        self._frames = functools.lru_cache(_MOST_KEPT)(dataset.frames)
        self._found: dict[int, Episode] = {}  # by their numbers in the recording
        super().__init__(
            {"kind": "recording", "title": Path(path).name, "seats": []},
            dataset.obs_space,
            dataset.action_space,
            ViewerHints(y_axis=y_axis),
            enumerate(dataset.outcomes()),
            "; ".join(dataset.problems),
        )

    def _add(self, item: tuple[int, Outcomes]) -> None:
        """Add the decisions and the last observations of a part to their episodes."""
        part, outcomes = item
        for place, key in enumerate(outcomes.episode.tolist()):
            acts = bool(outcomes.is_decision[place])
            if key not in self._found:
                if not acts:
                    continue  # after a gap, the last observation of an episode before it
                self._found[key] = Episode([Line()], f"row {outcomes.row[place]}")
                self._episodes.append(self._found[key])
            episode = self._found[key]
            line = episode.lines[0]
            # The reward of a decision is that before the next frame.
            reward, episode.reward = episode.reward, float(outcomes.reward[place])
            line.add(episode.length, (part, place), reward, acts=acts)
            episode.length += 1
            if outcomes.done[place]:
                episode.done, episode.metrics = True, outcomes.metrics[place]
                episode.truncated = bool(outcomes.truncated[place])
                if not episode.truncated:
                    line.end(episode.length, episode.reward)
                    episode.length += 1

    def _load(self, stored: Any) -> tuple[Frame, Decision | None]:
        part, place = stored
        batch = self._frames(part)
        frame = frame_of(batch.obs, place)
        if not frame.actions:
            return frame, None
        decision = self._decision(batch, place)
        if self._judge is not None:
            (judged,) = self._judge.decide_rows(one_frame(batch.obs, place))
            decision = replace(judged, chosen=decision.chosen)
        return frame, decision

    def _values(self, line: Line) -> Sequence[float | None]:
        """Return values between those of some frames."""
        if self._judge is None:
            return line.values
        count = len(line.stored)
        places = np.unique(np.linspace(0, count - 1, _MOST_JUDGED).astype(int)).tolist()
        judged = [self._load(line.stored[place])[1] for place in places]
        values = [getattr(decision, "value", None) or 0.0 for decision in judged]
        return np.interp(np.arange(count), places, values).tolist()  # type: ignore[no-any-return]

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
