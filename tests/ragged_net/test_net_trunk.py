"""Trunks and heads of somebody else's around, and within, a RaggedNet."""

from __future__ import annotations

import pytest
import torch
from net_support import ACTIONS, LENGTHS, OBS, SMALL, hide, make_batch
from torch import nn
from torch.testing import assert_close

from entity_env.errors import BatchError, DtypeError, SettingError
from ragged_net import NetConfig, RaggedNet, RelativePosition


class Pooling(nn.Module):
    """Each row and the mean of its frame, of which nobody here knows that it is one of ours."""

    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(2 * dim, dim)

    def forward(self, rows, offsets):
        frames = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
        sums = rows.new_zeros(len(offsets) - 1, rows.shape[1]).index_add(0, frames, rows)
        means = sums / offsets.diff().clamp_min(1)[:, None]
        return rows + self.linear(torch.cat([rows, means[frames]], 1))


def network(trunk, **settings):
    torch.manual_seed(0)
    return RaggedNet(OBS, ACTIONS, NetConfig(dim=16, layers=1, heads=2, **settings), trunk=trunk)


@pytest.mark.parametrize("settings", [{}, {"memory": "gru", "memory_size": 8}])
def test_a_trunk_stands_in_for_the_transformer(settings):
    batch = make_batch(**LENGTHS)
    net = network(Pooling(16), **settings)
    state = None if net.memory is None else net.initial_state(batch.num_frames)
    output = net(batch, memory=state, greedy=True)
    assert not any("qkv" in name for name, _ in net.named_parameters())
    (output.value.sum() + sum(a.log_prob.sum() for a in output.actions.values())).backward()
    assert net.encoder.transformer.module.linear.weight.grad.abs().sum() > 0
    # With a trunk that returns what it gets, a frame is the mean of its embedded entities.
    plain = network(nn.Identity())
    plain.encoder.transformer.module.forward = lambda rows, offsets: rows
    layout, _ = plain._arrange(batch, None)
    rows = plain.encoder.embed(batch, layout)
    means = torch.stack([part.mean(0) for part in rows.split(layout.offsets.diff().tolist())])
    got = plain(batch).frames
    occupied = layout.offsets.diff() > 0
    assert_close(got[occupied], means[occupied])


def test_frames_do_not_see_each_other_through_a_trunk():
    net = network(Pooling(16))
    batch = make_batch(**LENGTHS)
    for frame in range(5):
        alone = net(batch.select(torch.tensor([frame])), greedy=True)
        assert_close(alone.value, net(batch, greedy=True).value[frame : frame + 1])


def test_what_a_trunk_cannot_do_is_said():
    with pytest.raises(SettingError, match="relative positions"):
        network(Pooling(16), relative_position=RelativePosition({"Mine": ["x", "y"]}))
    with pytest.raises(DtypeError, match="trunk"):
        network(lambda rows, offsets: rows)
    with pytest.raises(BatchError, match="hidden"):
        network(Pooling(16))(hide(make_batch(**LENGTHS), Mine=[0]))

    class Short(nn.Module):
        def forward(self, rows, offsets):
            return rows[1:]

    with pytest.raises(BatchError, match="another number of rows"):
        network(Short())(make_batch(**LENGTHS))


@pytest.mark.parametrize("separate", [False, True])
def test_a_head_of_your_own_reads_the_frames_and_trains_the_network(separate):
    """The number of robots: a linear head alone cannot know it better than the mean."""
    torch.manual_seed(0)
    net = RaggedNet(OBS, ACTIONS, SMALL, SMALL if separate else None)
    head = nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
    batch = make_batch([2, 1, 3, 1] * 4, [1, 2, 3, 4] * 4, [1, 0, 2, 1] * 4)
    truth = batch.entities["Robot"].lengths.float()
    losses = []
    for _ in range(60):
        output = net(batch, greedy=True)
        assert output.frames.shape == (16, 16)
        loss = nn.functional.mse_loss(head(output.frames).squeeze(-1), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 < 1.0 < losses[0]  # the variance of 1, 2, 3, 4 is 1.25


def test_frames_are_the_means_that_the_value_reads():
    net = RaggedNet(OBS, ACTIONS, SMALL)
    batch = make_batch(**LENGTHS)
    output = net(batch, greedy=True)
    assert_close(net.value_head(output.frames), output.value)
    parts = [net(batch.select(torch.tensor(part)), greedy=True) for part in ([0, 1], [2, 3, 4])]
    assert_close(type(output).cat(parts).frames, output.frames)
