"""Real-time strategy: how games end, and how fast they are played.

python -m benchmarks.rts outcomes          # win rates beside those of the original engine
python -m benchmarks.rts outcomes --games 500
python -m benchmarks.rts speed             # ticks per second of one core, compiled and as Python
"""

from __future__ import annotations

import argparse
import math
import time
from collections import namedtuple
from typing import Any

import numpy as np

from benchmarks.work.play import first_episodes
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.play import random_policy
from entity_env.rows.jit import interpreted, wrapping
from entity_env.rows.random_numbers import seeded_streams
from entity_env.scripted_agent import ScriptedAgent
from envs.rts import arrays as at
from envs.rts import minirts
from envs.rts.capture_the_flag import CaptureTheFlagRows
from envs.rts.minirts import MINI_RTS
from envs.rts.minirts_rows import MiniRtsDuelRows, MiniRtsRows
from envs.rts.scripts import bring_the_flag_home
from envs.rts.strategic import RANDOM
from envs.rts.tower_defence import TowerDefenceRows

R, S, H = RANDOM, minirts.SIMPLE, minirts.HIT_N_RUN
# Name, players, frame skip, and what the original engine gives. Random is uniform over all nine
# actions, without a mask, as there.
GAMES = (
    ("SIMPLE - HIT_N_RUN, skip 50", (S, H), 50, "28.1% of 4,000"),
    ("SIMPLE - HIT_N_RUN, skip 1", (S, H), 1, "19.1% of 2,000"),
    ("SIMPLE - SIMPLE, skip 1", (S, S), 1, "50.0% of 1,000, 0.9% draws"),
    ("random - SIMPLE, skip 50", (R, S), 50, "19.9% of 2,000, 0.6% draws"),
    ("random - HIT_N_RUN, skip 50", (R, H), 50, "23.8% of 2,000, 0.2% draws"),
)
# Another player: random among the actions that a mask allows.
MASKED = (("simple", "15.4% of 1,400"), ("hit_n_run", "17.4% of 1,400"))


def arrays_of(games: int, seed: int) -> Any:
    """Fresh arrays of so many games."""
    fields = at.world_fields(MINI_RTS)
    made = [np.zeros((games, *own.shape), own.dtype) for own in fields.values()]
    names = [*fields, "random"]
    return namedtuple("G", names)(*made, seeded_streams(seed, games))  # type: ignore[call-arg]


def play(
    games: int, who: tuple[int, int], skip: int, seed: int = 0, in_python: bool = False
) -> tuple[Any, float]:
    """Whole games; returns the arrays and ticks per second of this process."""
    arrays = arrays_of(games, seed)
    begin, play_on = minirts.begin_games, minirts.play_games
    if in_python:
        begin, play_on = (wrapping(interpreted(own)) for own in (begin, play_on))
    begin(arrays, MINI_RTS.max_tick)
    began = time.process_time()
    ticks = play_on(arrays, 0, games, np.array(who), np.array([skip, skip]), 2**31)
    return arrays, ticks / (time.process_time() - began)


def spread(rate: float, games: int) -> tuple[float, float]:
    """Half the 95% and the 99% interval of a rate."""
    error = math.sqrt(max(rate * (1 - rate), 1e-9) / games)
    return 1.96 * error, 2.576 * error


