"""``algorithm=search``: its loss by hand, what it learns, and a resume bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from support.trainer_runs import small_config

from entity_env import (
    Discrete,
    Entity,
    Environment,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityActionSpace,
    batch_obs,
)
from entity_env.errors import SettingError, SpaceError
from ppo_trainer import OptimConfig, PPOConfig, RolloutConfig, SearchConfig, resume, train
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.algorithms.search import SearchTeaching, mirror_places, with_mirrored
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.imitate import main
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.folder import RunFolder
from ragged_net import (
    ActionOutput,
    EntityBatch,
    NetConfig,
    NetOutput,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)


class Line(Environment):
    """Three steps on a line: the first one to the left pays 0.1, three to the right 1."""

    def obs_space(self):
        return ObsSpace(global_features=["at", "left"])

    def action_space(self):
        return {"Go": GlobalCategoricalActionSpace(["left", "right"])}

    def reset(self):
        return self.set_state([0, 3])

    def act(self, actions):
        right = actions["Go"].index
        reward = 0.1 if self.left == 3 and not right else 0.0
        shown = self.set_state([self.at + 2 * right - 1, self.left - 1])
        shown.reward = 1.0 if self.at == 3 else reward
        if not self.left:
            shown.done, shown.actions = True, {}
        return shown

    def get_state(self):
        return [self.at, self.left]

    def set_state(self, state):
        self.at, self.left = state
        actions = {"Go": GlobalCategoricalActionMask()}
        return Observation(global_features=[self.at, self.left], actions=actions)


def searching(**changes):
    """Settings of a small run that learns from a search."""
    values = {
        "algorithm": "search",
        "search": SearchConfig(visits=8),
        "ppo": PPOConfig(epochs=4, minibatch_size=48, gamma=1.0, value_coef=2.0),
        "rollout": RolloutConfig(num_envs=16, steps=3, stagger=False),
        "optim": OptimConfig(lr=1e-2, schedule="constant"),
    }
    return small_config(**{**values, **changes})


def test_the_loss_by_hand():
    # Two frames with one actor of three choices; the first one was searched.
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    frames = RaggedTensor.from_lengths(torch.zeros(2, dtype=torch.int64), [1, 1])
    old = frames.with_values(torch.zeros(2))
    wanted = torch.tensor([0.0, 0.5, 0.5, 0.0, 0.0, 0.0])
    part = Rollout(
        EntityBatch({}, torch.zeros(2, 0)),
        {"Go": frames},
        {"Go": old},
        torch.zeros(2),
        torch.tensor([1.0, 0.0]),
        torch.tensor([1.0, 3.0]),
        targets={"Go": RaggedTensor.from_lengths(wanted, [3, 3])},
    )
    action = ActionOutput(frames, torch.zeros(2), torch.zeros(2), probs)
    output = NetOutput({"Go": action}, torch.tensor([0.0, 1.0]))
    teaching = SearchTeaching(PPOConfig())
    scale = teaching.scale(part)
    assert scale == Scale(frames=2, policy=1.0)
    losses = teaching.losses(output, part, scale, None)
    # -(log 0.3 + log 0.2) / 2 = 1.4067; without the entropy log 2 of the target 0.7136.
    assert float(losses["loss/policy"]) == pytest.approx(1.40670, abs=1e-4)
    assert float(losses["policy/kl"]) == pytest.approx(0.71356, abs=1e-4)
    # (1 + 4) / 2 / 2 frames.
    assert float(losses["loss/value"]) == pytest.approx(1.25)
    assert float(teaching.losses(output, part, scale, torch.tensor(2.0))["loss/value"]) == (
        pytest.approx(0.3125)
    )


def test_it_learns_what_a_search_finds(tmp_path):
    config = searching(total_timesteps=16 * 3 * 12, run_dir=str(tmp_path))
    result = train(config, env=Line)
    assert result.means["episodic_reward"] > 0.85


def test_a_fixed_teacher_without_a_network(tmp_path):
    own = SearchConfig(visits=20, teacher="none", play_on="random")
    net = train(searching(total_timesteps=48 * 8, run_dir=str(tmp_path), search=own), env=Line).net
    line = Line()
    shown = batch_obs([line.reset()], line.obs_space(), line.action_space())
    with torch.no_grad():
        probs = net(EntityBatch.from_obs(shown)).actions["Go"].probs
    # Random play pays 1/4 after the right and 0.1 after the left, from where nothing more comes.
    assert isinstance(probs, torch.Tensor)
    assert float(probs[0, 1]) > 0.55


def test_the_teacher_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = {"_target_": "tic_tac_toe"}
    train(small_config(env=board, total_timesteps=24, run_dir="runs", run_name="first"))
    small = "rollout.num_envs=8 rollout.steps=4 ppo.minibatch_size=16 net.dim=16 net.layers=1 "
    small += "net.heads=2 eval.episodes=0 env=tic_tac_toe total_timesteps=32 search.visits=2"
    teacher = ["--teacher", "search", *small.split()]
    main([*teacher, "search.teacher=runs/first", "run_name=second"])
    assert (tmp_path / "runs" / "second").exists()
    for wrong in ([], ["search.teacher=none", "games"]):
        with pytest.raises(SystemExit):
            main([*teacher, *wrong])
    with pytest.raises(SpaceError, match=r"search.teacher"):
        main([*teacher, "search.teacher=runs/first", "env=xor"])


@pytest.mark.parametrize("env", ["tic_tac_toe", Line])
def test_a_run_resumes_bit_for_bit(tmp_path, env):
    where = {"env": {"_target_": env}} if isinstance(env, str) else {}
    given = {} if isinstance(env, str) else {"env": env}
    rollout = RolloutConfig(num_envs=6, steps=4, stagger=False)
    config = searching(
        rollout=rollout, search=SearchConfig(visits=3, share=0.5), total_timesteps=24 * 4,
        run_dir=str(tmp_path), run_name="whole", ppo=PPOConfig(epochs=2, minibatch_size=12),
        **where,
    )  # fmt: skip
    train(config, **given)
    half = replace(config, run_name="half")
    train(half, **given, stop=lambda updates: updates == 2)
    resume(tmp_path / "half", **given)
    whole, parts = (latest_checkpoint(RunFolder(tmp_path / name)) for name in ("whole", "half"))
    for file in ("model", "optimizers", "pending"):
        assert (whole / f"{file}.safetensors").exists() == (file != "pending" or given == {})
        if file != "pending" or not given:
            own, other = (load_file(one / f"{file}.safetensors") for one in (whole, parts))
            assert set(own) == set(other)
            assert all(torch.equal(own[name], other[name]) for name in own)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": RolloutConfig(num_envs=4, steps=6, processes=2)}, "rollout.processes=2"),
        ({"ppo": PPOConfig(baseline="group")}, "ppo.baseline=group"),
        ({"search": SearchConfig(visits=0)}, "search.visits is out of range"),
        ({"search": SearchConfig(share=1.5)}, "search.share is out of range"),
    ],
)
def test_settings_that_do_not_fit(changes, message):
    with pytest.raises(SettingError, match=message):
        searching(**changes)


def test_mirrored_decisions_are_learned_beside_those_that_were_made():
    space = ObsSpace(entities={"Stone": Entity(["weight", "x"])})
    net = RaggedNet(space, {"Lift": SelectEntityActionSpace()}, NetConfig(dim=4, layers=1, heads=1))
    stones = RaggedTensor.from_lengths(torch.tensor([[5.0, 0.0], [6.0, 3.0], [7.0, 1.0]]), [2, 1])
    lift = SelectActors(
        actors=RaggedTensor.from_lengths(torch.tensor([0, 0]), [1, 1]),
        actees=RaggedTensor.from_lengths(torch.tensor([0, 1, 0]), [2, 1]),
    )
    rollout = Rollout(
        batch=EntityBatch({"Stone": stones}, torch.zeros(2, 0), actions={"Lift": lift}),
        chosen={"Lift": RaggedTensor.from_lengths(torch.tensor([1, 0]), [1, 1])},
        log_probs={"Lift": RaggedTensor.from_lengths(torch.tensor([-0.5, 0.0]), [1, 1])},
        values=torch.tensor([0.1, 0.2]),
        advantages=torch.tensor([1.0, 0.0]),
        returns=torch.tensor([0.3, 0.4]),
        targets={"Lift": RaggedTensor.from_lengths(torch.tensor([0.25, 0.75, 0.0]), [2, 1])},
    )
    both = with_mirrored(rollout, net, {"Stone": {"x": 1.5}})
    # 2 * 1.5 - x; everything else is repeated.
    assert both.batch.entities["Stone"].values[:, 1].tolist() == [0, 3, 1, 3, 0, 2]
    assert both.batch.entities["Stone"].values[:, 0].tolist() == [5, 6, 7] * 2
    assert both.batch.actions["Lift"].actees.values.tolist() == [0, 1, 0] * 2
    assert both.chosen["Lift"].values.tolist() == [1, 0] * 2
    assert both.targets["Lift"].values.tolist() == [0.25, 0.75, 0.0] * 2
    assert both.returns.tolist() == pytest.approx([0.3, 0.4] * 2)
    assert stones.values[:, 1].tolist() == [0, 3, 1]  # the rollout stays as it is


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        ({"Columm": {"x": 0}}, r"search.mirror has an unknown entity type 'Columm'"),
        ({"Column": {"left": 0}}, "search.mirror: entity type 'Column' has no feature 'left'"),
        ({"Column": ["x"]}, "such as {Column: {x: 0}}"),
        ({"Column": {"x": "middle"}}, "Column.x"),
    ],
)
def test_a_mirror_that_no_entity_has_is_refused_before_the_training(tmp_path, mirror, words):
    with pytest.raises(SettingError, match=words):
        train(
            small_config(
                run_dir=str(tmp_path),
                env={"_target_": "connect_four"},
                algorithm="search",
                search=SearchConfig(visits=2, mirror=mirror),
            )
        )
    assert not list(tmp_path.rglob("metrics.jsonl"))


def test_values_with_a_number_each_cannot_be_mirrored():
    """Their mirrored numbers would be rows outside of the table of their vectors."""
    space = ObsSpace(entities={"Stone": Entity([Discrete("color", 3), "x"])})
    net = RaggedNet(space, {"Lift": SelectEntityActionSpace()}, NetConfig(dim=4, layers=1, heads=1))
    assert mirror_places(net, {"Stone": {"x": 1.5}}) == {"Stone": {1: 1.5}}
    with pytest.raises(SettingError, match=r"search.mirror: 'color' of 'Stone' is a discrete"):
        mirror_places(net, {"Stone": {"color": 0.0}})


def test_choices_with_a_meaning_of_their_own_cannot_be_mirrored():
    net = RaggedNet(Line().obs_space(), Line().action_space(), NetConfig(dim=4, layers=1, heads=1))
    with pytest.raises(SettingError, match=r"cannot mirror action 'Go'"):
        mirror_places(net, {})
