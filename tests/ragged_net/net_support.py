"""Spaces and batches that the tests of the network share."""

from dataclasses import replace

import torch
from torch.testing import assert_close

from entity_env.spaces import (
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    GlobalCategoricalActionSpace,
    ObsSpace,
    SelectEntityActionSpace,
)
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)

torch.set_num_threads(1)

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])

OBS = ObsSpace(
    entities={
        "Mine": Entity(["x", "y"]),
        "Robot": Entity(["x", Continuous("hp", mean=5.0, std=2.0), Discrete("team", 3)]),
        "Orbital Cannon": Entity(),
    }
)
GLOBAL_OBS = ObsSpace(global_features=["time", Discrete("phase", 2)], entities=OBS.entities)
ACTIONS = {"Move": CategoricalActionSpace(["a", "b", "c", "d"]), "Fire": SelectEntityActionSpace()}
GLOBAL_ACTIONS = {**ACTIONS, "Speak": GlobalCategoricalActionSpace(["yes", "no", "maybe"])}

SMALL = NetConfig(dim=16, layers=2, heads=2, value_norm="none")
LENGTHS = {"mines": [2, 0, 3, 1, 0], "robots": [1, 0, 2, 3, 0], "cannons": [1, 0, 2, 0, 1]}
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def ragged(frames, dtype=torch.int64):
    """A RaggedTensor from a list of lists of numbers."""
    flat = [value for frame in frames for value in frame]
    values = torch.tensor(flat, dtype=dtype)
    return RaggedTensor.from_lengths(values, [len(frame) for frame in frames])


def rows(lengths, width, discrete=None):
    """Random feature rows; column ``discrete[0]`` holds whole numbers below ``discrete[1]``."""
    values = torch.randn(sum(lengths), width)
    if discrete is not None:
        column, n = discrete
        values[:, column] = torch.randint(n, (sum(lengths),)).float()
    return RaggedTensor.from_lengths(values, lengths)


def random_mask(*shape):
    """A random mask with at least one True in each row."""
    mask = torch.rand(*shape) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return mask


def make_batch(mines, robots, cannons, *, with_global=False, pair_mask=False, seed=0):
    """A batch with the given lengths: robots move, cannons fire at mines and robots.

    A cannon in a frame with neither does not act, as there is nothing that it could select.
    """
    torch.manual_seed(seed)
    frames = range(len(mines))
    entities = {
        "Mine": rows(mines, 2),
        "Robot": rows(robots, 3, (2, 3)),
        "Orbital Cannon": rows(cannons, 0),
    }
    movers = ragged([range(mines[b], mines[b] + robots[b]) for b in frames])
    targets = [mines[b] + robots[b] for b in frames]
    firing = [cannons[b] if targets[b] else 0 for b in frames]
    actors = ragged([range(targets[b], targets[b] + firing[b]) for b in frames])
    actees = ragged([range(targets[b]) for b in frames])
    mask = None
    if pair_mask:
        parts = [random_mask(firing[b], targets[b]).flatten() for b in frames if targets[b]]
        values = torch.cat([torch.zeros(0, dtype=torch.bool), *parts])
        mask = RaggedTensor.from_lengths(values, [firing[b] * targets[b] for b in frames])
    actions = {
        "Move": CategoricalActors(movers, random_mask(sum(robots), 4)),
        "Fire": SelectActors(actors, actees, mask),
    }
    features = torch.zeros(len(mines), 0)
    if with_global:
        total = [[targets[b] + cannons[b]] for b in frames]
        actions["Speak"] = CategoricalActors(ragged(total), random_mask(len(mines), 3))
        phase = torch.randint(2, (len(mines), 1)).float()
        features = torch.cat([torch.randn(len(mines), 1), phase], 1)
    return EntityBatch(entities, features, {}, actions)


def make_net(*, with_global=False, seed=0, **settings):
    """A network for ``make_batch`` whose policy is far from uniform, so that tests can tell."""
    torch.manual_seed(seed)
    net = RaggedNet(
        GLOBAL_OBS if with_global else OBS, GLOBAL_ACTIONS if with_global else ACTIONS, **settings
    )
    with torch.no_grad():
        for head in net.heads:
            for parameter in head.parameters():
                parameter.normal_(std=0.5)
    return net


def choices(output):
    """The chosen actions of an output, to be given to another forward pass."""
    return {name: action.chosen.values for name, action in output.actions.items()}


def probs(action):
    """The probabilities of an ActionOutput, flat."""
    return action.probs.values if isinstance(action.probs, RaggedTensor) else action.probs


def hide(batch, **hidden):
    """The batch with the given rows of entity types hidden."""
    visible = {}
    for name, rows in hidden.items():
        visible[name] = torch.ones(batch.entities[name].num_rows, dtype=torch.bool)
        visible[name][rows] = False
    return replace(batch, visible=visible)


def disturb(batch, name, row):
    """The batch with other features for one entity."""
    values = batch.entities[name].values.clone()
    values[row, :2] += 3.0
    changed = RaggedTensor(values, batch.entities[name].offsets)
    return replace(batch, entities={**batch.entities, name: changed})


def assert_same_policy(one, two):
    """Two outputs act alike."""
    for name, action in one.actions.items():
        other = two.actions[name]
        assert torch.equal(action.chosen.values, other.chosen.values), name
        assert_close(probs(action), probs(other), **TOLERANCE)
        assert_close(action.log_prob, other.log_prob, **TOLERANCE)
        assert_close(action.entropy, other.entropy, **TOLERANCE)
