"""Networks that see offsets between entities: fast paths, slow ones, and what must not matter."""

import itertools
import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from net_support import choices
from torch.testing import assert_close

from entity_env.errors import BatchError, SettingError
from entity_env.spaces import (
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    Frames,
    Layout,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    RelativePosition,
    SelectActors,
    Translation,
    plain_torch,
    ragged_attention,
)
from ragged_net.model.encoder import TransformerBlock
from ragged_net.model.geometry import PlaceReader, into_frame
from ragged_net.model.turns import PositionWaves

SPACE = ObsSpace(
    ["time"],
    {
        "Mine": Entity([Position("x", "y")]),
        "Robot": Entity([Position("x", "y"), Discrete("heading", 8), "hp"]),
        "Wall": Entity(["height"]),
    },
)
ACTIONS = {"Move": CategoricalActionSpace(["a", "b", "c"]), "Fire": SelectEntityActionSpace()}
FRAMES = [(2, 1, 0), (0, 0, 0), (5, 3, 1), (1, 0, 0), (0, 2, 2), (5, 3, 1), (0, 0, 3)]
WAVES = RelativePosition()
MLP = RelativePosition(kind="mlp", heading={"Robot": "heading"})
AGREE = {"rtol": 1e-5, "atol": 1e-5}


def make_batch(frames=FRAMES, seed=0, whole=False):
    """Robots move, and fire at anything."""
    torch.manual_seed(seed)
    lengths = dict(zip(SPACE.entities, zip(*frames, strict=True), strict=True))
    entities = {}
    for name, width in (("Mine", 2), ("Robot", 4), ("Wall", 1)):
        values = torch.randn(sum(lengths[name]), width) * 4
        if name == "Robot":
            values[:, 2] = torch.randint(8, (len(values),)).float()
        entities[name] = RaggedTensor.from_lengths(values, list(lengths[name]))
    robots = [range(mines, mines + robots) for mines, robots, _ in frames]
    actors = RaggedTensor.from_lengths(
        torch.tensor([i for own in robots for i in own], dtype=torch.int64), [*map(len, robots)]
    )
    totals = [sum(own) if own[1] else 0 for own in frames]
    actees = RaggedTensor.from_lengths(
        torch.tensor([i for total in totals for i in range(total)], dtype=torch.int64), totals
    )
    moves = CategoricalActors(actors, torch.ones(actors.num_rows, 3, dtype=torch.bool))
    features = torch.randn(len(frames), 1)
    return EntityBatch(
        entities, features, {}, {"Move": moves, "Fire": SelectActors(actors, actees)}
    )


def reader_of(config):
    return PlaceReader(SPACE, config.positions(SPACE), config.relative_position.heading or {})


def make_net(dim=32, heads=2, layers=2, **settings):
    torch.manual_seed(1)
    net = RaggedNet(SPACE, ACTIONS, NetConfig(dim=dim, heads=heads, layers=layers, **settings))
    with torch.no_grad():
        for head in net.heads:
            for parameter in head.parameters():
                parameter.normal_(std=0.5)
    return net


def results(net, batch, plain=False):
    """All results, and the gradients of all weights, of given choices."""
    given = choices(net(batch, greedy=True))
    net.zero_grad()
    with plain_torch() if plain else nullcontext():
        output = net(batch, given=given)
    parts = [part for own in output.actions.values() for part in (own.log_prob, own.entropy)]
    flat = torch.cat([output.value, *parts])
    (flat * torch.linspace(-1, 1, len(flat))).mean().backward()
    gradients = [own.grad.flatten() for own in net.parameters() if own.grad is not None]
    return flat.detach(), torch.cat(gradients)


def moved(batch, change):
    """The batch with ``change(positions, headings)`` in the place of both."""
    entities = dict(batch.entities)
    for name in ("Mine", "Robot"):
        values = batch.entities[name].values.clone()
        heading = values[:, 2] if name == "Robot" else None
        values[:, :2], turned = change(values[:, :2], heading)
        if name == "Robot":
            values[:, 2] = turned
        entities[name] = batch.entities[name].with_values(values)
    return replace(batch, entities=entities)


