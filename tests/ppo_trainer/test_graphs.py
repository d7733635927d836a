"""Passes and gradient steps as graphs, with plain calls in the place of what a GPU repeats."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from ragged_envs.fill_order import FillOrder
from support.continuous_envs import Aim
from support.tiny_envs import Farm
from support.trainer_envs import Foraging
from support.trainer_runs import SMALL_NET, network, rollout_of, small_config
from torch.testing import assert_close

from entity_env import ListEnv
from entity_env.errors import DeviceError, NonFiniteError
from ppo_trainer import PPOConfig
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.acting import RowMemory, autocast
from ppo_trainer.experience.acting_graph import ActingGraphs
from ppo_trainer.experience.collect import Collector, collect
from ppo_trainer.experience.padding import carve, fill, padded_offsets, slack_frames
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.learner.step_graph import StepGraphs
from ppo_trainer.learner.update import update
from ppo_trainer.machine import graphs as module
from ppo_trainer.machine.device import has_bfloat16
from ppo_trainer.machine.graphs import MOST_LIVE, Graphs, Rooms, room_for
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, RaggedNet, RelativePosition, plain_torch
from ragged_net.observed import choices_for

CPU = torch.device("cpu")
GAMES = [Foraging, Farm, Aim, FillOrder]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Graphs are to be had, and the network runs in plain torch."""
    monkeypatch.setattr(module, "_has_graphs", lambda device: True)
    monkeypatch.setattr(module, "available", lambda device: True)
    with plain_torch():
        yield


class Plain:
    """Calls a function where a GPU would repeat it; as before a capture, it is called first."""

    def __init__(self):
        self.made = 0

    def __call__(self, action, device, generator):
        self.made += 1
        before = None if generator is None else generator.get_state()
        action()
        if generator is not None:
            generator.set_state(before)
        return action


def acting(net, frames, capture=None):
    graphs = ActingGraphs(Graphs(net), net, frames, "float32", capture or Plain())
    assert graphs.begin(CPU)
    return graphs


# ---------------------------------------------------------------------------------- by hand


def test_offsets_with_slack_by_hand():
    # 3 frames of 2, 0 and 1 rows in buffers of 4 frames: one more is empty, 2 are slack.
    offsets = np.array([0, 2, 2, 3])
    assert slack_frames(4) == 2
    assert padded_offsets("entities", offsets, 16, 4).tolist() == [0, 2, 2, 3, 3, 4, 16]
    assert padded_offsets("actees", offsets, 16, 4).tolist() == [0, 2, 2, 3, 3, 4, 16]
    assert padded_offsets("actors", offsets, 16, 4).tolist() == [0, 2, 2, 3, 3, 16, 16]
    assert padded_offsets("actors", np.array([0, 0]), 0, 4).tolist() == [0] * 7


def test_slack_is_spread_over_frames():
    # 24 frames of 4 have 5 frames of slack: 128 rows hold 32 of it, at most 32 in each of them.
    lengths = np.diff(padded_offsets("entities", np.arange(0, 97, 4), 128, 24))
    assert lengths[24:].tolist() == [1, 31, 0, 0, 0]
    assert lengths.sum() == 128


def test_room_is_for_two_more_and_an_eighth():
    assert [room_for(count) for count in (0, 1, 12, 13, 100)] == [0, 16, 16, 32, 128]


def test_what_slack_is_filled_with():
    assert fill(torch.zeros(2, 3)) == 0
    assert fill(torch.zeros(2, dtype=torch.int64)) == 0
    assert fill(torch.zeros(2, 3, dtype=torch.int64)) == -1
    assert fill(torch.zeros(2, 3, dtype=torch.bool)) == 1


def test_tensors_that_lie_in_one():
    fields = {
        ("a",): ((3,), torch.bool),
        ("b", "c"): ((2, 2), torch.int64),
        ("d",): ((0,), torch.float32),
    }
    memory, parts = carve(fields, CPU)
    parts["b", "c"][1, 0] = 7
    parts["a",][2] = True
    assert memory.nonzero().flatten().tolist() == [2, 256 + 16]
    assert parts["d",].shape == (0,)


def test_rooms_serve_what_fits_and_forget_what_is_used_least():
    rooms, made = Rooms(), []

    def find(*sizes, kind="a"):
        return rooms.find(kind, sizes, lambda own: made.append(own) or len(made) - 1)

    assert find(10, 0) == 0
    assert made == [(16, 0)]
    assert find(14, 0) == 0
    assert find(15, 0) == 1, "room for two more is needed"
    assert find(10, 1) == 2, "what is not there has no room"
    assert find(10, 0, kind="b") == 3
    assert find(100, 0) == 4
    assert len(rooms) == MOST_LIVE
    assert find(1000, 0) == 5, "buffers that are far too large are not taken"
    assert find(10, 0, kind="b") == 3
    assert find(14, 0) == 6, "it was used least"


