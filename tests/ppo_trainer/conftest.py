"""Runs of these tests draw no curves, which would take most of their time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_curves() -> Iterator[None]:
    """A test of the curve itself sets ``draw_curve`` again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ppo_trainer.training.report.draw_curve", lambda run: None)
        yield
