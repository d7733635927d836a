"""Gymnasium environments as environments: what each space becomes, and what goes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402

from entity_env import (  # noqa: E402
    Discrete,
    GlobalCategoricalAction,
    GlobalContinuousAction,
    GlobalContinuousActionMask,
    GlobalContinuousActionSpace,
    ListEnv,
    RaggedBufferI64,
    check_env,
)
from entity_env.batching.frame_reader import FrameReader  # noqa: E402
from entity_env.errors import (  # noqa: E402
    ActionError,
    MaskError,
    MissingPackageError,
    ObservationError,
    ResetNeededError,
    SettingError,
    SpaceError,
    UnknownEnvironmentError,
)
from entity_env.interop import GymnasiumEnv  # noqa: E402
from entity_env.registry import make, resolve  # noqa: E402

ROOT = Path(__file__).parents[2]


class Told(gymnasium.Env):
    """Shows what it is told to, and notes what it is asked."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, observation_space=None, action_space=None, shows=(), infos=(), ends=()):
        box = spaces.Box(-1, 1, (2,))
        self.observation_space = box if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.shows, self.infos, self.ends = list(shows), list(infos), list(ends)
        self.seeds, self.actions, self.closed = [], [], 0
        self.render_mode = None

    def show(self):
        shown = self.shows.pop(0) if self.shows else self.observation_space.sample()
        return shown, self.infos.pop(0) if self.infos else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        return self.show()

    def step(self, action):
        self.actions.append(action)
        observation, info = self.show()
        reward, terminated, truncated = self.ends.pop(0) if self.ends else (0.0, False, False)
        return observation, reward, terminated, truncated, info

    def close(self):
        self.closed += 1


def translated(space, shown):
    """The spaces' feature names, and the checked frame of one observation."""
    env = GymnasiumEnv(Told(space, shows=[shown]))
    obs_space = env.obs_space()
    frame = FrameReader(obs_space, env.action_space()).read(env.reset())
    rows = {name: values.tolist() for name, values in frame.features.items()}
    return obs_space, frame.global_features.tolist(), rows


def pick(*indices, names=None):
    names = names or (["action"] if len(indices) == 1 else [f"action[{i}]" for i in range(9)])
    return {
        name: GlobalCategoricalAction(i, str(i)) for name, i in zip(names, indices, strict=False)
    }


@pytest.mark.parametrize(
    ("space", "shown", "features", "values"),
    [
        (spaces.Box(-5, 5, ()), np.float32(2), ["obs"], [2]),
        (spaces.Box(-5, 5, (2,)), np.array([1.5, -2]), ["obs[0]", "obs[1]"], [1.5, -2]),
        (
            spaces.Box(0, 255, (2, 2), np.uint8),
            np.array([[1, 2], [3, 255]], np.uint8),
            ["obs[0,0]", "obs[0,1]", "obs[1,0]", "obs[1,1]"],
            [1, 2, 3, 255],
        ),
        (spaces.Discrete(4), 3, [Discrete("obs", 4)], [3]),
        (spaces.Discrete(4, start=-2), np.int64(1), [Discrete("obs", 4)], [3]),
        (
            spaces.MultiDiscrete([2, 5], start=[10, 1]),
            np.array([11, 4]),
            [Discrete("obs[0]", 2), Discrete("obs[1]", 5)],
            [1, 3],
        ),
        (
            spaces.MultiBinary((1, 2)),
            np.array([[1, 0]], np.int8),
            [Discrete("obs[0,0]", 2), Discrete("obs[0,1]", 2)],
            [1, 0],
        ),
        (
            spaces.Dict(
                {
                    "arm": spaces.Dict({"angle": spaces.Box(-1, 1, ()), "on": spaces.Discrete(2)}),
                    "pos": spaces.Box(-9, 9, (2,)),
                }
            ),
            {"pos": [7, 8], "arm": {"on": 1, "angle": -0.5}},
            ["arm/angle", Discrete("arm/on", 2), "pos[0]", "pos[1]"],
            [-0.5, 1, 7, 8],
        ),
        (
            spaces.Tuple([spaces.Discrete(3), spaces.Dict({"a": spaces.Box(-9, 9, (1,))})]),
            (2, {"a": [4]}),
            [Discrete("obs/0", 3), "obs/1/a[0]"],
            [2, 4],
        ),
    ],
)
def test_what_has_a_fixed_size_becomes_global_features(space, shown, features, values):
    obs_space, global_features, rows = translated(space, shown)
    assert list(obs_space.global_features) == features
    assert global_features == values
    assert rows == {}


