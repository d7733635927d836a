"""The Numba kernels against plain torch."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

pytest.importorskip("numba")

from entity_env import spaces
from entity_env.errors import DtypeError
from ragged_net import NetConfig, kernels, ragged_attention
from ragged_net.compiled import autograd as compiled
from ragged_net.compiled.chain import Norm, ReluLinear, chain
from ragged_net.frames import Frames
from ragged_net.kernels import jit, linear
from ragged_net.kernels.frame_attention import attend_frame, attend_frame_backward
from ragged_net.kernels.room import room_of
from ragged_net.kernels.tile import ADD, RELU, SET, WHERE, add_product, set_product
from ragged_net.kernels.vector import LANES, exp, load, maximum, store, total, where_positive
from ragged_net.model.encoder import TransformerBlock
from ragged_net.ragged import offsets_of

from numba import njit  # isort: skip

AGREE = {"rtol": 1e-5, "atol": 1e-5}
_COMPILED = shutil.ignore_patterns("__pycache__")


@njit
def product(columns, a, b, c, a_row, a_column):
    rows, depth, b_row, c_row = c.shape[0], b.shape[0], b.shape[1], c.shape[1]
    b, c = b.ravel(), c.ravel()
    if columns == 8:
        add_product(8, rows, depth, a, 0, a_row, a_column, b, 1, b_row, c, 0, c_row)
    elif columns == 16:
        add_product(16, rows, depth, a, 0, a_row, a_column, b, 1, b_row, c, 0, c_row)
    else:
        add_product(32, rows, depth, a, 0, a_row, a_column, b, 1, b_row, c, 0, c_row)


@pytest.mark.parametrize("columns", [8, 16, 32])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_products_of_any_size(depth, columns):
    rng = np.random.default_rng(depth)
    for rows in (*range(17), 23):
        # Whole numbers: the products are exact. B starts one column in, C has two to spare.
        a = rng.integers(-9, 9, (rows, depth)).astype(np.float32)
        b = rng.integers(-9, 9, (depth, columns + 3)).astype(np.float32)
        before = rng.integers(-9, 9, (rows, columns + 2)).astype(np.float32)
        expected = before.copy()
        expected[:, :columns] += a @ b[:, 1 : columns + 1]
        for flat, strides in ((a.ravel(), (depth, 1)), (a.T.ravel(), (1, rows))):
            c = before.copy()
            product(columns, flat, b, c, *strides)
            np.testing.assert_array_equal(c, expected, err_msg=f"{rows} rows")


@njit
def product_beside(how, a, b, e, e_row, c):
    rows, depth, columns = a.shape[0], a.shape[1], c.shape[1]
    a, b, c, e = a.ravel(), b.ravel(), c.ravel(), e.ravel()
    set_product(32, rows, depth, a, 0, depth, 1, b, 0, 32, c, 1, columns, how, e, 2, e_row)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 13])
@pytest.mark.parametrize("e_row", [0, 35])
def test_products_beside_another_matrix(rows, e_row):
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((rows, 5), (5, 32)))
    e = rng.integers(-300, 300, (rows, 35)).astype(np.float32)
    other = e[:, 2:34] if e_row else e[:1, 2:34]  # E starts two columns in, C one
    wanted = {
        SET: a @ b,
        ADD: a @ b + other,
        RELU: np.maximum(a @ b + other, 0),
        WHERE: np.where(other > 0, a @ b, 0),
    }
    for how, expected in wanted.items():
        c = np.full((rows, 34), 7, np.float32)
        product_beside(how, a, b, e, e_row, c)
        np.testing.assert_array_equal(c[:, 1:33], expected)
        assert (c[:, [0, 33]] == 7).all()


def test_what_is_not_a_number_stays_one_beside_another_matrix():
    nan, one = np.full((2, 1), np.nan, np.float32), np.ones((1, 32), np.float32)
    c = np.zeros((2, 34), np.float32)
    for how in (SET, ADD, RELU, WHERE):
        product_beside(how, nan, one, np.ones((2, 35), np.float32), 35, c)
        assert np.isnan(c[:, 1:33]).all()
    # A hidden layer that is NaN counts as active: its gradient must not vanish.
    product_beside(WHERE, one[:, :1], one, np.full((1, 35), np.nan, np.float32), 35, c)
    assert (c[0, 1:33] == 1).all()


@njit
def each(x, y):
    for i in range(0, x.shape[0], LANES):
        store(y, i, exp(load(x, i)))


def test_the_exponential_is_exact_to_float32_and_passes_nan_on():
    x = np.concatenate([-np.linspace(0, 87, 4095), [np.nan]]).astype(np.float32)
    y = np.empty_like(x)
    each(x, y)
    np.testing.assert_allclose(y[:-1], np.exp(x[:-1].astype(np.float64)), rtol=2.5e-7)
    assert np.isnan(y[-1])
    each(np.full(LANES, -87.1, np.float32), y)
    assert (y[:LANES] == 0).all()


@njit
def combine(x, y, z):
    store(z, 0, maximum(load(x, 0), load(y, 0)))
    store(z, LANES, where_positive(load(x, 0), load(y, 0)))
    return total(load(y, 0))


def test_vectors_by_hand():
    fours = LANES // 4
    x = np.array([1, -2, 3, np.nan] * fours, np.float32)
    y = np.array([2, 5, 1, 4] * fours, np.float32)
    z = np.empty(2 * LANES, np.float32)
    assert combine(x, y, z) == fours * (2 + 5 + 1 + 4)
    assert z[:3].tolist() == [2, 5, 3]
    assert z[LANES:].tolist() == [2, 0, 1, 4] * fours  # NaN counts as active: it must not vanish
    combine(y, x, z)
    assert np.isnan(z[3])


@njit
def multiply(x, weight, transposed, y, how, e, e_row):
    rows, columns = y.shape
    depth, panels = x.shape[1], linear.pack(weight, transposed)
    linear.linear(
        x.ravel(), 0, rows, depth, panels, y.ravel(), 0, columns, how, e.ravel(), 0, e_row
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(96, 64), (32, 544), (768, 64)])
def test_packed_weights_multiply_like_the_weights(shape, transposed):
    rng = np.random.default_rng(0)

    def whole(*sizes):  # sums of their products are exact
        return rng.integers(-9, 10, sizes).astype(np.float32)

    weight = whole(*shape)
    matrix = weight.T if transposed else weight
    depth, columns = matrix.shape
    x, bias, beside = whole(70, depth), whole(columns), whole(70, columns)
    product = x @ matrix
    for how, e, e_row, expected in (
        (SET, beside, columns, product),
        (ADD, bias, 0, product + bias),
        (ADD, beside, columns, product + beside),
        (RELU, bias, 0, np.maximum(product + bias, 0)),
        (WHERE, beside, columns, np.where(beside > 0, product, 0)),
    ):
        y = np.full((70, columns), np.nan, np.float32)
        multiply(x, weight, transposed, y, how, e, e_row)
        np.testing.assert_array_equal(y, expected)


@njit
def add_gradients(d_y, x, weight, bias):
    rows, columns, depth = d_y.shape[0], d_y.shape[1], x.shape[1]
    zero, scratch = np.int64(0), linear.gradient_scratch(columns)
    linear.add_weight_gradient(
        d_y.ravel(), zero, rows, columns, x.ravel(), zero, depth, weight.ravel(), scratch
    )
    linear.add_bias_gradient(d_y.ravel(), zero, rows, columns, bias)


@pytest.mark.parametrize(("columns", "depth"), [(32, 64), (96, 256), (1024, 32), (1056, 288)])
def test_gradients_of_a_layer_of_any_width(columns, depth):
    rng = np.random.default_rng(columns)
    for rows in (1, 7, 8, 64, 80, 81, 141):
        # Whole numbers: the sums are exact. Both gradients have something in them already.
        d_y, x = (rng.integers(-9, 9, (rows, k)).astype(np.float32) for k in (columns, depth))
        before = rng.integers(-9, 9, (columns, depth + 1)).astype(np.float32)
        weight, bias = before[:, 1:].copy(), before[:, 0].copy()
        add_gradients(d_y, x, weight, bias)
        np.testing.assert_array_equal(weight, before[:, 1:] + d_y.T @ x, err_msg=f"{rows} rows")
        np.testing.assert_array_equal(bias, before[:, 0] + d_y.sum(axis=0), err_msg=f"{rows} rows")


def both(lengths, heads, width, hidden=None, draw=torch.randn):
    """Attention and its gradient, compiled and as the reference has them."""
    torch.manual_seed(len(lengths))
    offsets = offsets_of(torch.tensor(lengths))
    qkv = draw(sum(lengths), 3, heads, width).requires_grad_()
    change = torch.randn(sum(lengths), heads, width)
    results = []
    for backend in ("numba", "reference"):
        output = ragged_attention(qkv, offsets, hidden, backend)
        results.append((output, *torch.autograd.grad(output, qkv, change)))
    return results


def are_close(found, expected):
    """To 1e-5, or of the largest entry: small ones may be differences of large terms."""
    for a, b in zip(found, expected, strict=True):
        largest = float(b.detach().abs().max()) if b.numel() else 0.0
        assert_close(a, b, rtol=0, atol=1e-5 * max(1.0, largest))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("heads", "width"), [(1, 8), (4, 8), (2, 16), (2, 24), (1, 32), (1, 64), (3, 5)]
)
def test_attention_of_every_kind_of_length(heads, width, masked):
    # Around the 8 to 32 queries that are worked on together, and the 256 keys that are.
    for lengths in ([1], [0, 16, 0], [15, 17], [16, 1, 33], [100], [2, 0, 5], [256, 257], [600]):
        torch.manual_seed(1)
        hidden = torch.rand(sum(lengths)) < 0.5 if masked else None
        assert_close(*both(lengths, heads, width, hidden), **AGREE)


@pytest.mark.parametrize("seen", [slice(0, 256), slice(256, 512), slice(512, 600)])
def test_keys_of_which_none_are_seen_together(seen):
    # All that are worked on together are hidden, and all but them.
    hidden = torch.zeros(600, dtype=torch.bool)
    hidden[seen] = True
    assert_close(*both([600], 2, 8, hidden), **AGREE)
    assert_close(*both([600], 2, 8, ~hidden), **AGREE)


@njit
def attend_and_back(qkv, length, width, hidden, out, d_qkv):
    """Attention of a frame and its gradient; returns what lies behind their room."""
    end, softmax = room_of(length, width).end, np.empty(length * 2, np.float32)
    scratch = np.full(end + 1000, np.nan, np.float32)
    scale = np.float32(1)
    attend_frame(qkv, 0, length, 1, width, scale, hidden, 0, out, 0, softmax, 0, scratch)
    attend_frame_backward(
        qkv, 0, length, 1, width, scale, hidden, 0, out, 0, softmax, 0, out, 0, d_qkv, 0, scratch
    )
    return scratch[end:]


@pytest.mark.parametrize("length", [1, LANES, LANES + 1, 256, 257, 600])
@pytest.mark.parametrize("width", [8, 24, 32])
def test_a_frame_stays_in_its_room(length, width):
    qkv = np.random.default_rng(0).standard_normal(length * 3 * width).astype(np.float32)
    out, d_qkv = np.empty(length * width, np.float32), np.empty_like(qkv)
    behind = attend_and_back(qkv, length, width, np.empty(0, np.bool_), out, d_qkv)
    assert np.isnan(behind).all()
    assert np.isfinite(out).all()  # nothing was used before it was written
    assert np.isfinite(d_qkv).all()


def test_large_scores_do_not_overflow():
    def draw(*shape):  # scores of up to 250,000, all exact: 1 / sqrt(16) is a power of 2
        return torch.randint(-250, 251, shape).float()

    are_close(*both([6], 1, 16, draw=draw))
    are_close(*both([600], 1, 16, draw=draw))  # the largest one changes from keys to keys


def blocks(dim, heads, ratio=2):
    """The same block twice: compiled, and in plain torch."""
    torch.manual_seed(0)
    pair = [
        TransformerBlock(NetConfig(dim=dim, heads=heads, mlp_ratio=ratio, attention=attention))
        for attention in ("auto", "reference")
    ]
    for parameter in pair[0].parameters():  # biases and gains that matter
        torch.nn.init.normal_(parameter, std=0.3)
    pair[1].load_state_dict(pair[0].state_dict())
    return pair


def run(block, x, frames, change):
    """Output, and the gradients of rows and parameters."""
    x = x.clone().requires_grad_()
    output = block(x, frames)
    return [output, *torch.autograd.grad(output, [x, *block.parameters()], change)]


@pytest.mark.parametrize(("dim", "heads", "ratio"), [(32, 4, 4), (64, 2, 4), (96, 4, 1)])
@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 12) | st.sampled_from([16, 64, 65, 130, 300]), max_size=30),
    masked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_compiled_block_is_the_block(dim, heads, ratio, lengths, masked, seed):
    fast, plain = blocks(dim, heads, ratio)
    torch.manual_seed(seed)
    rows = sum(lengths)
    x, change = torch.randn(rows, dim), torch.randn(rows, dim)
    hidden = torch.rand(rows) < 0.3 if masked else None
    frames = Frames(offsets_of(torch.tensor(lengths, dtype=torch.int64)), rows, hidden)
    assert compiled.can_run(x) == (rows > 0)
    assert fast.layer(frames) is not None
    # Where the ReLU sees a zero but for rounding, gradients differ and neither is wrong.
    inner = plain.mlp[0].register_forward_hook(_no_kink)
    expected = run(plain, x, frames, change)
    inner.remove()
    are_close(run(fast, x, frames, change), expected)


def _no_kink(module, x, y):
    assume(bool((y.abs() > 1e-6).all()))


def test_a_block_that_is_not_a_number_stays_so():
    fast, _ = blocks(32, 4)
    x = torch.randn(5, 32)
    x[2, 7] = float("nan")
    output = fast(x, Frames(torch.tensor([0, 3, 5]), 5))
    assert output[:3].isnan().all()
    assert output[3:].isfinite().all()


def test_one_input_gives_one_result_to_the_last_bit():
    fast, _ = blocks(64, 4)
    frames = Frames(offsets_of(torch.tensor([5, 7, 90, 1])), 103)
    x, change = torch.randn(103, 64), torch.randn(103, 64)
    first, second = (run(fast, x, frames, change) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_without_gradients_the_result_is_the_same_to_the_last_bit():
    # Nothing is kept for a backward pass then: other buffers, the same arithmetic.
    fast, _ = blocks(64, 4)
    lengths = [5] * 20 + [90, 1, 0, 17]
    x, frames = torch.randn(208, 64), Frames(offsets_of(torch.tensor(lengths)), 208)
    with_gradients = fast(x, frames)
    with torch.no_grad():
        assert torch.equal(fast(x, frames), with_gradients)


def test_plan_by_hand():
    # Lengths 2, 0, 33, 1, 2, 5: sorted 1, 2, 2, 5, 33 are the frames 3, 0, 4, 5, 2; 0 is left out.
    plan = Frames(offsets_of(torch.tensor([2, 0, 33, 1, 2, 5])), 43).plan
    assert plan.order.tolist() == [3, 0, 4, 5, 2]
    assert plan.origins.tolist() == [35, 0, 36, 38, 2]
    assert plan.starts.tolist() == [0, 1, 3, 5, 10, 43]
    # One frame of length 1 and two of length 2 fill enough lanes; one of 5, or of 33, does not.
    assert plan.groups.tolist() == [0, 1, 3, 4, 5]
    assert plan.in_lanes.tolist() == [True, True, False, False]
    # Kept for each head: 1 * 1 and 2 * 2 in every lane; 2 * 5; 2 * 33.
    kept = [0, LANES, 5 * LANES, 5 * LANES + 10, 5 * LANES + 76]
    assert plan.kept.tolist() == kept
    assert (plan.longest, plan.longest_in_lanes) == (33, 2)


def test_hidden_rows_keep_frames_out_of_lanes():
    hidden = torch.zeros(40, dtype=torch.bool)
    plan = Frames(offsets_of(torch.tensor([2] * 20)), 40, hidden).plan
    assert not plan.in_lanes.any()


def test_groups_hold_one_frame_for_each_lane():
    frames = 2 * LANES + 3
    plan = Frames(offsets_of(torch.tensor([3] * frames)), 3 * frames).plan
    assert plan.groups.tolist() == [0, LANES, 2 * LANES, frames]


OTHER = """
import sys
import pytest
import ragged_net.kernels.machine as machine
machine.LANES, machine.TILE_ROWS, machine.TILE_COLUMNS = map(int, sys.argv[1:4])
machine.WIDE_LEFT, machine.WIDE_RIGHT = map(int, sys.argv[4:6])
sys.exit(pytest.main(["-v", "-p", "no:cacheprovider", "-k", *sys.argv[6:]]))
"""


@pytest.mark.platforms
def test_the_vectors_of_another_processor(tmp_path):
    """AVX-512's on machines with narrower ones (LLVM splits them), and the other way round."""
    other = (8, 4, 16, 128, 128) if LANES == 16 else (16, 8, 32, 1024, 256)
    some = (
        "by_hand or packed or any_width or every_kind_of_length or (compiled_block_is and 32-4-4)"
        " or (results_and_gradients and 0.5-16)"
    )
    files = __file__, str(Path(__file__).with_name("test_net_select.py"))
    done = subprocess.run(
        [sys.executable, "-c", OTHER, *map(str, other), some, *files],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_a_frame_does_not_depend_on_its_neighbours():
    fast, _ = blocks(32, 4)
    parts = [torch.randn(n, 32) for n in (3, 40, 1, 33, 64)]
    together = fast(
        torch.cat(parts), Frames(offsets_of(torch.tensor([len(part) for part in parts])), 141)
    )
    alone = [fast(part, Frames(torch.tensor([0, len(part)]), len(part))) for part in parts]
    assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_single_layers(rows):
    torch.manual_seed(rows)
    linear, norm = torch.nn.Linear(96, 32), torch.nn.LayerNorm(32)
    torch.nn.init.normal_(norm.weight)
    x, change = torch.randn(rows, 96, requires_grad=True), torch.randn(rows, 32)
    parameters = [x, *linear.parameters(), *norm.parameters()]
    results = []
    for y in (
        chain([ReluLinear([*linear.parameters()]), Norm([*norm.parameters()])], x),
        norm(linear(x.relu())),
    ):
        results.append([y, *torch.autograd.grad(y, parameters, change)])
    for fast, slow in zip(*results, strict=True):
        largest = max(1.0, float(slow.detach().abs().max()))
        assert_close(fast, slow, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("x", "heads"),
    [
        (torch.zeros(3, 32, dtype=torch.float64), 4),
        (torch.zeros(3, 32, dtype=torch.bfloat16), 4),
        (torch.zeros(3, 32, device="meta"), 4),
        (torch.zeros(3, 48), 4),
        (torch.zeros(3, 32), 8),
        (torch.zeros(0, 32), 4),
    ],
)
def test_blocks_that_plain_torch_must_run(x, heads):
    frames = Frames(torch.tensor([0, len(x)]), len(x))
    layer = blocks(x.shape[1], heads, 1)[0].layer(frames)
    assert not (compiled.can_run(x) and layer is not None)


def test_autocast_runs_in_plain_torch():
    x = torch.zeros(3, 32)
    assert compiled.can_run(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not compiled.can_run(x)


def test_weights_of_another_dtype_are_refused():
    block, _ = blocks(32, 4)
    block.mlp.double()
    with pytest.raises(DtypeError, match="the weights of a layer do not fit its rows"):
        block(torch.zeros(3, 32), Frames(torch.tensor([0, 3]), 3))


def test_gradients_of_many_rows_are_exact():
    # One running sum in float32 over 100,000 rows would be off by 1.5e-5 in the last bias.
    fast, plain = blocks(32, 4)
    plain.double()
    plain.backend = "grouped"  # the reference takes quadratic time
    torch.manual_seed(0)
    frames = Frames(offsets_of(torch.tensor([5] * 20_000)), 100_000)
    x, change = torch.randn(100_000, 32), torch.randn(100_000, 32) + 0.5
    ours = run(fast, x, frames, change)
    exact = run(plain, x.double(), frames, change.double())
    for name, a, b in zip(["y", "x", *dict(fast.named_parameters())], ours, exact, strict=True):
        errors = (a - b).detach().abs() / b.detach().abs().max()
        if name == "x":  # a frame with a ReLU at its kink may fall on the other side of it
            assert (errors.amax(1) > 1e-5).sum() <= 10
        else:
            assert errors.max() < (5e-6 if name in ("y", "mlp.2.bias", "out.bias") else 3e-5), name


def test_the_default_dtype_does_not_matter():
    torch.set_default_dtype(torch.float64)
    try:
        qkv, offsets = torch.randn(5, 3, 2, 8, dtype=torch.float32), torch.tensor([0, 5])
        expected = ragged_attention(qkv, offsets, backend="reference")
        assert_close(ragged_attention(qkv, offsets), expected, **AGREE)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_chosen_backend_runs_in_plain_torch():
    assert TransformerBlock(NetConfig()).fused
    assert not TransformerBlock(NetConfig(attention="grouped")).fused


@pytest.mark.parametrize("how", ["missing", "switched off"])
def test_without_numba_everything_runs_in_plain_torch(how):
    prepare = 'sys.modules["numba"] = None' if how == "missing" else ""
    switch = {"NUMBA_DISABLE_JIT": "1"} if how == "switched off" else {}
    code = f"""
import sys
{prepare}
import torch
from net_support import make_batch, make_net
from ragged_net import NetConfig, ragged_attention
from ragged_net.compiled import autograd as compiled
from ragged_net import kernels
from ragged_net.frames import Frames
from ragged_net.model.encoder import TransformerBlock
assert not kernels.available()
ragged_attention(torch.zeros(3, 3, 2, 8), torch.tensor([0, 3]))
TransformerBlock(NetConfig())(torch.zeros(3, 64), Frames(torch.tensor([0, 3]), 3))
net, batch = make_net(config=NetConfig()), make_batch([5, 0, 3], [2, 0, 1], [1, 0, 0])
net(batch).value.sum().backward()
assert torch.equal(net.value(batch), net(batch).value)
try:
    ragged_attention(torch.zeros(3, 3, 2, 8), torch.tensor([0, 3]), backend="numba")
except ValueError as error:
    assert "Numba missing" in str(error), error
else:
    raise SystemExit("no error")
"""
    here = Path(__file__).parent
    paths = [here, here.parents[1], os.environ.get("PYTHONPATH", "")]
    environment = os.environ | switch | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_kernels_are_compiled_again_when_one_of_them_changes(tmp_path):
    package = tmp_path / "ragged_net"
    shutil.copytree(Path(kernels.__file__).parents[1], package, ignore=_COMPILED)
    shutil.copytree(Path(spaces.__file__).parent, tmp_path / "entity_env", ignore=_COMPILED)
    code = (
        "import numpy as np\n"
        "from ragged_net import kernels\n"
        "from ragged_net.kernels.layers import norm_forward\n"
        "cold = not kernels.load('jit').is_cached(norm_forward)\n"
        "x, y, one = np.arange(16, dtype=np.float32), np.empty(16, np.float32), np.ones(16)\n"
        "norm_forward(x, one.astype(np.float32), 0 * x, y)\n"
        "print(cold, y.std().round(2))\n"
    )

    def output():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert output() == ["True", "1.0"]
    assert output() == ["False", "1.0"]
    # layers.py calls what is in norm.py: with a huge epsilon the rows shrink.
    source = package / "kernels" / "norm.py"
    source.write_text(source.read_text().replace("EPSILON = 1e-5", "EPSILON = 1e5"))
    assert output() == ["True", "0.01"]


@pytest.mark.platforms
def test_what_was_compiled_for_another_processor_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # such as a home that computers share
    code = (
        "import numpy as np\n"
        "from ragged_net import kernels\n"
        "from ragged_net.kernels.indices import frame_ids\n"
        "print(kernels.load('jit').is_cached(frame_ids))\n"
        "frame_ids(np.array([0, 2]), 2)\n"
    )

    def output():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert output() == "False"
    assert output() == "True"
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert output() == "False"


@pytest.mark.parametrize(
    ("processor", "lanes"),
    [({"NUMBA_CPU_NAME": "generic"}, 8), ({"NUMBA_CPU_FEATURES": "+avx2,+avx512f"}, 16)],
)
def test_vectors_fit_the_processor_that_kernels_are_compiled_for(processor, lanes):
    code = "from ragged_net.kernels.machine import LANES; print(LANES)"
    environ = {**os.environ, **processor}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert (done.stdout.strip(), done.stderr) == (str(lanes), "")


def test_on_a_full_disk_kernels_are_compiled_anew(monkeypatch, tmp_path):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.FunctionCache.save_overload", full)
    module = tmp_path / "doubling.py"
    module.write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    double = jit.kernel(importlib.import_module("doubling").double)
    assert double(4) == 8
    assert double.overloads
