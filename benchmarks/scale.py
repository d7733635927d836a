"""The scaling of a run: measured costs, a simulation of 1 to 1,000 workers, and real runs.

``python -m benchmarks.scale`` measures what each part of a run with ``scale=rapid`` costs,
simulates more workers and learners than there are here, event by event, and draws ``scale.png``.
``--real`` also trains with one learner and with two, which ``torchrun`` starts, and compares.
``--kills 50`` does nothing but train with two workers, of which one is killed at random so many
times, and prints what was lost. Costs are CPU seconds. Frames per second of real runs are of
wall-clock time, which other work on the machine lengthens.

Each worker has 64 rows and plays 16 steps for an update, so that more workers make larger updates.
The second simulation is the synchronisation of Neural MMO's Ascend (Suarez et al. 2020, figure 5):
a gradient over 4,096 decisions in each of N servers, which a cluster adds up.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from benchmarks.measure import Row, print_rows
from benchmarks.session import training
from entity_env import VecObs
from entity_env.errors import counted
from ppo_trainer import recipe, train
from ppo_trainer.config import ScaleConfig, TrainConfig
from ppo_trainer.environments import make_factory, make_vec_env
from ppo_trainer.experience.collect import Collected
from ppo_trainer.experience.rollout import Trajectories
from ppo_trainer.loop import train_once
from ppo_trainer.machine.device import cores
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics
from ppo_trainer.scale.rollout_worker import Played, RolloutWorker
from ppo_trainer.training.session import Session

T = TypeVar("T")
ROWS, STEPS = 64, 16
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
LEARNERS = (1, 2, 4)
WORKERS_OF_LEARNERS = (4, 16, 32, 64, 128)
REAL = ((1, 0), (2, 0), (1, 1), (1, 4), (2, 2), (2, 4))
"""Learners and all of their workers in real runs; without workers, learners play."""
BANDWIDTH = 1.25e9
"""Bytes per second of the learner's network card: 10 Gbit/s."""
SPREAD = 0.1
"""The deviation of the logarithm of how long a rollout takes."""
PAPER = {1: 1.0, 2: 1.16, 4: 1.57, 8: 1.5, 16: 1.6, 32: 2.5, 64: 4.36, 100: 6.32}
"""Synchronisation time between cluster and servers, relative; read off the figure, +- 0.05."""
DECISIONS = 4096


@dataclass(frozen=True)
class Costs:
    """CPU seconds and bytes of the parts.

    Args:
        play: Seconds of a worker for a frame.
        learn: Seconds of the learner for a frame.
        pack: Seconds to serialise a frame, and as many to read it.
        frame: Bytes of a frame.
        weights: Bytes of the weights.
        message: Seconds to serialise and read the weights, or gradients, once.
    """

    play: float
    learn: float
    pack: float
    frame: float
    weights: float
    message: float


def make_config(workers: int) -> TrainConfig:
    """Return the settings of a run with some workers."""
    settings = f"rollout.num_envs={ROWS * workers}", f"rollout.steps={STEPS}", "eval.episodes=0"
    return recipe("minesweeper", *settings, "ppo.minibatch_size=512", "checkpoint.every=1000")


def measure(repeats: int = 8) -> Costs:
    """Measure the parts in this process, in CPU seconds."""
    config = make_config(1)
    game, clock = make_factory(config), Stopwatch()
    worker = RolloutWorker(config, partial(make_vec_env, config, game, 1), 1)
    play, learn, pack = list[float](), list[float](), list[float]()
    with training(config) as (session, obs):
        for number in range(repeats + 1):
            weights = {name: tensor.clone() for name, tensor in session.net.state_dict().items()}
            played, seconds = _timed(partial(worker.rollout, weights, session.updates))
            text, packed = _timed(partial(pickle.dumps, played))
            gather = partial(_given, played)
            _, learned = _timed(partial(train_once, session, obs, clock, gather))
            if number:  # the first compiles
                play.append(seconds / len(played.trajectories))
                learn.append(learned / len(played.trajectories))
                pack.append(packed / len(played.trajectories))
        state = pickle.dumps(weights)
        _, message = _timed(partial(_sent_ten_times, weights))
    frame = len(text) / len(played.trajectories)
    middle = statistics.median
    return Costs(middle(play), middle(learn), middle(pack), frame, len(state), message / 10)