ITEM = spaces.Dict({"kind": spaces.Discrete(3, start=1), "pos": spaces.Box(-9, 9, (2,))})


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_sequence_becomes_entities(stack, count):
    space = spaces.Dict({"hp": spaces.Box(0, 9, ()), "items": spaces.Sequence(ITEM, stack=stack)})
    kinds, positions = [1, 3, 2][:count], [[0, 1], [2, 3], [4, 5]][:count]
    items = tuple({"kind": k, "pos": np.array(p)} for k, p in zip(kinds, positions, strict=True))
    if stack:
        items = {"kind": np.array(kinds), "pos": np.array(positions).reshape(count, 2)}
    obs_space, global_features, rows = translated(space, {"hp": 5, "items": items})
    assert list(obs_space.global_features) == ["hp"]
    assert global_features == [5]
    features = (Discrete("kind", 3), "pos[0]", "pos[1]")
    assert obs_space.entities["items"].features == features
    # Kinds are counted from 0.
    assert rows == {"items": [[0, 0, 1], [2, 2, 3], [1, 4, 5]][:count]}


@pytest.mark.parametrize("stack", [False, True])
def test_elements_may_be_numbers_and_tuples(stack):
    obs_space, _, rows = translated(
        spaces.Sequence(spaces.Discrete(4), stack=stack), np.array([3, 0]) if stack else (3, 0)
    )
    assert obs_space.entities["obs"].features == (Discrete("value", 4),)
    assert rows == {"obs": [[3], [0]]}
    pair = spaces.Tuple([spaces.Box(0, 9, (1,)), spaces.MultiBinary(2)])
    shown = ([[5.0], [6.0]], [[0, 1], [1, 1]]) if stack else (([5.0], [0, 1]), ([6.0], [1, 1]))
    obs_space, _, rows = translated(spaces.Sequence(pair, stack=stack), shown)
    assert obs_space.entities["obs"].names == ("value/0[0]", "value/1[0]", "value/1[1]")
    assert rows == {"obs": [[5, 0, 1], [6, 1, 1]]}


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), ["'obs' of the observation is a Text", "Box, Discrete", "docs/wrap.md"]),
        (spaces.Graph(spaces.Box(0, 1, (1,)), None), ["is a Graph", "ObservationWrapper"]),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Text(5)})}), ["'a/b' of the obs", "is a Text"]),
        (spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]), ["is a OneOf"]),
        (
            spaces.Dict({"units": spaces.Sequence(spaces.Sequence(spaces.Discrete(2)))}),
            ["'units' of the observation has elements whose 'value' is a Sequence"],
        ),
        (
            spaces.Sequence(spaces.Dict({"bag": spaces.Sequence(spaces.Box(0, 1, (1,)))})),
            ["'obs' of the observation has elements whose 'bag' is a Sequence"],
        ),
        (spaces.Sequence(spaces.Text(3)), ["elements whose 'value' is a Text"]),
        (spaces.Sequence(spaces.Dict({})), ["has elements without numbers"]),
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), ["a Box of 100,800 numbers"]),
        (
            spaces.Dict(
                {"a": spaces.Dict({"b": spaces.Box(0, 1, ())}), "a/b": spaces.Box(0, 1, ())}
            ),
            ["'a/b' is given twice"],
        ),
    ],
)
def test_what_is_no_list_of_features_is_named(space, words):
    with pytest.raises(SpaceError) as caught:
        GymnasiumEnv(Told(space))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("space", "shown", "words"),
    [
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}, ["'a' is missing", "does not fit"]),
        (spaces.Tuple([spaces.Discrete(2)]), (), ["does not fit"]),
        (spaces.Sequence(spaces.Box(0, 1, (2,))), ([1, 2], [3]), ["does not fit"]),
        (spaces.Sequence(spaces.Discrete(2)), 5, ["does not fit"]),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(space, shown, words):
    env = GymnasiumEnv(Told(space, shows=[shown]))
    with pytest.raises(ObservationError) as caught:
        env.reset()
    for word in words:
        assert word in str(caught.value)


