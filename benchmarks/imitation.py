"""Cloning a script from few recorded games, and PPO that goes on from the clone.

python -m benchmarks.imitation --seeds 1 2 3
python -m benchmarks.imitation --ppo 0.95 0.99       frames until PPO wins so many games, too
python -m benchmarks.imitation --games 50 net.dim=64 imitation.epochs=200

For each seed the script plays other games; each clone plays 1,000 fresh ones. About 20 seconds a
clone, and a minute for PPO.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path

from ppo_trainer import recipe, train
from ppo_trainer.environments import make_factory
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.imitate import imitate
from ppo_trainer.record import record_agent
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics
from ppo_trainer.training.session import Session

EPISODES = 1000


def clone(env: str, seed: int, games: int, settings: list[str], folder: Path) -> tuple[Path, str]:
    """Record games and clone their player; returns the run, and what it can do as text."""
    config = recipe(env, f"seed={seed}", f"run_dir={folder}", "eval.episodes=0", *settings)
    recorded = record_agent(config, folder / f"{seed}.episodes", episodes=games, rows=8)
    start = time.perf_counter()
    result = imitate([recorded.path], config)
    seconds = time.perf_counter() - start
    records = read_metrics(RunFolder(result.run))
    best = min(records, key=lambda record: record["loss/held_out"])
    game = make_factory(config)
    wins = [
        evaluate(result.net, game, config, EPISODES, greedy=greedy).mean("win")
        for greedy in (True, False)
    ]
    cells = [
        f"{recorded.rewards.count:5d}  {recorded.frames:6,}  {len(records):6d}  {seconds:7.1f}",
        f"{best['loss/held_out']:8.3f}  {best['policy/accuracy']:8.1%}",
        f"{wins[0]:6.1%}  {wins[1]:7.1%}",
    ]
    return result.run, "  ".join(cells)


def frames_to_goals(
    env: str, seed: int, goals: list[float], folder: Path, *settings: str
) -> list[int | None]:
    """Train until so many of the last games are won; returns the frames of each goal."""
    stop = (f"seed={seed}", f"run_dir={folder}", "eval.episodes=0", f"stop_at.win={max(goals)}")
    reached: dict[float, int] = {}

    def note(session: Session) -> None:
        for goal in goals:
            if session.recent.is_full and session.means["win"] >= goal:
                reached.setdefault(goal, session.steps)

    train(recipe(env, *stop, *settings), callbacks=note)
    return [reached.get(goal) for goal in goals]


def main() -> None:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="of all trainings: net.dim=64")
    parser.add_argument("--env", default="minesweeper")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--ppo", type=float, nargs="+", default=[], help="shares of games to win")
    given = parser.parse_intermixed_args()
    print("seed  games  frames  passes  seconds  held out  accuracy  greedy  sampled", end="")
    print("  PPO from it | with clone_kl=0.1 | from nothing" if given.ppo else "")
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
            folder = Path(name)
            run, text = clone(given.env, seed, given.games, given.settings, folder)
            if given.ppo:
                start = f"init={run}"
                for own in ([start], [start, "ppo.clone_kl=0.1"], []):
                    settings = [*given.settings, *own]
                    frames = frames_to_goals(given.env, seed, given.ppo, folder, *settings)
                    cells = [f"{one:,}" if one else "not reached" for one in frames]
                    text += "  |  " + " ".join(cells)
        print(f"{seed:4d}  {text}", flush=True)


if __name__ == "__main__":
    main()
