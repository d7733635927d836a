"""A network with a memory answers what it was shown three steps before; without one it guesses."""

from __future__ import annotations

import pytest
from learning_support import played_by

pytestmark = pytest.mark.learning


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_what_was_shown_is_remembered(kind, tmp_path):
    played = played_by(tmp_path, "repeat_after_k", f"net.memory={kind}", "total_timesteps=60_000")
    assert played[0] > 0.95


def test_without_a_memory_it_is_guessed(tmp_path):
    played = played_by(tmp_path, "repeat_after_k", "net.memory=none", "total_timesteps=60_000")
    # 1 / 4; of 1,000 games the standard deviation is 0.014.
    assert played[0] < 0.32