def outcomes(games: int) -> None:
    """Print the table of outcomes."""
    print(f"{'':28} {'wins':>6} {'95%':>6} {'99%':>6} {'draws':>6} {'ticks':>6}   original")
    for name, who, skip, original in GAMES:
        wins, draws, ticks, played = 0, 0, 0, 0
        # Half of the games from the other seat.
        for seat, players in enumerate((who, who[::-1])):
            arrays, _ = play(games // 2, players, skip, seat + 1)
            winner = arrays.numbers[:, at.WINNER]
            wins += int((winner == seat).sum())
            draws += int((winner < 0).sum())
            ticks += int(arrays.numbers[:, at.TICK].sum())
            played += games // 2
        rate = wins / played
        near, far = spread(rate, played)
        print(
            f"{name:28} {rate:6.1%} {near:6.1%} {far:6.1%} {draws / played:6.1%} "
            f"{ticks / played:6.0f}   {original}"
        )
    for opponent, original in MASKED:
        rows = MiniRtsRows(max(20, games // 4), 1, opponent=opponent, curriculum=0)
        _row(f"masked random - {opponent.upper()}", random_policy(seed=1), rows, original)
    for skip, original in ((50, "48% of 50"), (10, "98% of 50")):
        rows = CaptureTheFlagRows(max(20, games // 8), 1, frame_skip=skip, opponent_skip=50)
        script = ScriptedAgent(bring_the_flag_home, rows.obs_space(), rows.action_space())
        _row(f"CTF by sight, skip {skip} - 50", script.act_rows, rows, original)
    rows = TowerDefenceRows(max(20, games // 4), 1)
    _row("Tower Defence, legal random", random_policy(seed=1), rows, "")
    rows = TowerDefenceRows(max(20, games // 4), 1)
    _row("Tower Defence, any of 400 cells", AnyCell(seed=1), rows, "42.3% of 1,000")


class AnyCell:
    """A player who names one of 400 cells, and waits where no tower can be built there."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def __call__(self, obs: Any) -> dict[str, RaggedBufferI64]:
        """Return an action for each row."""
        mask, chosen = obs.action_masks["Build"], []
        for row, cell in enumerate(self._draw.integers(1, 401, len(obs.rows)).tolist()):
            allowed = mask.mask[row].as_array().ravel()
            chosen.append(cell if allowed[cell] else 0)
        flat = np.array(chosen, np.int64)[:, None]
        return {"Build": RaggedBufferI64.from_flattened(flat, np.ones(len(flat), np.int64))}


def _row(name: str, policy: Any, rows: Any, original: str) -> None:
    """Print how often a policy wins the first episode of each row."""
    won = first_episodes(policy, rows, "win")
    near, far = spread(float(won.mean()), len(won))
    print(
        f"{name:28} {won.mean():6.1%} {near:6.1%} {far:6.1%} {'':13}   {original} ({len(won)} here)"
    )


def speed(games: int) -> None:
    """Ticks per second, alternating with the same functions run by Python."""
    play(2, (S, S), 1)
    rates, slow = [], []
    for seed in range(3):
        rates.append(play(max(10, games // 20), (S, S), 1, seed)[1])
        slow.append(play(1, (S, S), 50, seed, in_python=True)[1])
    fastest, python = float(np.median(rates)), float(np.median(slow))
    print(f"SIMPLE - SIMPLE, skip 1: {fastest:,.0f} ticks/s compiled, ", end="")
    print(f"from {min(rates):,.0f} to {max(rates):,.0f}; skip 50 in Python: {python:,.0f}")
    rows, policy, steps = MiniRtsDuelRows(128, seed=1), random_policy(seed=1), 40
    obs, spent = rows.reset(), 0.0
    for _ in range(steps):
        chosen, began = policy(obs), time.process_time()
        obs = rows.act(chosen)
        spent += time.process_time() - began
    print(f"both seats, skip 50: {128 * steps / spent:,.0f} steps/s")
    saved, again = list(range(64)), rows._fields
    size = sum(own[0].nbytes for own in again.values())
    began, copies = time.process_time(), 0
    while time.process_time() - began < 1:
        rows.copy_games(saved)
        copies += len(saved)
    print(f"copies of a state of {size:,} bytes: {copies / (time.process_time() - began):,.0f}/s")


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("outcomes", "speed"))
    parser.add_argument("--games", type=int, default=None)
    given = parser.parse_args()
    what, games = {"outcomes": (outcomes, 2000), "speed": (speed, 400)}[given.what]
    what(given.games or games)


if __name__ == "__main__":
    main()
