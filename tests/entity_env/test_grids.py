"""Entity types that are grids: spaces, observations, ids of cells, errors, workers, recordings."""

from dataclasses import replace

import numpy as np
import pytest
from support.input_envs import CoinOnAMap, PickTheCoin
from support.tiny_envs import Replay

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Flags,
    Grid,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    batch_obs,
)
from entity_env.errors import FeatureError, ObservationError, SpaceError
from entity_env.storage.space_json import spaces_from_json, spaces_to_json
from entity_env.wrappers import FeatureFilter, VecValidate

MAP = Grid((2, 3), ["height", Discrete("terrain", 4)])
SPACE = ObsSpace(entities={"Robot": Entity(["x"]), "Tile": MAP})
OPEN = ObsSpace(entities={"Robot": Entity(["x"]), "Tile": Grid((2, 3), MAP.features, cells=True)})
ACTIONS = {"Move": CategoricalActionSpace(["a", "b"]), "Go": SelectEntityActionSpace()}
CELLS = np.arange(12).reshape(2, 3, 2) % 4.0


def observation(cells=CELLS, **others):
    return Observation(features={"Robot": [[1.0]], "Tile": cells}, **others)


def read(*observations, space=SPACE):
    """The same through the reader of single frames, and through that of many at once."""
    from entity_env.batching.row_reader import RowReader

    together = RowReader(space, ACTIONS).read(observations * 2, lambda i: f"environment {i}")
    alone = batch_obs(list(observations), space, ACTIONS)
    count = len(observations)
    for name in space.entities:
        whole, part = together.obs.features[name], alone.features[name]
        assert whole.size1().tolist() == part.size1().tolist() * 2
        assert np.array_equal(whole.as_array()[: part.items()], part.as_array())
    assert together.obs.num_frames == 2 * count
    return alone


@pytest.mark.parametrize(
    "cells",
    [CELLS, CELLS.reshape(6, 2), CELLS.tolist(), CELLS.reshape(6, 2).tolist(), CELLS.astype("f4")],
    ids=["map", "rows", "lists", "lists of rows", "float32"],
)
def test_cells_are_rows_in_row_major_order(cells):
    obs = read(observation(cells))
    # Row 0 of the map: cells (0, 1), (2, 3), (0, 1); row 1: (2, 3), (0, 1), (2, 3).
    expected = [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1], [2, 3]]
    assert obs.features["Tile"].as_array().tolist() == expected


def test_a_map_may_be_absent():
    frames = [Observation(), observation(), observation(None), observation([])]
    assert read(*frames).features["Tile"].size1().tolist() == [0, 6, 0, 0]


@pytest.mark.parametrize(
    ("cells", "error", "message"),
    [
        (CELLS[:1], FeatureError, r"\(2, 3, 2\), or \(6, 2\)"),
        (CELLS.reshape(6, 2)[:5], FeatureError, r"received: .*\(5, 2\)"),
        (CELLS.transpose(1, 0, 2), FeatureError, "wrong shape"),
        (CELLS + 1, FeatureError, "terrain"),
        (CELLS * np.nan, FeatureError, "not finite"),
    ],
)
def test_other_shapes_and_values_are_refused(cells, error, message):
    with pytest.raises(error, match=message):
        batch_obs([observation(), observation(cells)], SPACE, ACTIONS)


def test_rows_that_show_a_part_of_a_map_are_refused():
    obs = batch_obs([observation()] * 2, SPACE, ACTIONS)
    part = RaggedBufferF32.from_flattened(CELLS.reshape(6, 2)[:4].astype("f4"), np.array([4, 0]))
    checks = VecValidate(ListEnv(lambda: Replay([], SPACE, ACTIONS), 1))
    checks._check_frames("", obs, np.array([5, 9]))
    damaged = replace(obs, features={**obs.features, "Tile": part})
    with pytest.raises(FeatureError, match=r"environment 5: [\s\S]*received: .*\(4, 2\)"):
        checks._check_frames("", damaged, np.array([5, 9]))


def test_cells_have_no_ids_and_are_not_hidden():
    with pytest.raises(ObservationError, match="cells of the Grid 'Tile'"):
        batch_obs([observation(ids={"Tile": list(range(6))})], SPACE, ACTIONS)
    with pytest.raises(ObservationError, match="for a Grid"):
        batch_obs([observation(visible={"Tile": [True] * 6})], SPACE, ACTIONS)


