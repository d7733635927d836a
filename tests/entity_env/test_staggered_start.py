"""Rows that come out of step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from entity_env import (
    Action,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
)
from entity_env.check import check_env
from entity_env.errors import StateError
from entity_env.wrappers import StaggeredStart
from entity_env.wrappers.staggered_start import STAGGERED

LENGTH = 20


class Steps(Environment):
    """Ends after ``LENGTH`` steps, always."""

    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Clock": Entity(["t"])})

    def action_space(self) -> dict[str, CategoricalActionSpace]:
        return {"wait": CategoricalActionSpace(["yes", "no"])}

    def reset(self) -> Observation:
        self.t = 0
        return self.shown()

    def act(self, actions: Mapping[str, Action]) -> Observation:
        self.t += 1
        return self.shown()

    def shown(self) -> Observation:
        return Observation(
            entities={"Clock": np.array([[self.t]], np.float32)},
            actions={"wait": CategoricalActionMask(actor_types=["Clock"])},
            reward=float(self.t > 0),
            done=self.t == LENGTH,
            metrics={"clock": self.t},
        )

    def get_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        self.t = state["t"]
        return self.shown()


def played(rows: ListEnv, steps: int) -> list[Any]:
    observations = [rows.reset()]
    for _ in range(steps):
        wait = np.zeros(len(rows), np.int64)
        observations.append(rows.act(chosen(rows, wait)))
    return observations


def chosen(rows: ListEnv, wait: Any) -> Any:
    from entity_env.batching.ragged import RaggedBufferI64

    counts = np.ones(len(rows), np.int64)
    return {"wait": RaggedBufferI64.from_flattened(wait[:, None], counts)}


def test_ages_are_spread_and_every_row_ends_by_itself_in_the_end() -> None:
    rows = ListEnv(lambda: StaggeredStart(Steps()), 400)
    seen = played(rows, 300)
    ages = seen[-1].features["Clock"].as_array()[:, 0]
    # Uniform on 0 .. 19: 20 rows of each age, with a deviation of 4.4.
    counts = np.bincount(ages.astype(int), minlength=LENGTH)
    assert counts.max() < 45
    assert counts.min() > 4
    natural = sum(obs.done & ~obs.truncated for obs in seen)
    assert natural.min() >= 1
    # After step 20 a row is cut off no more once it has ended by itself: ln(20) + 1 = 4 times, or
    # a few more where it took longer.
    cuts = sum(obs.truncated for obs in seen)
    assert 2 < cuts.mean() < 6
    late = sum(obs.truncated.sum() for obs in seen[200:])
    assert late < 20
    for obs in seen:
        marked = obs.metrics.get(STAGGERED, np.full(400, np.nan))
        np.testing.assert_array_equal(marked == 1, obs.truncated)


def test_without_it_all_rows_end_together() -> None:
    seen = played(ListEnv(Steps, 10), 60)
    assert [t for t, obs in enumerate(seen) if obs.done.any()] == [20, 40, 60]
    assert all(obs.done.all() == obs.done.any() for obs in seen)


def test_it_is_an_environment_and_its_state_goes_on_elsewhere() -> None:
    check_env(lambda: StaggeredStart(Steps()))
    rows = ListEnv(lambda: StaggeredStart(Steps()), 50, seed=3)
    played(rows, 7)
    state = rows.get_state()
    other = ListEnv(lambda: StaggeredStart(Steps()), 50)
    other.reset()
    other.set_state(state)
    wait = np.zeros(50, np.int64)
    for _ in range(40):
        one, two = (own.act(chosen(own, wait)) for own in (rows, other))
        np.testing.assert_array_equal(one.done, two.done)
        np.testing.assert_array_equal(one.truncated, two.truncated)
    with pytest.raises(StateError, match="StaggeredStart"):
        StaggeredStart(Steps()).set_state({"t": 1})
