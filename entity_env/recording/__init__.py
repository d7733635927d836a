"""Recordings of the decisions of rows, and replays, which play games again."""

from __future__ import annotations

from entity_env.recording.dataset import EpisodeBlock, EpisodeDataset, EpisodeIndex
from entity_env.recording.parts import DamageWarning
from entity_env.recording.recorder import RecordEpisodes
from entity_env.recording.records import RecordedBatch, RecordedEpisode
from entity_env.recording.replays import Moment, RecordReplay, Replay, ReplayStep

__all__ = [
    "DamageWarning",
    "EpisodeBlock",
    "EpisodeDataset",
    "EpisodeIndex",
    "Moment",
    "RecordEpisodes",
    "RecordReplay",
    "RecordedBatch",
    "RecordedEpisode",
    "Replay",
    "ReplayStep",
]
