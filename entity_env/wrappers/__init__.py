"""Wrappers of environments, of games of several players, and of rows.

===============================  ==============================
an environment                   a game of several players
===============================  ==============================
``Wrapper``, the base            ``SeatWrapper``
``TimeLimit``                    ``SeatTimeLimit``
``RewardScale``                  ``SeatRewardScale``
``FrameSkip``
``FeatureFilter``
``Curriculum``
``StaggeredStart``
===============================  ==============================

Rows act together and reset themselves, so that a wrapper of rows cannot delay or reset a single
row. ``rows.wrap_each(partial(TimeLimit, max_steps=100))`` wraps the environment of each row, or
each game. It raises an error for compiled rows, which are not made of environments.

``VecWrapper`` is the base of wrappers of rows, ``VecFeatureFilter`` filters all rows at once, and
``VecValidate`` checks them for their author.
"""

from __future__ import annotations

from entity_env.wrappers.curriculum import Curriculum
from entity_env.wrappers.feature_filter import FeatureFilter, VecFeatureFilter
from entity_env.wrappers.frame_skip import FrameSkip
from entity_env.wrappers.reward_scale import RewardScale, SeatRewardScale
from entity_env.wrappers.staggered_start import StaggeredStart
from entity_env.wrappers.time_limit import SeatTimeLimit, TimeLimit
from entity_env.wrappers.vec_validate import VecValidate
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import SeatWrapper, Wrapper

__all__ = [
    "Curriculum",
    "FeatureFilter",
    "FrameSkip",
    "RewardScale",
    "SeatRewardScale",
    "SeatTimeLimit",
    "SeatWrapper",
    "StaggeredStart",
    "TimeLimit",
    "VecFeatureFilter",
    "VecValidate",
    "VecWrapper",
    "Wrapper",
]
