"""A transformer's first weights, and what it takes for frames."""

import pytest
import torch
from net_support import LENGTHS, OBS, make_batch

from entity_env.errors import DtypeError
from ragged_net import EntityEmbedding, Frames, Layout, NetConfig, RaggedTransformer


@pytest.mark.parametrize("layers", [1, 2, 8])
def test_residual_branches_begin_smaller_the_more_there_are(layers):
    """By 1 / sqrt(2 * layers): the sum of all branches then keeps its size at any depth."""
    torch.manual_seed(0)
    config = NetConfig(dim=128, layers=layers, heads=4)
    for block in RaggedTransformer(config).blocks:
        up, _, down = block.mlp
        for layer, gain in ((block.out, (2 * layers) ** -0.5), (down, (2 * layers) ** -0.5)):
            # Of 16,384 weights and more the deviation is known to 1%.
            expected = gain / layer.in_features**0.5
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.03)
        for layer in (block.qkv, up):
            expected = layer.in_features**-0.5
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.03)


def test_the_first_rows_keep_their_size_at_any_depth():
    torch.manual_seed(0)
    frames = Frames(torch.arange(0, 401, 4), 400)
    x = torch.randn(400, 64)
    for layers in (1, 4, 16):
        with torch.no_grad():
            y = RaggedTransformer(NetConfig(dim=64, layers=layers, heads=4))(x, frames)
        assert 0.3 < (y - x).std() < 1.1


@pytest.mark.parametrize("dim", [32, 24])  # the second is not for kernels
def test_a_layout_says_which_rows_belong_together(dim):
    torch.manual_seed(0)
    batch, config = make_batch(**LENGTHS), NetConfig(dim=dim, layers=2, heads=2)
    layout, transformer = Layout.of(batch), RaggedTransformer(config)
    with torch.no_grad():
        x = EntityEmbedding(OBS, dim, with_global=False)(batch, layout)
        y = transformer(x, layout)
        assert torch.equal(y, transformer(x, Frames(layout.offsets, layout.num_rows)))
        start, end = layout.offsets[2:4].tolist()
        alone = Frames(torch.tensor([0, end - start]), end - start)
        torch.testing.assert_close(
            y[start:end], transformer(x[start:end], alone), rtol=1e-5, atol=1e-5
        )
    with pytest.raises(DtypeError, match=r"(?s)Layout or Frames.*Tensor"):
        transformer(x, layout.offsets)
