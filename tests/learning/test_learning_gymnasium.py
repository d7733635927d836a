"""A Gymnasium environment is learned through the same trainer, from global features alone."""

from __future__ import annotations

import pytest
from learning_support import played_by

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.learning


def test_a_pole_is_balanced(tmp_path):
    # Random play gets 22; 500 is the most, and 475 is what counts as solved.
    assert played_by(tmp_path, "cartpole", episodes=50)[0] > 475