@pytest.mark.parametrize(("dim", "heads"), [(32, 4), (32, 2), (96, 4), (64, 1)])
def test_compiled_blocks_turn_as_torch_does(dim, heads):
    pytest.importorskip("numba")
    net, batch = make_net(dim, heads), make_batch(FRAMES * 9)  # short frames share vectors
    (fast, slope), (slow, expected) = (results(net, batch, plain) for plain in (False, True))
    assert_close(fast, slow, **AGREE)
    assert_close(slope, expected, **AGREE)


def test_long_frames_turn_as_short_ones_do():
    """500 entities take another kernel, and one entity none but itself."""
    net = make_net()
    for frames in ([(490, 10, 0)], [(0, 1, 0)], [(300, 1, 2), (1, 1, 1)]):
        batch = make_batch(frames)
        (fast, slope), (slow, expected) = (results(net, batch, plain) for plain in (False, True))
        assert_close(fast, slow, **AGREE)
        assert_close(slope, expected, **AGREE)


@pytest.mark.parametrize("fused", [True, False])
def test_attention_with_waves_is_that_of_turned_offsets(fused):
    """Slow reference: each pair by itself, its key and value turned by the offset between them."""
    torch.manual_seed(0)
    config = NetConfig(dim=32, heads=2, attention="auto" if fused else "reference")
    batch, waves = make_batch(), PositionWaves(SPACE, config)
    layout = Layout.of(batch)
    turns = waves(batch, layout)
    block, x = TransformerBlock(config), torch.randn(layout.num_rows, 32)
    frames = Frames(layout.offsets, layout.num_rows, turns=turns)
    positions, known = torch.zeros(layout.num_rows, 2), torch.zeros(layout.num_rows)
    for name in ("Mine", "Robot"):
        positions[layout.dest[name]] = batch.entities[name].values[:, :2]
        known[layout.dest[name]] = 1
    angles = waves.weight[:32].view(2, 8, 2, 2)[:, :, 0]  # (heads, pairs, axes)
    speaks = (angles == 0).all(-1)  # the pairs that do not turn
    qkv = block.qkv(block.norm_attention(x)).view(-1, 3, 2, 8, 2)
    rows = []
    for start, end in zip(layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True):
        for i in range(start, end):
            scores, values = [], []
            for j in range(start, end):
                angle = (angles * (positions[j] - positions[i])).sum(-1)  # (heads, pairs)
                heard = torch.where(speaks, 1.0, known[i] * known[j])
                key, value = (_turned(qkv[j, part], angle) * heard[..., None] for part in (1, 2))
                scores.append((qkv[i, 0] * key).sum((1, 2)) / 4)  # sqrt(16)
                values.append(value)
            weights = torch.stack(scores).softmax(0)
            rows.append((weights[..., None, None] * torch.stack(values)).sum(0).flatten())
    after = x + block.out(torch.stack(rows))
    expected = after + block.mlp(block.norm_mlp(after))
    assert_close(block(x, frames), expected, **AGREE)


def _turned(pairs, angle):
    a, b = pairs.unbind(-1)
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


@pytest.mark.parametrize("setting", [WAVES, MLP])
def test_where_a_frame_is_does_not_matter_and_where_its_entities_are_does(setting):
    net, batch = make_net(relative_position=setting), make_batch()
    before = net(batch, given=(given := choices(net(batch, greedy=True)))).value
    elsewhere = moved(batch, lambda xy, heading: (xy + torch.tensor([40.0, -7.0]), heading))
    assert_close(net(elsewhere, given=given).value, before, rtol=1e-4, atol=1e-4)
    apart = moved(batch, lambda xy, heading: (xy * 1.3, heading))
    assert (net(apart, given=given).value - before).abs().max() > 1e-3


