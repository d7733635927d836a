"""The inputs of exported networks, in Python and in JavaScript, beside those of the exporter."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.mines import minesweeper

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    EntityEnvError,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Grid,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)
from entity_env.onnx_inputs import onnx_inputs
from entity_env.storage.space_json import spaces_to_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser"
SPACE = ObsSpace(
    entities={"Mine": Entity(["x", "y"]), "Robot": Entity(["x"])}, global_features=["t"]
)
ACTIONS = {
    "Move": CategoricalActionSpace(["left", "right"]),
    "Aim": SelectEntityActionSpace(),
    "Call": GlobalCategoricalActionSpace(["yes", "no"]),
}


def seen(mines, robots, aims, time=1.0):
    """An observation in which the last robot aims at the mines that ``aims`` says."""
    move = [[True, False]] * len(robots)
    return Observation(
        features={"Mine": mines, "Robot": robots},
        ids={"Robot": [f"r{i}" for i in range(len(robots))]},
        global_features=[time],
        actions={
            "Move": CategoricalActionMask(actor_types=["Robot"], mask=move),
            "Aim": SelectEntityActionMask(
                actor_ids=[f"r{len(robots) - 1}"], actee_types=["Mine"], mask=[aims]
            ),
            "Call": GlobalCategoricalActionMask(mask=[True, False]),
        },
    )


FIRST = seen([[1, 2], [3, 4]], [[5]], [True, False])
SECOND = seen([[6, 7]], [[8], [9]], [True], time=2.0)


QUIET = {"Move": CategoricalActionSpace(["left", "right"])}


def test_the_cells_of_a_grid_are_one_map_in_each_frame_that_shows_it():
    space = ObsSpace(entities={"Mine": Entity(["x"]), "Tile": Grid((2, 1), ["height"])})
    frames = [{"Tile": [[1], [2]]}, {"Mine": [[3]]}, {"Tile": [[4], [5]]}]
    found = onnx_inputs([Observation(features=own) for own in frames], space, QUIET)
    assert found["Tile/features"].tolist() == [[[1], [2]], [[4], [5]]]
    assert found["Tile/lengths"].tolist() == [2, 0, 2]
    assert found["Mine/features"].tolist() == [[3]]


def test_two_frames_by_hand():
    found = onnx_inputs([FIRST, SECOND], SPACE, ACTIONS)
    expected = {
        "global": [[1.0], [2.0]],
        "Mine/features": [[1, 2], [3, 4], [6, 7]],
        "Mine/lengths": [2, 1],
        "Robot/features": [[5], [8], [9]],
        "Robot/lengths": [1, 2],
        "Move/actors": [2, 1, 2],  # after two mines, after one
        "Move/lengths": [1, 2],
        "Move/mask": [[True, False]] * 3,
        "Aim/actors": [2, 2],
        "Aim/lengths": [1, 1],
        "Aim/actees": [0, 1, 0],
        "Aim/actee_lengths": [2, 1],
        "Aim/mask": [[True, False, False], [False, False, True]],
        "Call/mask": [[True, False]] * 2,
    }
    assert {name: own.tolist() for name, own in found.items()} == expected
    kinds = {np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)}
    assert {own.dtype for own in found.values()} == kinds


def test_hidden_entities_are_left_out_and_counted_no_more():
    hidden = Observation(
        features={"Mine": [[1, 2], [3, 4]], "Robot": [[5]]},
        visible={"Mine": [False, True]},
        global_features=[0.0],
        actions={
            "Move": CategoricalActionMask(actor_types=["Robot"]),
            "Call": GlobalCategoricalActionMask(),
        },
    )
    found = onnx_inputs([hidden], SPACE, ACTIONS)
    assert found["Mine/features"].tolist() == [[3, 4]]
    assert found["Move/actors"].tolist() == [1]


def test_a_missing_action_of_the_player_is_an_error():
    quiet = seen([[1, 2]], [[5]], [True])
    del quiet.actions["Call"]
    with pytest.raises(EntityEnvError, match="action 'Call' is missing"):
        onnx_inputs([FIRST, quiet], SPACE, ACTIONS)


def test_they_are_those_that_the_exporter_takes():
    pytest.importorskip("torch")
    from entity_env import batch_obs
    from ragged_net import EntityBatch, NetConfig, RaggedNet
    from ragged_net.export import ActingGraph

    game = minesweeper(nrobots=3, orbital_cannon=True, cooldown_period=1)
    game.seed(1)
    spaces = game.obs_space(), game.action_space()
    observations = [game.reset() for _ in range(3)]
    graph = ActingGraph(RaggedNet(*spaces, NetConfig(dim=8, layers=1, heads=1)))
    expected = graph.inputs_of(EntityBatch.from_obs(batch_obs(observations, *spaces)))
    found = onnx_inputs(observations, *spaces)
    assert set(found) == set(expected)
    for name, own in found.items():
        np.testing.assert_array_equal(own, expected[name].numpy(), err_msg=name)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_javascript_gives_the_same_inputs():
    given = {
        "features": {"Mine": [[1, 2], [3, 4]], "Robot": [[5]]},
        "global": [1],
        "actions": {
            "Move": {"actors": [["Robot", 0]], "mask": [[True, False]]},
            "Aim": {
                "actors": [["Robot", 0]],
                "actees": [["Mine", 0], ["Mine", 1]],
                "mask": [[True, False]],
            },
            "Call": {"mask": [[True, False]]},
        },
    }
    code = f"""
    import {{ inputsOf }} from "{(EXAMPLE / "observation.mjs").as_uri()}";
    class Tensor {{
      constructor(type, data, dims) {{
        Object.assign(this, {{ type, data: Array.from(data, Number), dims }});
      }}
    }}
    const [observation, spaces] = JSON.parse(process.argv[1]);
    console.log(JSON.stringify(inputsOf({{ Tensor }}, observation, spaces)));
    """
    argument = json.dumps([given, spaces_to_json(SPACE, ACTIONS)])
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code, argument],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found, expected = json.loads(done.stdout), onnx_inputs([FIRST], SPACE, ACTIONS)
    assert set(found) == set(expected)
    types = {"float32": np.float32, "int64": np.int64, "bool": np.bool_}
    for name, own in found.items():
        array = np.array(own["data"], types[own["type"]]).reshape(own["dims"])
        assert array.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