@pytest.mark.parametrize("mask", [{}, {"actor_types": ["Tile"]}])
def test_cells_take_part_in_actions_only_where_the_space_says_so(mask):
    frame = observation(actions={"Move": CategoricalActionMask(**mask)})
    with pytest.raises(ObservationError, match="cells=True"):
        batch_obs([frame], SPACE, ACTIONS)
    with pytest.raises(ObservationError, match=r"environment 0[\s\S]*cells=True"):
        read(frame)
    count = 6 if mask else 7
    assert read(frame, space=OPEN).action_masks["Move"].actors.items() == count


def test_cells_are_named_by_their_place():
    mask = SelectEntityActionMask(actor_types=["Robot"], actee_ids=[("Tile", 1, 0), ("Tile", 0, 2)])
    obs = read(observation(actions={"Go": mask}), space=OPEN)
    # The robot is entity 0, so the cell (1, 0) is 1 + 3 = 4, and (0, 2) is 1 + 2 = 3.
    assert obs.action_masks["Go"].actees.as_array().ravel().tolist() == [4, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grid((2,), []),
        lambda: Grid((0, 3), []),
        lambda: Grid((2, True), []),
        lambda: Grid(6, []),
        lambda: Grid((2, 3), ["a", "a"]),
        lambda: Grid((2, 3), ["a"], cells=1),
        lambda: Grid(shape=(2, 3), feature=["a"]),
        lambda: Flags("status", 0),
        lambda: Flags("status", 25),
        lambda: Discrete("terrain", 4, vocabulary=""),
        lambda: ObsSpace([Discrete("a", 3, "t")], {"B": Entity([Discrete("b", 4, "t")])}),
    ],
)
def test_what_is_no_space(make):
    with pytest.raises(SpaceError):
        make()


def test_a_grid_has_no_position():
    from entity_env import Position

    with pytest.raises(SpaceError, match="is its place in the grid"):
        Grid((2, 3), [Position("x", "y")])


def test_saved_spaces():
    features = [Flags("status", 8), Discrete("below", 4, "terrain"), Discrete("team", 2), "x"]
    space = ObsSpace(features, {"Tile": OPEN.entities["Tile"], "Robot": Entity(features)})
    value = spaces_to_json(space, ACTIONS)
    assert spaces_from_json(value)[0] == space
    assert spaces_from_json(spaces_to_json(SPACE, ACTIONS))[0] != spaces_from_json(
        spaces_to_json(OPEN, ACTIONS)
    )
    value["entities"][0]["shape"] = [2, "3"]
    with pytest.raises(SpaceError):
        spaces_from_json(value)


def test_flags_are_whole_numbers():
    space = ObsSpace(entities={"Robot": Entity([Flags("status", 3)])})
    assert space.entities["Robot"].features[0].count == 3
    batch_obs([Observation(features={"Robot": [[7], [0]]})], space, ACTIONS)
    with pytest.raises(FeatureError, match="status"):
        batch_obs([Observation(features={"Robot": [[8]]})], space, ACTIONS)


def test_the_selected_cell_arrives_by_its_id():
    rows = ListEnv(PickTheCoin, 3, seed=1)
    obs = rows.reset()
    coins = obs.features["Tile"].as_array().reshape(3, 25).argmax(1)
    lengths = np.ones(3, np.int64)
    # The robot is entity 0.
    done = rows.act({"Answer": RaggedBufferI64.from_flattened(coins[:, None] + 1, lengths)})
    assert done.reward.tolist() == [1.0, 1.0, 1.0]
    wrong = (done.features["Tile"].as_array().reshape(3, 25).argmax(1) + 1) % 25
    again = rows.act({"Answer": RaggedBufferI64.from_flattened(wrong[:, None] + 1, lengths)})
    assert again.reward.tolist() == [0.0, 0.0, 0.0]
    rows.close()


def test_a_filter_keeps_the_grid():
    game = CoinOnAMap()
    tile = game.obs_space().entities["Tile"]
    kind = [tile.features[tile.names.index("kind")]]
    part = {"Tile": Grid(tile.shape, kind, tile.cells), "Robot": Entity(["fuel"])}
    shown = FeatureFilter(game, ObsSpace(entities=part))
    shown.rng = game.rng = np.random.default_rng(0)
    obs = batch_obs([shown.reset()], shown.obs_space(), shown.action_space())
    assert obs.features["Tile"].as_array().shape == (49, 1)
    with pytest.raises(SpaceError, match="another grid"):
        FeatureFilter(CoinOnAMap(), ObsSpace(entities={"Tile": Entity(["height"])}))


def test_an_observation_counts_cells():
    for cells in (CELLS, CELLS.tolist(), CELLS.reshape(6, 2)):
        assert observation(cells).num_entities("Tile") == 6
    assert observation([]).num_entities("Tile") == 0
