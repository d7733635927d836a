"""An exported network does what the network does, whatever there is in a frame."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from ragged_envs.minesweeper import MineSweeper
from support.trainer_runs import small_config
from torch import nn

from entity_env.errors import ExportError, RunFolderError
from entity_env.spaces import (
    CategoricalActionSpace,
    Continuous,
    ContinuousActionSpace,
    Discrete,
    Entity,
    GlobalCategoricalActionSpace,
    GlobalContinuousActionSpace,
    Grid,
    ObsSpace,
    SelectEntitiesActionSpace,
    SelectEntityActionSpace,
)
from ppo_trainer import train
from ppo_trainer.export import CHECKED_SHAPES, export_run, largest_difference, main, random_batch
from ragged_net import NetConfig, RaggedNet, RelativePosition, Translation
from ragged_net.export import ActingGraph

SMALL = {"dim": 16, "heads": 2}
ENTITIES = {
    "Mine": Entity(["x", "y"]),
    "Robot": Entity(["x", "y", Continuous("hp", mean=5.0, std=2.0), Discrete("way", 4)]),
    "Gate": Entity(),
}
SPACES = {
    "entities": (
        ObsSpace(entities=ENTITIES),
        {"Move": CategoricalActionSpace(["a", "b", "c"]), "Fire": SelectEntityActionSpace()},
    ),
    "globals": (
        ObsSpace(global_features=["time", Discrete("phase", 3)], entities=ENTITIES),
        {
            "Speak": GlobalCategoricalActionSpace(["yes", "no"]),
            "Steer": ContinuousActionSpace([-1.0, None], [1.0, 5.0]),
            "Push": GlobalContinuousActionSpace(-2.0, 2.0),
            "Fire": SelectEntityActionSpace(),
        },
    ),
    "map": (
        ObsSpace(
            entities={
                "Mine": ENTITIES["Mine"],
                "Tile": Grid((6, 5), [Discrete("kind", 4), "height"]),
                "Robot": ENTITIES["Robot"],
            }
        ),
        {"Move": CategoricalActionSpace(["a", "b", "c"]), "Fire": SelectEntityActionSpace()},
    ),
    "cells": (
        ObsSpace(entities={"Tile": Grid((3, 2), ["height"], cells=True)}),
        {"Fire": SelectEntityActionSpace()},
    ),
    "nobody": (ObsSpace(), {"Speak": GlobalCategoricalActionSpace(["yes", "no"])}),
}
XY = {"Mine": ["x", "y"], "Robot": ["x", "y"]}
CONFIGS = {
    "plain": {},
    "lstm": {"memory": "lstm", "memory_size": 12},
    "gru": {"memory": "gru", "memory_size": 12},
    "popart": {"value_norm": "popart"},
    "waves": {"relative_position": RelativePosition(XY)},
    "bias": {"relative_position": RelativePosition(XY, kind="mlp", heading={"Robot": "way"})},
    "relations": {"relations": [["Mine.x", "Robot.y"]]},
}
CONFIGS["lstm and waves"] = {**CONFIGS["lstm"], **CONFIGS["waves"]}
CONFIGS["gru and bias"] = {**CONFIGS["gru"], **CONFIGS["bias"]}


def network(spaces="entities", separate=False, layers=2, **settings):
    """A network whose outputs are far from 0, and which has seen some numbers."""
    torch.manual_seed(0)
    config = NetConfig(**SMALL, layers=layers, **settings)
    value = NetConfig(**{**SMALL, "dim": 8, "layers": 1}) if separate else None
    net = RaggedNet(*SPACES[spaces], config, value).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    batch = random_batch(net, (5, 9, 2), torch.Generator().manual_seed(1))
    if net.translation is None:  # which wants one reference in each frame
        net.update_statistics(batch)
    net.update_value_norm(torch.tensor([100.0, 300.0]))
    return net


CASES = [
    *itertools.product(["entities"], CONFIGS, [False]),
    ("entities", "gru and bias", True),
    *itertools.product(["globals"], ["plain", "lstm", "waves"], [False, True]),
    *itertools.product(["map"], ["plain", "gru", "waves"], [False]),
    ("map", "plain", True),
    ("nobody", "plain", False),
]


@pytest.mark.parametrize(("spaces", "config", "separate"), CASES)
def test_the_graph_does_what_the_network_does(spaces, config, separate):
    graph = ActingGraph(network(spaces, separate, **CONFIGS[config]))
    difference, batches = largest_difference(graph, lambda given: graph(*given.values()), draws=1)
    assert 0 <= difference < 1e-4
    assert batches == len(CHECKED_SHAPES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spaces", "config", "separate"),
    [
        pytest.param("entities", "plain", False, marks=pytest.mark.platforms),
        ("globals", "lstm", True),
        pytest.param("map", "plain", False, marks=pytest.mark.platforms),
        pytest.param("entities", "bias", False, marks=pytest.mark.platforms),
    ],
)
def test_onnxruntime_does_what_the_network_does_in_50_batches(spaces, config, separate):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    # One layer takes half the time of two, which ``docs/deploy.md`` exports.
    graph = ActingGraph(network(spaces, separate, layers=1, **CONFIGS[config]))
    session = onnxruntime.InferenceSession(graph.to_onnx(), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == list(graph.inputs)

    def run(given):
        arrays = {name: tensor.numpy() for name, tensor in given.items()}
        return [torch.from_numpy(one) for one in session.run(list(graph.outputs), arrays)]

    difference, batches = largest_difference(graph, run)
    assert difference < 1e-4
    assert batches == 50
    assert {0, 1, 500} <= {sum(lengths) for lengths in CHECKED_SHAPES}


def test_frames_know_nothing_of_each_other_and_hand_computed_rows():
    """Frames of (1 mine, 1 robot) and (2 mines, 1 robot): the robots are entities 1 and 2."""
    net = network()
    graph = ActingGraph(net)
    mines = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    robots = torch.tensor([[0.0, 0.0, 5.0, 1.0], [1.0, 1.0, 4.0, 3.0]])

    def inputs(mine_lengths, robot_lengths, actors):
        own_mines = mines[:1] if len(mine_lengths) == 1 else mines
        own_robots = robots[: sum(robot_lengths)]
        given = {
            "Mine/features": own_mines,
            "Mine/lengths": torch.tensor(mine_lengths),
            "Robot/features": own_robots,
            "Robot/lengths": torch.tensor(robot_lengths),
            "Gate/features": torch.zeros(0, 0),
            "Gate/lengths": torch.zeros(len(mine_lengths), dtype=torch.int64),
            "Move/actors": torch.tensor(actors),
            "Move/lengths": torch.tensor(robot_lengths),
            "Move/mask": torch.ones(len(actors), 3, dtype=torch.bool),
            "Fire/actors": torch.tensor(actors),
            "Fire/lengths": torch.tensor(robot_lengths),
            "Fire/actees": torch.zeros(len(mine_lengths), dtype=torch.int64),
            "Fire/actee_lengths": torch.ones(len(mine_lengths), dtype=torch.int64),
            "Fire/mask": torch.ones(len(actors), len(mine_lengths), dtype=torch.bool),
        }
        return [given[name] for name in graph.inputs]

    both = graph(*inputs([1, 2], [1, 1], [1, 2]))
    alone = graph(*inputs([1], [1], [1]))
    torch.testing.assert_close(both[0][:1], alone[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(both[2][:1], alone[2], rtol=1e-5, atol=1e-5)
    # An actee of another frame is forbidden, whatever the mask says.
    assert both[1].isinf().tolist() == [[False, True], [True, False]]


def test_a_wrong_graph_is_noticed():
    graph = ActingGraph(network())

    def run(given):
        move, fire, value = graph(*given.values())
        return [move, fire, value + 2e-4 * value.abs().clamp_min(1.0)]

    with pytest.raises(ExportError, match="'value'"):
        largest_difference(graph, run, draws=1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"action_order": ["Move", "Fire"]}, "net.action_order"),
        ({"translation": Translation("Robot", XY)}, "net.translation"),
        ({"spaces": "cells"}, r"Grid\(cells=True\)"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(settings, reason):
    net = network(**settings)
    with pytest.raises(ExportError, match=reason):
        ActingGraph(net)


def test_sets_of_entities_are_refused():
    net = RaggedNet(ObsSpace(entities=ENTITIES), {"Fire": SelectEntitiesActionSpace(2)})
    with pytest.raises(ExportError, match="selects sets"):
        ActingGraph(net)


def test_layers_of_your_own_and_hooks_are_part_of_the_graph():
    net = network()
    graph = ActingGraph(net)
    batch = random_batch(net, (3, 5), torch.Generator().manual_seed(0))
    given = graph.inputs_of(batch)
    before = graph(*given.values())[-1]
    net.value_head = nn.Sequential(nn.Linear(16, 1), nn.Flatten(0))
    net.encoder.mix.register_forward_hook(lambda module, inputs, rows: 2 * rows)
    difference, _ = largest_difference(graph, lambda given: graph(*given.values()), draws=1)
    assert difference < 1e-4
    assert not torch.allclose(graph(*given.values())[-1], before)


def test_hidden_entities_are_not_for_exported_networks():
    net = network()
    batch = random_batch(net, (6,), torch.Generator().manual_seed(0))
    hidden = torch.zeros(batch.entities["Mine"].num_rows, dtype=torch.bool)
    assert len(hidden)
    changed = type(batch)(batch.entities, batch.global_features, {"Mine": hidden}, batch.actions)
    with pytest.raises(ExportError, match="hidden"):
        ActingGraph(net).inputs_of(changed)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    config = small_config(run_dir=str(folder), run_name="mines")
    return train(config, env=MineSweeper).run


@pytest.mark.slow
def test_a_run_becomes_a_program_of_torch_by_command(run, tmp_path, capsys):
    main([str(run), str(tmp_path / "policy.pt2")])
    assert "50 batches" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["policy.pt2"]
    program = torch.export.load(tmp_path / "policy.pt2")
    graph = ActingGraph(RaggedNet.from_run(run, "cpu").eval())
    batch = random_batch(graph.net, (4, 0, 7), torch.Generator().manual_seed(0))
    given = list(graph.inputs_of(batch).values())
    for mine, theirs in zip(program.module()(*given), graph(*given), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_other_files_and_other_folders_are_refused(run, tmp_path):
    with pytest.raises(RunFolderError, match="pt2"):
        export_run(run, tmp_path / "policy.tflite")
    with pytest.raises(RunFolderError):
        export_run(tmp_path, tmp_path / "policy.onnx")
    assert list(Path(tmp_path).iterdir()) == []
