"""All runs of these tests log numbers that the documentation describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from support.glossary import undescribed

from ppo_trainer.runs.logger import RunLogger


@pytest.fixture(scope="module", autouse=True)
def _logged_numbers_are_described() -> Iterator[None]:
    """Whatever the tests train: alone or with others, with PPO, V-trace or by imitation."""
    logged: set[str] = set()
    write = RunLogger.write

    def noted(self: RunLogger, update: int, steps: int, metrics: Mapping[str, float]) -> None:
        logged.update(metrics)
        write(self, update, steps, metrics)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLogger, "write", noted)
        yield
    missing = undescribed(logged)
    assert not missing, f"not in docs/metrics.md: {missing}"
