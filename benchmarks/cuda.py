"""Checks and speed of all that runs on a GPU: kernels, graphs, training, tests, in one table.

    python -m benchmarks.cuda [--device cuda] [--out cuda.md] [--seconds 150] [parts ...]

Every part runs separately: one that fails, or takes longer than its seconds, is a line of the table
with its error, and the others still run. The first parts are the most important ones.
``--device cpu`` runs the same parts without a GPU, to check the program; its times mean nothing.
Times are wall-clock medians of calls in turns, with the device waited for before each reading.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.attention import HEADS, padded_attention
from benchmarks.network import PaddedNet, make_networks, make_problem
from benchmarks.ragged import Batch, lengths
from benchmarks.session import training
from ppo_trainer import recipe
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.config import TrainConfig, config_from_dict
from ppo_trainer.experience.acting_graph import ActingGraphs
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.learner.minibatches import Minibatch
from ppo_trainer.learner.step_graph import StepGraphs
from ppo_trainer.loop import resume, train, train_once
from ppo_trainer.machine.graphs import Graphs
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, RaggedNet, RelativePosition, ragged_attention
from ragged_net.gpu import attention as gpu
from ragged_net.gpu.attention import Tiles
from ragged_net.ragged import offsets_of

__all__ = ["Line", "main"]

CASES = {"uniform 1..20": 4096, "95% of 5, 5% of 200": 2048, "uniform 1..200": 512}
DTYPES = torch.float32, torch.bfloat16
LAYOUTS = ([0, 0, 3, 0, 1, 0, 17, 33, 0], [1] * 500, [1], [1000, 1, 2, 1000], [5] * 50 + [200] * 5)
"""Lengths of frames in the test of the kernels."""
TILES = [Tiles(rows, others, warps) for rows, others, warps in (
    (16, 16, 1), (16, 16, 2), (16, 32, 2), (32, 16, 2), (32, 32, 2), (32, 32, 4), (64, 32, 4),
    (64, 64, 4), (128, 32, 8),
)]  # fmt: skip
SIZES = {128: 1024, 1024: 4096, 4096: 16_384, 16_384: 65_536}
"""Minibatches for so many rows."""
OPTIONS: Mapping[str, dict[str, object]] = {
    "plain": {},
    "waves": {"relative_position": RelativePosition({"Thing": ["f0", "f1"]})},
    "position MLP": {"relative_position": RelativePosition({"Thing": ["f0", "f1"]}, kind="mlp")},
    "LSTM": {"memory": "lstm"},
}
SMALL = 64
"""On the CPU, cases have at most so many frames."""


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Args:
        part: What kind of thing was tried.
        case: What exactly.
        result: What came out: a time, a rate, ``passed``, or the error.
        ratio: How many times as fast as the baseline; empty without one.
    """

    part: str
    case: str
    result: str
    ratio: str = ""


