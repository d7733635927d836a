"""Real-time strategy: how games end, how fast they are played, and that both engines agree.

python -m benchmarks.rts outcomes          # win rates beside those of the original engine
python -m benchmarks.rts outcomes --games 500
python -m benchmarks.rts speed             # ticks per second of one core, against readable Python
python -m benchmarks.rts agree --games 20  # whole games, unit by unit, compiled and in Python
python -m benchmarks.rts fuzz --games 50   # 2,000 random commands in each, and what must stay true
python -m benchmarks.rts search --games 50 # Monte-Carlo tree search against the built-in players
python -m benchmarks.rts search --visits 20 --trees 4 --playout hit_n_run --horizon 500
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, namedtuple
from typing import Any

import numpy as np

from benchmarks.work.play import first_episodes
from entity_env import GlobalCategoricalAction
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.play import random_policy
from entity_env.player.scripted_agent import ScriptedAgent
from entity_env.rows.random_numbers import seeded_streams
from envs.rts import fast_layout as at
from envs.rts import minirts_fast as fast
from envs.rts.capture_the_flag_rows import CaptureTheFlagRows
from envs.rts.minirts import MINI_RTS, MiniRts, hit_n_run, order, simple
from envs.rts.minirts_env import MiniRtsDuel
from envs.rts.minirts_rows import MiniRtsDuelRows, MiniRtsRows
from envs.rts.minirts_search import MiniRtsSearch
from envs.rts.minirts_view import observe
from envs.rts.scripts import bring_the_flag_home
from envs.rts.tower_defence_rows import TowerDefenceRows
from envs.rts.world import Command, World

R, S, H = fast.RANDOM, fast.SIMPLE, fast.HIT_N_RUN
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
    return namedtuple("G", [*fields, "random"])(*made, seeded_streams(seed, games))


def play(games: int, who: tuple[int, int], skip: int, seed: int = 0) -> tuple[Any, float]:
    """Whole games; returns the arrays and ticks per second of this process."""
    arrays = arrays_of(games, seed)
    fast.begin_games(arrays, MINI_RTS.max_tick)
    began = time.process_time()
    ticks = fast.play_games(arrays, 0, games, np.array(who), np.array([skip, skip]), 2**31)
    return arrays, ticks / (time.process_time() - began)


def spread(rate: float, games: int) -> tuple[float, float]:
    """Half the 95% and the 99% interval of a rate."""
    error = math.sqrt(max(rate * (1 - rate), 1e-9) / games)
    return 1.96 * error, 2.576 * error


def outcomes(games: int) -> None:
    """The table of outcomes."""
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
    _row("Tower Defence, legal random", random_policy(seed=1), rows, "42.3% of 1,000")


def _row(name: str, policy: Any, rows: Any, original: str) -> None:
    """Print how often a policy wins the first episode of each row."""
    won = first_episodes(policy, rows, "win")
    near, far = spread(float(won.mean()), len(won))
    print(
        f"{name:28} {won.mean():6.1%} {near:6.1%} {far:6.1%} {'':13}   {original} ({len(won)} here)"
    )


def speed(games: int) -> None:
    """Ticks per second, alternating with the readable engine."""
    play(2, (S, S), 1)
    rates, slow = [], []
    for seed in range(3):
        rates.append(play(max(10, games // 20), (S, S), 1, seed)[1])
        world, began = World(MiniRts(), seed), time.process_time()
        while not world.is_over:
            order(world, 0, simple(world, 0))
            order(world, 1, simple(world, 1))
            world.play_tick()
        slow.append(world.tick / (time.process_time() - began))
    fastest, readable = float(np.median(rates)), float(np.median(slow))
    print(f"SIMPLE - SIMPLE, skip 1: {fastest:,.0f} ticks/s compiled, {readable:,.0f} in Python, ")
    print(f"{fastest / readable:.0f}x (from {min(rates):,.0f} to {max(rates):,.0f})")
    _speed_of_rows()


def _speed_of_rows() -> None:
    """Environment steps per second of both seats at skip 50, and copies of states."""
    rows, policy = MiniRtsDuelRows(128, seed=1), random_policy(seed=1)
    obs, slow, draw = rows.reset(), MiniRtsDuel(), np.random.default_rng(1)
    slow.seed(1)
    seats = slow.reset()
    compiled, readable, steps = 0.0, 0.0, 40
    for _ in range(steps):
        chosen, began = policy(obs), time.process_time()
        obs = rows.act(chosen)
        compiled += time.process_time() - began
        orders = {
            seat: {"Order": GlobalCategoricalAction(int(draw.choice(_allowed(own))), "")}
            for seat, own in seats.items()
        }
        began = time.process_time()
        seats = slow.act(orders)
        if any(own.done for own in seats.values()):
            seats = slow.reset()
        readable += time.process_time() - began
    fast_rate, slow_rate = 128 * steps / compiled, 2 * steps / readable
    print(f"both seats, skip 50: {fast_rate:,.0f} steps/s compiled, {slow_rate:,.0f} in Python, ")
    print(f"{fast_rate / slow_rate:.0f}x")
    fields, games = rows._fields, list(range(64))
    size = sum(own[0].nbytes for own in fields.values())
    began, copies = time.process_time(), 0
    while time.process_time() - began < 1:
        rows.copy_games(games)
        copies += len(games)
    print(f"copies of a state of {size:,} bytes: {copies / (time.process_time() - began):,.0f}/s")


def _allowed(own: Any) -> Any:
    return np.flatnonzero(np.ravel(own.actions["Order"].mask))


def fuzz(games: int) -> None:
    """Random commands to random units: only what rules allow may change."""
    draw, taken, sent = np.random.default_rng(0), 0, 0
    for seed in range(games):
        world = World(MiniRts(), seed)
        world.resource, before = [600, 600], 10**9  # so that there are units
        for _ in range(250):
            if world.is_over:
                break
            for _ in range(8):
                player, (x, y) = int(draw.integers(2)), draw.uniform(-1, 21, 2).tolist()
                # Mostly units that there are, and some that never were or have died.
                known = [*world.units, *world.units, -1, world.created]
                uids = [known[k] for k in draw.integers(0, len(known), 3)]
                kind, builds = int(draw.integers(0, 6)), int(draw.integers(-1, 8))
                place = (x, y) if draw.random() < 0.7 else (-1.0, -1.0)
                uid, target, base = uids
                command = Command(kind, *place, target, base, builds)
                taken += world.send(player, uid, command)
                sent += 1
            world.play_tick()
            before = check_invariants(world, before)
    print(f"{sent:,} commands, {taken:,} taken, nothing that the rules do not allow")


def check_invariants(world: World, before: int) -> int:
    """Raise unless a state of Mini-RTS can be; returns all that can still become money.

    Args:
        world: A game.
        before: What this returned one tick earlier.
    """
    units, size = list(world.units.values()), world.rules.size
    for i, unit in enumerate(units):
        if not 0 < unit.hp <= world.kind(unit).hp:
            raise AssertionError(f"hit points: {unit}")
        if not (-0.5 < unit.x < size - 0.5 and -0.5 < unit.y < size - 0.5):
            raise AssertionError(f"outside of the map: {unit}")
        for other in units[:i]:
            if (other.x - unit.x) ** 2 + (other.y - unit.y) ** 2 < 0.25:
                raise AssertionError(f"two bodies in one place: {unit}, {other}")
    if min(world.resource) < 0:
        raise AssertionError(f"debts: {world.resource}")
    for player in range(2):
        shown = observe(world, player, 0.0, fog=True).features or {}
        for row in shown.get("Enemy") or []:
            if not world.sees(player, row[1], row[2]):
                raise AssertionError(f"player {player} sees through fog: {row}")
    left = sum(unit.hp for unit in units if world.kind(unit).name == "Resource")
    left += sum(world.resource) + 5 * len(units)  # a load on the way of each unit at most
    if left > before + 5 * len(units) + 500:  # a building that fails is paid back
        raise AssertionError(f"money from nowhere: {before} to {left}")
    return left


def agree(games: int) -> None:
    """Whole games in both engines."""
    scripts = {S: simple, H: hit_n_run}
    told = Counter[str]()
    for seed in range(games):
        who = ((S, H), (H, S), (R, S), (R, H))[seed % 4]
        skip = (50, 1)[seed // 4 % 2]
        world, arrays = World(MiniRts(), seed), arrays_of(1, seed)
        fast.begin_games(arrays, MINI_RTS.max_tick)
        while not world.is_over:
            for player in range(2):
                if world.tick % skip == 0:
                    at_random = who[player] == R
                    given = {world.draw(0, 8)} if at_random else scripts[who[player]](world, player)
                    order(world, player, given)
            world.play_tick()
            fast.play_games(arrays, 0, 1, np.array(who), np.array([skip, skip]), 1)
            units = [(u.uid, u.kind, u.x, u.y, u.hp) for p in (0, 1) for u in world.of(p)]
            rows, places = arrays.units[0], arrays.places[0]
            alive = np.flatnonzero(rows[:, at.ALIVE])
            columns = [at.UID, at.KIND]
            others = [
                (*rows[i, columns].tolist(), *places[i, [at.X, at.Y]].tolist(), int(rows[i, at.HP]))
                for i in alive
            ]
            money = arrays.numbers[0, at.MONEY : at.MONEY + 2].tolist()
            if units != others or world.resource != money:
                told["differ"] += 1
                print(f"game {seed} differs at tick {world.tick}")
                break
        else:
            told["agree"] += 1
    print(dict(told))


def search(
    games: int, visits: int, trees: int, threads: int, playout: str, horizon: int | None
) -> None:
    """Win rates of Monte-Carlo tree search, and how long a move takes."""
    print(f"{trees} trees of {visits} visits, playouts by {playout}, horizon {horizon}, skip 50")
    for opponent, paper in (("simple", 0.732), ("hit_n_run", 0.627)):
        rows = MiniRtsRows(games, seed=1, opponent=opponent)
        how = MiniRtsSearch(rows, visits, trees, threads, None, playout, horizon, seed=1)
        how.counts(0)  # compiles
        how.seconds, how.decisions = 0.0, 0
        began = time.process_time()
        wins = _searched_games(rows, how)
        cpu = time.process_time() - began
        rate = float(wins.mean())
        near, _ = spread(rate, games)
        print(
            f"{opponent:10} {rate:6.1%} +- {near:.1%} of {games} games (paper {paper:.1%}); "
            f"{1000 * cpu / how.decisions:.1f} ms of CPU, "
            f"{1000 * how.seconds / how.decisions:.1f} ms of time a move",
            flush=True,
        )


def _searched_games(rows: MiniRtsRows, how: MiniRtsSearch) -> Any:
    """Whether the search wins the first game of each row. Shape: (R,)."""
    obs, plays, wins = rows.reset(), np.ones(len(rows), bool), np.zeros(len(rows))
    lengths = np.ones(len(rows), np.int64)
    while plays.any():
        # Rows whose game is over idle in the next one, which is not counted.
        orders = [int(np.argmax(how.counts(row))) if plays[row] else 0 for row in range(len(rows))]
        flat = np.array(orders, np.int64)[:, None]
        obs = rows.act({"Order": RaggedBufferI64.from_flattened(flat, lengths)})
        ended = obs.done & plays
        if ended.any():
            wins[ended] = obs.metrics["win"][ended]
            plays &= ~ended
    return wins


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("outcomes", "speed", "agree", "fuzz", "search"))
    parser.add_argument("--games", type=int, default=None)
    parser.add_argument("--visits", type=int, default=100)
    parser.add_argument("--trees", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--playout", default="random")
    parser.add_argument("--horizon", type=int, default=None)
    given = parser.parse_args()
    if given.what == "search":
        how = given.visits, given.trees, given.threads, given.playout, given.horizon
        search(given.games or 100, *how)
        return
    what, games = {
        "outcomes": (outcomes, 2000),
        "speed": (speed, 400),
        "agree": (agree, 200),
        "fuzz": (fuzz, 50),
    }[given.what]
    what(given.games or games)


if __name__ == "__main__":
    main()
