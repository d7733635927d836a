"""Entities that show the same number see that they do: properties, kernels, and what it is for."""

from contextlib import nullcontext

import pytest
import torch
from net_support import choices
from torch.testing import assert_close

from entity_env.errors import SettingError
from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, Grid, ObsSpace, Position
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    plain_torch,
)
from ragged_net.layout import Layout
from ragged_net.model.turns import NUMBERS, RelationTurns

SPACE = ObsSpace(
    entities={
        "Job": Entity(["machine", "next", "work"]),
        "Machine": Entity(["index", "hot"]),
        "Clock": Entity(["left"]),
    }
)
ACTIONS = {"Guess": CategoricalActionSpace(["cold", "hot"])}
BOTH = [["Job.machine", "Machine.index"], ["Job.next", "Machine.index"]]


def make_batch(jobs, machines, hot):
    """Frames of jobs (B, J, 2: machine, next), machines (B, M), whether they are hot, a clock."""
    frames = len(machines)
    work = torch.zeros(*jobs.shape[:2], 1)
    lists = {
        "Job": torch.cat([jobs.float(), work], 2),
        "Machine": torch.stack([machines.float(), hot.float()], 2),
        "Clock": torch.ones(frames, 1, 1),
    }
    entities = {
        name: RaggedTensor.from_lengths(values.flatten(0, 1), [values.shape[1]] * frames)
        for name, values in lists.items()
    }
    per = jobs.shape[1]
    actors = RaggedTensor.from_lengths(torch.arange(per).repeat(frames), [per] * frames)
    mask = torch.ones(frames * per, 2, dtype=torch.bool)
    return EntityBatch(
        entities, torch.zeros(frames, 0), {}, {"Guess": CategoricalActors(actors, mask)}
    )


def drawn(frames, seed, jobs=3, machines=5):
    """Machines in any order, jobs that name some of them."""
    torch.manual_seed(seed)
    index = torch.stack([torch.randperm(900)[:machines] for _ in range(frames)])
    picked = torch.randint(machines, (frames, jobs, 2))
    named = index.gather(1, picked.flatten(1)).view(picked.shape)
    hot = torch.randint(2, (frames, machines))
    answers = hot.gather(1, picked[..., 0])
    return make_batch(named, index, hot), answers.flatten()


def make_net(**settings):
    torch.manual_seed(1)
    return RaggedNet(SPACE, ACTIONS, NetConfig(**{"dim": 32, "heads": 2, **settings}))


def one_frame(machine, following, index):
    frame = torch.tensor
    return make_batch(frame([[[machine, following]]]), frame([[index]]), frame([[1]]))


def test_only_whether_numbers_are_the_same_matters():
    net = make_net(relations=BOTH)
    for head in net.parameters():
        torch.nn.init.normal_(head, std=0.3)
    same = [net.value(one_frame(n, -1, n)) for n in (0, 7, 900)]
    assert_close(same[0], same[1])
    assert_close(same[0], same[2])
    other = [net.value(one_frame(n, -1, n + 2)) for n in (0, 7)]
    # Random angles: what differs does so in its own way, and never as what is the same.
    assert not torch.isclose(other[0], same[0], atol=1e-4)
    assert not torch.isclose(other[0], other[1], atol=1e-4)
    assert_close(net.value(one_frame(NUMBERS + 3, -1, 3)), net.value(one_frame(3, -1, 3)))


def test_turns_by_hand():
    """Heads of 16 numbers have 8 pairs, of which 6 turn: 3 by each of the two relations in turn."""
    turns = RelationTurns(SPACE, NetConfig(dim=32, heads=2, relations=BOTH))
    batch = one_frame(3, -1, 3)
    found = turns(batch, Layout.of(batch))
    job, machine, clock = found.view(3, 2, 2, 8, 2)  # cos or sin, heads, pairs, numbers
    lengths = (job[0] ** 2 + job[1] ** 2)[..., 0]
    assert_close(lengths, torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 1]).repeat(2, 1))  # no next one
    assert_close(job[:, :, 0:6:2], machine[:, :, 0:6:2])  # the same machine
    assert_close((machine[0] ** 2 + machine[1] ** 2), torch.ones(2, 8, 2))
    assert clock.abs().sum() == 2 * 2 * 2, "two pairs of each head stand still, with cosine 1"


@pytest.mark.parametrize("dim", [32, 64])
def test_compiled_blocks_see_relations_as_torch_does(dim):
    pytest.importorskip("numba")
    net, (batch, _) = make_net(dim=dim, relations=BOTH), drawn(20, seed=2)
    results = []
    for context in (nullcontext(), plain_torch()):
        net.zero_grad()
        with context:
            given = choices(net(batch, greedy=True))
            output = net(batch, given=given)
        (output.value.mean() + output.actions["Guess"].log_prob.mean()).backward()
        gradients = [own.grad.flatten() for own in net.parameters() if own.grad is not None]
        results.append((output.value.detach(), torch.cat(gradients)))
    assert_close(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("relations", "match"),
    [
        ([["Job.machine", "Machin.index"]], "did you mean 'Machine'"),
        ([["Job.machin", "Machine.index"]], "did you mean 'machine'"),
        ([["Job.machine", "Job.next"]], "twice in one relation"),
        ([["Job", "Machine.index"]], "names no features"),
        (["Job.machine"], "names no features"),
        ([], "names no features"),
        ([["Door.kind", "Job.next"]], "a discrete feature"),
        ([["Tile.h", "Job.next"]], "names the Grid"),
        (BOTH * 4, "too few"),
    ],
)
def test_bad_relations(relations, match):
    space = ObsSpace(
        entities={
            **SPACE.entities,
            "Door": Entity([Discrete("kind", 3)]),
            "Tile": Grid((2, 2), ["h"]),
        }
    )
    with pytest.raises(SettingError, match=match):
        RaggedNet(space, ACTIONS, NetConfig(dim=32, heads=2, relations=relations))


def test_relations_and_positions_turn_the_same_numbers():
    space = ObsSpace(entities={"Job": Entity([Position("x", "y"), "machine"])})
    with pytest.raises(SettingError, match="cannot be combined"):
        RaggedNet(space, ACTIONS, NetConfig(relations=[["Job.machine"]]))