def test_observations_are_copies():
    shared = np.array([1.0, 2.0], np.float32)
    env = GymnasiumEnv(Told(shows=[shared]))
    seen = env.reset()
    shared += 5
    assert list(seen.global_features) == [1, 2]


def test_a_mask_counts_for_one_step():
    space = spaces.MultiDiscrete([2, 3])
    env = GymnasiumEnv(Told(action_space=space, infos=[{"action_mask": [0, 1, 1, 0, 1]}]))
    seen = env.reset()
    FrameReader(env.obs_space(), env.action_space()).read(seen)
    assert [mask.mask.tolist() for mask in seen.actions.values()] == [[0, 1], [1, 0, 1]]
    again = env.act(pick(1, 0))
    assert all(mask.mask is None for mask in again.actions.values())  # no mask allows everything


def test_a_mask_may_come_with_the_observation():
    space = spaces.Dict(
        {"observation": spaces.Box(0, 9, (1,)), "action_mask": spaces.MultiBinary(2)}
    )
    env = GymnasiumEnv(Told(space, shows=[{"observation": [7], "action_mask": [0, 1]}]))
    assert env.obs_space().global_names == ("obs[0]",)
    seen = env.reset()
    assert list(seen.global_features) == [7]
    assert seen.actions["action"].mask.tolist() == [0, 1]


def test_a_mask_that_forbids_everything_is_refused_unless_the_episode_is_over():
    def told():
        return Told(
            infos=[{}, {"action_mask": [0, 0]}, {"action_mask": [0, 0]}],
            ends=[(0.0, True, False), (0.0, False, False)],
        )

    with ListEnv(lambda: GymnasiumEnv(told()), 1) as rows:
        rows.reset()
        one = RaggedBufferI64.from_flattened(np.array([[0]]), np.array([1]))
        with pytest.raises(MaskError, match="environment 0"):
            rows.act({"action": one})  # over: its mask is not read, but the next reset's is


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(1, 1, (1,)), ["space of 'action'", "number 0", "low < high"]),
        (spaces.Box(0, 1, (0,)), ["space of 'action'", "has no numbers"]),
        (spaces.Text(3), ["is a Text", "gymnasium.ActionWrapper"]),
        (
            spaces.Dict({"arm": spaces.Tuple([spaces.Discrete(2), spaces.Text(3)])}),
            ["of 'arm/1' is a Text", "Box, Discrete, MultiDiscrete or MultiBinary"],
        ),
    ],
)
def test_other_actions_are_refused(space, words):
    with pytest.raises(SpaceError) as caught:
        GymnasiumEnv(Told(action_space=space))
    for word in words:
        assert word in str(caught.value)


def test_a_box_is_one_continuous_action_and_comes_back_in_its_own_shape():
    low, high = np.array([[-1], [2]]), np.array([[1], [3]])
    told = Told(action_space=spaces.Box(low, high, dtype=np.float64))
    env = GymnasiumEnv(told)
    assert env.action_space() == {"action": GlobalContinuousActionSpace([-1, 2], [1, 3])}
    assert env.reset().actions == {"action": GlobalContinuousActionMask()}
    env.act({"action": GlobalContinuousAction(np.array([0.5, 2.5], np.float32))})
    assert told.actions[-1].dtype == np.float64
    assert told.actions[-1].tolist() == [[0.5], [2.5]]
    with pytest.raises(ActionError, match="GlobalContinuousAction"):
        env.act({"action": GlobalCategoricalAction(0, "0")})


def test_boxes_stand_beside_choices_and_whole_numbers_are_rounded():
    parts = {"gear": spaces.Discrete(3), "pedal": spaces.Box(0, 9, (2,), np.int32)}
    told = Told(action_space=spaces.Dict(parts), infos=[{"action_mask": np.array([0, 1, 1])}])
    env = GymnasiumEnv(told)
    seen = env.reset()
    assert set(seen.actions) == {"gear", "pedal"}
    env.act(
        {
            "gear": GlobalCategoricalAction(2, "2"),
            "pedal": GlobalContinuousAction(np.array([2.6, 9.0], np.float32)),
        }
    )
    assert told.actions[-1]["gear"] == 2
    assert told.actions[-1]["pedal"].tolist() == [3, 9]


