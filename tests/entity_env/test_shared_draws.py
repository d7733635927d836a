"""Groups of rows that draw the same random numbers in the same step."""

from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.tiny_envs import assert_same_obs

from entity_env import (
    AsyncEnv,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
    ParallelEnv,
    RaggedBufferI64,
    SeatRows,
)
from entity_env.errors import SettingError
from entity_env.wrappers import TimeLimit, VecWrapper
from entity_env.wrappers.staggered_start import staggered


class Queue(Environment):
    """Customers come at random; serving one draws how long it takes. Ends at random, too."""

    choices: ClassVar[list[str]] = ["wait", "serve"]

    def obs_space(self):
        return ObsSpace(entities={"Desk": Entity(["came", "took", "first"])})

    def action_space(self):
        return {"Serve": CategoricalActionSpace(self.choices)}

    def reset(self):
        self.first, self.steps = float(self.rng.random()), 0
        return self.seen(0.0, 0.0, False)

    def act(self, actions):
        self.steps += 1
        came = float(self.rng.random())
        serves = actions["Serve"].indices[0] == 1
        took = float(sum(self.rng.random(3))) if serves else 0.0
        return self.seen(came, took, self.steps == (3 if serves else 4))

    def seen(self, came, took, done):
        return Observation(
            features={"Desk": [[came, took, self.first]]},
            actions={"Serve": CategoricalActionMask(actor_types=["Desk"])},
            reward=came,
            done=done,
        )


def choose(choices):
    return {"Serve": RaggedBufferI64.from_array(np.reshape(choices, (-1, 1, 1)))}


MADE = {
    "ListEnv": lambda: ListEnv(Queue, 6, seed=4),
    "ParallelEnv": lambda: ParallelEnv(Queue, 6, 2, seed=4),  # the second group in both workers
    "VecWrapper": lambda: VecWrapper(ListEnv(lambda: TimeLimit(Queue(), 9), 6, seed=4)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_group_has_the_same_luck_whatever_its_rows_choose(make):
    with make() as rows:
        rows.share_draws(2)
        first = rows.reset().features["Desk"].as_array()[:, 2]
        assert first[::2].tolist() == first[1::2].tolist()
        assert len(set(first.tolist())) == 3
        seen = []
        for choices in ([0, 1, 1, 1, 0, 0], [1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 1, 0]):
            obs = rows.act(choose(choices))
            seen.append(obs.reward.tolist())
            assert obs.reward[::2].tolist() == obs.reward[1::2].tolist()
        assert len({reward for step in seen for reward in step}) == 9
        # Rows 2 and 3 have begun an episode in the same step.
        assert obs.done.tolist() == [False, True, True, True, True, False]
        now = obs.features["Desk"].as_array()[:, 2]
        assert now[2] == now[3] not in first


def test_a_seed_and_a_state_repeat_it():
    def played(rows, first):
        return [first, *(rows.act(choose([i % 2, 1, 0, i % 2])) for i in range(6))]

    one, other = ListEnv(Queue, 4, seed=1), ListEnv(Queue, 4, seed=2)
    for rows in (one, other):
        rows.share_draws(4)
    for seen, again in zip(played(one, one.reset(7)), played(other, other.reset(7)), strict=True):
        assert_same_obs(seen, again)


class Endless(Queue):
    """A queue without an end."""

    def seen(self, came, took, done):
        return super().seen(came, took, False)


def test_rows_stay_staggered():
    """Wrappers are not seeded in each step, which would cut off half of all steps."""
    rows = ListEnv(partial(staggered, Endless), 8, seed=1)
    rows.share_draws(4)
    rows.reset()
    cuts = np.array([rows.act(choose([0] * 8)).truncated for _ in range(40)])
    assert 1 <= cuts[:, 0].sum() <= 10  # about ln(40) = 3.7
    assert (cuts[:, :4] == cuts[:, :1]).all()
    assert (cuts[:, 0] != cuts[:, 4]).any()


def test_rows_that_cannot_share_say_so():
    with pytest.raises(SettingError, match="groups of 4"):
        ListEnv(Queue, 6).share_draws(4)
    with pytest.raises(SettingError, match="a game for one player"):
        SeatRows(TicTacToe, 4).share_draws(2)
    with pytest.raises(SettingError, match="number of copies"):
        ListEnv(Queue, 6).share_draws(0)
    with AsyncEnv(Queue, 2, 1, 1) as rows, pytest.raises(SettingError, match="AsyncEnv cannot"):
        rows.share_draws(2)
