"""Grids in the network: summaries in the place of cells, cells in actions, and what is refused."""

from dataclasses import replace

import pytest
import torch
from net_support import TOLERANCE, assert_same_policy, choices
from torch.testing import assert_close

from entity_env.errors import BatchError, SettingError
from entity_env.spaces import (
    CategoricalActionSpace,
    Discrete,
    Entity,
    GlobalCategoricalActionSpace,
    Grid,
    ObsSpace,
    SelectEntityActionSpace,
)
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    Layout,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    RelativePosition,
    SelectActors,
    Translation,
    plain_torch,
)
from ragged_net.model.discrete import AttributeEmbedding, Tables
from ragged_net.model.embedding import TypeEmbedding
from ragged_net.model.grid_layout import GridRows
from ragged_net.model.tiles import TileEmbedding, as_maps

CELLS = 15
MAP = Grid((3, 5), ["height", Discrete("terrain", 4)], cells=True)
OBS = ObsSpace(entities={"Mine": Entity(["x", "y"]), "Tile": MAP, "Robot": Entity(["x", "y"])})
CLOSED = ObsSpace(entities={**OBS.entities, "Tile": Grid((3, 5), MAP.features)})
ACTIONS = {
    "Move": CategoricalActionSpace(["a", "b", "c"]),
    "Go": SelectEntityActionSpace(),
    "Speak": GlobalCategoricalActionSpace(["yes", "no"]),
}
MINES, MAPS, ROBOTS = [2, 0, 3, 1, 0], [1, 0, 1, 1, 0], [1, 2, 0, 2, 0]


def make_batch(mines=MINES, maps=MAPS, robots=ROBOTS, *, cells=True, seed=0):
    """Robots move and select; with ``cells`` they select cells, too, of which the last moves."""
    torch.manual_seed(seed)
    frames = range(len(mines))
    tiles = torch.randn(sum(maps) * CELLS, 2)
    tiles[:, 1] = torch.randint(4, (len(tiles),)).float()
    entities = {
        "Mine": RaggedTensor.from_lengths(torch.randn(sum(mines), 2), mines),
        "Tile": RaggedTensor.from_lengths(tiles, [CELLS * n for n in maps]),
        "Robot": RaggedTensor.from_lengths(torch.randn(sum(robots), 2), robots),
    }
    movers, targets, selectors, players = [], [], [], []
    for b in frames:
        end = mines[b] + CELLS * maps[b]
        own = list(range(end, end + robots[b]))
        movers.append([end - 1] * (cells and maps[b]) + own)
        targets.append(list(range(end if cells else mines[b])))
        selectors.append(own if targets[-1] else [])
        targets[-1] = targets[-1] if own else []
        players.append([end + robots[b]])
    moving = sum(map(len, movers))
    return EntityBatch(
        entities,
        torch.zeros(len(mines), 0),
        {},
        {
            "Move": CategoricalActors(ragged(movers), torch.ones(moving, 3, dtype=torch.bool)),
            "Go": SelectActors(ragged(selectors), ragged(targets)),
            "Speak": CategoricalActors(
                ragged(players), torch.ones(len(mines), 2, dtype=torch.bool)
            ),
        },
    )


def ragged(frames):
    flat = torch.tensor([value for frame in frames for value in frame], dtype=torch.int64)
    return RaggedTensor.from_lengths(flat, [len(frame) for frame in frames])


def make_net(space=OBS, **settings):
    torch.manual_seed(1)
    net = RaggedNet(space, ACTIONS, NetConfig(**{"dim": 32, "heads": 2, **settings}))
    with torch.no_grad():
        for head in net.heads:
            for parameter in head.parameters():
                parameter.normal_(std=0.5)
    return net


def learned(net, output):
    """The gradients of something that all that is learned goes into."""
    net.zero_grad()
    total = output.value.square().sum()
    for action in output.actions.values():
        total = total + action.log_prob.sum() + action.entropy.sum()
    total.backward()
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters()}


def test_a_map_is_read_as_it_lies():
    # Cell (row 1, column 2) of the second map is row 15 + 1 * 5 + 2.
    rows = torch.arange(2 * CELLS * 2).float().view(-1, 2)
    assert torch.equal(as_maps(rows, MAP)[1, 1, 2], rows[CELLS + 7])