def test_turning_a_frame_with_its_headings_changes_nothing():
    """The vehicles' headings must not be embedded for that, so the net sees them as 0 otherwise."""
    net, batch = make_net(relative_position=MLP), make_batch()
    with torch.no_grad():
        net.encoder.embedding.types[1].tables[0].weight.zero_()
    # Headings are eighths of a turn; mines have none, so they must not act as observers: bias 0.
    turned = moved(
        batch,
        lambda xy, heading: (
            into_frame(xy, torch.tensor(-math.pi / 2)),
            None if heading is None else (heading + 2) % 8,
        ),
    )
    layout = Layout.of(batch)
    reader = reader_of(net.config)
    robots = layout.dest["Robot"]
    bias = net.encoder.transformer.blocks[0].bias
    rows = [_rows(reader(own, layout)) for own in (batch, turned)]
    start, end = layout.offsets[2:4].tolist()
    before, after = (bias.biases(own[None, start:end])[0] for own in rows)
    observers = [int(row) - start for row in robots if start <= row < end]
    assert_close(after[:, observers], before[:, observers], rtol=1e-4, atol=1e-4)
    assert (after - before).abs().max() > 1e-3  # as mines have no heading


def _rows(places):
    return torch.cat([places.positions, places.known[:, None].float(), places.heading[:, None]], 1)


@pytest.mark.parametrize("setting", [WAVES, MLP])
def test_neighbours_and_the_order_of_entities_change_nothing(setting):
    net, batch = make_net(relative_position=setting), make_batch()
    value = net.value(batch)
    alone = torch.cat([net.value(batch.select(torch.tensor([b]))) for b in range(len(FRAMES))])
    assert_close(alone, value, **AGREE)
    mines = batch.entities["Mine"]
    order = torch.cat(
        [torch.arange(end - 1, start - 1, -1) for start, end in _pairs(mines.offsets.tolist())]
    )
    shuffled = mines.with_values(mines.values[order])
    other = replace(batch, entities={**batch.entities, "Mine": shuffled})
    assert_close(net.value(other), value, **AGREE)


def _pairs(offsets):
    return itertools.pairwise(offsets)


@pytest.mark.parametrize("kind", ["waves", "mlp"])
def test_gradients_are_those_of_differences(kind):
    torch.manual_seed(0)
    config = NetConfig(dim=8, heads=2, relative_position=RelativePosition(kind=kind))
    batch = make_batch([(2, 1, 1), (1, 0, 0)])
    layout = Layout.of(batch)
    turns = PositionWaves(SPACE, config)(batch, layout).double()
    frames = Frames(layout.offsets, layout.num_rows, turns=turns)
    if kind == "mlp":
        places = reader_of(config)(batch, layout)
        places = places._replace(positions=places.positions.double())
        frames = Frames(layout.offsets, layout.num_rows, places=places)
    block = TransformerBlock(config, 2 if kind == "mlp" else 0).double()
    x = torch.randn(layout.num_rows, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: block(rows, frames), (x,))


def test_a_bias_is_added_between_entities_that_both_have_a_position():
    net, batch = make_net(relative_position=MLP), make_batch([(1, 1, 1)])
    bias = net.encoder.transformer.blocks[0].bias
    found = bias.biases(_rows(reader_of(net.config)(batch, Layout.of(batch)))[None])[0]
    assert torch.equal(found[:, 2], torch.zeros(2, 3))
    assert torch.equal(found[:, :, 2], found[:, 2])
    mine, robot = (batch.entities[name].values[0] for name in ("Mine", "Robot"))
    # The robot looks along an eighth of a turn for each step of its heading.
    offset = into_frame(mine[:2] - robot[:2], robot[2] * math.pi / 4)
    assert_close(found[:, 1, 0], bias(offset), **AGREE)
    assert_close(found[:, 0, 1], bias(robot[:2] - mine[:2]), **AGREE)


