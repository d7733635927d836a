"""A batch shared among threads: the numbers of a single one, and no thread left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import integers, lists
from net_support import make_batch, make_net
from torch.testing import assert_close

pytest.importorskip("numba")

from entity_env.errors import SettingError
from ragged_net import NetConfig, get_threads, set_threads
from ragged_net import frames as frames_module
from ragged_net.compiled import autograd as compiled
from ragged_net.compiled import chain as compiled_layers
from ragged_net.frames import Frames
from ragged_net.kernels import threads
from ragged_net.kernels.threads import shares, together
from ragged_net.model.encoder import RaggedTransformer
from ragged_net.ragged import offsets_of

LENGTHS = [5, 0, 1, 40, 3, 3, 1, 12, 70, 2, 7] * 5


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(threads, "LEAST", 1)
    yield
    set_threads(1)


def frames_of(lengths, hidden=None):
    offsets = offsets_of(torch.tensor(lengths))
    return Frames(offsets, int(offsets[-1]), hidden)


def run(number, frames, settings):
    """The rows of a transformer and all gradients, from so many threads."""
    set_threads(number)
    torch.manual_seed(0)
    made = RaggedTransformer(NetConfig(layers=2, **settings))
    x = torch.randn(frames.num_rows, settings["dim"], requires_grad=True)
    rows = made(x, frames)
    gradients = torch.autograd.grad(rows, [x, *made.parameters()], torch.randn(rows.shape))
    with torch.no_grad():
        assert torch.equal(made(x, frames), rows)
    return rows, gradients


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{"dim": 32, "heads": 2}, {"dim": 64, "mlp_ratio": 4}, {"dim": 24, "heads": 3}],
    ids=["compiled", "wide", "attention alone"],
)
def test_several_threads_compute_what_one_does(settings, masked):
    frames = frames_of(LENGTHS)
    if masked:
        frames = frames_of(LENGTHS, torch.arange(frames.num_rows) % 3 == 0)
    rows, gradients = run(1, frames, settings)
    for number in (2, 3, 8):
        own_rows, own_gradients = run(number, frames, settings)
        assert torch.equal(own_rows, rows)
        assert torch.equal(own_gradients[0], gradients[0])
        for own, one in zip(own_gradients, gradients, strict=True):
            assert_close(own, one, rtol=1e-5, atol=1e-5 * float(one.abs().max()))
        assert all(map(torch.equal, own_gradients, run(number, frames, settings)[1]))


def test_more_threads_than_frames():
    one, several = (run(number, frames_of([2, 3]), {"dim": 32})[0] for number in (1, 8))
    assert torch.equal(one, several)


def test_a_whole_network_acts_alike():
    net = make_net(config=NetConfig(dim=32, layers=2))
    batch = make_batch([5, 0, 0, 3] * 6, [1, 2, 0, 1] * 6, [0, 1, 0, 0] * 6)
    values = []
    for number in (1, 4):
        set_threads(number)
        values.append(net(batch).value)
    assert torch.equal(*values)


def test_shares_are_nearly_equal():
    # Frames of over 32 rows are groups of their own; a row costs 10 and its length.
    plan = frames_of([99, 33, 33, 33]).plan  # sorted: 1,419 three times, then 10,791
    set_threads(2)
    assert [part.groups.tolist() for part in shares(plan, 32, 10)] == [[0, 1, 2, 3], [3, 4]]
    plan = frames_of([40] * 9).plan
    set_threads(3)
    parts = shares(plan, 32, 10)
    assert [part.groups.tolist() for part in parts] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert [len(part.in_lanes) for part in parts] == [3, 3, 3]
    assert [part.kept.tolist() for part in parts] == [
        plan.kept[i : i + 4].tolist() for i in (0, 3, 6)
    ]


@given(lengths=lists(integers(0, 60), max_size=60), number=integers(1, 9))
def test_shares_hold_each_group_once(lengths, number):
    plan = frames_of(lengths).plan
    set_threads(number)
    parts = shares(plan, 32, 10)
    assert 1 <= len(parts) <= number
    groups = [plan.groups[0], *(group for part in parts for group in part.groups[1:])]
    assert groups == plan.groups.tolist()
    assert all(len(part.in_lanes) for part in parts) or not len(plan.in_lanes)


def test_little_work_stays_with_one_thread(monkeypatch):
    set_threads(4)
    plan = frames_of([40] * 9).plan
    work = 2 * 32 * 9 * 40 * (10 + 40)
    for least, parts in ((work // 2 + 1, 1), (work // 2, 2), (work // 3, 3), (work // 9, 4)):
        monkeypatch.setattr(threads, "LEAST", least)
        assert len(shares(plan, 32, 10)) == parts


@pytest.mark.parametrize("number", [0, -1, 1.5, True, None, "2"])
def test_a_wrong_number_changes_nothing(number):
    set_threads(3)
    with pytest.raises(SettingError, match="whole number >= 1"):
        set_threads(number)
    assert get_threads() == 3


def test_an_error_comes_when_all_are_done():
    done = []
    barrier = threading.Barrier(3, timeout=30)  # passes only where all three are at work at once

    def work(share, factor):
        barrier.wait()
        if share == 0:
            raise MemoryError("the first")
        time.sleep(0.2 if share == 1 else 0)
        done.append(share * factor)

    with pytest.raises(MemoryError, match="the first"):
        together(work, [0, 1, 2], [1, 10, 100])
    assert sorted(done) == [10, 200]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    done = []
    together(done.append, [0, 1])  # starts the parent's
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # it would wait for threads that do not exist
        try:
            together(done.append, [2, 3])
        finally:
            os._exit(0 if sorted(done) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


ENDING = """
import threading
from ragged_net.kernels.threads import together

done = []

def work():
    threading.main_thread().join()
    together(done.append, [0, 1, 2])
    print(sorted(done))

threading.Thread(target=work).start()
"""


def test_a_thread_that_outlives_the_main_one_still_has_help():
    ran = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[0, 1, 2]\n", "")


def test_arrays_are_not_kept_after_the_work():
    shares = [np.zeros(1), np.zeros(1), np.zeros(1)]
    together(lambda share: None, shares)
    left = [weakref.ref(share) for share in shares]
    del shares
    end = time.monotonic() + 60
    while any(ref() is not None for ref in left) and time.monotonic() < end:
        time.sleep(0.01)  # a worker's last instructions may still run
    assert [ref() for ref in left] == [None] * 3


@pytest.mark.parametrize("settings", [{"dim": 32}, {"dim": 24, "heads": 3}])
def test_both_passes_are_shared_and_run_without_pythons_lock(monkeypatch, settings):
    sizes = []

    def note(function, *arguments):
        assert function.func.targetoptions["nogil"]
        sizes.append(len(arguments[0]))
        together(function, *arguments)

    for module in (compiled, compiled_layers):
        monkeypatch.setattr(module, "together", note)
    run(3, frames_of(LENGTHS), settings)
    assert sizes == [3] * 6  # two layers, forward and backward, and forward once more


def test_a_block_is_as_much_work_as_its_weights(monkeypatch):
    seen = []
    monkeypatch.setattr(
        frames_module, "shares", lambda plan, *numbers: [seen.append(numbers), plan][1:]
    )
    run(1, frames_of([3]), {"dim": 64, "mlp_ratio": 4})
    assert seen == [(64, 12 * 64 * 64 // (2 * 64))]  # once for all layers and both passes
