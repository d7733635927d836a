"""Padded environments that accept no choice that the mask forbids."""

from __future__ import annotations

import numpy as np

from entity_env.interop import EntityGymnasiumEnv


def assert_allowed(actions, masks, nvec):
    """Check numbers (rows, numbers) by the masks (rows, sum of nvec)."""
    first = np.cumsum(nvec) - nvec
    assert np.take_along_axis(np.atleast_2d(masks), np.atleast_2d(actions) + first, axis=1).all()


class StrictEnv(EntityGymnasiumEnv):
    def step(self, action):
        assert_allowed(action, self.action_masks(), self.action_space.nvec)
        return super().step(action)


def strict_rows(*arguments, **settings):
    """Rows of Stable-Baselines3, which may be missing."""
    from entity_env.interop import StableBaselinesVecEnv

    class StrictRows(StableBaselinesVecEnv):
        def step_async(self, actions):
            assert_allowed(actions, self.padded.action_masks(), self.action_space.nvec)
            super().step_async(actions)

    return StrictRows(*arguments, **settings)
