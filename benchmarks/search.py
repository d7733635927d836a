"""Search: how much it improves the play of networks, and how fast it is.

python -m benchmarks.search speed                     # CPU time of a visit
python -m benchmarks.search connect_four RUN          # against minimax of depth 4
python -m benchmarks.search connect_four RUN --visits 0 16 64 --games 1000 300 200
python -m benchmarks.search shop --visits 5 --games 12   # dynamic shops, with a rule
python -m benchmarks.search shop --visits 5 --games 12 --set breakdowns=0.1

Games of connect four begin after two random moves, because two players without random choices
would play almost the same game again and again. Half of them are played from each seat. 0 visits
are the network's most likely choices. In shops, a search without a network plays each visit on by
the rule ATC, over the jobs that have arrived; the rule plays the same streams.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ragged_envs.connect_four import ConnectFourRows
from ragged_envs.connect_four_script import Minimax
from ragged_envs.industry.job_shop_scripts import apparent_tardiness_cost

from benchmarks.work.dynamic import add_settings, settings_of, streams_of
from benchmarks.work.play import first_episodes
from entity_env import VecObs
from entity_env.agent import random_policy
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer.config import SearchConfig
from ppo_trainer.evaluation.searched import search_of
from ppo_trainer.experience.acting import answers_in_order, take_frames
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.search import Search
from ppo_trainer.runs.load_run import load_policy
from ragged_net import NetConfig, RaggedNet

Policy = Callable[[VecObs], Any]


def speed(games: Sequence[int], visits: int = 16, repeats: int = 7) -> None:
    """Print the CPU time of a visit of a network of width 64 in connect four."""
    rows = ConnectFourRows(2 * max(games))
    torch.manual_seed(0)
    net = RaggedNet(rows.obs_space(), rows.action_space(), NetConfig(dim=64, layers=1, heads=4))
    for count in games:
        rows = ConnectFourRows(2 * count)
        search, obs, taken = Search(rows, net, SearchConfig(visits=visits)), rows.reset(), []
        for _ in range(repeats):
            begun = time.process_time()
            actions = search(obs)
            taken.append((time.process_time() - begun) / visits / count * 1000)
            obs = rows.act(actions)
        print(
            f"{count:4d} games at once: {np.median(taken):.3f} ms of CPU a visit "
            f"({min(taken):.3f} to {max(taken[1:]):.3f})"
        )


def score(policy: Callable[[ConnectFourRows], Policy], games: int, seed: int = 1) -> Any:
    """Return the results of a policy against minimax: 1, 0.5 or 0. Shape: (games,)."""
    rows = ConnectFourRows(2 * games)
    spaces = rows.obs_space(), rows.action_space()
    opponent = ScriptedAgent(Minimax(4, seed), *spaces)
    draws, ours = random_policy(seed), policy(rows)
    obs = rows.reset()
    for _ in range(2):
        obs = rows.act(draws(obs))
    results = np.full(games, np.nan)
    seats = np.arange(games) % 2
    while np.isnan(results).any():
        game, seat = np.divmod(obs.rows, 2)
        plays = np.isnan(results[game])
        places = [
            np.flatnonzero(plays & (seat == seats[game])),
            np.flatnonzero(plays & (seat != seats[game])),
            np.flatnonzero(~plays),
        ]
        players = ours, opponent.act_rows, draws
        parts = [take_frames(obs, own) for own in places]
        answers = [
            player(part) if len(own) else {}
            for player, part, own in zip(players, parts, places, strict=True)
        ]
        obs = rows.act(answers_in_order(answers, places))
        for row in np.flatnonzero(obs.done & (np.arange(2 * games) % 2 == seats.repeat(2))):
            if np.isnan(results[row // 2]):
                results[row // 2] = obs.metrics["win"][row]
    return results


def connect_four(run: str, visits: Sequence[int], games: Sequence[int]) -> None:
    """Print the mean result of a run's network with and without searches."""
    loaded = load_policy(run)
    for count, many in zip(visits, games, strict=True):

        def policy(rows: ConnectFourRows, count: int = count) -> Policy:
            if not count:
                return NetworkAgent(loaded.net, greedy=True).act_rows
            return search_of(loaded, rows, count)

        begun = time.process_time()
        results: npt.NDArray[np.float64] = score(policy, many)
        error = 1.96 * results.std() / math.sqrt(len(results))
        print(
            f"{count:4d} visits: {results.mean():.3f} +- {error:.3f} of {many:,} games, "
            f"{time.process_time() - begun:.0f} CPU-s",
            flush=True,
        )


def shop(visits: int, streams: int, jobs: int, more: Mapping[str, Any]) -> None:
    """Print the weighted tardiness of the rule ATC, and that of a search which plays on by it."""
    settings = {"jobs": jobs, "machines": 10, "waiting": False, **more}
    rows = streams_of(streams, settings)
    by_rule = first_episodes(apparent_tardiness_cost.act_rows, rows, "tardiness")
    rows = streams_of(streams, settings)
    config, begun = SearchConfig(visits=visits, unit=0.01), time.process_time()
    search = Search(rows, None, config, play_on=apparent_tardiness_cost.act_rows)
    found = first_episodes(search, rows, "tardiness")
    less = by_rule - found
    error = 1.96 * less.std() / math.sqrt(streams)
    print(
        f"{streams} streams of {jobs} jobs: ATC {by_rule.mean():.1f}, {visits} visits "
        f"{found.mean():.1f}, {100 * less.mean() / by_rule.mean():.1f}% less (difference "
        f"{less.mean():.1f} +- {error:.1f}); {time.process_time() - begun:.0f} CPU-s"
    )


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "connect_four", "shop"))
    parser.add_argument("run", nargs="?")
    parser.add_argument("--visits", type=int, nargs="+", default=[0, 16, 64])
    parser.add_argument("--games", type=int, nargs="+", default=[1000, 300, 200])
    parser.add_argument("--jobs", type=int, default=100)
    add_settings(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "speed":
        speed([1, 16, 128])
    elif given.what == "shop":
        shop(given.visits[0] or 16, given.games[0], given.jobs, settings_of(given))
    else:
        connect_four(given.run, given.visits, given.games)


if __name__ == "__main__":
    main()
