"""Properties of every ``VecEnv``, for ``ListEnv`` and for ``ParallelEnv``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.broken import ragged
from support.tiny_envs import (
    Chain,
    Failing,
    Farm,
    assert_same_obs,
    chain_metrics,
    lists,
    obs_differ,
    row_seed,
)

from entity_env import (
    CategoricalActionMask,
    ListEnv,
    Observation,
    ParallelEnv,
    VecSelectEntityActionMask,
    errors,
)
from entity_env.play import random_policy

KINDS = ["list", 2]


def make_vec(kind, create_env, num_envs, seed=0):
    """A ``ListEnv``, or a ``ParallelEnv`` with ``kind`` workers."""
    if kind == "list":
        return ListEnv(create_env, num_envs, seed)
    return ParallelEnv(create_env, num_envs, kind, seed)


def play(env, steps, policy_seed=0, seed=None):
    """The observations of a reset and some random steps."""
    policy = random_policy(policy_seed)
    seen = [env.reset(seed)]
    for _ in range(steps):
        seen.append(env.act(policy(seen[-1])))
    return seen


def drive(env, steps):
    """Reset a vector of chains and take some steps."""
    env.reset()
    for _ in range(steps):
        env.act(go(len(env)))


def assert_same_runs(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert_same_obs(a, b)


def go(rows):
    """An action for rows of ``Chain``."""
    return {"Go": ragged([0] * rows, [1] * rows)}


# One seed, one result.


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_give_the_same_results_as_the_list(processes):
    with ListEnv(Farm, 5, seed=3) as env:
        expected = play(env, 25)
    with ParallelEnv(Farm, 5, processes, seed=3) as env:
        assert_same_runs(play(env, 25), expected)


def test_the_run_of_the_farm_has_every_kind_of_frame():
    """Without this the comparison above could pass for want of anything to compare."""
    with ListEnv(Farm, 5, seed=3) as env:
        seen = play(env, 25)
    eat = [obs.action_masks["Eat"] for obs in seen]
    assert all(isinstance(mask, VecSelectEntityActionMask) for mask in eat)
    assert {mask.mask is None for mask in eat} == {True, False}
    assert any(obs.final is not None for obs in seen)
    assert any(obs.final is not None and len(obs.final) > 1 for obs in seen)
    assert any((obs.done & ~obs.truncated).any() for obs in seen)
    assert any("Food" in obs.visible for obs in seen)
    assert any(obs.final is not None and "Food" in obs.final.visible for obs in seen)
    names = {name.partition(".")[0] for obs in seen for name in obs.metrics}
    assert names == {"eaten", "episodic_reward", "episodic_length"}
    for name in ("Animal", "Food", "Rock"):
        assert any((obs.features[name].size1() == 0).any() for obs in seen)
    assert any((obs.action_masks["Weather"].actors.size1() == 0).any() for obs in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_reset_with_a_seed_restarts_the_random_numbers_and_without_goes_on(kind):
    with make_vec(kind, Farm, 3, seed=3) as env:
        first = play(env, 10)
        again = env.reset()
        repeated = play(env, 10, seed=3)
        other = env.reset(seed=5)
    assert obs_differ(first[0], again)
    assert obs_differ(first[0], other)
    assert_same_runs(first, repeated)
    with make_vec(kind, Farm, 3, seed=5) as env:
        assert_same_obs(env.reset(), other)


def test_row_i_is_seeded_with_the_ith_spawned_stream():
    seeds = []

    class Noting(Chain):
        def seed(self, seed):
            seeds.append(seed)

    with ListEnv(Noting, 3, seed=8):
        pass
    spawned = np.random.SeedSequence(8).spawn(3)
    assert seeds == [int(stream.generate_state(1)[0]) for stream in spawned]
    assert seeds == [row_seed(8, row) for row in range(3)]


# Ends of episodes.


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_done_resets_itself_in_the_same_step(kind):
    # A chain of 3: rewards 1, 2, 3 and again; the step that ends shows the next episode's first.
    with make_vec(kind, lambda: Chain(3), 3) as env:
        obs = env.reset()
        assert obs.reward.tolist() == [0.0] * 3
        seen = [env.act(go(3)) for _ in range(6)]
    assert [obs.reward[0] for obs in seen] == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    assert [bool(obs.done[0]) for obs in seen] == [False, False, True] * 2
    assert [lists(obs.features["Walker"])[0] for obs in seen] == [[[1]], [[2]], [[0]]] * 2
    assert all(lists(obs.action_masks["Go"].actors) == [[[0]]] * 3 for obs in seen)
    assert not any(obs.truncated.any() for obs in seen)
    assert all(obs.final is None for obs in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_those_of_the_episodes_that_ended(kind):
    with make_vec(kind, lambda: Chain(3), 3) as env:
        env.reset()
        seen = [env.act(go(3)) for _ in range(3)]
    assert seen[0].metrics == seen[1].metrics == {}
    assert {name: column.tolist() for name, column in seen[2].metrics.items()} == {
        name: [value] * 3 for name, value in chain_metrics(3).items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_rows_leave_their_final_observation(kind):
    with make_vec(kind, lambda: Chain(2, truncates=True), 3) as env:
        env.reset()
        first, second = env.act(go(3)), env.act(go(3))
    assert first.final is None
    assert second.truncated.tolist() == second.done.tolist() == [True] * 3
    assert lists(second.features["Walker"]) == [[[0]]] * 3
    assert lists(second.final.features["Walker"]) == [[[2]]] * 3
    assert second.final.reward.tolist() == [2.0] * 3
    # Nobody acts in a finished episode.
    assert lists(second.final.action_masks["Go"].actors) == [[]] * 3


def test_rows_end_on_their_own():
    # Lengths 2, 3, 4; the rows of length 2 and 4 are truncated: both end in step 4.
    made = iter([Chain(2, truncates=True), Chain(3), Chain(4, truncates=True)])
    with ListEnv(lambda: next(made), 3) as env:
        env.reset()
        seen = [env.act(go(3)) for _ in range(4)]
    assert [obs.done.tolist() for obs in seen] == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
        [True, False, True],
    ]
    assert [obs.truncated.tolist() for obs in seen] == [
        [False, False, False],
        [True, False, False],
        [False, False, False],
        [True, False, True],
    ]
    assert [None if o.final is None else lists(o.final.features["Walker"]) for o in seen] == [
        None,
        [[[2]]],
        None,
        [[[2]], [[4]]],
    ]
    # 1 + 2 = 3 in row 0, 1 + 2 + 3 + 4 = 10 in row 2, nothing in row 1.
    reward = seen[3].metrics["episodic_reward"]
    assert reward.dtype == np.float64
    np.testing.assert_array_equal(reward, [3.0, np.nan, 10.0])
    assert [lists(obs.features["Walker"]) for obs in seen[2:]] == [
        [[[1]], [[0]], [[3]]],
        [[[0]], [[1]], [[0]]],
    ]


@pytest.mark.parametrize("kind", ["list", 2])
def test_a_first_observation_that_is_done_is_refused(kind):
    class Over(Chain):
        def _observe(self):
            return Observation(done=True)

    with (
        make_vec(kind, Over, 2) as env,
        pytest.raises(errors.ObservationError, match=r"(?s)environment 0, step 0.*reset returned"),
    ):
        env.reset()


@pytest.mark.parametrize("kind", ["list", 2])
def test_the_reward_of_a_first_observation_is_not_counted(kind):
    class Gift(Chain):
        def reset(self):
            self.time = 0
            return Observation(
                features={"Walker": [[0]]},
                actions={"Go": CategoricalActionMask(actor_types=["Walker"])},
                reward=100.0,
            )

    with make_vec(kind, lambda: Gift(2), 2) as env:
        assert env.reset().reward.tolist() == [0.0, 0.0]
        env.act(go(2))
        assert env.act(go(2)).metrics["episodic_reward"].tolist() == [3.0, 3.0]


# Saved states.


@pytest.mark.parametrize(("kind", "other"), [("list", "list"), (2, 3)])
def test_a_saved_state_continues_identically_in_any_vec_env(kind, other):
    with make_vec(kind, Farm, 4, seed=3) as env:
        before = play(env, 7)
        state = env.get_state()
        text = json.dumps(state)
        policy = random_policy(1)
        after = [env.act(policy(before[-1]))]
        for _ in range(15):
            after.append(env.act(policy(after[-1])))
    assert json.dumps(state) == text, "a saved state must not change while the game goes on"
    with make_vec(other, Farm, 4, seed=99) as env:
        env.reset()
        policy = random_policy(1)
        restored = env.set_state(json.loads(text))
        assert lists(restored.features["Animal"]) == lists(before[-1].features["Animal"])
        assert restored.reward.tolist() == [0.0] * 4
        assert not restored.done.any()
        continued = [env.act(policy(restored))]
        for _ in range(15):
            continued.append(env.act(policy(continued[-1])))
        assert env.has_state()
    assert_same_runs(continued, after)
    assert any(obs.done.any() for obs in after)


def test_a_saved_state_remembers_the_running_episode():
    # Two steps with rewards 1 and 2 before the save, one with 3 after it: 6 in 3 steps.
    class Saving(Chain):
        def get_state(self):
            return {"time": self.time}

        def set_state(self, state):
            self.time = state["time"]
            return self._observe()

    with ListEnv(Saving, 1) as env:
        env.reset()
        env.act(go(1))
        env.act(go(1))
        state = env.get_state()
    with ListEnv(Saving, 1) as env:
        env.set_state(state)  # no reset needed before it
        obs = env.act(go(1))
    assert {name: column.tolist() for name, column in obs.metrics.items()} == {
        name: [value] for name, value in chain_metrics(3).items()
    }


@pytest.mark.parametrize("kind", ["list", 2])
def test_an_environment_without_state_says_so(kind):
    with make_vec(kind, Chain, 2) as env:
        assert not env.has_state()
        env.reset()
        with pytest.raises(errors.StateError, match="Chain does not save its state"):
            env.get_state()


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: {},
        lambda state: None,
        lambda state: state[:1],
        lambda state: [None, *state[1:]],
        lambda state: [{**state[0], "rng": {"bit_generator": "MT19937"}}, *state[1:]],
        lambda state: [{**state[0], "episode": {}}, *state[1:]],
        lambda state: [{**state[0], "step": "many"}, *state[1:]],
        lambda state: [{k: v for k, v in state[0].items() if k != "env"}, *state[1:]],
    ],
)
def test_a_damaged_state_is_refused(damage):
    with ListEnv(Farm, 2) as env:
        env.reset()
        state = env.get_state()
        with pytest.raises(errors.StateError, match="saved state"):
            env.set_state(damage(state))


# Pictures, spaces, closing.


@pytest.mark.parametrize("kind", KINDS)
def test_render_returns_one_picture_a_row(kind):
    with make_vec(kind, Farm, 3) as env:
        env.reset()
        pictures = env.render(size=4)
    assert [picture.shape for picture in pictures] == [(4, 4, 3)] * 3
    assert all(picture.dtype == np.uint8 for picture in pictures)


@pytest.mark.parametrize("kind", ["list", 2])
def test_an_environment_that_does_not_draw_says_so(kind):
    with make_vec(kind, Chain, 2) as env:
        env.reset()
        with pytest.raises(errors.EnvironmentFailedError, match="Chain has no render method"):
            env.render()


@pytest.mark.parametrize("kind", ["list", 2])
def test_close_twice_is_fine_and_calls_after_it_say_closed(kind):
    env = make_vec(kind, Farm, 2)
    env.reset()
    env.close()
    env.close()
    for call in (env.reset, env.get_state, env.render):
        with pytest.raises(errors.ClosedError):
            call()
    with pytest.raises(errors.ClosedError):
        env.act({})
    with pytest.raises(errors.ClosedError):
        env.set_state([])


@pytest.mark.parametrize("kind", ["list", 2])
def test_act_before_reset_says_so(kind):
    with make_vec(kind, Chain, 2) as env, pytest.raises(errors.ResetNeededError):
        env.act(go(2))


@pytest.mark.parametrize("kind", ["list", 2])
def test_refused_actions_change_nothing(kind):
    with make_vec(kind, lambda: Chain(4), 2) as env:
        env.reset()
        env.act(go(2))
        for bad in ({"Go": ragged([0, 2], [1, 1])}, {"Go": ragged([0], [1])}, {}, {"Gone": None}):
            with pytest.raises(errors.EntityEnvError):
                env.act(bad)
        obs = env.act(go(2))
    assert obs.reward.tolist() == [2.0, 2.0]


# Failures: one class, one place, in both.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 2])
def test_an_environment_that_raises_is_named_with_its_step_and_traceback(kind, step):
    with (
        make_vec(kind, lambda: Failing("raise", row=1, at=step), 3) as env,
        pytest.raises(errors.EnvironmentFailedError) as caught,
    ):
        drive(env, 2)
    error = caught.value
    assert error.where == f"environment 1, step {step}"
    call = "reset" if step == 0 else "act"
    assert error.what == f"the environment raised RuntimeError in {call}: the tiny motor broke"
    assert "Traceback (most recent call last)" in str(error)
    assert 'raise RuntimeError("the tiny motor broke")' in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("bad", errors.FeatureError, "'Walker', row 0: feature 'time' is not finite"),
        (
            "object",
            errors.ObservationError,
            "the observation, as reset, act or set_state returns it, is not an Observation",
        ),
    ],
)
def test_a_bad_observation_is_named_with_its_row_and_step(kind, how, error, words):
    with (
        make_vec(kind, lambda: Failing(how, row=2, at=1), 3) as env,
        pytest.raises(errors.EntityEnvError) as caught,
    ):
        drive(env, 1)
    assert type(caught.value) is error
    assert caught.value.where == "environment 2, step 1, act"
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", ["list", 2])
def test_an_error_of_our_own_in_an_environment_keeps_its_class(kind):
    class Particular(Chain):
        def act(self, actions):
            raise errors.ActionError("no such lever", expected="one of 3", received=4)

    with (
        make_vec(kind, Particular, 2) as env,
        pytest.raises(errors.ActionError, match="no such lever") as caught,
    ):
        drive(env, 1)
    assert caught.value.where == "environment 0, step 1, act"
    assert (caught.value.expected, caught.value.received) == ("one of 3", "4")


def test_a_row_with_wider_features_than_the_first_row_is_refused():
    class Wide(Chain):
        def _observe(self):
            return Observation(features={"Walker": [[0, 0]]})

    made = iter([Chain(), Wide()])
    with (
        ListEnv(lambda: next(made), 2) as env,
        pytest.raises(errors.FeatureError, match=r"^environment 1, step 0, reset"),
    ):
        env.reset()


def test_one_environment_cannot_be_two_rows():
    one = Chain()
    with pytest.raises(errors.ObservationError, match="create_env made environment 0 again"):
        ListEnv(lambda: one, 2)