def games(costs: Costs) -> dict[str, Costs]:
    """Return the costs of MineSweeper, and of a game whose steps take a millisecond."""
    return {"MineSweeper": costs, "steps of 1 ms": replace(costs, play=costs.play + 1e-3)}


def _given(played: Played, session: Session, obs: VecObs, clock: Stopwatch) -> list[Collected]:
    return [Collected(Trajectories.cat([played.trajectories]), None, obs, played.metrics)]


def _sent_ten_times(weights: object) -> None:
    for _ in range(10):
        pickle.loads(pickle.dumps(weights))


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


class _Cores:
    """Cores that tasks wait for, first come, first served."""

    def __init__(self, number: float) -> None:
        self._free, self._queue = number, deque[tuple[float, Callable[[float], None]]]()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0

    def run(self, now: float, seconds: float, then: Callable[[float], None]) -> None:
        """Call ``then`` with the time when a task is done that is ready ``now``."""
        if self._free >= 1:
            self._free -= 1
            self._push(now + seconds, then)
        else:
            self._queue.append((seconds, then))

    def _push(self, moment: float, then: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, then))

    def step(self) -> None:
        """Advance to the next end of a task."""
        now, _, then = heapq.heappop(self._events)
        self._free += 1
        if self._queue:
            self._free -= 1
            seconds, after = self._queue.popleft()
            self._push(now + seconds, after)
        then(now)


def simulate(
    costs: Costs, workers: int, number_of_cores: float, learners: int = 1, updates: int = 30
) -> float:
    """Return frames per second of learners, each with an equal share of workers, event by event.

    A worker plays, sends its rollout, and plays on with the newest weights as soon as its learner
    notices the rollout, between two updates. A learner reads rollouts from its network card one
    after the other, and learns from as many of them as it has workers. Learners begin an update
    together, because they add up their gradients; the time that this takes is left out.
    """
    rng, frames, share = np.random.default_rng(0), ROWS * STEPS, workers // learners
    tasks = _Cores(number_of_cores)
    done, learning, moments = 0, 0, [0.0]
    cards, arrived = [0.0] * learners, [0] * learners
    unheard = [deque[float]() for _ in range(learners)]

    def play(learner: int, now: float) -> None:
        seconds = frames * (costs.play + costs.pack) * float(np.exp(SPREAD * rng.normal()))
        tasks.run(now + costs.message, seconds, partial(sent, learner))

    def sent(learner: int, now: float) -> None:
        # The card is busy with one rollout, and with the weights that go back, at a time.
        received = (frames * costs.frame + costs.weights) / BANDWIDTH
        cards[learner] = max(cards[learner], now) + received
        arrived[learner] += 1
        unheard[learner].append(cards[learner])
        if not learning:
            hear(cards[learner])

    def hear(now: float) -> None:
        nonlocal learning
        for learner, rollouts in enumerate(unheard):
            while rollouts:
                play(learner, max(now, rollouts.popleft()))
        if min(arrived) >= share:
            learning = learners
            for learner in range(learners):
                arrived[learner] -= share
                tasks.run(now, share * frames * (costs.learn + costs.pack), learned)

    def learned(now: float) -> None:
        nonlocal done, learning
        learning -= 1
        if learning:
            return
        done += 1
        moments.append(now)
        hear(now)

    for worker in range(workers):
        play(worker % learners, 0.0)
    while done < updates:
        tasks.step()
    half = updates // 2
    return (updates - half) * workers * frames / (moments[updates] - moments[half])


