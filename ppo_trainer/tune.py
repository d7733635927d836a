"""Search for settings: ``python -m ppo_trainer.tune env._target_=lifts.Lifts --minutes 30``.

Settings on the command line are fixed. The search changes up to three settings of the best trial so
far to other values of ``SPACE`` or, if settings on the command line name many values, it tries
combinations of these values, which Optuna selects::

    python -m ppo_trainer.tune env=minesweeper 'optim.lr=interval(1e-4,1e-2)' net.dim=32,64

The first trial has the given settings. A score is the mean of greedy or of sampled play, whichever
is better. In the second half of the time, the given settings and the two best trials train again
with the same other seeds. A trial replaces the given settings only if its mean difference to them
over these seeds, two or more, exceeds the standard error of that mean. Its settings become
``recipe.yaml``, which otherwise changes nothing. The same command with the same ``--folder``
continues the search. Optuna draws pictures of it from ``trials.journal``.
"""

from __future__ import annotations

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

from entity_env.arguments import ABOVE_0, check_whole
from entity_env.errors import DAMAGES, SettingError, counted
from entity_env.storage.files import folder_lock
from ppo_trainer.command_line.configs import config_of, write_recipe
from ppo_trainer.config import TrainConfig, value_of, with_changes
from ppo_trainer.machine.commands import INTERRUPTED, command_parser, python_command, run_main
from ppo_trainer.machine.screen import deliver, log
from ppo_trainer.reporting.text_table import aligned
from ppo_trainer.runs.folder import writing
from ppo_trainer.tuning import (
    FAILURES,
    check_searched,
    choices,
    difference,
    score,
    spaces_of,
    steps_of_trials,
    train_quietly,
)

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

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
}
"""The values that are tried by default, by setting."""

_GIVEN = "given"
"""Name of the trial with the given settings."""
_OTHERS = 2
"""Number of trials that train again besides the given settings."""
_FEWEST_SEEDS = 2
"""Number of other seeds that these have, even if the time is over."""
_CHANGED = 3
"""Number of settings that a trial changes at most; most settings are better left as they are."""
_MOST_REFUSED = 50
"""Number of combinations in a row that are not valid, or not new, after which the search ends."""
_TRAININGS = 24
"""Number of trainings that fit into the time, unless they would be too short to learn anything."""
_MOST_EPISODES = 100
"""Greatest number of episodes of an evaluation, unless ``eval.episodes`` is given."""


