"""Code written for Entity Gym runs with ``entity_env.compat`` in the place of its imports."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.broken import ragged
from support.tiny_envs import Chain, Farm

from entity_env import errors
from entity_env.compat import (
    AddMetricsWrapper,
    Agent,
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    CliRunner,
    Entity,
    Environment,
    EnvList,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Metric,
    Observation,
    ObsSpace,
    ParallelEnvList,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    ValidatingEnv,
    VecCategoricalActionMask,
    VecObs,
    VecSelectEntityActionMask,
    action_index_to_actions,
    batch_obs,
)
from entity_env.compat import VecEnv as OldVecEnv


@dataclasses.dataclass
class Basket(Environment):
    """A hand takes fruits one by one; the fruits come after it in the frame."""

    fruits: int = 4
    step: int = 0

    def obs_space(self):
        return ObsSpace(["step"], {"Hand": Entity([]), "Fruit": Entity(["worth", "size"])})

    def action_space(self):
        return {"Take": SelectEntityActionSpace(), "Say": GlobalCategoricalActionSpace(["a", "b"])}

    def reset(self):
        self.left = {("fruit", i): float(i) for i in range(self.fruits)}
        self.step = 0
        return self.observe(0.0)

    def act(self, actions):
        assert actions["Take"].actors == ["hand"]
        self.step += 1
        return self.observe(self.left.pop(actions["Take"].actees[0]))

    def observe(self, reward):
        worth = [[value, 7.0] for value in self.left.values()]
        return Observation(
            global_features=[self.step],
            entities={
                "Hand": (np.zeros((1, 0), np.float32), ["hand"]),
                "Fruit": (worth, list(self.left)),
            },
            actions={
                # The dearest fruit first.
                "Take": SelectEntityActionMask(actor_ids=["hand"], actee_ids=list(self.left)[::-1]),
                "Say": GlobalCategoricalActionMask(mask=np.array([[True, True]])),
            },
            reward=reward,
            done=len(self.left) == 1,
            metrics={"left": len(self.left)},
        )


def take(*positions):
    each = RaggedBufferI64.from_array(np.array(positions, np.int64).reshape(-1, 1, 1))
    says = RaggedBufferI64.from_array(np.zeros((len(positions), 1, 1), np.int64))
    return {"Take": each, "Say": says}


def parallel(create_env, num_envs):
    return ParallelEnvList(create_env, num_envs, 2)


@pytest.mark.parametrize("kind", [EnvList, parallel])
def test_selected_entities_are_positions_among_the_actees(kind):
    envs = kind(Basket, 2)
    space = envs.obs_space()
    obs = envs.reset(space)
    assert obs.action_masks["Take"].actees.as_array()[:, 0].tolist() == [4, 3, 2, 1] * 2
    assert obs.features["__global__"].as_array().tolist() == [[0.0], [0.0]]
    obs = envs.act(take(0, 3), space)  # worth 3, and 0
    assert obs.reward.tolist() == [3.0, 0.0]
    assert obs.features["__global__"].as_array().tolist() == [[1.0], [1.0]]
    obs = envs.act(take(1, 0), space)  # 2, 1, 0 and 3, 2, 1 are left
    assert obs.reward.tolist() == [1.0, 3.0]
    assert obs.metrics == {}
    obs = envs.act(take(0, 0), space)
    assert (obs.reward.tolist(), obs.done.tolist()) == ([2.0, 2.0], [True, True])
    # 4 (the reset), 3, 2 and 1 in each.
    assert obs.metrics == {"left": Metric(count=8, sum=20.0, min=1.0, max=4.0)}
    assert obs.metrics["left"].mean == 2.5
    assert (len(envs), envs.has_global_entity()) == (2, True)
    envs.close()


@pytest.mark.parametrize("position", [-1, 4])
def test_a_position_that_there_is_not_is_an_error(position):
    envs = EnvList(Basket, 2)
    envs.reset(envs.obs_space())
    with pytest.raises(errors.ActionIndexError, match="position from 0 to 3") as caught:
        envs.act(take(0, position), envs.obs_space())
    assert caught.value.where == "environment 1"
    with pytest.raises(errors.EntityEnvError):
        envs.act({"Take": [0]}, envs.obs_space())


def test_a_smaller_space_leaves_out_what_is_not_in_it():
    envs = EnvList(Basket, 2)
    part = ObsSpace(entities={"Hand": Entity([]), "Fruit": Entity(["size"])})
    obs = envs.reset(part)
    assert obs.features["Fruit"].as_array().tolist() == [[7.0]] * 8
    assert envs.act(take(0, 3), part).reward.tolist() == [3.0, 0.0]
    with pytest.raises(errors.SettingError, match="the space differs"):
        envs.act(take(0, 0), envs.obs_space())
    assert envs.reset(envs.obs_space()).features["Fruit"].size2() == 2
    env = Basket()
    assert env.reset_filter(part).features["Fruit"] == [[7.0]] * 4
    assert env.reset_filter(env.obs_space()).features["Fruit"][1] == [1.0, 7.0]


def test_rows_of_ten_processes_act_as_many_as_those_of_one():
    runs = []
    for make in (EnvList, parallel):
        envs = make(Basket, 10)
        obs = [envs.reset(envs.obs_space())]
        obs += [envs.act(take(*[0] * 10), envs.obs_space()) for _ in range(4)]
        runs.append([(o.reward.tolist(), o.features["Fruit"].as_array().tolist()) for o in obs])
        envs.close()
    assert runs[0] == runs[1]


def test_metrics_are_added_under_the_names_of_then():
    envs = AddMetricsWrapper(EnvList(Basket, 2), filter=np.array([True, False]))
    space = envs.obs_space()
    envs.reset(space)
    obs = envs.act(take(0, 0), space)
    assert obs.metrics["reward"] == Metric(2, 6.0, 3.0, 3.0)
    assert obs.metrics["step"] == Metric(2, 4.0, 2.0, 2.0)  # the reset counts as one
    assert obs.metrics["episodic_reward"] == Metric()
    assert obs.metrics["episodic_reward"].mean == 0.0
    envs.act(take(0, 0), space)
    obs = envs.act(take(0, 0), space)
    assert obs.metrics["episodic_reward"] == Metric(1, 6.0, 6.0, 6.0)
    assert obs.metrics["episode_length"] == Metric(1, 4.0, 4.0, 4.0)
    with pytest.raises(errors.SettingError, match="needs a VecEnv"):
        AddMetricsWrapper(Basket())


def test_rows_of_ones_own_have_these_methods():
    class Mine(OldVecEnv):
        inner = EnvList(Basket, 3)

        def obs_space(self):
            return self.inner.obs_space()

        def action_space(self):
            return self.inner.action_space()

        def reset(self, obs_config):
            return self.inner.reset(obs_config)

        def act(self, actions, obs_filter):
            return self.inner.act(actions, obs_filter)

        def render(self, **kwargs):
            return self.inner.render(**kwargs)

        def __len__(self):
            return 3

    envs = AddMetricsWrapper(Mine())
    assert len(envs.reset(envs.obs_space()).reward) == 3
    assert envs.env.has_global_entity()


def test_validating_environments_say_what_is_wrong_with_an_observation():
    class Odd(Basket):
        def observe(self, reward):
            observation = super().observe(reward)
            observation.ids["Hand"] = ["hand", "foot"]
            return observation

    assert ValidatingEnv(Basket()).reset().num_entities("Fruit") == 4
    with pytest.raises(errors.IdError, match="1 entity and 2 ids"):
        ValidatingEnv(Odd()).reset()
    envs = EnvList(lambda: ValidatingEnv(Basket()), 2)
    envs.reset(envs.obs_space())
    assert envs.act(take(0, 3), envs.obs_space()).reward.tolist() == [3.0, 0.0]


# Observations and batches.

SPACE = ObsSpace(entities={"A": Entity(["x"]), "B": Entity(["x", "y"]), "C": Entity([])})


def test_observations_count_and_number_their_entities():
    observation = Observation(
        features={"A": [[1.0], [2.0]], "B": np.zeros((1, 2))},
        ids={"B": ["b"]},
        reward=0.0,
        done=False,
    )
    assert [observation.num_entities(name) for name in "ABC"] == [2, 1, 0]
    assert observation.index_to_id(SPACE) == [None, None, "b"]
    assert observation.id_to_index(SPACE) == {"b": 2}
    empty = Observation.empty()
    assert (empty.actions, empty.done, empty.reward, empty.index_to_id(SPACE)) == (
        {},
        False,
        0.0,
        [],
    )


def test_types_that_are_absent_in_a_frame_have_rows_without_entities():
    frames = [
        Observation(features={"A": [[1.0], [2.0]]}, metrics={"m": 1.0}),
        Observation(features={"A": [[3.0]]}),
        Observation(features={"B": [[1.0, 2.0]] * 3}, metrics={"m": 4.0}),
    ]
    obs = batch_obs(frames, SPACE, {})
    assert obs.features["A"].size1().tolist() == [2, 1, 0]
    assert obs.features["B"].size1().tolist() == [0, 0, 3]
    assert "__global__" not in obs.features
    assert obs.metrics == {"m": Metric(2, 5.0, 1.0, 4.0)}


def test_actions_that_are_absent_in_a_frame_have_rows_without_actors():
    actions = {
        "Go": CategoricalActionSpace(["left", "right"]),
        "Wave": SelectEntityActionSpace(),
        "Say": GlobalCategoricalActionSpace(["a", "b", "c"]),
    }
    ids = {"A": ["a0", "a1"], "B": ["b"]}
    whole = {"features": {"A": [[1.0], [2.0]], "B": [[1.0, 2.0]]}, "ids": ids}
    mask = np.array([[True, False]])
    frames = [
        Observation(**whole, actions={"Go": CategoricalActionMask(["b", "a0"])}),
        Observation(**whole, actions={"Go": CategoricalActionMask(["a1"], mask=mask)}),
        Observation(
            **whole,
            actions={
                "Wave": SelectEntityActionMask(actor_ids=["b"], actee_ids=["a1", "a0"]),
                "Say": GlobalCategoricalActionMask(),
            },
        ),
    ]
    obs = batch_obs(frames, SPACE, actions)
    assert obs.action_masks["Go"].actors.size1().tolist() == [2, 1, 0]
    assert obs.action_masks["Go"].mask.as_array().tolist() == [[True] * 2] * 2 + [[True, False]]
    assert obs.action_masks["Wave"].actors.as_array().tolist() == [[2]]
    assert obs.action_masks["Wave"].actees.size1().tolist() == [0, 0, 2]
    assert obs.action_masks["Say"].actors.as_array().tolist() == [[3]]
    assert obs.features["__global__"].size1().tolist() == [1, 1, 1]

    received = action_index_to_actions(
        SPACE,
        actions,
        {"Wave": ragged([0], [0, 0, 1]), "Say": ragged([2], [0, 0, 1])},
        frames[2],
        2,
        probs={"Wave": np.array([[0.75, 0.25]]), "Say": np.array([[0.0, 0.5, 0.5]])},
    )
    assert received == {
        "Wave": SelectEntityAction(["b"], ["a1"]),
        "Say": GlobalCategoricalAction(2, "c"),
    }
    assert received["Say"].probs.tolist() == [0.0, 0.5, 0.5]
    assert received["Wave"].probs.tolist() == [[0.75, 0.25]]


def buffer(kind, width, lengths, value=1):
    flat = np.full((sum(lengths), width), value)
    dtype = {RaggedBufferF32: np.float32, RaggedBufferI64: np.int64, RaggedBufferBool: np.bool_}[
        kind
    ]
    return kind.from_flattened(flat.astype(dtype), np.array(lengths))


def part(features, visible, masks, metrics=None):
    """A batch of three frames."""
    zeros = np.zeros(3, np.float32)
    return VecObs(
        features=features,
        action_masks=masks,
        reward=zeros,
        done=zeros > 0,
        metrics=metrics or {},
        visible=visible,
    )


def test_batches_are_extended_by_what_only_one_of_them_has():
    go = VecCategoricalActionMask(
        buffer(RaggedBufferI64, 1, [1, 2, 0]), buffer(RaggedBufferBool, 2, [1, 2, 0], 0)
    )
    more = VecCategoricalActionMask(buffer(RaggedBufferI64, 1, [0, 0, 3]), None)
    wave = VecSelectEntityActionMask(
        buffer(RaggedBufferI64, 1, [1, 0, 1]), buffer(RaggedBufferI64, 1, [2, 0, 1])
    )
    first = part(
        {"A": buffer(RaggedBufferF32, 1, [1, 2, 0])},
        {"A": buffer(RaggedBufferBool, 1, [1, 2, 0], 0)},
        {"Go": go},
        {"m": Metric(1, 2.0, 2.0, 2.0)},
    )
    second = part(
        {"A": buffer(RaggedBufferF32, 1, [0, 1, 0]), "B": buffer(RaggedBufferF32, 2, [2, 0, 0])},
        {},
        {"Go": more, "Wave": wave},
        {"m": Metric(1, 4.0, 4.0, 4.0), "n": Metric()},
    )
    first.extend(second)
    assert first.features["A"].size1().tolist() == [1, 2, 0, 0, 1, 0]
    assert first.features["B"].size1().tolist() == [0, 0, 0, 2, 0, 0]
    assert first.visible["A"].as_array()[:, 0].tolist() == [False] * 3 + [True]
    assert first.action_masks["Go"].actors.size1().tolist() == [1, 2, 0, 0, 0, 3]
    assert first.action_masks["Go"].mask.as_array().tolist() == [[False] * 2] * 3 + [[True] * 2] * 3
    assert first.action_masks["Wave"].actees.size1().tolist() == [0, 0, 0, 2, 0, 1]
    assert first.metrics["m"] == Metric(2, 6.0, 2.0, 4.0)
    assert len(first.reward) == len(first.done) == 6
    # The other way round a mask begins that was not there.
    second.extend(first)
    assert second.action_masks["Go"].mask.as_array().tolist() == (
        [[True] * 2] * 3 + [[False] * 2] * 3 + [[True] * 2] * 3
    )
    assert second.action_masks["Go"][np.array([2, 4])].actors.size1().tolist() == [3, 2]
    second.action_masks["Go"].clear()
    assert second.action_masks["Go"].actors.size0() == 0


def test_a_batch_of_rows_can_be_extended_while_they_go_on():
    envs = EnvList(Basket, 2)
    space = envs.obs_space()
    obs = envs.reset(space)
    obs.extend(envs.reset(space))
    assert envs.act(take(3, 0), space).reward.tolist() == [0.0, 3.0]
    assert obs.action_masks["Take"].actees.size1().tolist() == [4] * 4


def test_environments_of_this_library_run_in_the_rows_of_then():
    for create, names in ((Farm, {"Animal", "Food", "Rock", "__global__"}), (Chain, {"Walker"})):
        envs = EnvList(create, 3)
        obs = envs.reset(envs.obs_space())
        assert {name: own.size0() for name, own in obs.features.items()} == dict.fromkeys(names, 3)


# The terminal.


class Cheapest(Agent):
    """Takes the cheapest fruit, rather surely."""

    def act(self, obs):
        count = obs.num_entities("Fruit")
        probs = np.full((1, count), 0.1 / max(count - 1, 1), np.float32)
        probs[0, -1] = 0.9
        cheapest = obs.ids["Fruit"][0]
        say = GlobalCategoricalAction(1, "b", np.array([0.25, 0.75]))
        return {"Take": SelectEntityAction(["hand"], [cheapest], probs), "Say": say}, 4.5


@pytest.fixture
def types(monkeypatch):
    def answer(*lines):
        given = iter(lines)
        monkeypatch.setattr("builtins.input", lambda prompt="": next(given))

    return answer


def test_an_episode_is_played_in_the_terminal(types, capsys):
    types("", "", "", "", "", "")
    runner = CliRunner(Basket(), Cheapest())
    runner.run()
    out = capsys.readouterr().out
    assert "the agent expects a return of 4.5" in out
    assert "75" in out  # the probability of b
    assert "episode 1 is over after 3 steps" in out
    assert "return  3" in out  # 0, 1 and 2
    types("4", "a", "3", "b", "2", "a")
    CliRunner(Basket()).run()
    types("", "", "", "", "", "", "n")
    runner.run(restart=True)


def test_an_agent_that_leaves_out_an_actor_is_named(types):
    class Idle(Agent):
        def act(self, obs):
            return {"Take": SelectEntityAction([], [])}, 0.0

    types("", "")
    with pytest.raises(errors.ActorError, match="left out an actor of action 'Take'"):
        CliRunner(Basket(), Idle()).run()


def test_a_categorical_action_is_read_by_actor():
    class Walk(Environment):
        def obs_space(self):
            return ObsSpace(entities={"A": Entity(["x"])})

        def action_space(self):
            return {"Go": CategoricalActionSpace(["left", "right"])}

        def reset(self):
            return self.observe(False)

        def act(self, actions):
            self.got = actions["Go"]
            return self.observe(True)

        def observe(self, done):
            go = CategoricalActionMask(actor_ids=["q", "p"])
            return Observation(
                features={"A": [[0.0], [1.0]]},
                ids={"A": ["p", "q"]},
                actions={"Go": go},
                reward=0.0,
                done=done,
            )

    class Fixed(Agent):
        def act(self, obs):
            return {"Go": CategoricalAction(["p", "q"], np.array([1, 0]), ["left", "right"])}, 0.0

    env = Walk()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("builtins.input", lambda prompt="": "")
        CliRunner(env, Fixed()).run()
    assert env.got == CategoricalAction(["q", "p"], np.array([0, 1]), ["left", "right"])
