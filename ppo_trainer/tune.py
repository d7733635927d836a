"""Search for settings: ``python -m ppo_trainer.tune env._target_=lifts.Lifts --minutes 30``.

Settings on the command line are fixed; the search tries others of ``SPACE`` or, if settings on the
command line name many values, those settings only::

    python -m ppo_trainer.tune env=minesweeper 'optim.lr=interval(1e-4,1e-2)' net.dim=32,64

The first trial changes nothing, or as little as the given values allow. A trial continues after an
eighth, a quarter and a half of its steps only if it is in the better half of the trials so far
(successive halving, Li et al. 2020, arXiv:1810.05934, by Optuna). In the last part of the time the
first trial and the best others train again with other seeds, and the settings with the best mean
become ``recipe.yaml``. The same command with the same ``--folder`` continues the search. The folder
also contains ``trials.csv`` and two pictures: the importance of settings (``importance.png``) and
all trials (``parallel.png``).
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import yaml

from entity_env.errors import MissingPackageError, counted
from ppo_trainer.command_line.overrides import config_of
from ppo_trainer.command_line.spaces import Interval, Space, spaces_of
from ppo_trainer.config import TrainConfig, with_changes
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.commands import INTERRUPTED, command_parser, python_command, run_main
from ppo_trainer.machine.screen import deliver, say
from ppo_trainer.reporting.trials import write_trials
from ppo_trainer.train import train
from ppo_trainer.training.session import Session

if TYPE_CHECKING:
    import optuna

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
_FINALISTS = 2
"""Number of trials that train again besides the first one."""
_FINAL = 0.35
"""Fraction of the time for these trainings."""
_WHOLE_TRIALS = 10
"""Number of whole trials that fit into the time, which determines their length."""
_SECONDS_TO_MEASURE = 10.0
_PREFIX = "final:"
"""Prefix of the study's attributes with scores for other seeds: ``final:<trial>:<seed>``."""


@dataclass(frozen=True)
class Search:
    """A search for settings in progress.

    Args:
        config: Settings of the first trial, with ``total_timesteps`` of a trial.
        metric: Metric whose mean is maximised.
        folder: Folder of the search.
        space: Values that are tried, by setting.
        study: Optuna's study, which is stored in a journal in the folder.
        deadline: End of the search, in seconds of ``time.monotonic``.
        final: Start of the last part, likewise.
    """

    config: TrainConfig
    metric: str
    folder: Path
    space: Mapping[str, Space]
    study: optuna.Study
    deadline: float
    final: float

    def done(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials that trained all of their steps, best first."""
        from optuna.trial import TrialState

        complete = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return sorted(complete, key=lambda trial: -trial.values[0])

    def finals(self, number: int) -> dict[int, float]:
        """Return the scores of a trial's trainings with other seeds, by seed."""
        name = f"{_PREFIX}{number}:"
        attributes = self.study.user_attrs
        return {int(k.removeprefix(name)): v for k, v in attributes.items() if k.startswith(name)}


def tune(
    settings: Sequence[str],
    minutes: float = 30.0,
    folder: str | Path = "runs/tune",
    metric: str = "episodic_reward",
    seed: int = 0,
) -> dict[str, Any]:
    """Search for settings, print a table, and write the best settings as ``recipe.yaml``.

    Args:
        settings: Settings as on the command line of ``ppo_trainer``. Those with one value are
            fixed; those with many values are searched (``spaces_of``), or else ``SPACE``.
        minutes: Duration of the search; a training in progress may take a little longer.
        folder: Folder of the search. If it contains a search, that one continues.
        metric: Metric whose mean in an evaluation is maximised.
        seed: Seed of the choice of settings.

    Returns:
        The best settings that differ from the given ones, by dotted name.

    Raises:
        ConfigError: A setting does not exist, or the folder contains another search.
        MissingPackageError: Optuna is not installed.
    """
    single, space = spaces_of(settings)
    base = config_of(single, "tune for")
    if base.resume is not None:
        raise ConfigError("resume= cannot be used in a search", hint="--folder continues a search")
    if not space:
        given = {setting.lstrip("+").partition("=")[0] for setting in settings}
        # The values of the first trial are tried, too.
        space = {
            name: list(dict.fromkeys([*values, _value(base, name)]))
            for name, values in SPACE.items()
            if name not in given
        }
    search = _begin(base, space, Path(folder), metric, seed, 60 * minutes, list(settings))
    steps, whole = search.config.total_timesteps, base.total_timesteps
    # What learns fastest at first need not be the best at the end of a long run.
    part = "" if steps == whole else f" ({steps / whole:.0%} of total_timesteps={whole:,})"
    say(f"trials of {counted(steps, 'step')}{part}, in {search.folder}")
    try:
        while time.monotonic() < search.final or not search.done():
            _try(search)
        _compare(search)
    except KeyboardInterrupt:
        _report(search, settings)
        raise
    return _report(search, settings)


def _begin(
    base: TrainConfig,
    space: Mapping[str, Space],
    folder: Path,
    metric: str,
    seed: int,
    seconds: float,
    settings: list[str],
) -> Search:
    """Begin a search in a folder, or continue the one in it."""
    try:
        import optuna
    except ImportError as error:
        raise MissingPackageError(
            "searching for settings needs Optuna", hint='pip install "ragged-rl[tune]"'
        ) from error
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    begun = time.monotonic()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(folder / "trials.journal"))),
        study_name="tune",
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=8, multivariate=True),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )
    known = study.user_attrs
    if known and (known["settings"], known["metric"]) != (settings, metric):
        raise ConfigError(
            f"{folder} contains another search",
            expected=f"{known['settings']}, metric {known['metric']}",
            received=f"{settings}, metric {metric}",
            hint="give another folder with --folder",
        )
    if not known:
        steps = _steps_of_trial(base, folder, seconds)
        study.enqueue_trial(
            {name: _nearest(own, _value(base, name)) for name, own in space.items()}
        )
        for name, value in {"settings": settings, "metric": metric, "steps": steps}.items():
            study.set_user_attr(name, value)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # It was running when the search was stopped.
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)
    changes = {"total_timesteps": study.user_attrs["steps"], "run_dir": str(folder / "runs")}
    return Search(
        with_changes(base, changes), metric, folder, space, study,
        deadline=begun + seconds, final=begun + (1 - _FINAL) * seconds,
    )  # fmt: skip


