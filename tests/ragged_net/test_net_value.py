"""The value head, by hand."""

import torch

from ragged_net.heads.value import ValueHead


def test_by_hand():
    head = ValueHead(32)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
        head.mlp[0].weight[0, 0] = 2.0
        head.mlp[0].weight[1, 1] = -1.0
        head.mlp[0].bias[2] = 0.5
        head.mlp[2].weight[0, :3] = torch.tensor([10.0, 100.0, 1000.0])
        head.mlp[2].bias[0] = 7.0
    x = torch.zeros(3, 32)
    x[:, 0], x[:, 1] = torch.tensor([2.0, 0.0, 5.0]), torch.tensor([2.0, 0.0, -6.0])
    # Hidden: 2 * column 0, -1 * column 1 where that is over 0, and 0.5.
    values = head(x)
    expected = [10 * 4 + 500 + 7, 500 + 7, 10 * 10 + 100 * 6 + 500 + 7]
    assert values.tolist() == expected
    assert head(x[:0]).shape == (0,)


def test_a_frame_that_is_not_a_number_stays_so_and_alone():
    means = torch.randn(2, 32)
    means[1, 7] = float("nan")
    values = ValueHead(32)(means)
    assert values.isnan().tolist() == [False, True]