def test_what_is_done_without_bounds_is_said():
    low, high = np.array([[-np.inf, 0, 0], [np.inf, np.inf, 1]], np.float32)
    box = spaces.Box(low, high)
    with pytest.warns(UserWarning, match="2 of 3 numbers have no bound.*not clipped"):
        env = GymnasiumEnv(Told(action_space=box))
    assert env.action_space() == {
        "action": GlobalContinuousActionSpace([None, 0, 0], [None, None, 1])
    }


@pytest.mark.parametrize("bins", [5, 3])
def test_numbers_can_also_be_lists_of_choices(bins):
    env = gymnasium.make("Pendulum-v1")
    wrapped = gymnasium.wrappers.DiscretizeAction(env, bins=bins, multidiscrete=True)
    adapted = GymnasiumEnv(wrapped)
    assert len(adapted.action_space()["action[0]"]) == bins
    adapted.reset()
    adapted.act(pick(bins - 1, names=["action[0]"]))


@pytest.mark.parametrize(
    ("terminated", "truncated", "done", "cut_off"),
    [
        (False, False, False, False),
        (True, False, True, False),
        (False, True, True, True),
        (True, True, True, False),
        (np.bool_(False), np.bool_(True), True, True),
    ],
)
def test_the_end_of_an_episode(terminated, truncated, done, cut_off):
    env = GymnasiumEnv(Told(ends=[(2.5, terminated, truncated)]))
    assert not env.reset().done
    seen = env.act(pick(0))
    assert (seen.done, seen.truncated, seen.reward) == (done, cut_off, 2.5)
    assert seen.metrics == {}
    assert bool(seen.actions) is not done


def test_seeds_go_to_the_next_reset_only():
    inner = Told(ends=[(0.0, True, False)])
    env = GymnasiumEnv(inner)
    env.reset()
    env.seed(7)
    env.reset()
    env.act(pick(0))
    env.reset()
    assert inner.seeds == [None, 7, None]
    assert env.rng.random() == np.random.default_rng(7).random()


def test_steps_need_an_episode():
    env = GymnasiumEnv(Told(ends=[(0.0, True, False)]))
    with pytest.raises(ResetNeededError):
        env.act(pick(0))
    env.reset()
    env.act(pick(0))
    with pytest.raises(ResetNeededError):
        env.act(pick(0))


def test_closing_twice_closes_once():
    inner = Told()
    env = GymnasiumEnv(inner)
    env.close()
    env.close()
    assert inner.closed == 1


def test_pictures_need_their_render_mode():
    with pytest.raises(NotImplementedError):
        GymnasiumEnv(Told()).render()
    inner = Told()
    inner.render_mode = "rgb_array"
    inner.render = lambda: np.full((2, 3, 3), 9, np.uint8)
    assert GymnasiumEnv(inner).render().tolist() == [[[9] * 3] * 3] * 2

    def undrawable():
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed")

    inner.render = undrawable
    with pytest.raises(MissingPackageError, match="pygame"):
        GymnasiumEnv(inner).render()


@pytest.mark.parametrize(
    ("name", "kwargs", "error", "words"),
    [
        ("CartPol-v1", {}, UnknownEnvironmentError, ["Did you mean: `CartPole`"]),
        ("CartPole-v9", {}, UnknownEnvironmentError, ["v1"]),
        ("Cart Pole", {}, UnknownEnvironmentError, ["Cart Pole"]),
        ("no_such_pkg:Env-v0", {}, UnknownEnvironmentError, ["no_such_pkg"]),
        ("CartPole-v1", {"sutons": 1}, SettingError, ["sutons"]),
        ("CartPole-v1", {"ignor": "x"}, SettingError, ["ignor", "did you mean 'ignore'?"]),
        (None, {}, SettingError, ["env.env=CartPole-v1"]),
        (3, {}, SettingError, ["3"]),
        (dict, {}, SettingError, ["gymnasium.Env"]),
        (Told(), {"size": 3}, SettingError, ["arguments are given"]),
    ],
)
def test_wrong_names_and_settings(name, kwargs, error, words):
    with pytest.raises(error) as caught:
        GymnasiumEnv(name, **kwargs)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("how", "words"),
    [("reset", "(observation, info)"), ("step", "five values"), ("info", "info is not a dict")],
)
def test_an_environment_of_the_old_kind_is_refused(how, words):
    inner = Told()
    if how == "reset":
        inner.reset = lambda **_: np.zeros(2)
    elif how == "step":
        inner.step = lambda _: (np.zeros(2), 0.0, False, {})
    else:
        inner.step = lambda _: (np.zeros(2), 0.0, False, False, None)
    env = GymnasiumEnv(inner)

    def play():
        env.reset()
        env.act(pick(0))

    with pytest.raises(ObservationError) as caught:
        play()
    assert words in str(caught.value)


