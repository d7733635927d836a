"""Kernels of the GPU against the reference; without a GPU Triton's interpreter runs them."""

import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anybody imports Triton

from entity_env.errors import DeviceError, GradientError
from ragged_net import ragged_attention
from ragged_net.frames import Frames
from ragged_net.gpu import attention as gpu
from ragged_net.gpu.attention import Spans, Tiles
from ragged_net.model import attention as chosen
from ragged_net.ragged import offsets_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = pytest.mark.skipif(
    not gpu.available(torch.device(DEVICE)), reason="Triton is not installed, or finds no GPU"
)
LENGTHS = {
    "one entity": [1],
    "empty frames": [0, 0, 3, 0, 1, 0, 0, 17, 33, 0],
    "alone": [1] * 20,
    "mixed": [5, 5, 2, 70, 0, 1, 40, 5],
    "long": [200],
}


def both(backend, qkv, offsets, hidden, weight):
    """Output and gradient."""
    qkv = qkv.clone().requires_grad_()
    output = ragged_attention(qkv, offsets, hidden, backend=backend)
    (gradient,) = torch.autograd.grad(output, qkv, weight.to(output.dtype))
    return output.detach(), gradient


def compare(lengths, heads, width, dtype=torch.float32, masked=False):
    torch.manual_seed(0)
    rows = sum(lengths)
    offsets = offsets_of(torch.tensor(lengths)).to(DEVICE)
    qkv = torch.randn(rows, 3, heads, width, device=DEVICE).to(dtype)
    weight = torch.randn(rows, heads, width, device=DEVICE).to(dtype)
    hidden = torch.rand(rows, device=DEVICE) < 0.4 if masked else None
    found = both("triton", qkv, offsets, hidden, weight)
    expected = both("reference", qkv.double(), offsets, hidden, weight.double())
    close = 2e-5 if dtype == torch.float32 else 2e-2
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        assert_close(ours.double(), exact, rtol=close, atol=close)
    with torch.no_grad():
        assert torch.equal(ragged_attention(qkv, offsets, hidden, backend="triton"), found[0])


@runs
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_kernels_agree_with_the_reference_in_float64(lengths, masked):
    compare(lengths, 2, 16, masked=masked)


@runs
@pytest.mark.parametrize("width", [8, 12, 24, 64, 128])
def test_heads_of_any_width(width):
    compare([3, 0, 1, 9], 3, width)


@runs
@pytest.mark.parametrize("tiles", [Tiles(16, 32, 1), Tiles(32, 16, 2), Tiles(64, 32, 4)])
@pytest.mark.parametrize("lengths", [LENGTHS["empty frames"], LENGTHS["mixed"]])
def test_tiles_of_any_size(monkeypatch, tiles, lengths):
    monkeypatch.setattr(gpu, "choose_tiles", lambda *_: tiles)
    compare(lengths, 1, 16, masked=True)


@runs
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    if dtype == torch.bfloat16 and DEVICE == "cpu":
        pytest.skip("Triton's interpreter knows no bfloat16")
    compare(LENGTHS["mixed"], 2, 32, dtype, masked=True)


@runs
def test_gradients_cannot_be_differentiated_and_say_so():
    qkv = torch.randn(2, 3, 1, 8, device=DEVICE, requires_grad=True)
    output = ragged_attention(qkv, torch.tensor([0, 2], device=DEVICE), backend="triton")
    (gradient,) = torch.autograd.grad(output.sum(), qkv, create_graph=True)
    with pytest.raises(GradientError, match="plain_torch"):
        gradient.sum().backward()


