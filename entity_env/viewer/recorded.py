"""Source of recorded episodes for the viewer, which reads only the visible parts of recordings."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import flat_answers
from entity_env.errors import RecordingError
from entity_env.hints import ViewerHints, YAxis
from entity_env.recording import DamageWarning, EpisodeDataset, RecordedBatch
from entity_env.recording.records import Outcomes
from entity_env.viewer.frames import frame_of
from entity_env.viewer.source import Episode, Line, Source

__all__ = ["RecordedSource"]

_MOST_KEPT = 4
"""The largest number of parts in memory."""


class RecordedSource(Source):
    """The episodes of a recording, whose outcomes are read at once and whose frames when needed.

    Args:
        path: Path of the recording.
        y_axis: Direction of greater y.

    Raises:
        RecordingError: It is not a recording, or has no decisions.
    """

    def __init__(self, path: str | Path, y_axis: YAxis = "up") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)  # shown as the notice
            dataset = EpisodeDataset(path)
        if not dataset.num_frames:
            raise RecordingError(f"{path} has no decisions")
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
        return frame, self._decision(batch, place)

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
