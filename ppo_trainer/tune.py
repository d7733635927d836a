"""Search for settings: ``python -m ppo_trainer.tune env._target_=lifts.Lifts --minutes 30``.

Settings on the command line are fixed; the search tries others of ``SPACE`` or, if settings on the
command line name many values, those settings only::

    python -m ppo_trainer.tune env=minesweeper 'optim.lr=interval(1e-4,1e-2)' net.dim=32,64

The first trial changes nothing, or as little as the given values allow; later ones change up to
three settings of the best trial so far. A trial continues after an eighth, a quarter and a half of
its steps only if it is in the better half of the trials so far (successive halving, Li et al. 2020,
arXiv:1810.05934, by Optuna). A score is the mean of greedy or of sampled play, whichever is better.

In the second half of the time the first trial and the best other one train again with the same
other seeds, and the second best one, too, if there is time. Another trial replaces the first one
only if its mean difference to the first one over these seeds, two or more, exceeds the standard
error of that mean. Its settings become ``recipe.yaml``, which otherwise changes nothing. The same
command with the same ``--folder`` continues the search. Optuna draws pictures of it from
``trials.journal``.
"""

from __future__ import annotations

import itertools
import math
import random
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from entity_env.errors import MissingPackageError, SettingError, counted
from entity_env.storage.files import folder_lock
from ppo_trainer.command_line.configs import config_of, write_recipe
from ppo_trainer.config import TrainConfig, value_of, with_changes
from ppo_trainer.machine.commands import INTERRUPTED, command_parser, python_command, run_main
from ppo_trainer.machine.screen import deliver, log
from ppo_trainer.reporting.text_table import aligned
from ppo_trainer.training.session import Session
from ppo_trainer.tuning import (
    FAILURES,
    Space,
    difference,
    nearest_value,
    score,
    spaces_of,
    steps_of_trials,
    suggest,
    train_quietly,
)

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

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

_OTHERS = 2
"""Number of trials that train again besides the first one."""
_FEWEST_SEEDS = 2
"""Number of other seeds that the first and the best other one have, even if the time is over."""
_CHANGED = 3
"""Number of settings that a trial changes at most; most settings are better left as they are."""
_MOST_REFUSED = 50
"""Number of combinations in a row that are not valid, or not new, after which the search ends."""
_WHOLE_TRIALS = 12
"""Number of whole trials that fit into the time, which determines their length."""
_MOST_EPISODES = 200
"""Greatest number of episodes of an evaluation, unless ``eval.episodes`` is given."""


@dataclass(frozen=True)
class _Search:
    """A search for settings.

    Args:
        config: Settings of a trial that changes nothing.
        metric: Metric whose mean is maximised.
        space: Values that are tried, by setting.
        first: Values of the first trial.
        study: Optuna's study, which is stored in a journal in the folder.
        seed: Seed of the choice of settings.
        final: Start of the trainings with other seeds, in seconds of ``time.monotonic``.
        deadline: End of the search, likewise.
    """

    config: TrainConfig
    metric: str
    space: Mapping[str, Space]
    first: Mapping[str, Any]
    study: optuna.Study
    seed: int
    final: float
    deadline: float

    def trials(self, *states: str) -> list[FrozenTrial]:
        """Return the trials in some of Optuna's states, in the order in which they began."""
        return [
            trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name in states
        ]

    def whole_trials(self) -> list[FrozenTrial]:
        """Return the trials that trained all of their steps, the best mean of all seeds first."""

        def mean(trial: FrozenTrial) -> float:
            return fmean([trial.values[0], *self.finals(trial)])

        return sorted(self.trials("COMPLETE"), key=mean, reverse=True)

    def first_trial(self) -> FrozenTrial | None:
        """Return the trial that the others are compared with, if it is done."""
        return next(
            (trial for trial in self.trials("COMPLETE") if trial.params == self.first), None
        )

    def finals(self, trial: FrozenTrial) -> list[float]:
        """Return the scores of a trial with the seeds after the one of all trials."""
        return list(self.study.user_attrs.get("finals", {}).get(str(trial.number), []))

    def add_final(self, trial: FrozenTrial, value: float) -> None:
        """Store the score of a trial with the next seed."""
        known = self.study.user_attrs.get("finals", {})
        scores = {**known, str(trial.number): [*self.finals(trial), value]}
        self.study.set_user_attr("finals", scores)

    def changes(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a trial that differ from the given ones."""
        pairs = params.items()
        return {name: value for name, value in pairs if value != value_of(self.config, name)}


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
        SettingError: A setting or the metric does not exist, the values of the first trial cannot
            be combined, or the folder contains another search.
        MissingPackageError: Optuna is not installed.
    """
    single, space = spaces_of(settings)
    if any(setting.startswith("resume=") for setting in single):
        raise SettingError("resume= cannot be used in a search", hint="--folder continues a search")
    base = config_of(single, "tune for")
    if not base.eval.episodes:
        raise SettingError("a search compares evaluations", expected="eval.episodes=1 or more")
    given = {setting.lstrip("+").partition("=")[0] for setting in settings}
    if not space:
        # The values of the first trial are tried, too.
        space = {
            name: list(dict.fromkeys([*values, value_of(base, name)]))
            for name, values in SPACE.items()
            if name not in given
        }
    if "eval.episodes" not in given:
        base = with_changes(base, {"eval.episodes": min(base.eval.episodes, _MOST_EPISODES)})
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder):
            search = _open(base, space, folder, metric, seed, 60 * minutes, settings)
            try:
                search.study.optimize(
                    lambda trial: _train_trial(search, trial),
                    callbacks=[lambda _, trial: _prepare_next(search, trial)],
                )
                _compare(search)
            finally:
                found = _report(search, folder, single)
            return found
    except BlockingIOError:
        raise SettingError(
            f"another process searches in {folder}", hint="give another folder with --folder"
        ) from None