def test_a_declared_position_needs_no_setting_and_can_be_declined():
    plain = make_net(relative_position=RelativePosition(kind="none"))
    assert plain.encoder.waves is None
    assert plain.encoder.embedding.types[0].project is not None
    declared, named = (
        make_net(relative_position=setting)
        for setting in (None, RelativePosition({"Robot": ["x", "y"], "Mine": ["x", "y"]}))
    )
    assert torch.equal(declared.value(make_batch()), named.value(make_batch()))
    assert declared.encoder.embedding.types[0].project is None  # nothing but a position


def test_types_that_are_left_out_keep_their_features():
    net = make_net(relative_position=RelativePosition({"Robot": ["x", "y"]}))
    assert net.encoder.embedding.types[0].project.in_features == 2
    assert net.encoder.embedding.types[1].project.in_features == 1
    absolute = make_net(relative_position=RelativePosition(absolute=True))
    assert absolute.encoder.embedding.types[0].project.in_features == 2


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kind": "wave"}, r"(?s)kind does not exist.*'waves'"),
        ({"unit": 0}, "unit is out of range"),
        ({"unit": 4.0, "extent": 2.0}, "smaller than its unit"),
        ({"absolute": "yes"}, "invalid absolute"),
        ({"features": {}}, "does not name an entity type"),
        ({"features": {"Mine": "xy"}}, "are not coordinates"),
        ({"features": {"Mine": ["x", "x"]}}, "are not coordinates"),
        ({"features": {"Mien": ["x", "y"]}}, r"(?s)unknown entity type 'Mien'.*'Mine'"),
        ({"features": {"Mine": ["x", "z"]}}, "no feature 'z'"),
        ({"features": {"Robot": ["x", "heading"]}}, "discrete"),
        ({"features": {"Mine": ["x"], "Robot": ["x", "y"]}}, "different numbers of coordinates"),
        ({"heading": {"Robot": "heading"}}, r"(?s)kind='waves'.*kind='mlp'"),
        ({"kind": "mlp", "heading": {"Wall": "height"}}, "no position in a plane"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, match):
    with pytest.raises(SettingError, match=match):
        make_net(relative_position=RelativePosition(**settings))


def test_combinations_that_do_not_work_are_refused():
    with pytest.raises(SettingError, match="attention='numba'"):
        NetConfig(relative_position=MLP, attention="numba")
    with pytest.raises(SettingError, match="too few"):
        make_net(dim=12, heads=2)
    nowhere = ObsSpace(entities={"Mine": Entity(["x", "y"])})
    with pytest.raises(SettingError, match="declares no Position"):
        RaggedNet(nowhere, ACTIONS, NetConfig(relative_position=WAVES))


# Translation.


def seen_by_robots(**settings):
    return NetConfig(dim=32, heads=2, layers=1, translation=Translation("Robot", **settings))