@pytest.mark.platforms
@pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")
@pytest.mark.skipif(
    importlib.util.find_spec("triton") is not None, reason="Triton is installed for all tests"
)
def test_a_few_shapes_in_the_interpreter():
    """Triton takes a gigabyte and no card; it is installed once, beside the other packages."""
    root = Path(__file__).parents[2]
    folder, wanted = root / ".venv-triton", "triton==3.9.0"
    done = folder / "installed.txt"
    if not done.exists() or done.read_text() != wanted:
        install = ["-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([sys.executable, *install, wanted], check=True)
        done.write_text(wanted)
    run = ["-m", "pytest", "-n", "0", "-q", __file__, "-k", "not long and not mixed", "-rs"]
    env = {**os.environ, "PYTHONPATH": str(folder), "TRITON_INTERPRET": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    found = subprocess.run(
        [sys.executable, *run], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "Triton is not installed" not in found.stdout, found.stdout


def test_spans_by_hand():
    # Lengths 0, 2, 0, 3, 0: rows 0 and 1 lie in the frame from 0 to 2, the others in that to 5.
    spans = Spans.of(torch.tensor([0, 0, 2, 2, 5, 5]), 5)
    assert spans.starts.tolist() == [0, 0, 2, 2, 2]
    assert spans.ends.tolist() == [2, 2, 5, 5, 5]
    assert spans.starts.dtype == spans.ends.dtype == torch.int32
    assert spans.mean == 1.0


def test_short_frames_have_small_tiles_and_wide_heads_no_large_ones():
    assert gpu.choose_tiles(torch.float32, 16, 8.0) == Tiles(16, 16, 1)
    assert gpu.choose_tiles(torch.bfloat16, 64, 100.0) == Tiles(64, 32, 4)
    assert gpu.choose_tiles(torch.float32, 128, 100.0) == Tiles(32, 32, 4)


class OnCuda:
    """A stand-in for a tensor on a GPU, of which only this is asked."""

    is_cpu, device = False, torch.device("cuda", 0)

    def __init__(self, dtype, width=16):
        self.dtype, self.shape = dtype, (9, 3, 2, width)


FRAMES = Frames(torch.tensor([0, 2]), 2)


@pytest.mark.parametrize(
    ("dtype", "width", "expected"),
    [
        (torch.float32, 16, "triton"),
        (torch.bfloat16, 8, "triton"),
        (torch.float16, 128, "triton"),
        (torch.float64, 16, "grouped"),
        (torch.float32, 136, "grouped"),
    ],
)
def test_the_backend_that_auto_takes_on_a_gpu(monkeypatch, dtype, width, expected):
    monkeypatch.setattr(gpu, "_obstacle", lambda device: None)
    assert chosen._auto(OnCuda(dtype, width), FRAMES) == expected


def cards(monkeypatch, capability=(9, 0), has_triton=True, fails=None):
    """Pretend that there is such a card."""

    def run(*arguments, **settings):
        if fails is not None:
            raise fails

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: None)
    monkeypatch.setattr(torch, "tensor", lambda numbers, device: None)
    monkeypatch.setattr(gpu.Spans, "of", lambda offsets, rows: None)
    monkeypatch.setattr(gpu, "_triton_is_here", lambda: has_triton)
    monkeypatch.setattr(gpu, "_run_forward", run)
    gpu._obstacle.cache_clear()


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ({"has_triton": False}, "Triton is not installed"),
        ({"capability": (7, 5)}, "compute capability 8.0"),
        ({"fails": RuntimeError("PTX was built\nfor another driver")}, "RuntimeError: PTX was"),
    ],
)
def test_a_gpu_without_triton_says_why_once_and_runs_plain_torch(monkeypatch, card, reason):
    cards(monkeypatch, **card)
    with pytest.warns(UserWarning, match=rf"plain torch, slower: .*{reason}") as warned:
        found = [chosen._auto(OnCuda(torch.float32), FRAMES) for _ in range(2)]
    assert found == ["grouped"] * 2
    assert len(warned) == 1
    assert "\n" not in str(warned[0].message)
    gpu._obstacle.cache_clear()


def test_a_gpu_with_triton_says_nothing(monkeypatch):
    cards(monkeypatch)
    with warnings.catch_warnings(action="error"):
        assert chosen._auto(OnCuda(torch.float32), FRAMES) == "triton"
    gpu._obstacle.cache_clear()


def test_what_it_cannot_run_is_refused():
    with pytest.raises(DeviceError, match="'triton' cannot run this batch"):
        ragged_attention(
            torch.zeros(2, 3, 1, 8, dtype=torch.float64), torch.tensor([0, 2]), backend="triton"
        )
