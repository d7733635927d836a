"""Evaluate a run: ``python -m ppo_trainer.evaluate <run> [env.<setting>=...] [--episodes N]``.

All players play the same number of episodes: the agent, greedy and sampled, the scripted player if
the run has one, and random play. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entity_env.registry import Factory
from ppo_trainer.command_line.words import env_changes
from ppo_trainer.evaluation.comparison import evaluate_against, evaluate_all, named_opponents
from ppo_trainer.evaluation.searched import evaluate_searched
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.device import default_torch_state, use_threads
from ppo_trainer.machine.screen import deliver
from ppo_trainer.reporting.evaluation import SCRIPTED, Evaluation, left_out, table
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.folder import newest_run
from ppo_trainer.runs.load_run import LoadedRun, load_policy
from ppo_trainer.runs.results import describe
from ppo_trainer.training.rehearsal import rehearse_opponents, rehearse_script

__all__ = ["evaluate_run", "main"]


@default_torch_state()
def evaluate_run(
    path: str | Path,
    env: Factory | None = None,
    episodes: int = 1000,
    seed: int | None = None,
    *,
    scripted: str | None = None,
    settings: Mapping[str, Any] | None = None,
    greedy: bool = False,
    seconds: float = 0.0,
    trust: bool = False,
    against: Sequence[str] = (),
    replays: str | Path | None = None,
    search: int | None = None,
    temperature: float = 1.0,
) -> list[Evaluation]:
    """Evaluate the newest checkpoint of a run.

    Args:
        path: Run folder.
        env: Class of the environment, needed if it cannot be imported.
        episodes: Number of episodes of each player.
        seed: Seed of the episodes; None takes the run's own.
        scripted: Dotted path of a scripted player that replaces the run's own.
        settings: Settings of the environment that replace those of the training, such as
            ``{"width": 12}``.
        greedy: Evaluate only the greedy agent, and the ``scripted`` player if one is given.
        seconds: Maximum duration of the whole evaluation; 0 sets no limit.
        trust: Consent to import the code that the run names, needed only for a run that was made by
            somebody else.
        against: Opponents by name: ``random``, run folders, scripts. The agent plays the same
            number of games against each of them from every side, and nothing else is evaluated.
        replays: Folder for replays of all these games; see ``entity_env.replay``.
        search: Number of visits of a search tree for each decision of the agent, which is then
            evaluated with the search, too; None for no search. See ``Search``.
        temperature: Divisor of the logits from which the agent draws, as in ``load_agent``.
    """
    changed = {f"env.{name}": value for name, value in (settings or {}).items()}
    changes = changed | _changes(seed, scripted, greedy, seconds)
    loaded = load_policy(path, env, trust=trust, scripted=True, changes=changes)
    loaded = loaded.writing_replays(replays)
    return _play(loaded, episodes, greedy, against, search, temperature)


def _changes(
    seed: int | None, scripted: str | None, greedy: bool, seconds: float
) -> dict[str, Any]:
    """Return the settings of the evaluation that differ from those of the run."""
    changes: dict[str, Any] = {"eval.seconds": seconds}
    if seed is not None:
        changes["seed"] = seed
    if scripted is not None or greedy:
        changes["eval.scripted"] = scripted
    return changes


def _play(
    loaded: LoadedRun,
    episodes: int,
    greedy: bool,
    against: Sequence[str],
    search: int | None,
    temperature: float,
) -> list[Evaluation]:
    use_threads(loaded.config, loaded.device)
    played = loaded.net, loaded.game, loaded.config, episodes
    if not against:
        rehearse_script(loaded.config.eval.scripted, loaded.game)
    elif loaded.game.has_seats:
        rehearse_opponents("against", against, loaded.game)
    ahead = []
    if search is not None:
        opponents = named_opponents(loaded.net, loaded.config, against) if against else None
        ahead = evaluate_searched(loaded, episodes, search, opponents)
    if against:
        return ahead + evaluate_against(
            *played, against, greedy=greedy, temperature=temperature, others=loaded.others
        )
    return ahead + evaluate_all(
        *played, only_greedy=greedy, temperature=temperature, others=loaded.others
    )


def _facts(loaded: LoadedRun, episodes: int, results: list[Evaluation]) -> dict[str, Any]:
    """Return the results that ``--json`` prints."""
    steps = int(latest_checkpoint(loaded.run).name.rpartition("_")[2])
    return describe(loaded.run.path, steps, loaded.config, episodes, results)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = _parser().parse_intermixed_args(arguments)
    # Keep what an environment prints out of the JSON results.
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        loaded, results = _played(options)
    if options.json:
        deliver(json.dumps(_facts(loaded, options.episodes, results), indent=1))
    else:
        text = table(results, loaded.config.shown_metrics)
        if missing := left_out(results):
            text += f"\nleft out, because --seconds {options.seconds:g} have passed:\n{missing}"
        deliver(text)
    played = any(result.player == SCRIPTED for result in results)
    if options.scripted is not None and not (played or options.against):
        sys.exit(1)  # the script has failed in a later step


def _played(options: argparse.Namespace) -> tuple[LoadedRun, list[Evaluation]]:
    """Return the run that the command line names, and the evaluations of its players."""
    changes = env_changes(options.settings) | _changes(
        options.seed, options.scripted, options.greedy, options.seconds
    )
    if options.metric:
        changes["shown_metrics"] = options.metric
    run = options.run or newest_run()
    loaded = load_policy(run, trust=options.trust, scripted=True, changes=changes)
    loaded = loaded.writing_replays(options.replays)
    how = options.greedy, options.against, options.search, options.temperature
    return loaded, _play(loaded, options.episodes, *how)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("evaluate", __doc__)
    parser.add_argument("run", nargs="?", help="run folder (default: newest run in runs/)")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="env.<setting>=<value>",
        help="settings of the environment that replace those of the training",
    )
    parser.add_argument("--episodes", type=int, default=1000, help="episodes of each player")
    parser.add_argument("--seed", type=int, default=None, help="seed (default: the run's own)")
    parser.add_argument(
        "--scripted", metavar="PATH", help="player to compare with, such as my_module.my_player"
    )
    parser.add_argument(
        "--greedy",
        action="store_true",
        help="only the agent, with its most likely choices, and the player of --scripted",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        metavar="T",
        help="divide the logits from which the agent draws, as load_agent(run, temperature=T) does",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="metric of the environment to show, such as energy.max, instead of all; "
        "may be given several times",
    )
    parser.add_argument(
        "--against",
        metavar="PLAYER",
        action="append",
        default=[],
        help="opponent in a game for several players: random, another run, or a script such as "
        "my_module.my_player; may be given several times",
    )
    parser.add_argument(
        "--search",
        type=int,
        metavar="VISITS",
        help="also evaluate the agent with a search of so many visits for each decision",
    )
    parser.add_argument(
        "--replays",
        metavar="DIR",
        help="folder for replays of the games, for python -m entity_env.replay",
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many seconds")
    parser.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    return parser


if __name__ == "__main__":
    run_main(main)
