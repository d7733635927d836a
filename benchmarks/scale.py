"""The scaling of a run: measured costs, a simulation of 1 to 1,000 workers, and real runs.

``python -m benchmarks.scale`` measures what each part of a run with ``scale=rapid`` costs,
simulates more workers than there are here, event by event, and draws ``scale.png``. ``--real`` also
trains with 1, 2 and 4 workers of Ray and compares. ``--kills 50`` does nothing but train with two
workers, of which one is killed at random so many times, and prints what was lost. Costs are CPU
seconds; real runs are wall-clock time, which other work on the machine lengthens.

Each worker has 64 rows and plays 16 steps for an update, so that more workers make larger updates.
The second simulation is the synchronisation of Neural MMO's Ascend (Suarez et al. 2020, figure 5):
a gradient over 4,096 decisions in each of N servers, which a cluster adds up.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import pickle
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.measure import Row, print_rows
from benchmarks.session import training
from entity_env import VecObs
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
REAL = (1, 2, 4)
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
            weights = {name: own.clone() for name, own in session.net.state_dict().items()}
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


def simulate(costs: Costs, workers: int, number_of_cores: float, updates: int = 30) -> float:
    """Return frames per second of workers and a learner, event by event.

    A worker plays, sends its rollout, and plays on with the newest weights as soon as the learner
    notices the rollout, between two updates. The learner reads rollouts from its network card one
    after the other, and learns from as many of them as there are workers.
    """
    rng, frames = np.random.default_rng(0), ROWS * STEPS
    tasks = _Cores(number_of_cores)
    done, card, arrived, learning = 0, 0.0, 0, False
    moments, unheard = [0.0], deque[float]()

    def play(now: float) -> None:
        seconds = frames * (costs.play + costs.pack) * float(np.exp(SPREAD * rng.normal()))
        tasks.run(now + costs.message, seconds, sent)

    def sent(now: float) -> None:
        nonlocal card, arrived
        # The card is busy with one rollout, and with the weights that go back, at a time.
        card = max(card, now) + (frames * costs.frame + costs.weights) / BANDWIDTH
        arrived += 1
        unheard.append(card)
        if not learning:
            hear(card)

    def hear(now: float) -> None:
        nonlocal arrived, learning
        while unheard:
            play(max(now, unheard.popleft()))
        if arrived >= workers:
            arrived, learning = arrived - workers, True
            tasks.run(now, workers * frames * (costs.learn + costs.pack), learned)

    def learned(now: float) -> None:
        nonlocal done, learning
        done, learning = done + 1, False
        moments.append(now)
        hear(now)

    for _ in range(workers):
        play(0.0)
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


def real(workers: int, updates: int = 30) -> float:
    """Return frames per second of a run with workers of Ray, in wall time."""
    moments = []
    config = replace(
        make_config(workers),
        total_timesteps=updates * workers * ROWS * STEPS,
        scale=ScaleConfig(mode="rapid", worlds=workers, networks=workers, cpus=0.1),
    )
    with tempfile.TemporaryDirectory() as folder:
        train(replace(config, run_dir=folder), callbacks=lambda _: moments.append(time.monotonic()))
    half = len(moments) // 2
    return (len(moments) - half) * workers * ROWS * STEPS / (moments[-1] - moments[half - 1])


def kills(number: int) -> list[Row]:
    """Train with two workers, kill one of them at random so many times, and count what is lost."""
    import psutil

    rng, lost, own = random.Random(1), list[float](), psutil.Process()
    config = replace(
        make_config(2),
        total_timesteps=(number + 10) * 2 * ROWS * STEPS,
        scale=ScaleConfig(mode="rapid", worlds=2, networks=2, cpus=0.1),
        algorithm="vtrace",
    )

    def workers() -> list[psutil.Process]:
        found = []
        for child in own.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "ray::RolloutWorker" in " ".join(child.cmdline()):
                    found.append(child)
        return found

    killed = 0

    def kill_one(session: Session) -> None:
        nonlocal killed
        lost.append(session.metrics["scale/lost_frames"])
        if killed < number:
            time.sleep(rng.uniform(0.0, 0.2))  # anywhere in a rollout
            while not (there := workers()):
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
    for name, own in games(costs).items():
        rates.loglog(WORKERS, [simulate(own, n, n + 1) for n in WORKERS], "o-", label=name)
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
    for name, own in games(costs).items():
        one = simulate(own, 1, 2)
        for n in WORKERS:
            rate = simulate(own, n, n + 1)
            found.append(Row(f"{name}, {n} workers", f"{rate:,.0f} frames/s", "1", rate / one))
        knee = (own.play + own.pack) / (own.learn + own.pack)
        found.append(Row(f"{name}: workers that keep the learner busy", f"{knee:.1f}"))
    base = synchronisation(costs, 1)
    for n, paper in PAPER.items():
        relative = synchronisation(costs, n) / base
        found.append(Row(f"ascend, {n} servers", f"{relative:.2f}", f"paper {paper:.2f}"))
    if with_real:
        here = cores()
        simulated = {n: simulate(costs, n, here) for n in REAL}
        measured = {n: real(n) for n in REAL}
        for n in REAL:
            found.append(
                Row(
                    f"{n} workers of Ray on {here} cores",
                    f"{measured[n]:,.0f} frames/s, {measured[n] / measured[1]:.2f} x one worker",
                    f"simulated {simulated[n]:,.0f}, {simulated[n] / simulated[1]:.2f} x",
                    measured[n] / simulated[n],
                )
            )
    draw(costs)
    return found


if __name__ == "__main__":
    if "--kills" in sys.argv:
        print_rows(kills(int(sys.argv[sys.argv.index("--kills") + 1])))
    else:
        print_rows(rows("--real" in sys.argv))
        print("scale.png")