@dataclass(frozen=True)
class Place:
    """The device of the benchmark, and the reading of its clock."""

    device: torch.device

    @property
    def is_gpu(self) -> bool:
        """True if the device is a GPU; cases are smaller on the CPU."""
        return self.device.type == "cuda"

    @property
    def name(self) -> str:
        """The name of the card."""
        return torch.cuda.get_device_name(self.device) if self.is_gpu else "CPU, standing in"

    def frames(self, wanted: int) -> int:
        """Return the number of frames of a case on this device."""
        return wanted if self.is_gpu else min(wanted, SMALL)

    def wait(self) -> None:
        """Wait until the device has finished all of its work."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def medians(
        self, functions: Mapping[str, Callable[[], object]], turns: int = 20
    ) -> dict[str, float]:
        """Return the median seconds of one call of each function, called in turns."""
        turns = turns if self.is_gpu else 1
        taken: dict[str, list[float]] = {name: [] for name in functions}
        for turn in range(turns + 3):
            for name, function in functions.items():
                self.wait()
                start = time.perf_counter()
                function()
                self.wait()
                if turn >= 3:  # the first calls choose algorithms and allocate
                    taken[name].append(time.perf_counter() - start)
        return {name: statistics.median(values) for name, values in taken.items()}


def _tests(place: Place) -> Iterator[Line]:
    """Run the tests of the packages; those that loop over devices include the GPU."""
    for package in ("ragged_net", "ppo_trainer"):
        if not place.is_gpu:
            yield Line("tests", package, "skipped: no GPU")
            continue
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"tests/{package}", "-q", "--tb=line", "-n", "8"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        print(done.stdout[-8000:])
        yield Line("tests", package, done.stdout.strip().splitlines()[-1])


def _kernels(place: Place) -> Iterator[Line]:
    """Attention as it runs here against exact-length groups in float64, forward and backward."""
    for dtype in (*DTYPES, torch.float16):
        for width in (8, 16, 32, 64, 128):
            worst = [0.0, 0.0]
            for lengths_, hides in ((own, hides) for own in LAYOUTS for hides in (False, True)):
                found = _errors(place, lengths_, width, dtype, hides)
                worst = [max(pair) for pair in zip(worst, found, strict=True)]
            close = 1e-5 if dtype == torch.float32 else 2e-2
            verdict = "passed" if max(worst) < close else "WRONG"
            yield Line(
                "kernels",
                f"heads of {width}, {_name(dtype)}",
                f"{verdict}: relative errors {worst[0]:.1e} forward, {worst[1]:.1e} backward",
            )


def _errors(
    place: Place, lengths_: Sequence[int], width: int, dtype: torch.dtype, hides: bool
) -> list[float]:
    offsets = offsets_of(torch.tensor(lengths_)).to(place.device)
    rows = sum(lengths_)
    qkv = torch.randn(rows, 3, 4, width, device=place.device).to(dtype)
    change = torch.randn_like(qkv[:, 0])
    hidden = torch.rand(rows, device=place.device) < 0.4 if hides else None
    results = []
    for x, backend in ((qkv, "auto"), (qkv.double(), "grouped")):
        x = x.requires_grad_()
        mixed = ragged_attention(x, offsets, hidden, backend=backend)
        gradient = torch.autograd.grad(mixed, x, change.to(x.dtype))[0]
        results.append((mixed.detach().double(), gradient.double()))
    return [float((own - exact).norm() / exact.norm()) for own, exact in zip(*results, strict=True)]


def _tiles(place: Place) -> Iterator[Line]:
    """Each size of tiles, for ``choose_tiles``."""
    for case, frames in CASES.items():
        batch = Batch.of(lengths(case, place.frames(frames))).to(place.device)
        for dim in (64, 256):
            for dtype in DTYPES:
                times = _tile_times(place, batch, dim, dtype)
                best = sorted(times, key=lambda name: times[name])[:3]
                own = str(gpu.choose_tiles(dtype, dim // HEADS, batch.rows / len(batch.padding)))
                yield Line(
                    "tiles",
                    f"{case}, D={dim}, {_name(dtype)}",
                    ", ".join(f"{name.lower()} {times[name] * 1e3:.3f} ms" for name in best),
                    f"{times[best[0]] / times[own]:.2f}" if own in times else "",
                )


def _tile_times(place: Place, batch: Batch, dim: int, dtype: torch.dtype) -> dict[str, float]:
    chosen, times = gpu.choose_tiles, dict[str, float]()
    for tiles in TILES:
        gpu.choose_tiles = functools.partial(_always, tiles)
        try:
            run = _gradient(place, batch, dim, dtype)
            times[str(tiles)] = place.medians({"": run}, turns=10)[""]
        except Exception as error:  # too large for the card
            print(f"    {tiles}: {type(error).__name__}", flush=True)
        finally:
            gpu.choose_tiles = chosen
    return times


def _always(tiles: Tiles, *_: object) -> Tiles:
    return tiles


def _gradient(place: Place, batch: Batch, dim: int, dtype: torch.dtype) -> Callable[[], object]:
    shape = batch.rows, 3, HEADS, dim // HEADS
    qkv = torch.randn(shape, device=place.device, dtype=dtype, requires_grad=True)
    change = torch.randn_like(qkv[:, 0])
    return lambda: torch.autograd.grad(ragged_attention(qkv, batch.offsets), qkv, change)


def _acting(place: Place) -> Iterator[Line]:
    """From entities on the CPU to choices on the CPU: in a graph, without, and padded."""
    for frames in (128, 4096):
        yield from _act(place, place.frames(frames))


def _act(place: Place, frames: int) -> Iterator[Line]:
    batch, padding, actors = make_problem(lengths("uniform 4..12", frames))
    net, baseline = (own.to(place.device) for own in make_networks(64))
    generator = torch.Generator(place.device)
    there, near = padding.to(place.device), actors.to(place.device)

    def padded() -> object:
        values = batch.entities["Thing"].values.to(place.device)
        return baseline(values, there, near)[0].exp().multinomial(1).cpu()

    def plain() -> object:
        output = net(batch.to(place.device), generator=generator)
        return output.actions["Move"].chosen.values.cpu()

    functions = {"without graphs": plain, "padded": padded}
    graphs = ActingGraphs(Graphs(net), net, frames, "float32")
    if graphs.begin(place.device):
        functions["in a graph"] = lambda: graphs.act(batch, generator)
    with torch.no_grad():
        times = place.medians(functions)
    yield from _against_padded("acting", f"B={frames}, D=64", times)


def _against_padded(part: str, case: str, times: Mapping[str, float]) -> Iterator[Line]:
    for name, seconds in times.items():
        ratio = f"{times['padded'] / seconds:.2f}"
        yield Line(part, f"{name}, {case}", f"{seconds * 1e3:.2f} ms", ratio)


def _gradients(place: Place) -> Iterator[Line]:
    """Measure the gradients of a minibatch: in a graph, and those of a padded network."""
    for case in ("uniform 4..12", "95% of 5, 5% of 200"):
        yield from _learn(place, case, place.frames(4096))


def _learn(place: Place, case: str, frames: int) -> Iterator[Line]:
    batch, padding, actors = make_problem(lengths(case, frames))
    batch, padding, actors = (own.to(place.device) for own in (batch, padding, actors))
    net, baseline = (own.to(place.device) for own in make_networks(64))
    functions: dict[str, Callable[[], object]] = {
        "without graphs": _step(net, batch, torch.float32, True),
        "padded": _padded_step(baseline, batch, padding, actors, torch.float32, True),
    }
    graphs, algorithm = StepGraphs(Graphs(net), net, "float32"), PPO(TrainConfig().ppo)
    rollout, minibatch = _rollout(batch), Minibatch(torch.arange(frames))
    weights = algorithm.coefficients(0.0)
    algorithm = replace(algorithm, config=replace(algorithm.config, minibatch_size=frames))
    if graphs.begin(algorithm, rollout):
        functions["in a graph"] = lambda: graphs.add_gradients(
            algorithm, rollout, minibatch, weights
        )
    yield from _against_padded("gradients", f"{case}, B={frames}, D=64", place.medians(functions))


def _rollout(batch: EntityBatch) -> Rollout:
    """Decisions in the frames of a batch."""
    own = batch.actions["Move"].actors
    zeros = torch.zeros(batch.num_frames, device=batch.device)
    return Rollout(
        batch,
        {"Move": own.with_values(torch.zeros_like(own.values))},
        {"Move": own.with_values(torch.full_like(own.values, -1.6, dtype=torch.float32))},
        zeros,
        torch.randn_like(zeros),
        torch.randn_like(zeros),
    )


def _same(place: Place) -> Iterator[Line]:
    """Compare 20 updates in graphs with the same without: metrics differ by rounding only."""
    metrics = []
    for repeats in (True, False):
        with training(_minesweeper(64, 21), place.device) as (session, obs):
            for graphs in (session.state.acting_graphs, session.state.step_graphs):
                if not repeats and graphs is not None:
                    graphs._capture = lambda action, *_: action
            found = []
            for _ in range(20 if place.is_gpu else 2):
                obs, own = train_once(session, obs, Stopwatch())
                found.append(own)
            metrics.append(found)
    far = {
        name: max(
            abs(one[name] - other[name])
            for one, other in zip(*metrics, strict=True)
            if name in other
        )
        for name in ("loss/value", "policy/entropy", "policy/kl", "optim/grad_norm")
    }
    first = max(abs(metrics[0][0][name] - metrics[1][0][name]) for name in far)
    told = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
    yield Line(
        "same",
        f"{len(metrics[0])} updates",
        f"first update {first:.1e}; largest differences: {told}",
    )


def _learning(place: Place) -> Iterator[Line]:
    """Train MineSweeper, which must win as on the CPU."""
    config = recipe("minesweeper")
    with tempfile.TemporaryDirectory() as folder:
        steps = config.total_timesteps if place.is_gpu else config.frames_per_update
        config = replace(config, device=str(place.device), run_dir=folder, total_timesteps=steps)
        start = time.perf_counter()
        done = train(replace(config, eval=replace(config.eval, episodes=0)))
    shown = ", ".join(f"{name} {value:.3f}" for name, value in sorted(done.means.items())[:6])
    taken = time.perf_counter() - start
    yield Line("learning", f"minesweeper, {done.steps:,} steps, {taken:.0f} s", shown)


def _attention(place: Place) -> Iterator[Line]:
    """Forward and backward of attention alone, against frames padded to the longest."""
    for case, frames in CASES.items():
        batch = Batch.of(lengths(case, place.frames(frames))).to(place.device)
        for dim in (64, 256):
            for dtype in (torch.float32, torch.bfloat16):
                yield _attend(place, case, batch, dim, dtype)


def _attend(place: Place, case: str, batch: Batch, dim: int, dtype: torch.dtype) -> Line:
    shape = batch.rows, 3, HEADS, dim // HEADS
    qkv = torch.randn(shape, device=place.device, dtype=dtype, requires_grad=True)
    change = torch.randn_like(qkv[:, 0])

    def padded() -> object:
        return torch.autograd.grad(padded_attention(batch, qkv, fused=True), qkv, change)

    close = 1e-4 if dtype == torch.float32 else 3e-2
    with torch.no_grad():
        expected = padded_attention(batch, qkv, fused=True)
        torch.testing.assert_close(
            ragged_attention(qkv, batch.offsets), expected, rtol=close, atol=close
        )
    times = place.medians({"ours": _gradient(place, batch, dim, dtype), "padded": padded})
    return Line(
        "attention",
        f"{case}, B={len(batch.padding)}, D={dim}, {_name(dtype)}, forward + backward",
        f"{times['ours'] * 1e3:.2f} ms (padded {times['padded'] * 1e3:.2f} ms)",
        f"{times['padded'] / times['ours']:.2f}",
    )


def _networks(place: Place) -> Iterator[Line]:
    """Whole networks with each option, against the plain one and a padded one."""
    for dim in (64, 256):
        for dtype in (torch.float32, torch.bfloat16):
            for training_step, frames in ((False, 128), (True, 4096)):
                yield from _network(place, dim, dtype, training_step, place.frames(frames))


def _network(
    place: Place, dim: int, dtype: torch.dtype, learns: bool, frames: int
) -> Iterator[Line]:
    batch, padding, actors = make_problem(lengths("uniform 4..12", frames))
    batch, padding, actors = (
        batch.to(place.device),
        padding.to(place.device),
        actors.to(place.device),
    )
    functions: dict[str, Callable[[], object]] = {}
    for name, option in OPTIONS.items():
        net, baseline = make_networks(dim, **option)
        functions[name] = _step(net.to(place.device), batch, dtype, learns)
    functions["padded"] = _padded_step(
        baseline.to(place.device), batch, padding, actors, dtype, learns
    )
    times = place.medians(functions)
    for name in functions:
        yield Line(
            "network, training step" if learns else "network, acting",
            f"{name}, B={frames}, D={dim}, {_name(dtype)}",
            f"{frames / times[name]:,.0f} frames/s",
            f"{times['plain'] / times[name]:.2f}",
        )


def _step(
    net: RaggedNet, batch: EntityBatch, dtype: torch.dtype, learns: bool
) -> Callable[[], None]:
    chosen = batch.actions["Move"].actors.values.new_zeros(batch.actions["Move"].actors.num_rows)
    memory = None if net.memory is None else net.initial_state(batch.num_frames)

    def step() -> None:
        with torch.set_grad_enabled(learns), _cast(batch.device, dtype):
            output = net(batch, given={"Move": chosen}, memory=memory)
            loss = output.actions["Move"].log_prob.mean() + output.value.mean()
        if learns:
            net.zero_grad(set_to_none=True)
            loss.backward()

    return step


def _padded_step(
    net: PaddedNet,
    batch: EntityBatch,
    padding: Batch,
    actors: torch.Tensor,
    dtype: torch.dtype,
    learns: bool,
) -> Callable[[], None]:
    features = batch.entities["Thing"].values

    def step() -> None:
        with torch.set_grad_enabled(learns), _cast(batch.device, dtype):
            log_probs, value = net(features, padding, actors)
            loss = log_probs[:, 0].mean() + value.mean()
        if learns:
            net.zero_grad(set_to_none=True)
            loss.backward()

    return step


def _sync(place: Place) -> Iterator[Line]:
    """An update must not wait for the device between its gradient steps."""
    from ppo_trainer.learner.step_metrics import StepMetrics

    with training(_minesweeper(64, 3), place.device) as (session, obs):
        obs, _ = train_once(session, obs, Stopwatch())  # allocates, and chooses algorithms
        begin, read = StepMetrics.begin, StepMetrics.read

        def forbid(self: StepMetrics) -> None:
            _sync_is("error", place)
            begin(self)

        def allow(self: StepMetrics) -> list[dict[str, float]]:
            _sync_is("default", place)
            return read(self)

        StepMetrics.begin, StepMetrics.read = forbid, allow  # type: ignore[method-assign]
        try:
            train_once(session, obs, Stopwatch())
        finally:
            _sync_is("default", place)
            StepMetrics.begin, StepMetrics.read = begin, read  # type: ignore[method-assign]
    yield Line("no waiting", "gradient steps of one update", "passed")


def _sync_is(mode: str, place: Place) -> None:
    if place.is_gpu:
        torch.cuda.set_sync_debug_mode(mode)


def _training(place: Place) -> Iterator[Line]:
    """Frames per second of PPO on MineSweeper, in graphs and without, and where the time goes."""
    cases = [(rows, 64, "float32") for rows in SIZES] + [(4096, 256, "bfloat16")]
    for rows, dim, precision in cases if place.is_gpu else [(8, 64, "float32")]:
        rates = dict[bool, float]()
        for in_graphs in (False, True):
            config = replace(
                _minesweeper(dim, 20, rows), precision=precision, cuda_graphs=in_graphs
            )
            updates = 1 if not place.is_gpu else 10 if rows < 4096 else 4
            if place.is_gpu:
                torch.cuda.reset_peak_memory_stats(place.device)
            with training(config, place.device) as (session, obs):
                for _ in range(2 if place.is_gpu else 1):  # captures, chooses algorithms
                    obs, _ = train_once(session, obs, Stopwatch())
                clock, frames = Stopwatch(), config.frames_per_update * updates
                place.wait()
                start = time.perf_counter()
                for _ in range(updates):
                    obs, _ = train_once(session, obs, clock)
                place.wait()
                seconds = time.perf_counter() - start
            rates[in_graphs] = frames / seconds
            shares = sorted(clock.seconds.items(), key=lambda item: -item[1])[:5]
            split = ", ".join(f"{name} {taken / seconds:.0%}" for name, taken in shares)
            peak = torch.cuda.max_memory_allocated(place.device) / 2**30 if place.is_gpu else 0.0
            yield Line(
                "training",
                f"minesweeper, {rows:,} rows, D={dim}, {precision}, "
                f"{'in graphs' if in_graphs else 'without graphs'}",
                f"{rates[in_graphs]:,.0f} frames/s, {peak:.1f} GiB ({split})",
                f"{rates[in_graphs] / rates[False]:.2f}",
            )


def _resume(place: Place) -> Iterator[Line]:
    """Begin a run on the device, and resume it on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(_minesweeper(64, 2), device=str(place.device), run_dir=folder)
        config = replace(config, eval=replace(config.eval, episodes=0))
        begun = train(config)
        ended = resume(begun.run, device="cpu", total_timesteps=2 * config.total_timesteps)
    if ended.steps != 2 * begun.steps:
        raise RuntimeError(
            f"{begun.steps:,} steps went on to {ended.steps:,}, not to twice as many"
        )
    yield Line("resume", f"{place.device.type} -> cpu", f"passed: {ended.steps:,} steps")