def _open(
    base: TrainConfig,
    space: Mapping[str, Space],
    folder: Path,
    metric: str,
    seed: int,
    seconds: float,
    settings: Sequence[str],
) -> _Search:
    """Begin a search in a folder, or continue the one in it.

    Args:
        base: Settings to begin with.
        space: Values to try, by setting.
        folder: Folder of the search, which exists.
        metric: Metric whose mean is maximised.
        seed: Seed of the choice of settings.
        seconds: Duration of the search.
        settings: Settings of the command line, by which a search is recognised.
    """
    begun = time.monotonic()
    first = {name: nearest_value(values, value_of(base, name)) for name, values in space.items()}
    base = with_changes(base, {"run_dir": str(folder / "runs")})
    try:
        begins = with_changes(base, first)
    except SettingError as error:  # for example a minibatch larger than a rollout
        raise SettingError(
            f"the values of the first trial cannot be combined: {_text(first)}",
            hint=f"give values that can be combined; the error was: {error}",
        ) from error
    study = _open_study(folder, seed)
    about = {"settings": list(settings), "metric": metric}
    known = study.user_attrs.get("search")
    if known is None:  # a new search, or one that ended before its first trial
        steps, is_better = steps_of_trials(begins, metric, seconds / _WHOLE_TRIALS)
        if not is_better:
            log("a trial does not beat random play, so that luck decides: more --minutes?")
        known = {**about, "steps": steps}
        study.set_user_attr("search", known)
    elif {name: known[name] for name in about} != about:
        raise SettingError(
            f"{folder} contains another search",
            expected=f"{known['settings']}, metric {known['metric']}",
            received=f"{about['settings']}, metric {metric}",
            hint="give another folder with --folder",
        )
    steps, whole = known["steps"], base.total_timesteps
    # What learns fastest at first need not be the best at the end of a long run.
    part = "" if steps == whole else f" ({steps / whole:.0%} of total_timesteps={whole:,})"
    log(f"trials of {counted(steps, 'step')}{part}, in {folder}")
    config = with_changes(base, {"total_timesteps": steps})
    final, deadline = begun + seconds / 2, begun + seconds
    search = _Search(config, metric, space, first, study, seed, final, deadline)
    if search.first_trial() is None:
        study.enqueue_trial(first)
    return search


def _open_study(folder: Path, seed: int) -> optuna.Study:
    """Return Optuna's study in a folder, a new one if there is none."""
    try:
        import optuna
    except ImportError as error:
        raise MissingPackageError(
            "searching for settings needs Optuna", hint='pip install "ragged-rl[tune]"'
        ) from error
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(folder / "trials.journal")))
    study = optuna.create_study(
        storage=storage,
        study_name="tune",
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )
    # The second part of a search makes other choices than the first one.
    study.sampler = optuna.samplers.TPESampler(
        seed=seed + len(study.trials), n_startup_trials=8, multivariate=True
    )
    return study