def test_the_convolution_against_a_slow_one():
    torch.manual_seed(0)
    tables = Tables(8)
    tiles = TileEmbedding(MAP, 8, 4, 2, lambda own, dim: TypeEmbedding(own, dim, (), tables))
    values = make_batch().entities["Tile"].values
    conv, (height, width) = tiles.look[0], MAP.shape
    found = []
    for start in range(0, len(values), CELLS):
        cells = tiles.cells(values[start : start + CELLS]).view(height, width, 4)
        out = torch.zeros(4, 2, 3)  # sides of 3 and 5 are halved, rounded up
        for row in range(2):
            for column in range(3):
                total = conv.bias.clone()
                for i in range(3):
                    for j in range(3):
                        y, x = 2 * row + i - 1, 2 * column + j - 1
                        if 0 <= y < height and 0 <= x < width:
                            total = total + conv.weight[:, :, i, j] @ cells[y, x]
                out[:, row, column] = total.relu()
        found.append(tiles.summarize(out.flatten()).view(2, 8))
    assert len(tiles.look) == 2
    assert_close(tiles(values), torch.cat(found), **TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        (TypeEmbedding, MAP.features),
        (TypeEmbedding, [Discrete("terrain", 4)]),
        (TypeEmbedding, ["height"]),
        (AttributeEmbedding, [Discrete("terrain", 4), Discrete("owner", 2)]),
    ],
)
def test_embeddings_of_few_columns_go_into_the_convolution(kind, features, monkeypatch):
    grid = Grid((3, 5), features, cells=True)
    torch.manual_seed(0)
    tables = Tables(8)
    tiles = TileEmbedding(grid, 8, 8, 2, lambda own, dim: kind(own, dim, (), tables))
    heights = make_batch().entities["Tile"].values
    columns = {"height": heights[:, 0], "terrain": heights[:, 1], "owner": heights[:, 1] // 2}
    values = torch.stack([columns[name] for name in grid.names], 1)
    asked = [torch.tensor([0, 7, 44])]
    plain, found = kind.as_product, []
    for most in (8, 0):  # columns; without any the cells are embedded one by one
        monkeypatch.setattr(kind, "as_product", lambda own, x, most, n=most: plain(own, x, n))
        assert (tiles.cells.as_product(values, 8) is None) == (not most)
        tiles.zero_grad()
        parts = [tiles(values), *tiles.cell_vectors(values, asked)]
        sum(part.square().sum() for part in parts).backward()
        found.append([*parts, *(own.grad for own in tiles.parameters())])
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_where_everybody_stands():
    batch = make_batch([2, 1], [1, 0], [1, 2])
    rows = GridRows(OBS, with_global=True, summaries=4)
    layout = rows.layout(batch)
    # Frame 0: 2 mines, 4 summaries, a robot, the player. Frame 1: a mine, 2 robots, the player.
    assert layout.offsets.tolist() == [0, 8, 12]
    # Frame 0: mine 1, the first cell, the last one, the robot, the player. Frame 1: all of them.
    indices = ragged([[1, 2, 16, 17, 18], [0, 1, 2, 3]])
    assert layout.flat_rows(indices).tolist() == [1, 2, 2, 6, 7, 8, 9, 10, 11]
    is_cell, cells = layout.cells(indices, "Tile", batch.entities["Tile"])
    assert is_cell.tolist() == [False, True, True] + [False] * 6
    assert cells[is_cell].tolist() == [0, 14]
    # Without a map in between, it is what any layout says.
    plain = make_batch([2, 1], [0, 0], [1, 2])
    own = Layout.of(plain, with_global=True, names=tuple(OBS.entities))
    among = ragged([[0, 2, 3], [1, 3]])
    assert torch.equal(rows.layout(plain).flat_rows(among), own.flat_rows(among))


@pytest.mark.parametrize("settings", [{}, {"embedding": "attributes"}])
def test_kernels_do_what_torch_does(settings):
    net, batch = make_net(**settings), make_batch()
    net.update_statistics(batch)
    with plain_torch():
        slow = net(batch, greedy=True)
        expected = learned(net, slow)
    fast = net(batch, given=choices(slow))
    assert_same_policy(slow, fast)
    assert_close(slow.value, fast.value, **TOLERANCE)
    found = learned(net, fast)
    for name, gradient in expected.items():
        assert_close(found[name], gradient, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("settings", [{}, {"memory": "gru"}, {"action_order": ["Move", "Go"]}])
def test_frames_know_nothing_of_their_neighbours(settings):
    net, batch = make_net(**settings), make_batch()
    if settings.get("memory"):
        whole = net(batch, memory=torch.randn(5, 128), greedy=True)
        state = torch.randn(5, 128, generator=torch.Generator().manual_seed(0))
        whole = net(batch, memory=state, greedy=True)
    else:
        whole = net(batch, greedy=True)
    for frames in ([0], [2, 1], [4, 3, 0]):
        part = batch.select(torch.tensor(frames))
        memory = {"memory": state[frames]} if settings.get("memory") else {}
        alone = net(part, greedy=True, **memory)
        assert_close(alone.value, whole.value[frames], **TOLERANCE)
        for name, action in alone.actions.items():
            own = whole.actions[name].chosen.select(torch.tensor(frames))
            assert torch.equal(action.chosen.values, own.values), name


def test_robots_may_come_in_any_order():
    net, batch = make_net(), make_batch([1], [1], [3], cells=False)
    output = net(batch, greedy=True)
    order = torch.tensor([2, 0, 1])
    robots = batch.entities["Robot"]
    turned = replace(
        batch, entities={**batch.entities, "Robot": robots.with_values(robots.values[order])}
    )
    other = net(turned, greedy=True)
    assert_close(other.value, output.value, **TOLERANCE)
    moves = output.actions["Move"].chosen.values
    assert torch.equal(other.actions["Move"].chosen.values, moves[order])


def test_every_cell_counts():
    net, batch = make_net(CLOSED), make_batch(cells=False)
    value = net.value(batch)
    tiles = batch.entities["Tile"]
    for cell in range(CELLS):
        values = tiles.values.clone()
        values[cell, 0] += 3.0
        other = net.value(
            replace(batch, entities={**batch.entities, "Tile": tiles.with_values(values)})
        )
        changed = (other - value).abs() > 1e-6
        assert changed.tolist() == [True, False, False, False, False], cell


def test_selected_cells_are_told_apart():
    net, batch = make_net(), make_batch([0], [1], [1])
    tiles = batch.entities["Tile"]
    values = tiles.values.clone()
    values[:] = values[0]
    batch = replace(batch, entities={**batch.entities, "Tile": tiles.with_values(values)})
    log_probs = net(batch, greedy=True).actions["Go"].probs.values
    assert len(log_probs.unique()) == CELLS  # by their place alone


def test_gradients_in_float64():
    torch.manual_seed(0)
    tables = Tables(4)
    grid = Grid((3, 2), ["height"], cells=True)
    tiles = TileEmbedding(
        grid, 4, 3, 2, lambda own, dim: TypeEmbedding(own, dim, (), tables)
    ).double()
    values = torch.randn(12, 1)

    names = list(dict(tiles.named_parameters()))

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tiles = tiles

        def forward(self):
            (cells,) = self.tiles.cell_vectors(values, [torch.tensor([0, 7, 11])])
            return torch.cat([self.tiles(values), cells])

    def both(*weights):
        own = {f"tiles.{name}": weight for name, weight in zip(names, weights, strict=True)}
        return torch.func.functional_call(Both(), own)

    weights = [w.detach().clone().requires_grad_() for w in tiles.parameters()]
    assert torch.autograd.gradcheck(both, weights)


@pytest.mark.parametrize(
    "lengths", [([0], [0], [0]), ([0], [1], [0]), ([0, 0], [0, 0], [1, 0]), ([400], [1], [600])]
)
def test_frames_of_all_kinds(lengths):
    output = make_net()(make_batch(*lengths))
    assert torch.isfinite(output.value).all()
    assert all(torch.isfinite(action.log_prob).all() for action in output.actions.values())


def test_no_cells_without_their_consent():
    batch = make_batch()
    net = make_net(CLOSED)
    with pytest.raises(BatchError):
        net(batch)
    net(make_batch(cells=False))
    assert not any("around" in name or "place" in name for name, _ in net.named_parameters())


def test_parts_of_maps_and_hidden_cells_are_refused():
    net, batch = make_net(), make_batch(cells=False)
    tiles = batch.entities["Tile"]
    short = RaggedTensor.from_lengths(tiles.values[:-1], [15, 0, 15, 14, 0])
    with pytest.raises(BatchError, match="frame 3 has a part"):
        net(replace(batch, entities={**batch.entities, "Tile": short}))
    hidden = replace(batch, visible={"Tile": torch.zeros(tiles.num_rows, dtype=torch.bool)})
    with pytest.raises(BatchError, match="hides cells"):
        net(hidden)


@pytest.mark.parametrize(
    "settings",
    [
        {"relative_position": RelativePosition({"Tile": ["height"]})},
        {"tile_summaries": 0},
        {"tile_channels": 2.5},
        {"embedding": "atributes"},
    ],
)
def test_what_does_not_go_together(settings):
    with pytest.raises(SettingError):
        RaggedNet(OBS, ACTIONS, NetConfig(**settings))


def test_both_networks_read_a_map_alike():
    one, other = NetConfig(dim=32), NetConfig(dim=32, tile_summaries=2)
    with pytest.raises(SettingError, match=r"value_net\.tile_summaries"):
        RaggedNet(OBS, ACTIONS, one, other)
    net = RaggedNet(OBS, ACTIONS, one, one)
    assert torch.isfinite(net(make_batch()).value).all()
    learned_ones = {name for name, _ in net.named_parameters() if name.startswith("value_encoder")}
    assert "value_encoder.embedding.types.1.summarize.weight" in learned_ones


def test_positions_and_translation_beside_a_map():
    coordinates = {"Robot": ["x", "y"], "Mine": ["x", "y"]}
    for setting in (
        {"relative_position": RelativePosition(coordinates)},
        {"translation": Translation("Robot", coordinates)},
    ):
        output = make_net(**setting)(make_batch([2, 1], [1, 0], [1, 1]))
        assert torch.isfinite(output.value).all()


def test_other_frames_may_be_hidden():
    net, batch = make_net(), make_batch([2], [1], [1], cells=False)
    shown = replace(batch, visible={"Mine": torch.tensor([True, False])})
    shown = replace(
        shown, actions={**shown.actions, "Go": SelectActors(ragged([[17]]), ragged([[0]]))}
    )
    mines = batch.entities["Mine"]
    moved = mines.with_values(mines.values + torch.tensor([[0.0, 0.0], [5.0, 5.0]]))
    other = replace(shown, entities={**shown.entities, "Mine": moved})
    assert_same_policy(net(shown, greedy=True), net(other, greedy=True))
