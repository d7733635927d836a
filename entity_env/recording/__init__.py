"""Recording what happens in a ``VecEnv``, and reading it again: episodes, steps, minibatches."""

from __future__ import annotations

from entity_env.recording.recorder import RecordEpisodes
from entity_env.recording.recording import Recording
from entity_env.recording.records import RecordedBatch, RecordedEpisode, RecordedStep
from entity_env.recording.replays import Command, Moment, RecordReplay, Replay

__all__ = [
    "Command",
    "Moment",
    "RecordEpisodes",
    "RecordReplay",
    "RecordedBatch",
    "RecordedEpisode",
    "RecordedStep",
    "Recording",
    "Replay",
]