def _minesweeper(dim: int, updates: int, rows: int = 128) -> TrainConfig:
    return config_from_dict(
        {
            "env": {"_target_": "minesweeper"},
            "total_timesteps": updates * rows * 16,
            "rollout": {"num_envs": rows, "steps": 16},
            "net": {"dim": dim, "layers": 2},
            "ppo": {"minibatch_size": SIZES.get(rows, 64), "epochs": 3 if rows == 128 else 2},
        }
    )


PARTS: Mapping[str, Callable[[Place], Iterator[Line]]] = {
    "kernels": _kernels,
    "acting": _acting,
    "gradients": _gradients,
    "training": _training,
    "attention": _attention,
    "same": _same,
    "sync": _sync,
    "learning": _learning,
    "resume": _resume,
    "tiles": _tiles,
    "network": _networks,
    "tests": _tests,
}


def main(words: list[str] | None = None) -> int:
    """Run the parts, write the table; returns the number of parts that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them if none")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the program")
    parser.add_argument("--out", type=Path, default=Path("cuda.md"), help="where the table goes")
    parser.add_argument("--seconds", type=int, default=150, help="the most that a part may take")
    given = parser.parse_args(words)
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; valid: {', '.join(PARTS)}")
    place = Place(torch.device(given.device))
    if place.is_gpu and not torch.cuda.is_available():
        parser.error(
            f"torch {torch.__version__} finds no GPU; --device cpu tries the program without one"
        )
    signal.signal(signal.SIGALRM, _late)
    lines, failed = [], 0
    for part in given.parts or PARTS:
        print(f"{part} ...", flush=True)
        signal.alarm(given.seconds)
        try:
            for line in PARTS[part](place):
                print(f"    {line.part}: {line.case}: {line.result} {line.ratio}", flush=True)
                lines.append(line)
        except (Exception, Late) as error:  # a part that fails is a result
            failed += 1
            traceback.print_exc()
            lines.append(Line(part, "failed", f"{type(error).__name__}: {error}".splitlines()[0]))
        finally:
            signal.alarm(0)
        _write(given.out, place, lines)  # after each part: a hang loses nothing
    print(f"{given.out}: {len(lines)} lines, {failed} parts failed")
    return failed


class Late(BaseException):
    """The end of a part that takes too long; no part catches it."""


def _late(*_: object) -> None:
    raise Late("it took longer than --seconds")


def _write(path: Path, place: Place, lines: list[Line]) -> None:
    rows = [("what", "case", "result", "times as fast"), ("---",) * 4]
    rows += [(line.part, line.case, line.result, line.ratio) for line in lines]
    versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}, {os.cpu_count()} cores"
    table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    draft = path.with_suffix(".tmp")
    draft.write_text(f"# {place.name}\n\n{versions}\n\n{table}\n", encoding="utf-8")
    draft.replace(path)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _cast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