def synchronisation(costs: Costs, servers: int, repeats: int = 50) -> float:
    """Return the mean seconds of a gradient step over N servers, which a cluster adds up."""
    rng, total = np.random.default_rng(1), 0.0
    for _ in range(repeats):
        ends = DECISIONS * costs.learn * np.exp(SPREAD * rng.normal(size=servers))
        now = 0.0
        for end in np.sort(ends):  # the cluster reads one gradient after the other
            now = max(now, float(end)) + costs.message + costs.weights / BANDWIDTH
        total += now + costs.message + servers * costs.weights / BANDWIDTH
    return total / repeats


@dataclass(frozen=True)
class Real:
    """A real run, without its first half.

    Args:
        rate: Frames per second, in wall time.
        learn: CPU seconds of the first learner for each frame that it learns from.
        play: CPU seconds of the workers of all learners for each frame.
    """

    rate: float
    learn: float
    play: float


def real(learners: int, workers: int) -> Real:
    """Measure a run of processes that ``torchrun`` starts, with all of their workers of Ray."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={learners}", "-m", "benchmarks.scale", "--train", str(workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Real(**json.loads(done.stdout.splitlines()[-1]))


def train_once_of(workers: int, updates: int = 30) -> None:
    """Train as one of the processes of ``real``; the first one prints what it measures."""
    learners, is_first = int(os.environ["WORLD_SIZE"]), os.environ["RANK"] == "0"
    moments: list[tuple[float, float, float]] = []
    shares = workers or learners
    config = replace(make_config(shares), total_timesteps=updates * shares * ROWS * STEPS)
    if workers:
        scale = ScaleConfig(mode="rapid", worlds=workers, networks=workers, cpus=0.1)
        config = replace(config, scale=scale, algorithm="vtrace")

    def measure_now(_: Session) -> None:
        if is_first:  # whose process has started Ray, and so all workers
            played = sum(sum(process.cpu_times()[:2]) for process in ray_workers())
            moments.append((time.monotonic(), time.process_time(), played))

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        train(replace(config, run_dir=folder, threads=1), callbacks=measure_now)
    if is_first:
        half = len(moments) // 2
        frames = (len(moments) - half) * shares * ROWS * STEPS
        wall, learn, play = np.subtract(moments[-1], moments[half - 1])
        found = Real(frames / wall, learn / (frames / learners), play / frames)
        print(json.dumps(vars(found)), flush=True)


def ray_workers() -> list[Any]:
    """Return the workers of Ray that this process has started, as ``psutil`` sees them."""
    import psutil

    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::RolloutWorker" in " ".join(child.cmdline()):
                found.append(child)
    return found


def kills(number: int) -> list[Row]:
    """Train with two workers, kill one of them at random so many times, and count what is lost."""
    rng, lost = random.Random(1), list[float]()
    config = replace(
        make_config(2),
        total_timesteps=(number + 10) * 2 * ROWS * STEPS,
        scale=ScaleConfig(mode="rapid", worlds=2, networks=2, cpus=0.1),
        algorithm="vtrace",
    )
    killed = 0

    def kill_one(session: Session) -> None:
        nonlocal killed
        lost.append(session.metrics["scale/lost_frames"])
        if killed < number:
            time.sleep(rng.uniform(0.0, 0.2))  # anywhere in a rollout
            while not (there := ray_workers()):
                time.sleep(0.1)
            rng.choice(there).kill()
            killed += 1

    with tempfile.TemporaryDirectory() as folder:
        result = train(replace(config, run_dir=folder), callbacks=kill_one)
        last = read_metrics(RunFolder(result.run))[-1]
    each = np.diff(lost)
    return [
        Row("workers killed, and cells started again", f"{killed}, {last['scale/lost']:.0f}"),
        Row("frames learned from", f"{result.steps:,} of {config.total_timesteps:,}"),
        Row("frames lost", f"{lost[-1]:,.0f}, at most {each.max():,.0f} between two updates"),
        Row("frames of a rollout of a worker", f"{ROWS * STEPS:,}"),
    ]


def draw(costs: Costs, path: str = "scale.png") -> None:
    """Draw both simulations."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    rates, times = figure.subplots(1, 2)
    for name, of_game in games(costs).items():
        rates.loglog(WORKERS, [simulate(of_game, n, n + 1) for n in WORKERS], "o-", label=name)
    rates.axhline(1 / (costs.learn + costs.pack), ls="--", color="gray", label="the learner")
    rates.set(xlabel="workers", ylabel="frames per second", title="rapid: one learner")
    base = synchronisation(costs, 1)
    times.loglog(
        list(PAPER), [synchronisation(costs, n) / base for n in PAPER], "o-", label="simulated"
    )
    times.loglog(list(PAPER), list(PAPER.values()), "s--", label="Suarez et al. 2020, figure 5")
    times.set(xlabel="servers", ylabel="relative time", title="ascend: a gradient over N servers")
    for axes in (rates, times):
        axes.legend()
        axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    with open(path, "wb") as file:
        file.write(buffer.getvalue())