def test_positions_move_into_the_frame_of_the_reference():
    batch = make_batch([(1, 1, 1), (2, 0, 0), (0, 0, 0)])
    values = {"Mine": [[3.0, 5.0], [1.0, 1.0], [3.0, 1.0]], "Robot": [[1.0, 1.0, 2.0, 0.5]]}
    entities = {
        name: own.with_values(torch.tensor(values[name])) if name in values else own
        for name, own in batch.entities.items()
    }
    batch = replace(batch, entities=entities)
    net = RaggedNet(SPACE, ACTIONS, seen_by_robots(heading="heading", distance=True))
    seen = net.translation(batch)
    # From (1, 1) the mine is at (2, 4). The robot looks up (2 of 8 eighths): x ahead is 4, and what
    # is to the right has negative y, -2. The distance is sqrt(20) = 4.4721.
    root = math.sqrt(20)
    expected = [4.0, -2.0, root, 4 / root, -2 / root]
    assert_close(seen.entities["Mine"].values[0], torch.tensor(expected), **AGREE)
    robot = torch.tensor([0.0, 0.0, 2.0, 0.5, 0.0, 0.0, 0.0])
    assert_close(seen.entities["Robot"].values[0], robot, **AGREE)
    # Without a robot: from the middle (2, 1) of the two mines.
    assert_close(seen.entities["Mine"].values[1:, :2], torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    assert torch.equal(seen.entities["Wall"].values, batch.entities["Wall"].values)
    assert torch.equal(batch.entities["Mine"].values[0], torch.tensor([3.0, 5.0]))  # as it was
    net.update_statistics(batch)
    assert net(batch).value.shape == (3,)


def test_the_middle_of_a_single_entity_is_where_it_stands():
    net = RaggedNet(SPACE, ACTIONS, seen_by_robots())
    seen = net.translation(make_batch([(1, 0, 0)]))
    assert seen.entities["Mine"].values[:, :2].tolist() == [[0.0, 0.0]]


def test_hidden_entities_do_not_move_the_centre():
    """The mines at (2, 0) and (4, 2) have the centre (3, 1); the one at (90, 90) is hidden."""
    batch = make_batch([(3, 0, 0)])
    mines = torch.tensor([[2.0, 0.0], [90.0, 90.0], [4.0, 2.0]])
    batch = replace(
        batch,
        entities=batch.entities | {"Mine": batch.entities["Mine"].with_values(mines)},
        visible={"Mine": torch.tensor([True, False, True])},
    )
    net = RaggedNet(SPACE, ACTIONS, seen_by_robots())
    assert net.translation(batch).entities["Mine"].values.tolist() == [[-1, -1], [87, 89], [1, 1]]


def test_positions_have_the_scale_that_was_asked_for():
    batch = make_batch([(3, 1, 0)])
    alone = RelativePosition(kind="none")  # pairs know nothing of offsets
    nets = [
        RaggedNet(
            SPACE, ACTIONS, replace(seen_by_robots(scale={"Mine": unit}), relative_position=alone)
        )
        for unit in (1.0, 5.0)
    ]
    for own, same in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
        own.data.copy_(same.data)  # a state holds the scales, too
    mine, robot = batch.entities["Mine"], batch.entities["Robot"]
    here = robot.values[0, :2]
    near, far = mine.values.clone(), mine.values.clone()
    near[:, :2], far[:, :2] = here + torch.tensor([0.4, -0.2]), here + torch.tensor([2.0, -1.0])
    # 2 / 5 and -1 / 5 are what 0.4 / 1 and -0.2 / 1 are.
    one, other = (
        net(replace(batch, entities={**batch.entities, "Mine": mine.with_values(values)}))
        for net, values in zip(nets, (near, far), strict=True)
    )
    assert_close(one.value, other.value, **AGREE)
    assert_close(one.frames, other.frames, **AGREE)
    features = nets[1].translation.space.entities["Mine"].features
    assert features[:2] == (Continuous("x", mean=0.0, std=5.0), Continuous("y", mean=0.0, std=5.0))


def test_two_references_in_a_frame_are_an_error_that_names_the_way_out():
    net = RaggedNet(SPACE, ACTIONS, seen_by_robots())
    for use in (net, net.value, net.update_statistics):
        with pytest.raises(BatchError, match=r"(?s)frame 2.*'Robot'.*relative_position"):
            use(make_batch())


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")


def test_a_translation_that_does_not_fit_is_refused():
    for settings, match in (
        ({"reference": "Robto"}, r"(?s)unknown entity type 'Robto'.*'Robot'"),
        ({"reference": "Wall"}, "'Wall' has no position"),
        ({"reference": "Robot", "heading": "hp2"}, "no feature 'hp2'"),
        ({"reference": "Robot", "distance": 1}, "invalid distance"),
        ({"reference": 3}, "is not a name"),
        ({"reference": "Robot", "scale": 5.0}, r"(?s)scale is not a mapping.*received: +5.0"),
        ({"reference": "Robot", "scale": {"Mine": 0.0}}, "(?s)scale of 'Mine'.*number > 0"),
        ({"reference": "Robot", "scale": {"Mine": 10**400}}, "(?s)scale of 'Mine'.*number > 0"),
        ({"reference": "Robot", "scale": {"Mine": Unprintable()}}, "scale of 'Mine' is out"),
        ({"reference": "Robot", "scale": Unprintable()}, "scale is not a mapping"),
        ({"reference": "Robot", "scale": {"Wall": 2.0}}, "scale: 'Wall' has no position"),
        ({"reference": "Robot", "scale": {"Mien": 2.0}}, "unknown entity type 'Mien'"),
    ):
        with pytest.raises(SettingError, match=match):
            RaggedNet(SPACE, ACTIONS, NetConfig(translation=Translation(**settings)))
    with pytest.raises(SettingError, match="different frames"):
        RaggedNet(SPACE, ACTIONS, seen_by_robots(), NetConfig())


# Attention by itself.


def test_attention_turns_in_kernels_as_in_torch():
    torch.manual_seed(0)
    offsets = torch.tensor([0, 3, 3, 4, 24])
    qkv = torch.randn(24, 3, 2, 8, requires_grad=True)
    angles = torch.randn(24, 8)
    sines = torch.stack([-angles.sin(), angles.sin()], -1).flatten(1)
    turns = torch.stack([angles.cos().repeat_interleave(2, 1), sines], 1)
    hidden = torch.rand(24) < 0.3
    for backend in ("auto", "grouped"):
        fast = ragged_attention(qkv, offsets, hidden, backend, turns=turns)
        (slope,) = torch.autograd.grad(fast.square().sum(), qkv)
        with plain_torch():
            slow = ragged_attention(qkv, offsets, hidden, "reference", turns=turns)
            (expected,) = torch.autograd.grad(slow.square().sum(), qkv)
        assert_close(fast, slow, **AGREE)
        assert_close(slope, expected, **AGREE)
    assert (fast - ragged_attention(qkv, offsets, hidden)).abs().max() > 0.1
    with pytest.raises(BatchError, match=r"(?s)turns.*\(24, 2, 16\)"):
        ragged_attention(qkv, offsets, turns=turns[1:])


def test_turns_that_are_learned_get_a_gradient():
    """Kernels know none, so torch turns."""
    torch.manual_seed(0)
    config = NetConfig(dim=32, heads=2)
    frames = Frames(torch.tensor([0, 4]), 4, turns=torch.randn(4, 2, 32, requires_grad=True))
    TransformerBlock(config)(torch.randn(4, 32), frames).sum().backward()
    assert frames.turns.grad.abs().max() > 0


@pytest.mark.parametrize("setting", [WAVES, MLP])
def test_nobody_sees_what_is_hidden_nor_where_it_is(setting):
    net, batch = make_net(relative_position=setting), make_batch()
    shown = torch.arange(batch.entities["Mine"].num_rows) % 2 == 0
    batch = replace(
        batch,
        visible={"Mine": shown},
        actions={"Move": batch.actions["Move"], "Fire": _nobody(batch)},
    )
    given = choices(net(batch, greedy=True))
    before = net(batch, given=given)
    mines = batch.entities["Mine"]
    elsewhere = mines.with_values(torch.where(shown[:, None], mines.values, mines.values + 3))
    after = net(replace(batch, entities={**batch.entities, "Mine": elsewhere}), given=given)
    assert_close(after.actions["Move"].log_prob, before.actions["Move"].log_prob, **AGREE)
    assert (after.value - before.value).abs().max() > 1e-4
    with plain_torch():
        slow = net(batch, given=given)
    assert_close(slow.value, before.value, **AGREE)
    assert_close(slow.actions["Move"].log_prob, before.actions["Move"].log_prob, **AGREE)


def _nobody(batch):
    none = RaggedTensor.from_lengths(torch.zeros(0, dtype=torch.int64), [0] * batch.num_frames)
    return SelectActors(none, none)