def test_rooms_that_are_made_anew_all_the_time_are_noticed():
    rooms = Rooms()
    for count in range(4 * MOST_LIVE):
        assert not rooms.thrash
        rooms.find(count, (1,), lambda own: None)
    assert rooms.thrash
    for _ in range(12 * MOST_LIVE):
        rooms.find(count, (1,), lambda own: None)
    assert not rooms.thrash


# ------------------------------------------------------------------------------------ acting


@pytest.mark.parametrize("game", GAMES)
def test_a_padded_pass_says_the_same_of_the_frames_that_count(game):
    capture = Plain()
    with ListEnv(game, 5, seed=2) as env:
        torch.manual_seed(0)
        net = RaggedNet(env.obs_space(), env.action_space(), SMALL_NET)
        graphs, generator, obs = (
            acting(net, 7, capture),
            torch.Generator().manual_seed(3),
            env.reset(),
        )
        for _ in range(6):
            batch = EntityBatch.from_obs(obs)
            acted = graphs.act(batch, generator)
            given = {name: own.values for name, own in acted.chosen.items()}
            with torch.no_grad():
                expected = net(batch, given=given)
            assert_close(acted.output.value, expected.value)
            for name, own in expected.actions.items():
                found = acted.output.actions[name]
                assert_close(found.log_prob, own.log_prob)
                assert_close(found.entropy, own.entropy)
                assert torch.equal(found.chosen.values, own.chosen.values)
                assert torch.equal(found.chosen.offsets, own.chosen.offsets)
            same_frames(acted.batch, batch)
            obs = env.act(choices_for(obs, acted.chosen))
    assert graphs.graphs.refused is None
    assert 0 < capture.made <= 6


def same_frames(found, expected):
    for name, rows in expected.entities.items():
        assert torch.equal(found.entities[name].values, rows.values)
        assert torch.equal(found.entities[name].offsets, rows.offsets)
    assert found.visible.keys() == expected.visible.keys()
    assert all(torch.equal(found.visible[name], own) for name, own in expected.visible.items())
    assert torch.equal(found.global_features, expected.global_features)
    for name, action in expected.actions.items():
        assert torch.equal(found.actions[name].actors.values, action.actors.values)
        mask, same = getattr(action, "mask", None), getattr(found.actions[name], "mask", None)
        assert (mask is None) == (same is None)
        if mask is not None:
            values = (own if isinstance(own, torch.Tensor) else own.values for own in (mask, same))
            assert torch.equal(*values)


def test_choices_are_drawn_and_differ():
    with ListEnv(Foraging, 64, seed=2) as env:
        net = network(Foraging(), small_config())
        graphs, generator = acting(net, 64), torch.Generator().manual_seed(3)
        batch = EntityBatch.from_obs(env.reset())
        first, second, third = (
            graphs.act(batch, generator).chosen["Move"].values for _ in range(3)
        )
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    assert set(first.tolist()) == {0, 1, 2}


def test_a_rollout_in_graphs_holds_what_happened():
    """The same observations as without graphs where all choices are the same: there is one."""
    config = small_config()
    found = []
    for graphed in (False, True):
        net = network(Foraging(), config)
        with ListEnv(Foraging, 4, seed=1) as env:
            graphs = acting(net, 4) if graphed else None
            own = Collector(
                net, torch.Generator().manual_seed(1), RolloutBuffer(4, 6), RowMemory(net, 4),
                graphs=graphs,
            )  # fmt: skip
            (collected,) = collect([own], env, env.reset(), config, Stopwatch())
        decisions = collected.trajectories.decisions
        given = {name: own.values for name, own in decisions.chosen.items()}
        with torch.no_grad():
            output = net(decisions.batch, given=given)
        assert_close(output.value, decisions.values)
        for name, log_probs in decisions.log_probs.items():
            assert_close(output.actions[name].log_prob, log_probs.values)
        found.append(decisions.batch)
    same_frames(*found)


def test_a_network_that_has_diverged_is_noticed():
    net = network(Foraging(), small_config())
    next(net.heads[0].parameters()).data.fill_(float("nan"))
    with ListEnv(Foraging, 4, seed=2) as env, pytest.raises(NonFiniteError, match="Move"):
        acting(net, 4).act(EntityBatch.from_obs(env.reset()), torch.Generator())


# ---------------------------------------------------------------------------------- learning

SETTINGS = {
    "plain": {},
    "per frame": {"ratio": "per_frame", "clip_value": True},
    "as they are": {"normalize_advantages": False, "entropy_schedule": "linear"},
}


def learned(game, config, capture=None, updates=2):
    """The weights after some updates, and what was measured."""
    net = network(game(), config)
    optimizers, generator = make_optimizers(net, config), torch.Generator().manual_seed(5)
    graphs = None if capture is None else StepGraphs(Graphs(net), net, "float32", capture)
    measured = []
    for seed in range(updates):
        rollout = rollout_of(game, config, net, seed)
        algorithm, progress = PPO(config.ppo), seed / updates
        measured.append(
            update(
                algorithm,
                net,
                optimizers,
                rollout,
                config,
                progress,
                generator,
                Stopwatch(),
                graphs,
            )
        )
        net.update_statistics(rollout.batch)
    return net.state_dict(), measured, graphs


