"""Wrappers of environments, of rows, and of games of several players.

=====================  ========================  ==========================
an environment         rows of a ``VecEnv``      a game of several players
=====================  ========================  ==========================
``Wrapper``, the base  ``VecWrapper``            ``SeatWrapper``
``TimeLimit``          ``VecTimeLimit``          ``SeatTimeLimit``
``FrameSkip``          ``VecFrameSkip``
``FeatureFilter``      ``VecFeatureFilter``
``RewardScale``        ``VecRewardScale``
``EpisodeStatistics``  ``VecEpisodeStatistics``
                       ``VecValidate``
``Curriculum``
``StaggeredStart``
=====================  ========================  ==========================

``ConcatVecEnv`` joins the rows of several ``VecEnv``. The rows may be seats of games, except those
of ``VecFrameSkip``.

Rows act together and reset themselves, so that a wrapper of rows cannot delay or reset a single
row. ``VecTimeLimit`` and ``VecFrameSkip`` therefore wrap the environment of each row, or each game,
by ``VecEnv.wrap_each``. They raise an error for compiled rows, which are not made of environments.
"""

from __future__ import annotations

from entity_env.wrappers.concat_vec_env import ConcatVecEnv
from entity_env.wrappers.curriculum import Curriculum
from entity_env.wrappers.episode_statistics import EpisodeStatistics, VecEpisodeStatistics
from entity_env.wrappers.feature_filter import FeatureFilter, VecFeatureFilter
from entity_env.wrappers.frame_skip import FrameSkip, VecFrameSkip
from entity_env.wrappers.reward_scale import RewardScale, VecRewardScale
from entity_env.wrappers.selection import subspace
from entity_env.wrappers.staggered_start import StaggeredStart
from entity_env.wrappers.time_limit import SeatTimeLimit, TimeLimit, VecTimeLimit
from entity_env.wrappers.vec_validate import VecValidate
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import SeatWrapper, Wrapper

__all__ = [
    "ConcatVecEnv",
    "Curriculum",
    "EpisodeStatistics",
    "FeatureFilter",
    "FrameSkip",
    "RewardScale",
    "SeatTimeLimit",
    "SeatWrapper",
    "StaggeredStart",
    "TimeLimit",
    "VecEpisodeStatistics",
    "VecFeatureFilter",
    "VecFrameSkip",
    "VecRewardScale",
    "VecTimeLimit",
    "VecValidate",
    "VecWrapper",
    "Wrapper",
    "subspace",
]
