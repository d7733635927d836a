"""Recordings of the steps of a ``VecEnv``, which are read as episodes, steps or minibatches."""

from __future__ import annotations

from entity_env.recording.dataset import EpisodeDataset
from entity_env.recording.recorder import RecordEpisodes
from entity_env.recording.recording import DamageWarning, Recording
from entity_env.recording.records import RecordedBatch, RecordedEpisode, RecordedStep
from entity_env.recording.replays import Moment, RecordedCommand, RecordReplay, Replay

__all__ = [
    "DamageWarning",
    "EpisodeDataset",
    "Moment",
    "RecordEpisodes",
    "RecordReplay",
    "RecordedBatch",
    "RecordedCommand",
    "RecordedEpisode",
    "RecordedStep",
    "Recording",
    "Replay",
]