def _train_trial(search: _Search, trial: optuna.Trial) -> float:
    """Return the score of a trial, or NaN, which Optuna takes for a failure.

    Raises:
        TrialPruned: The trial was stopped early.
    """
    from optuna import TrialPruned

    params = {name: suggest(trial, name, values) for name, values in search.space.items()}
    is_first, is_bad, rungs = params == search.first, False, [1, 2, 4]  # eighths of the steps
    plain = search.metric.removeprefix("eval/")

    def watches(session: Session) -> None:
        nonlocal is_bad
        passed = [
            rung for rung in rungs if 8 * session.steps >= rung * search.config.total_timesteps
        ]
        # Evaluations take precedence over games of the training, which say nothing of a player
        # that meets its equals.
        meets_equals = session.game.has_seats and session.config.selfplay.meets_equals
        names = [f"eval/{plain}", *([] if meets_equals else [plain])]
        known = [session.means[name] for name in names if name in session.means]
        del rungs[: len(passed)]
        if passed and known:
            trial.report(known[0], passed[-1])
            is_bad = trial.should_prune() and not is_first

    def tell(what: str) -> None:
        log(f"  trial {trial.number}: {what}; {_text(search.changes(params))}")

    try:
        config = with_changes(search.config, params)
    except SettingError:  # values that cannot be combined
        return math.nan
    if any(earlier.params == params for earlier in search.trials("COMPLETE", "PRUNED")):
        return math.nan
    try:
        result = train_quietly(config, f"trial-{trial.number}", watches, lambda _: is_bad)
        if is_bad and result.interrupted:
            tell("stopped early")
            trial.set_user_attr("signalled", result.signalled)
            raise TrialPruned
        value = score(result, search.metric)
    except FAILURES as error:
        if is_first:
            raise
        tell(f"failed, {type(error).__name__}: {error}".partition("\n")[0])
        return math.nan
    tell(f"{search.metric} {value:.4g}")
    return value


def _prepare_next(search: _Search, trial: FrozenTrial) -> None:
    """Let the next trial change a few settings of the best one, or end these trials.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed while a trial that was stopped early was saved.
    """
    if trial.user_attrs.get("signalled"):
        raise KeyboardInterrupt
    last = search.study.trials[-_MOST_REFUSED:]
    if len(last) == _MOST_REFUSED and all(earlier.state.name == "FAIL" for earlier in last):
        log("  no new combination of values was found")
        search.study.stop()
    elif time.monotonic() >= search.final:
        search.study.stop()
    else:
        choice = random.Random(f"{search.seed} {last[-1].number}")
        kept = choice.sample(list(search.space), max(0, len(search.space) - _CHANGED))
        best = search.whole_trials()[0].params
        search.study.enqueue_trial({name: best[name] for name in kept})


def _compare(search: _Search) -> None:
    """Train the first trial and the best others with the same other seeds, in turns."""
    first = search.first_trial()
    others = [trial for trial in search.whole_trials() if trial.params != search.first][:_OTHERS]
    if first is None or not others:
        return
    for index in itertools.count():
        if index >= _FEWEST_SEEDS and time.monotonic() >= search.deadline:
            return
        for trial in (first, *others):
            if len(search.finals(trial)) > index:
                continue
            is_needed = index < _FEWEST_SEEDS and trial in (first, others[0])
            if not is_needed and time.monotonic() >= search.deadline:
                break
            seed = search.config.seed + 1 + index
            config = with_changes(search.config, {**trial.params, "seed": seed})
            try:
                result = train_quietly(config, f"trial-{trial.number}-seed-{seed}")
                value = score(result, search.metric)
                what = f"{search.metric} {value:.4g}"
            except FAILURES as error:
                value, what = -math.inf, f"failed, {type(error).__name__}"
            search.add_final(trial, value)
            log(f"  trial {trial.number} with seed {seed}: {what}")


def _report(search: _Search, folder: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Print the trials, write the best settings, and return them.

    Args:
        search: The search.
        folder: Its folder.
        settings: Settings of the command line that have one value.
    """
    first = search.first_trial()
    if first is None:
        return {}
    kept, best, most = f"trial {first.number}", first, difference([], [])
    rows = [["trial", search.metric, "other seeds", f"difference to {kept}", "settings"]]
    compared = False
    for trial in search.whole_trials():
        finals, changed = search.finals(trial), _text(search.changes(trial.params))
        gain, is_other = difference(finals, search.finals(first)), trial.number != first.number
        compared = compared or (is_other and gain.seeds >= _FEWEST_SEEDS)
        if gain.is_better and gain.mean > most.mean:
            best, most = trial, gain
        seeds = " ".join(f"{score:.4g}" for score in finals)
        shown = str(gain) if is_other and gain.seeds else ""
        rows.append([str(trial.number), f"{trial.value:.4g}", seeds, shown, changed])
    others = counted(len(search.trials("PRUNED")), "trial")
    log(f"\n{aligned(rows)}\nand {others} that did not train all of their steps")
    path, changes = folder / "recipe.yaml", search.changes(best.params)
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
        log("stopped; the same command continues the search")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run_main(main)