def rows(with_real: bool = False) -> list[Row]:
    """Return the rows of costs, simulations and, if asked for, real runs."""
    costs = measure()
    found = [
        Row("play a frame", f"{1e6 * costs.play:.0f} us"),
        Row("learn from a frame", f"{1e6 * costs.learn:.0f} us"),
        Row("serialise a frame", f"{1e6 * costs.pack:.1f} us, {costs.frame:.0f} bytes"),
        Row("hand out the weights", f"{1e3 * costs.message:.2f} ms, {costs.weights / 1e3:.0f} kB"),
    ]
    for name, of_game in games(costs).items():
        one = simulate(of_game, 1, 2)
        for n in WORKERS:
            rate = simulate(of_game, n, n + 1)
            found.append(Row(f"{name}, {n} workers", f"{rate:,.0f} frames/s", "1", rate / one))
        knee = (of_game.play + of_game.pack) / (of_game.learn + of_game.pack)
        found.append(Row(f"{name}: workers that keep the learner busy", f"{knee:.1f}"))
    slow = games(costs)["steps of 1 ms"]
    for learners in LEARNERS:
        for n in WORKERS_OF_LEARNERS:
            rate = simulate(slow, n, n + learners, learners)
            case = f"steps of 1 ms, {counted(learners, 'learner')}, {n} workers"
            found.append(Row(case, f"{rate:,.0f} frames/s"))
    base = synchronisation(costs, 1)
    for n, paper in PAPER.items():
        relative = synchronisation(costs, n) / base
        found.append(Row(f"ascend, {n} servers", f"{relative:.2f}", f"paper {paper:.2f}"))
    draw(costs)
    return [*found, *real_rows(costs)] if with_real else found


def real_rows(costs: Costs) -> list[Row]:
    """Return the rows of real runs, and what the simulation says on as many cores."""
    found = []
    for learners, workers in REAL:
        measured, here = real(learners, workers), cores()
        spent = f"CPU time of a frame: learners {1e6 * measured.learn:.0f} us"
        if workers:
            simulated = simulate(costs, workers, here, learners)
            spent += f", workers {1e6 * measured.play:.0f} us"
        else:  # plays and learns in turns
            simulated = min(learners, here) / (costs.play + costs.learn)
        case = f"{counted(learners, 'learner')}, {counted(workers, 'worker')}, {here} cores"
        baseline = f"simulated {simulated:,.0f}"
        ratio = measured.rate / simulated
        found.append(Row(case, f"{measured.rate:,.0f} frames/s", baseline, ratio, note=spent))
    return found


if __name__ == "__main__":
    if "--train" in sys.argv:  # a process of ``real``
        train_once_of(int(sys.argv[sys.argv.index("--train") + 1]))
    elif "--kills" in sys.argv:
        print_rows(kills(int(sys.argv[sys.argv.index("--kills") + 1])))
    else:
        print_rows(rows("--real" in sys.argv))
        print("scale.png")
