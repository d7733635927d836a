"""``ListEnv``: what a step of a Python environment costs beside the environment's own ``act``.

python -m benchmarks.list_env

All checks of observations are on. The baseline reads and packs the same observations frame by
frame, with ``FrameReader`` and ``batch_frames``. "The game alone" is the same environments with the
same actions in a bare loop.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import Row, Times, alternate, print_rows, speed_row
from benchmarks.python_minesweeper import PythonMineSweeper
from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
)
from entity_env.batching.feature_columns import Outcome
from entity_env.batching.row_reader import ReadRows, RowReader
from entity_env.environment import seed_environment
from entity_env.play import random_policy

__all__ = ["Anew", "Drill", "rows"]

ROWS, STEPS = 128, 128


def rows() -> list[Row]:
    """Steps per second, and how much of the time is not the game's own."""
    drill, anew = _cases(Drill, seed=None), _cases(Anew, seed=None)
    sweeper = _cases(PythonMineSweeper, seed=1)
    return [
        *_rows("ready-made lists", alternate(drill, seconds=0.25, budget=12), target=300_000),
        *_rows("lists made anew", alternate(anew, seconds=0.25, budget=12)),
        *_rows("MineSweeper", alternate(sweeper, seconds=0.25, budget=12)),
        _collected_row(),
    ]


class Anew(Environment):
    """Shows observations in turn, made in each step, as games do: in memory that was just used.

    One to four units and one to three targets; each unit picks one of four moves, of which its mask
    forbids one. Everything is a Python list, and no episode ends.
    """

    def __init__(self) -> None:
        self._turn = 0

    def obs_space(self) -> ObsSpace:
        """Units and targets on a plane."""
        return ObsSpace(entities={"Unit": Entity(["x", "y"]), "Target": Entity(["x", "y"])})

    def action_space(self) -> dict[str, Any]:
        """Each unit moves."""
        return {"Move": CategoricalActionSpace(["left", "right", "up", "down"])}

    def reset(self) -> Observation:
        """Return the first observation."""
        self._turn = 0
        return _made(0)

    def act(self, actions: Mapping[str, Any]) -> Observation:
        """Return the next observation."""
        self._turn = (self._turn + 1) % 12
        return _made(self._turn)


class Drill(Anew):
    """The same, ready-made: nearly nothing of the time is the game's own.

    All rows together are some megabytes, which come from a cache that the cores share.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown = [_made(turn) for turn in range(12)]

    def reset(self) -> Observation:
        """Return the first observation."""
        self._turn = 0
        return self._shown[0]

    def act(self, actions: Mapping[str, Any]) -> Observation:
        """Return the next observation."""
        self._turn = (self._turn + 1) % 12
        return self._shown[self._turn]


def _made(turn: int) -> Observation:
    units, targets = 1 + turn % 4, 1 + turn % 3
    mask = [[choice != (turn + unit) % 4 for choice in range(4)] for unit in range(units)]
    return Observation(
        features={
            "Unit": [[0.5 * unit, float(turn)] for unit in range(units)],
            "Target": [[1.0 * target, -1.0] for target in range(targets)],
        },
        ids={
            "Unit": [("Unit", unit) for unit in range(units)],
            "Target": [("Target", target) for target in range(targets)],
        },
        actions={"Move": CategoricalActionMask(actor_types=["Unit"], mask=mask)},
        reward=0.25,
    )


class _FrameByFrame(RowReader):
    """The baseline."""

    def read(self, observations: Sequence[Observation], where: Callable[[int], str]) -> ReadRows:
        return self.read_each(observations, where)

    def outcome(self, observations: Sequence[Observation], where: Callable[[int], str]) -> Outcome:
        return self.read_each(observations, where).outcome


def _cases(create: Callable[[], Environment], seed: int | None) -> dict[str, Callable[[], object]]:
    """Return three ways to play one game with random actions; ``seed`` may be None."""
    env, slow = ListEnv(create, ROWS), ListEnv(create, ROWS)
    slow._reader = _FrameByFrame(slow.obs_space(), slow.action_space())
    policy = random_policy(2)
    obs = env.reset(seed)
    chosen, dealt, ends = [], [], []
    for _ in range(STEPS):
        chosen.append(policy(obs))
        dealt.append(env._rows.typed_actions(chosen[-1], env.action_space()))
        obs = env.act(chosen[-1])
        ends.append(np.flatnonzero(obs.done).tolist())

    def play(rows_of: ListEnv) -> None:
        rows_of.reset(seed)
        for actions in chosen:
            rows_of.act(actions)

    games = [create() for _ in range(ROWS)]

    def play_alone() -> None:
        for row, game in enumerate(games):
            if seed is not None:
                stream = np.random.SeedSequence(seed, spawn_key=(row,))
                seed_environment(game, int(stream.generate_state(1)[0]))
            game.reset()
        for actions, ended in zip(dealt, ends, strict=True):
            for game, own in zip(games, actions, strict=True):
                game.act(own)
            for row in ended:
                games[row].reset()

    return {
        "ours": lambda: play(env),
        "frame by frame": lambda: play(slow),
        "game alone": play_alone,
    }


class _Collected(ListEnv):
    """The baseline of the collector: it may come at any time."""

    _act = ListEnv._act.__wrapped__  # type: ignore[attr-defined]


def _collected_row() -> Row:
    """MineSweeper with the garbage collector on and torch in memory, as in a training run."""
    importlib.import_module("torch")

    def player(kind: type[ListEnv]) -> Callable[[], object]:
        env, policy = kind(PythonMineSweeper, ROWS), random_policy(2)

        def play() -> None:
            gc.unfreeze()
            gc.enable()  # ``alternate`` measures without it
            obs = env.reset(1)
            for _ in range(4 * STEPS):
                obs = env.act(policy(obs))
            gc.disable()
            gc.freeze()

        return play

    times = alternate({kind: player(kind) for kind in (ListEnv, _Collected)}, repeats=7)
    return speed_row(
        "ListEnv, MineSweeper and random play, garbage collected, beside torch",
        times[ListEnv],
        times[_Collected],
        "collected within steps, too",
        per_call=4 * ROWS * STEPS,
        unit="steps/s",
    )


def _rows(name: str, times: Mapping[str, Times], target: float | None = None) -> list[Row]:
    steps = ROWS * STEPS
    ours, slow, alone = (times[way] for way in ("ours", "frame by frame", "game alone"))
    speed = speed_row(
        f"ListEnv, {name}", ours, slow, "frame by frame", per_call=steps, unit="steps/s"
    )
    if target is not None:
        speed = replace(speed, target=target, value=steps / ours.median)
    ratios = sorted(
        (b - c) / (a - c) for a, b, c in zip(*(t.seconds for t in (ours, slow, alone)), strict=True)
    )
    edge = len(ratios) // 10
    outside = Row(
        case=f"ListEnv, {name}: outside the game's act",
        ours=_share(ours, alone, steps),
        baseline=f"frame by frame: {_share(slow, alone, steps)}",
        ratio=ratios[len(ratios) // 2],
        spread=(ratios[edge], ratios[-1 - edge]),
    )
    return [speed, outside]


def _share(whole: Times, alone: Times, steps: int) -> str:
    both, game = (1e6 * times.median / steps for times in (whole, alone))
    return f"{both - game:.2f} of {both:.2f} us a step ({1 - game / both:.0%})"


if __name__ == "__main__":
    print_rows(rows())