@pytest.mark.parametrize(
    ("game", "settings", "value_net"),
    [
        *((game, "plain", False) for game in GAMES),
        (Farm, "per frame", True),
        (Foraging, "per frame", False),
        (Farm, "as they are", True),
    ],
)
def test_gradient_steps_on_padded_minibatches_are_those_on_plain_ones(game, settings, value_net):
    config = small_config(ppo=PPOConfig(epochs=3, minibatch_size=12, **SETTINGS[settings]))
    config = replace(config, value_net=value_net)
    capture = Plain()
    weights, measured, graphs = learned(game, config, capture)
    expected, numbers, _ = learned(game, config)
    assert graphs.graphs.refused is None
    assert 0 < capture.made < 12
    for name, own in expected.items():
        assert_close(weights[name], own, rtol=1e-4, atol=1e-5, msg=name)
    for found, own in zip(measured, numbers, strict=True):
        assert found.keys() == own.keys()
        for name in own:
            assert found[name] == pytest.approx(own[name], rel=1e-3, abs=1e-5), name


def test_minibatches_of_another_size_and_micro_batches():
    # 24 frames in minibatches of at most 11: 8 each; with micro-batches there are no graphs.
    capture = Plain()
    learned(Foraging, small_config(ppo=PPOConfig(epochs=1, minibatch_size=11)), capture)
    assert capture.made > 0
    capture = Plain()
    ppo = PPOConfig(epochs=1, minibatch_size=12, microbatch_size=5)
    learned(Foraging, small_config(ppo=ppo), capture)
    assert capture.made == 0


# ---------------------------------------------------------------------- what is not captured


def hooked(net):
    net.heads[0].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("settings", "change", "reason"),
    [
        ({}, hooked, "modules have hooks"),
        ({"memory": "gru"}, None, "net.memory"),
        ({"attention": "grouped"}, None, "net.attention"),
        ({"dim": 512}, None, "wider than 128"),
        ({"relative_position": RelativePosition({"Robot": ["x"]}, kind="mlp")}, None, "kind"),
    ],
)
def test_what_keeps_a_network_from_being_captured_is_told_once(capsys, settings, change, reason):
    net = network(Foraging(), small_config(net=replace(SMALL_NET, **settings)))
    if change is not None:
        change(net)
    graphs, rooms = Graphs(net), Rooms()
    assert not graphs.begin(CPU, rooms)
    assert not graphs.begin(CPU, rooms)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("running without CUDA graphs, which is slower: ")
    assert reason in line


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("operation not permitted\nwhen capturing"),
            "RuntimeError: operation not permi",
        ),
        (torch.cuda.OutOfMemoryError("too much"), "lower ppo.minibatch_size"),
    ],
)
def test_a_capture_that_fails_changes_nothing_but_the_speed(capsys, error, reason):
    def fails(action, device, generator):
        raise error

    weights, measured, _ = learned(Foraging, small_config(), fails)
    expected, numbers, _ = learned(Foraging, small_config())
    assert all(torch.equal(weights[name], own) for name, own in expected.items())
    assert measured == numbers
    (line,) = capsys.readouterr().out.splitlines()
    assert reason in line


def test_other_weights_need_another_graph():
    capture, net = Plain(), network(Foraging(), small_config())
    with ListEnv(Foraging, 4, seed=2) as env:
        batch = EntityBatch.from_obs(env.reset())
        graphs = acting(net, 4, capture)
        for _ in range(2):
            graphs.act(batch, torch.Generator())
        assert capture.made == 1
        graphs.begin(CPU)
        graphs.act(batch, torch.Generator())
        assert capture.made == 1
        net.heads[0].logits.weight = torch.nn.Parameter(net.heads[0].logits.weight * 2)
        graphs.begin(CPU)
        acted = graphs.act(batch, torch.Generator())
    assert capture.made == 2
    assert_close(acted.output.value, net(batch, greedy=True).value.detach())


def test_too_little_memory_names_the_minibatch_and_the_setting_to_lower():
    def fails(*_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    config = small_config()
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    net.value_head.register_forward_hook(fails)
    with pytest.raises(DeviceError, match="minibatch of 12 frames with") as raised:
        update(
            PPO(config.ppo), net, make_optimizers(net, config), rollout, config, 0.0,
            torch.Generator(), Stopwatch(),
        )  # fmt: skip
    assert raised.value.hint == "lower ppo.microbatch_size, ppo.minibatch_size"


def test_a_card_without_bfloat16_computes_in_float32_and_says_so_once(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "T4")
    has_bfloat16.cache_clear()
    cuda = torch.device("cuda")
    assert isinstance(autocast(cuda, "bfloat16"), nullcontext)
    assert isinstance(autocast(cuda, "bfloat16"), nullcontext)
    has_bfloat16.cache_clear()
    assert capsys.readouterr().out == "T4 has no bfloat16: float32 is used\n"
