"""Wrappers: environments and rows that change what passes through them.

Around a single ``Environment``: ``TimeLimit``, ``FeatureFilter``, ``RewardScale``, ``FrameSkip``,
``EpisodeStatistics``, ``Validate``; ``Wrapper`` is their base. Around a ``VecEnv``:
``VecFeatureFilter``, ``VecRewardScale``, ``VecEpisodeStatistics``, ``VecValidate``; ``VecWrapper``
is their base. ``ConcatVecEnv`` joins the rows of several.

Rows reset themselves and act together, and nothing outside can reset or hold back a single one.
There is therefore no time limit and no frame skip for a ``VecEnv``: put them around the single
environments, ``ListEnv(lambda: TimeLimit(MyEnv(), 500), num_envs=8)``.
"""

from __future__ import annotations

from entity_env.wrappers.concat_vec_env import ConcatVecEnv
from entity_env.wrappers.episode_statistics import EpisodeStatistics, VecEpisodeStatistics
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.frame_skip import FrameSkip
from entity_env.wrappers.reward_scale import RewardScale, VecRewardScale
from entity_env.wrappers.selection import subspace
from entity_env.wrappers.time_limit import TimeLimit
from entity_env.wrappers.validate import Validate
from entity_env.wrappers.vec_feature_filter import VecFeatureFilter
from entity_env.wrappers.vec_validate import VecValidate
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import Wrapper

__all__ = [
    "ConcatVecEnv",
    "EpisodeStatistics",
    "FeatureFilter",
    "FrameSkip",
    "RewardScale",
    "TimeLimit",
    "Validate",
    "VecEpisodeStatistics",
    "VecFeatureFilter",
    "VecRewardScale",
    "VecValidate",
    "VecWrapper",
    "Wrapper",
    "subspace",
]
