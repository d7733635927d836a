"""Selection of frames of an observation, and merging of the actions of several players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.batching.ragged import ActionBuffer, cat
from entity_env.batching.vec_obs import all_rows
from entity_env.recording.records import select_frames

__all__ = ["answers_in_order", "frames_of", "take_frames"]

Ints = npt.NDArray[np.int64]


def frames_of(obs: VecObs, places: Ints) -> VecObs:
    """Return the frames at these places (K,) as an observation of K rows."""
    bare = obs
    if len(obs) != obs.num_frames or obs.rows is not all_rows(len(obs)):
        few = np.zeros(obs.num_frames)
        nothing = few.astype(np.bool_)
        bare = replace(
            obs,
            reward=few.astype(np.float32),
            done=nothing,
            truncated=nothing,
            rows=all_rows(obs.num_frames),
        )
    return select_frames(bare, places)


def take_frames(obs: VecObs, places: Ints) -> VecObs:
    """Return an observation of the same rows that contains only the frames at these places (K,)."""
    shown = frames_of(obs, places)
    return replace(
        obs,
        features=shown.features,
        action_masks=shown.action_masks,
        global_features=shown.global_features,
        visible=shown.visible,
        rows=obs.rows[places],
    )


def answers_in_order(
    answers: Sequence[Mapping[str, ActionBuffer]], places: Sequence[Ints]
) -> Mapping[str, ActionBuffer]:
    """Return the actions of several players, in the order of all frames.

    Args:
        answers: Actions of each player in its own frames.
        places: Places of each player's frames among all frames, ascending.
    """
    filled = [part for part, own in zip(answers, places, strict=True) if len(own)]
    if len(filled) < 2:
        return filled[0] if filled else {}
    order = np.argsort(np.concatenate(places))
    parts: dict[str, list[Any]] = {name: [part[name] for part in filled] for name in filled[0]}
    return {name: cat(own)[order].materialize() for name, own in parts.items()}