def _value(config: Any, name: str) -> Any:
    """Return a setting by its dotted name; None for an argument that the environment does not set.

    Raises:
        ConfigError: There is no such setting.
    """
    for part in name.split("."):
        if isinstance(config, Mapping):
            config = config.get(part)
        elif not hasattr(config, part):
            raise ConfigError(f"{name} is not a setting, or its group is null")
        else:
            config = getattr(config, part)
    return config


def _nearest(space: Space, value: Any) -> Any:
    """Return the value of a space that is nearest to ``value``."""
    if not isinstance(space, Interval):
        return value if value in space else space[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return space.low
    inside = min(max(value, space.low), space.high)
    if space.step is not None:
        inside = space.low + round((inside - space.low) / space.step) * space.step
    return int(inside) if space.is_whole else inside


def _distribution(space: Space) -> Any:
    """Return a space as a distribution of Optuna."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not isinstance(space, Interval):
        return CategoricalDistribution(space)
    if space.is_whole:
        return IntDistribution(int(space.low), int(space.high), step=int(space.step or 1))
    return FloatDistribution(space.low, space.high, log=space.log, step=space.step)


def _steps_of_trial(base: TrainConfig, folder: Path, seconds: float) -> int:
    """Return the number of steps of a trial, measured by a short training."""
    seen: list[tuple[float, int]] = []

    def measures(session: Session) -> bool:
        seen.append((time.monotonic(), session.steps))
        return seen[-1][0] - seen[0][0] < min(_SECONDS_TO_MEASURE, seconds / 20)

    _train(with_changes(base, {"eval.episodes": 0, "run_dir": str(folder / "runs")}), measures)
    if len(seen) < 2:
        return base.total_timesteps
    (first, begin), (last, steps) = seen[0], seen[-1]
    fitting = int(seconds * (steps - begin) / (last - first)) // _WHOLE_TRIALS
    return min(base.total_timesteps, max(base.frames_per_update, fitting))


def _try(search: Search) -> None:
    """Train one trial, unless it is stopped early."""
    from optuna.trial import TrialState

    trial = search.study.ask({name: _distribution(own) for name, own in search.space.items()})
    picked = trial.params
    try:
        config = with_changes(search.config, picked)
    except ConfigError:  # for example a minibatch larger than a rollout
        search.study.tell(trial, state=TrialState.FAIL)
        return
    total = config.total_timesteps
    rungs = [part * total for part in _RUNGS]
    pruned, plain = False, search.metric.removeprefix("eval/")

    def watches(session: Session) -> bool:
        nonlocal pruned
        passed = [rung for rung in rungs if session.steps >= rung]
        del rungs[: len(passed)]
        # Evaluations take precedence over games of the training.
        known = [session.means[n] for n in (f"eval/{plain}", plain) if n in session.means]
        if passed and known:
            trial.report(known[0], len(_RUNGS) - len(rungs))
            pruned = trial.should_prune() and bool(trial.number)
        return not pruned

    score = _score(search, config, watches)
    if pruned or score is None:
        search.study.tell(trial, state=TrialState.PRUNED)
    else:
        search.study.tell(trial, score)
    what = "stopped early" if pruned or score is None else f"{search.metric} {score:.4g}"
    say(f"  trial {trial.number}: {what}; {_text(_changed(search, picked))}")


def _changed(search: Search, picked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from those of the first trial."""
    return {n: value for n, value in picked.items() if value != _value(search.config, n)}


def _score(search: Search, config: TrainConfig, watches: Any) -> float | None:
    """Train, and return the better mean of greedy and sampled play, or None without a result."""
    plain = search.metric.removeprefix("eval/")
    agents = [own for own in _train(config, watches) if own.player.startswith("agent")]
    scores = [own.mean(plain) for own in agents if own.count(plain)]
    if agents and not scores:
        raise ConfigError(
            f"the environment has no metric {search.metric!r}", options=sorted(agents[0].metrics)
        )
    return max(scores, default=None)


def _train(config: TrainConfig, watches: Any) -> list[Any]:
    """Train without output on the screen; Ctrl-C ends the search."""
    log = Path(config.run_dir).parent / "log.txt"
    with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        result = train(config, callbacks=watches)
    if result.interrupted:
        raise KeyboardInterrupt
    return result.evaluations


def _compare(search: Search) -> None:
    """Train the first trial and the best others with other seeds, in turns, each at least once."""
    number = 0
    while number == 0 or time.monotonic() < search.deadline:
        number += 1
        for trial in _finalists(search):
            if number in search.finals(trial.number):
                continue
            seed = search.config.seed + number
            config = with_changes(search.config, {**trial.params, "seed": seed})
            score = _score(search, config, lambda _: True)
            if score is not None:
                search.study.set_user_attr(f"{_PREFIX}{trial.number}:{number}", score)
                say(f"  trial {trial.number} with seed {seed}: {search.metric} {score:.4g}")


def _finalists(search: Search) -> list[optuna.trial.FrozenTrial]:
    """Return the first trial and the best others."""
    done = search.done()
    others = [trial for trial in done if trial.number]
    return [trial for trial in done if not trial.number] + others[:_FINALISTS]


def _report(search: Search, settings: Sequence[str]) -> dict[str, Any]:
    """Print the trials, write the best settings, and return them."""
    rows = [("trial", search.metric, "other seeds", "settings")]
    for trial in search.done():
        finals = " ".join(f"{score:.4g}" for score in search.finals(trial.number).values())
        rows.append(
            (f"{trial.number}", f"{trial.value:.4g}", finals, _text(_changed(search, trial.params)))
        )
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join([*map(str.ljust, row, widths), row[3]]) for row in rows]
    stopped = len(search.study.trials) - len(search.done())
    say("\n" + "\n".join([*lines, f"and {counted(stopped, 'trial')} that were stopped early"]))
    write_trials(search.study, search.folder, search.metric)
    measured = {t.number: search.finals(t.number) for t in search.done()}
    measured = {number: finals for number, finals in measured.items() if finals}
    if not measured:
        return {}
    best = max(measured, key=lambda number: fmean(measured[number].values()))
    changes = _changed(search, search.study.trials[best].params)
    path = search.folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(_nested(changes), sort_keys=False))
    command = " ".join([python_command(), "-m", "ppo_trainer", *spaces_of(settings)[0]])
    if changes:
        deliver(f"\n{path} contains the settings of trial {best}:\n{path.read_text()}")
        say(f"to train with them:\n  {command} experiment={path}")
    else:
        deliver(f"\nno trial was better than the given settings; {path} is empty")
    return changes


def _text(changes: Mapping[str, Any]) -> str:
    shown = {n: f"{v:.4g}" if isinstance(v, float) else v for n, v in changes.items()}
    return " ".join(f"{name}={value}" for name, value in shown.items()) or "nothing changed"


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts of settings by dotted name."""
    nested: dict[str, Any] = {}
    for name, value in changes.items():
        group, _, last = name.rpartition(".")
        nested.setdefault(group, {})[last] = value
    return nested


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