def test_an_action_that_is_left_out_is_named():
    env = GymnasiumEnv(Told(action_space=spaces.MultiDiscrete([2, 2])))
    env.reset()
    with pytest.raises(ActionError, match=r"action\[1\]"):
        env.act(pick(0, names=["action[0]"]))


def test_settings_reach_the_environment():
    env = GymnasiumEnv("FrozenLake-v1", is_slippery=False, map_name="8x8")
    assert env.obs_space().global_features == (Discrete("obs", 64),)
    assert make("entity_env.interop.GymnasiumEnv", env="CartPole-v1", sutton_barto_reward=True)


@pytest.mark.parametrize("name", ["CartPole-v1", "Taxi-v4"])
def test_check_env_is_silent(name):
    check_env(lambda: GymnasiumEnv(name), episodes=1)


def test_check_env_is_silent_on_lists():
    class Random(Told):
        def show(self):
            kinds = self.np_random.integers(0, 3)
            items = [{"kind": 1 + i, "pos": self.np_random.random(2)} for i in range(kinds)]
            return tuple(items), {}

    check_env(lambda: GymnasiumEnv(Random(spaces.Sequence(ITEM))), episodes=1)


def test_cartpole_steps_as_gymnasium_does():
    direct = gymnasium.make("CartPole-v1")
    env = GymnasiumEnv("CartPole-v1")
    env.seed(3)
    seen = env.reset()
    expected, _ = direct.reset(seed=3)
    for step in range(30):
        np.testing.assert_array_equal(seen.global_features, expected)
        if seen.done:
            break
        seen = env.act(pick(step % 2))
        expected, reward, terminated, _, _ = direct.step(step % 2)
        assert (seen.reward, seen.done) == (reward, terminated)


@pytest.mark.parametrize("package", ["gymnasium", "pettingzoo"])
def test_a_missing_package_is_named(package, monkeypatch):
    names = {"gymnasium": "EntityVectorEnv", "pettingzoo": "PettingZooGame"}
    for module in list(sys.modules):
        if module.startswith("entity_env.interop.") or module.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError) as caught:
        resolve(f"entity_env.interop.{names[package]}")
    install = {"gymnasium": "pip install gymnasium", "pettingzoo": '"ragged-rl[pettingzoo]"'}
    assert install[package] in str(caught.value)


def test_nothing_of_it_is_loaded_before_it_is_used():
    program = (
        "import sys, entity_env, entity_env.interop;"
        "assert not {'gymnasium', 'pettingzoo'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_unknown_names_of_the_package():
    from entity_env import interop

    with pytest.raises(AttributeError, match="GymEnv"):
        _ = interop.GymEnv


def test_any_gymnasium_environment_trains_with_a_recipe(tmp_path):
    pytest.importorskip("torch")
    from ppo_trainer import recipe, train

    small = [
        "total_timesteps=64",
        "rollout.num_envs=4",
        "rollout.steps=8",
        "ppo.minibatch_size=32",
        "net.dim=32",
        "net.layers=1",
        "eval.episodes=4",
        "device=cpu",
        f"run_dir={tmp_path}",
    ]
    done = train(recipe("gymnasium", *small, "env.env=CartPole-v1", "run_name=it"))
    assert done.steps == 64
    assert (tmp_path / "it" / "evaluation.json").exists()


def test_a_typo_on_the_command_line_is_explained(tmp_path, capsys):
    pytest.importorskip("torch")
    from ppo_trainer import TrainConfig, train
    from ppo_trainer.machine.commands import run_main

    env = {"_target_": "entity_env.interop.GymnasiumEnv", "env": "CartPol-v1"}
    with pytest.raises(SystemExit):
        run_main(lambda: train(TrainConfig(env=env, run_dir=str(tmp_path), device="cpu")))
    assert "Did you mean: `CartPole`" in capsys.readouterr().err
