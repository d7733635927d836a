"""Search for settings: ``python -m ppo_trainer.tune env._target_=lifts.Lifts --minutes 30``.

Settings on the command line are fixed; the search tries others of ``SPACE`` or, if settings on the
command line name many values, those settings only::

    python -m ppo_trainer.tune env=minesweeper 'optim.lr=interval(1e-4,1e-2)' net.dim=32,64

The first trial changes nothing, or as little as the given values allow; later ones change up to
three settings of the best trial so far. A trial continues after an eighth, a quarter and a half of
its steps only if it is in the better half of the trials so far (successive halving, Li et al. 2020,
arXiv:1810.05934, by Optuna). A score is the mean of greedy or of sampled play, whichever is better.

In the second half of the time the first trial and the two best others train again, all with the
same other seeds. Another trial replaces the first one only if its mean difference to the first one
over these seeds, two or more, exceeds the standard error of that mean. Its settings become
``recipe.yaml``, which otherwise changes nothing. The same command with the same ``--folder``
continues the search. The folder also contains ``trials.csv`` and two pictures: the importance of
settings (``importance.png``) and all trials (``parallel.png``).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entity_env.errors import counted
from entity_env.storage.files import folder_lock
from ppo_trainer.command_line.overrides import config_of, write_recipe
from ppo_trainer.command_line.spaces import spaces_of
from ppo_trainer.config import value_of, with_changes
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.commands import INTERRUPTED, command_parser, python_command, run_main
from ppo_trainer.machine.screen import deliver, say
from ppo_trainer.training.session import Session
from ppo_trainer.tuning.search import Search, is_first, open_search
from ppo_trainer.tuning.trainings import FAILURES, MOST_EPISODES, StoppedEarly, score, train_quietly
from ppo_trainer.tuning.trials import difference, trials_table, write_trials

__all__ = ["SPACE", "main", "tune"]

SPACE: dict[str, tuple[int | float | str, ...]] = {
    "rollout.num_envs": (32, 64, 128),
    "rollout.steps": (16, 32, 64),
    "ppo.minibatch_size": (256, 512),
    "ppo.gamma": (0.9, 0.95, 0.98, 0.99, 0.997),
    "ppo.gae_lambda": (0.8, 0.9, 0.95),
    "ppo.entropy_coef": (0.003, 0.01, 0.03, 0.1),
    "optim.lr": (0.0003, 0.0005, 0.001, 0.002),
    "net.dim": (32, 64, 128),
    "net.value_norm": ("none", "popart"),
    "net.waves": (0, 3),
}
"""The values that are tried by default, by setting."""

_RUNGS = (1 / 8, 1 / 4, 1 / 2)
"""Fractions of the steps of a trial at which it may be stopped."""
_OTHERS = 2
"""Number of trials that train again besides the first one."""
_FEWEST_SEEDS = 2
"""Number of other seeds that all of them have, even if the time is over."""


def tune(
    settings: Sequence[str],
    minutes: float = 30.0,
    folder: str | Path = "runs/tune",
    metric: str = "episodic_reward",
    seed: int = 0,
) -> dict[str, Any]:
    """Search for settings, print a table, and write the best settings as ``recipe.yaml``.

    The first trial is kept unless another one is better on the same other seeds: its mean
    difference must exceed the standard error of that mean.

    Args:
        settings: Settings as on the command line of ``ppo_trainer``. Those with one value are
            fixed; those with many values are searched (``spaces_of``), or else ``SPACE``.
        minutes: Duration of the search. Trainings in progress, and those with the first two other
            seeds, may take longer.
        folder: Folder of the search. If it contains a search, that one continues.
        metric: Metric whose mean in an evaluation is maximised.
        seed: Seed of the choice of settings.

    Returns:
        The best settings that differ from the given ones, by dotted name.

    Raises:
        ConfigError: A setting or the metric does not exist, no combination of values is valid, or
            the folder contains another search.
        MissingPackageError: Optuna is not installed.
    """
    single, space = spaces_of(settings)
    base = config_of(single, "tune for")
    if base.resume is not None:
        raise ConfigError("resume= cannot be used in a search", hint="--folder continues a search")
    if not base.eval.episodes:
        raise ConfigError("a search compares evaluations", expected="eval.episodes=1 or more")
    given = {setting.lstrip("+").partition("=")[0] for setting in settings}
    if not space:
        # The values of the first trial are tried, too.
        space = {
            name: list(dict.fromkeys([*values, value_of(base, name)]))
            for name, values in SPACE.items()
            if name not in given
        }
    if "eval.episodes" not in given:
        base = with_changes(base, {"eval.episodes": min(base.eval.episodes, MOST_EPISODES)})
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(folder))
        except BlockingIOError:
            raise ConfigError(
                f"another process searches in {folder}", hint="give another folder with --folder"
            ) from None
        search = open_search(base, space, folder, metric, seed, 60 * minutes, settings)
        steps, whole = search.config.total_timesteps, base.total_timesteps
        # What learns fastest at first need not be the best at the end of a long run.
        part = "" if steps == whole else f" ({steps / whole:.0%} of total_timesteps={whole:,})"
        episodes = counted(search.config.eval.episodes, "episode")
        say(f"trials of {counted(steps, 'step')}{part} and {episodes}, in {folder}")
        try:
            while time.monotonic() < search.final or search.first() is None:
                if not _try(search):
                    say("  no new combination of values was found")
                    break
            _compare(search)
        finally:
            found = _report(search, single)
    return found


def _try(search: Search) -> bool:
    """Train one trial, unless it is stopped early; return False if none is left."""
    from optuna.trial import TrialState

    asked = search.ask()
    if asked is None:
        return False
    trial, config = asked
    rungs = [part * config.total_timesteps for part in _RUNGS]
    plain, stopped = search.metric.removeprefix("eval/"), False

    def watches(session: Session) -> None:
        nonlocal stopped
        passed = [rung for rung in rungs if session.steps >= rung]
        del rungs[: len(passed)]
        # Evaluations take precedence over games of the training, which say nothing of a player
        # that meets its equals.
        meets_equals = session.game.has_seats and config.selfplay.meets_equals
        names = [f"eval/{plain}", *([] if meets_equals else [plain])]
        known = [session.means[name] for name in names if name in session.means]
        if passed and known:
            # Optuna's rungs are the powers of the reduction factor.
            trial.report(known[0], 2 ** (len(_RUNGS) - len(rungs) - 1))
            stopped = trial.should_prune() and not is_first(trial)

    def stop(_: int) -> bool:
        if stopped:
            raise StoppedEarly
        return False

    own = None
    try:
        agents = train_quietly(config, f"trial-{trial.number}", watches, stop)
        own = score(agents, search.metric)
        what = f"{search.metric} {own:.4g}"
    except StoppedEarly:
        what = "stopped early"
    except FAILURES as error:
        if is_first(trial):
            raise
        what = _failure(error)
    told = search.study.tell(trial, own, TrialState.PRUNED if own is None else None)
    say(f"  trial {trial.number}: {what}; {_text(search.changes(told))}")
    return True


def _compare(search: Search) -> None:
    """Train the first trial and the best others with the same other seeds, in turns."""
    first = search.first()
    others = [trial for trial in search.done() if not is_first(trial)][:_OTHERS]
    if first is None or not others:
        return
    for number in itertools.count(1):
        for trial in (first, *others):
            if number in search.finals(trial):
                continue
            if number > _FEWEST_SEEDS and time.monotonic() >= search.deadline:
                return
            seed = search.config.seed + number
            config = with_changes(search.config, {**trial.params, "seed": seed})
            try:
                agents = train_quietly(config, f"trial-{trial.number}-seed-{seed}")
                own = score(agents, search.metric)
                what = f"{search.metric} {own:.4g}"
            except FAILURES as error:
                own, what = -math.inf, _failure(error)
            search.add_final(trial, number, own)
            say(f"  trial {trial.number} with seed {seed}: {what}")


def _report(search: Search, settings: Sequence[str]) -> dict[str, Any]:
    """Print the trials, write the best settings, and return them.

    Args:
        search: The search.
        settings: Settings of the command line that have one value.
    """
    first = search.first()
    if first is None:
        return {}
    kept, best, most = f"trial {first.number}", first, difference({}, {})
    rows, compared = [], False
    for trial in search.done():
        finals = search.finals(trial)
        own = difference(finals, search.finals(first))
        is_other = not is_first(trial)
        compared = compared or (is_other and own.seeds >= _FEWEST_SEEDS)
        if own.is_better and own.mean > most.mean:
            best, most = trial, own
        rows.append(
            [
                str(trial.number),
                f"{trial.value:.4g}",
                " ".join(f"{score:.4g}" for score in finals.values()),
                str(own) if is_other and own.seeds else "",
                _text(search.changes(trial)),
            ]
        )
    header = ["trial", search.metric, "other seeds", f"difference to {kept}", "settings"]
    others = counted(len(search.trials("PRUNED")), "trial")
    say(f"\n{trials_table(header, rows)}\nand {others} that did not train all of their steps")
    write_trials(search.study, search.folder, search.metric)
    path, changes = search.folder / "recipe.yaml", search.changes(best)
    write_recipe(path, changes)
    if most.is_better:
        result = f"trial {best.number} is better than {kept} by {most}"
    elif compared:
        result = f"no trial is better than {kept} by more than the standard error of the difference"
    else:
        result = (
            f"no trial has been compared with {kept} with {_FEWEST_SEEDS} other seeds yet; "
            "the same command continues the search"
        )
    deliver(f"\n{result}; {path} {'contains its settings' if changes else 'changes nothing'}")
    if changes:
        command = shlex.join(["-m", "ppo_trainer", *settings, f"experiment={path}"])
        deliver(f"\n{path.read_text()}\nto train with them:\n  {python_command()} {command}")
    return changes


def _text(changes: Mapping[str, Any]) -> str:
    shown = {n: f"{v:.4g}" if isinstance(v, float) else v for n, v in changes.items()}
    return " ".join(f"{name}={value}" for name, value in shown.items()) or "nothing changed"


def _failure(error: Exception) -> str:
    return f"failed, {type(error).__name__}: {error}".partition("\n")[0]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("tune", __doc__, trusts=False)
    parser.add_argument("settings", nargs="+", metavar="<setting>=<value>")
    parser.add_argument("--minutes", type=float, default=30.0, help="duration of the search")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/tune"), help="folder of the search"
    )
    parser.add_argument("--metric", default="episodic_reward", help="metric to maximise: win, ...")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of settings")
    options = parser.parse_intermixed_args(arguments)
    if not 0 < options.minutes < math.inf:
        parser.error(f"--minutes must be above 0, not {options.minutes}")
    try:
        tune(options.settings, options.minutes, options.folder, options.metric, options.seed)
    except KeyboardInterrupt:
        say("stopped; the same command continues the search")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run_main(main)
