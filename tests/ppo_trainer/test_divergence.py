"""A network whose numbers are no longer finite is called so, and its run can be gone on with."""

import importlib
import math
import shlex
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from support.trainer_envs import SavedForaging
from support.trainer_runs import checkpoints, metrics, network, resuming, run_named, small_config

from entity_env.errors import NonFiniteError
from ppo_trainer import CheckpointConfig, EvalConfig, OptimConfig, train
from ppo_trainer.environments import Game
from ppo_trainer.evaluation.comparison import evaluate
from ragged_net.actors import Pairs
from ragged_net.heads.select_entity import SelectDist

TRAIN = importlib.import_module("ppo_trainer.loop")


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


def poison(value, names=("",)):
    """An update that is followed by ``value`` in the parameters whose name holds one of these."""
    real = TRAIN.update

    def update(algorithm, net, *rest):
        result = real(algorithm, net, *rest)
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                if any(part in name for part in names):
                    parameter.fill_(value)
        return result

    return update


def assert_can_go_on(config, run, env=SavedForaging):
    """All checkpoints to resume from are finite, and the last of them is good to go on with."""
    assert checkpoints(run)
    for folder in checkpoints(run):
        assert all(p.isfinite().all() for p in load_file(folder / "model.safetensors").values())
    resumed = train(resuming(config, run), env=env)
    assert resumed.steps == 144
    assert [record["update"] for record in metrics(run)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("every", [1, 1000], ids=["save", "collect"])
@pytest.mark.parametrize("value", [math.nan, 1e30])
def test_a_network_that_diverges_is_called_so_and_never_blamed_on_the_environment(
    config, monkeypatch, value, every
):
    config = replace(config, checkpoint=CheckpointConfig(every=every))
    config, run = run_named(config, "diverged")
    monkeypatch.setattr(TRAIN, "update", poison(value))
    with pytest.raises(NonFiniteError) as caught:
        train(config, env=SavedForaging)
    saved_huge = every == 1 and math.isfinite(value)  # huge numbers pass as parameters
    assert ("parameter" in caught.value.what) == (every == 1 and not saved_huge)
    assert f" -m ppo_trainer resume={shlex.quote(str(run))} optim.lr=" in caught.value.hint
    # The network had diverged before the error was noticed, so that its state is not saved.
    assert str(checkpoints(run)[-1]) in caught.value.hint
    monkeypatch.undo()
    if not saved_huge:
        assert_can_go_on(config, run)


@pytest.mark.parametrize(("part", "processes"), [("heads.0", 0), ("heads.1", 2), ("value_head", 0)])
def test_one_head_that_diverges_is_enough(config, monkeypatch, part, processes):
    config = replace(
        config,
        rollout=replace(config.rollout, processes=processes),
        checkpoint=CheckpointConfig(every=1000),
    )
    monkeypatch.setattr(TRAIN, "update", poison(math.nan, [part]))
    with pytest.raises(NonFiniteError, match="the network's output is not finite") as caught:
        train(config, env=SavedForaging)
    action = {"heads.0": "Move", "heads.1": "Pick", "value_head": "value"}[part]
    assert caught.value.received == action


@pytest.mark.parametrize(("lr", "value_net"), [(1e5, False), (1e12, True), (1e30, False)])
def test_a_learning_rate_that_is_far_too_high(config, lr, value_net):
    config, run = run_named(replace(config, optim=OptimConfig(lr=lr), value_net=value_net), "hot")
    with pytest.raises(NonFiniteError) as caught:
        train(config, env=SavedForaging)
    assert f"resume={shlex.quote(str(run))} optim.lr=" in str(caught.value)
    assert_can_go_on(replace(config, optim=OptimConfig(lr=1e-3)), run)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("part", ["heads.0", "heads.1", "value_head"])
def test_an_evaluation_of_a_diverged_network_says_so(config, part, greedy):
    net = network(SavedForaging(), config)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if part in name:
                parameter.fill_(math.nan)
    with pytest.raises(NonFiniteError, match="the network's output is not finite"):
        evaluate(net, Game(SavedForaging, {}), config, 6, greedy=greedy)


def test_divergence_that_an_evaluation_notices_first_ends_the_run_in_the_same_way(
    config, monkeypatch
):
    class Local(SavedForaging):
        """A class that no command can import."""

    config = replace(config, eval=EvalConfig(episodes=0, every=1))
    config, run = run_named(config, "diverged")
    monkeypatch.setattr(TRAIN, "update", poison(math.nan))
    with pytest.raises(NonFiniteError, match="output is not finite") as caught:
        train(config, env=Local)
    resume = f"from ppo_trainer import resume; resume({str(run)!r}, env=Local, optim=...)"
    assert resume in caught.value.hint


def test_an_actor_that_diverges_alone_selects_an_entity_of_its_own_frame():
    """An index out of range would end a CUDA device for good; another frame's would blame it."""
    # Frame 0: one actor, actees 3 and 5. Frame 1: one actor, actees 0, 1 and 2.
    pairs = Pairs(
        actor=torch.tensor([0, 0, 1, 1, 1]),
        actee=torch.arange(5),
        entity=torch.tensor([3, 5, 0, 1, 2]),
        frame_offsets=torch.tensor([0, 2, 5]),
        actor_offsets=torch.tensor([0, 1, 2]),
        actee_offsets=torch.tensor([0, 2, 5]),
        num_actors=2,
        mask=None,
    )
    nan, half, never = math.nan, math.log(0.5), -math.inf
    for greedy in (False, True):
        first = SelectDist(torch.tensor([nan, nan, never, half, half]), pairs)
        second = SelectDist(torch.tensor([never, 0.0, nan, nan, nan]), pairs)
        for _ in range(20):
            picked = first.draw(greedy=greedy).tolist()
            assert picked[0] == 0
            assert picked[1] in ({3} if greedy else {3, 4})
            assert second.draw(greedy=greedy).tolist() == [1, 2]
        assert first.log_prob(torch.tensor(picked)).isnan().tolist() == [True, False]