@dataclass(frozen=True)
class _Search:
    """A search for settings.

    Args:
        config: The given settings.
        metric: Metric whose mean is maximised.
        space: Values that are tried, by setting.
        keeps: True if a trial keeps most settings of the best one.
        study: Optuna's study, which is stored in a journal in the folder.
        seed: Seed of the choice of settings.
        halftime: Start of the trainings with other seeds, in seconds of ``time.monotonic``.
        deadline: End of the search, likewise.
    """

    config: TrainConfig
    metric: str
    space: dict[str, BaseDistribution]
    keeps: bool
    study: optuna.Study
    seed: int
    halftime: float
    deadline: float

    def scores(self, name: str) -> list[float]:
        """Return the scores of a trial, in the order of the seeds."""
        return list(self.study.user_attrs.get("scores", {}).get(name, []))

    def changes(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a trial that differ from the given ones."""
        pairs = params.items()
        return {name: value for name, value in pairs if value != value_of(self.config, name)}

    def trials(self) -> dict[str, dict[str, Any]]:
        """Return the changes of each trial that has a score, the best mean score first."""
        changes = {_GIVEN: dict[str, Any]()} | {
            str(trial.number): self.changes(trial.params)
            for trial in self.study.get_trials(deepcopy=False)
        }
        means = {name: fmean(scores) for name in changes if (scores := self.scores(name))}
        return {name: changes[name] for name in sorted(means, key=means.__getitem__, reverse=True)}

    def train(self, name: str, changes: Mapping[str, Any]) -> float:
        """Train a trial with its next seed, and store its score.

        A failure of other settings than the given ones counts as minus infinity.
        """
        known = self.scores(name)
        seed = self.config.seed + len(known)
        run = f"trial-{name}-seed-{seed}"
        try:
            config = with_changes(self.config, {**changes, "seed": seed})
            value = score(train_quietly(config, run), self.metric)
            told = f"{self.metric} {value:.4g}"
        except FAILURES as error:
            if name == _GIVEN:
                raise
            value = -math.inf
            told = f"failed, {type(error).__name__}: {error}".partition("\n")[0]
        stored = self.study.user_attrs.get("scores", {})
        self.study.set_user_attr("scores", {**stored, name: [*known, value]})
        log(f"  trial {name}, seed {seed}: {told}; {_text(changes)}")
        return value


def tune(
    settings: Sequence[str],
    minutes: float = 30.0,
    folder: str | Path = "runs/tune",
    metric: str = "episodic_reward",
    seed: int = 0,
) -> dict[str, Any]:
    """Search for settings, print a table, and write the best settings as ``recipe.yaml``.

    The given settings are kept unless a trial is better on the same other seeds: its mean
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
        SettingError: A setting or the metric does not exist, or the folder contains another search.
        MissingPackageError: Optuna is not installed.
    """
    ABOVE_0("minutes", minutes)
    seed = check_whole("seed", seed, least=0)
    single, space = spaces_of(settings)
    if any(setting.startswith("resume=") for setting in single):
        raise SettingError("resume= cannot be used in a search", hint="--folder continues a search")
    base = config_of(single, "tune for")
    if not base.eval.episodes:
        raise SettingError("a search compares evaluations", expected="eval.episodes=1 or more")
    check_searched(base, space)
    given = {setting.lstrip("+").partition("=")[0] for setting in settings}
    keeps = not space
    if keeps:  # the given values are tried, too
        space = {
            name: choices([*values, value_of(base, name)])
            for name, values in SPACE.items()
            if not any(f"{name}.".startswith(f"{one}.") for one in given)
        }
    if "eval.episodes" not in given:
        base = with_changes(base, {"eval.episodes": min(base.eval.episodes, _MOST_EPISODES)})
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder):
            search = _open(base, space, keeps, folder, metric, seed, 60 * minutes, settings)
            try:
                if not search.scores(_GIVEN):
                    search.train(_GIVEN, {})
                while _try_values(search) and time.monotonic() < search.halftime:
                    pass
                _compare(search)
            finally:
                found = _report(search, folder, single) if search.trials() else {}
            return found
    except BlockingIOError:
        raise SettingError(
            f"another process searches in {folder}", hint="give another folder with --folder"
        ) from None


def _open(
    base: TrainConfig,
    space: dict[str, BaseDistribution],
    keeps: bool,
    folder: Path,
    metric: str,
    seed: int,
    seconds: float,
    settings: Sequence[str],
) -> _Search:
    """Begin a search in a folder, or continue the one in it.

    Args:
        base: The given settings.
        space: Values to try, by setting.
        keeps: True if a trial keeps most settings of the best one.
        folder: Folder of the search, which exists.
        metric: Metric whose mean is maximised.
        seed: Seed of the choice of settings.
        seconds: Duration of the search.
        settings: Settings of the command line, by which a search is recognised.
    """
    begun, study = time.monotonic(), _open_study(folder, seed)
    base = with_changes(base, {"run_dir": str(folder / "runs")})
    about = {"settings": list(settings), "metric": metric}
    known = study.user_attrs.get("search")
    if known is None:  # a new search, or one that ended before its first trial
        steps, is_better = steps_of_trials(base, metric, seconds / _TRAININGS)
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
    return _Search(config, metric, space, keeps, study, seed, begun + seconds / 2, begun + seconds)


def _open_study(folder: Path, seed: int) -> optuna.Study:
    """Return Optuna's study in a folder, a new one if there is none."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / "trials.journal"
    _remove_unfinished_line(path)
    try:
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(
            storage=storage, study_name="tune", direction="maximize", load_if_exists=True
        )
    except DAMAGES as error:
        raise SettingError(
            f"the search in {path} cannot be read: {error}",
            hint="give another folder with --folder",
        ) from error
    # The second part of a search makes other choices than the first one.
    study.sampler = optuna.samplers.TPESampler(
        seed=seed + len(study.trials), n_startup_trials=8, multivariate=True
    )
    return study


def _remove_unfinished_line(path: Path) -> None:
    """Remove what a killed search has begun to write; Optuna would append to it."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _try_values(search: _Search) -> bool:
    """Train a trial with values that none had; return False if no such values were found."""
    from optuna.trial import TrialState

    known, refusal = list(search.trials().values()), ""
    best = {name: value_of(search.config, name) for name in search.space} | known[0]
    for _ in range(_MOST_REFUSED):
        if search.keeps:
            choice = random.Random(f"{search.seed} {len(search.study.trials)}")
            kept = choice.sample(list(best), max(0, len(best) - _CHANGED))
            search.study.enqueue_trial({name: best[name] for name in kept})
        trial = search.study.ask(search.space)
        changes = search.changes(trial.params)
        if changes not in known:
            try:
                with_changes(search.config, changes)
            except SettingError as error:
                refusal = f"; {_text(changes)} is not valid: {error}"
            else:
                search.study.tell(trial, search.train(str(trial.number), changes))
                return True
        search.study.tell(trial, state=TrialState.FAIL)
    log(f"  no new combination of values was found{refusal}")
    return False


def _compare(search: _Search) -> None:
    """Train the given settings and the best trials with the same other seeds."""
    best = [name for name in search.trials() if name != _GIVEN][:_OTHERS]
    if not best:
        return
    done = 1
    while done <= _FEWEST_SEEDS or time.monotonic() < search.deadline:
        for name in (_GIVEN, *best):
            if len(search.scores(name)) == done:
                search.train(name, search.trials()[name])
        done += 1


def _report(search: _Search, folder: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Print the trials, write the best settings, and return them.

    Args:
        search: The search.
        folder: Its folder.
        settings: Settings of the command line that have one value.
    """
    found, most = dict[str, Any](), difference([], [])
    rows = [["trial", search.metric, "other seeds", "difference to given", "settings"]]
    for name, changes in search.trials().items():
        first, *others = search.scores(name)
        gain = difference(others, search.scores(_GIVEN)[1:])
        if gain.is_better and gain.mean > most.mean:
            found, most = changes, gain
        seeds = " ".join(f"{score:.4g}" for score in others)
        shown = str(gain) if name != _GIVEN and gain.seeds else ""
        rows.append([name, f"{first:.4g}", seeds, shown, _text(changes)])
    log(f"\n{aligned(rows)}")
    path = folder / "recipe.yaml"
    write_recipe(path, found)
    result = f"better than the given settings by {most}: {_text(found)}"
    if not found:
        result = (
            f"no trial is better than the given settings with {_FEWEST_SEEDS} or more other seeds, "
            "by more than the standard error of the difference"
        )
    deliver(f"\n{result}; {path} {'contains its settings' if found else 'changes nothing'}")
    if found:
        command = shlex.join(["-m", "ppo_trainer", *settings, f"experiment={path}"])
        deliver(f"\n{path.read_text()}\nto train with them:\n  {python_command()} {command}")
    return found


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
    try:
        tune(options.settings, options.minutes, options.folder, options.metric, options.seed)
    except KeyboardInterrupt:
        log("stopped; the same command continues the search")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run_main(main)
