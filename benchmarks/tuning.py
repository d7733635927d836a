"""Settings that ``ppo_trainer.tune`` finds beside those that it begins with, with other seeds.

python -m benchmarks.tuning
python -m benchmarks.tuning kitchen sorting --minutes 2 --steps 50_000 --seeds 11 12

The games are those of ``benchmarks.defaults``. Minutes are CPU time. The figures are mean returns
of 200 episodes, greedy or sampled, whichever is better; ``+-`` is the standard error of the mean
difference over the seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path

from benchmarks.defaults.__main__ import GAMES, train_ours
from ppo_trainer import tune
from ppo_trainer.tuning import difference

_SETTINGS = ["eval.episodes=200"]


def main() -> None:
    """Search, train with the settings before and after, and print a line for each game."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("games", nargs="*", help=f"all, or some of: {', '.join(GAMES)}")
    parser.add_argument("--minutes", type=float, default=30.0, help="CPU time of each search")
    parser.add_argument("--steps", type=int, default=200_000, help="steps of each training")
    parser.add_argument("--seeds", nargs="+", type=int, default=[11, 12])
    options = parser.parse_args()
    # Other processes on the machine do not take time from the search.
    time.monotonic = time.process_time
    for name in options.games or GAMES:
        path, arguments = GAMES[name]
        settings = [f"env.{key}={value}" for key, value in arguments.items()]
        settings += [f"env._target_=benchmarks.defaults.{path}", f"total_timesteps={options.steps}"]
        settings += _SETTINGS
        with tempfile.TemporaryDirectory() as folder:
            tune.tune(settings, options.minutes, folder)
            recipe = Path(folder) / "recipe.yaml"
            found = returns([*settings, f"experiment={recipe}"], options.seeds)
        known = returns(settings, options.seeds)
        texts = [" ".join(f"{mean:.4g}" for mean in means) for means in (known, found)]
        print(
            f"{name}: before {texts[0]}, found {texts[1]}, {difference(found, known)}", flush=True
        )


def returns(settings: list[str], seeds: list[int]) -> list[float]:
    """Train without output on the screen, and return the better mean return of each seed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return [max(train_ours([*settings, f"seed={seed}"])) for seed in seeds]


if __name__ == "__main__":
    main()
