"""What runs on a GPU, and how fast: tests, attention, networks, training, resumes, in one table.

    python -m benchmarks.cuda [--device cuda] [--out cuda.md] [parts ...]

Every part runs for itself: one that fails is a line of the table with its error, and the others go
on. ``--device cpu`` goes through the same lines without a GPU, to see that the program itself
works; its times say nothing about a GPU. Times are wall-clock medians of calls in turns, with the
device waited for before each reading.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.attention import HEADS, padded_attention
from benchmarks.network import PaddedNet, make_networks, make_problem
from benchmarks.ragged import Batch, lengths
from benchmarks.session import training
from ppo_trainer.config import TrainConfig, config_from_dict
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.train import resume, train, train_once
from ragged_net import EntityBatch, RaggedNet, RelativePosition, ragged_attention

__all__ = ["Line", "main"]

CASES = {"uniform 1..20": 4096, "95% of 5, 5% of 200": 2048, "uniform 1..200": 512}
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
    """Where it runs, and how its times are read."""

    device: torch.device

    @property
    def is_gpu(self) -> bool:
        """Whether it is one; the CPU stands in with smaller cases."""
        return self.device.type == "cuda"

    @property
    def name(self) -> str:
        """The card's."""
        return torch.cuda.get_device_name(self.device) if self.is_gpu else "CPU, standing in"

    def frames(self, wanted: int) -> int:
        """How many frames a case has here."""
        return wanted if self.is_gpu else min(wanted, SMALL)

    def wait(self) -> None:
        """Until the device has done all that it was told to."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def medians(self, functions: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Seconds of one call of each, in turns."""
        turns = 20 if self.is_gpu else 3
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
    """The tests of the packages; those that loop over devices take the GPU in."""
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

    def ours() -> object:
        return torch.autograd.grad(ragged_attention(qkv, batch.offsets), qkv, change)

    def padded() -> object:
        return torch.autograd.grad(padded_attention(batch, qkv, fused=True), qkv, change)

    close = 1e-4 if dtype == torch.float32 else 3e-2
    with torch.no_grad():
        expected = padded_attention(batch, qkv, fused=True)
        torch.testing.assert_close(
            ragged_attention(qkv, batch.offsets), expected, rtol=close, atol=close
        )
    times = place.medians({"ours": ours, "padded": padded})
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
    """Frames per second of PPO on MineSweeper, and where the time goes; the CPU beside it."""
    for dim in (64, 256):
        rates = {}
        for where in {place.device.type: place.device, "cpu": torch.device("cpu")}.values():
            updates = 10 if place.is_gpu else 1
            with training(_minesweeper(dim, updates + 2), where) as (session, obs):
                obs, _ = train_once(session, obs, Stopwatch())
                clock, frames = Stopwatch(), session.config.frames_per_update * updates
                place.wait()
                start = time.perf_counter()
                for _ in range(updates):
                    obs, _ = train_once(session, obs, clock)
                place.wait()
                seconds = time.perf_counter() - start
            rates[where.type] = frames / seconds
            shares = sorted(clock.seconds.items(), key=lambda item: -item[1])[:4]
            split = ", ".join(f"{name} {taken / seconds:.0%}" for name, taken in shares)
            yield Line(
                "training",
                f"minesweeper, D={dim}, {where.type}",
                f"{rates[where.type]:,.0f} frames/s ({split})",
                f"{rates[where.type] / rates.get(place.device.type, 1.0):.2f}",
            )


def _resume(place: Place) -> Iterator[Line]:
    """A run that began on the device goes on on the CPU."""
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


def _minesweeper(dim: int, updates: int) -> TrainConfig:
    return config_from_dict(
        {
            "env": {"_target_": "minesweeper"},
            "total_timesteps": updates * 128 * 16,
            "rollout": {"num_envs": 128, "steps": 16},
            "net": {"dim": dim, "layers": 2},
            "ppo": {"minibatch_size": 1024, "epochs": 3},
        }
    )


PARTS: Mapping[str, Callable[[Place], Iterator[Line]]] = {
    "attention": _attention,
    "network": _networks,
    "sync": _sync,
    "training": _training,
    "resume": _resume,
    "tests": _tests,
}


def main(words: list[str] | None = None) -> int:
    """Run the parts, write the table; returns the number of parts that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them if none")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the program")
    parser.add_argument("--out", type=Path, default=Path("cuda.md"), help="where the table goes")
    given = parser.parse_args(words)
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; valid: {', '.join(PARTS)}")
    place = Place(torch.device(given.device))
    if place.is_gpu and not torch.cuda.is_available():
        parser.error(
            f"torch {torch.__version__} finds no GPU; --device cpu tries the program without one"
        )
    lines, failed = [], 0
    for part in given.parts or PARTS:
        print(f"{part} ...", flush=True)
        try:
            for line in PARTS[part](place):
                print(f"    {line.part}: {line.case}: {line.result} {line.ratio}", flush=True)
                lines.append(line)
        except Exception as error:  # a part that fails is a result
            failed += 1
            traceback.print_exc()
            lines.append(Line(part, "failed", f"{type(error).__name__}: {error}".splitlines()[0]))
        _write(given.out, place, lines)  # after each part: a hang loses nothing
    print(f"{given.out}: {len(lines)} lines, {failed} parts failed")
    return failed


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
