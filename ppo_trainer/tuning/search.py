"""A search for settings: the trials in its folder, and the choice of the next one."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from entity_env.errors import MissingPackageError
from ppo_trainer.command_line.spaces import Space, distribution, nearest_value
from ppo_trainer.config import TrainConfig, value_of, with_changes
from ppo_trainer.errors import ConfigError
from ppo_trainer.tuning.trainings import measure

if TYPE_CHECKING:
    import optuna

    FrozenTrial: TypeAlias = optuna.trial.FrozenTrial

__all__ = ["Search", "is_first", "open_search"]

_CHANGED = 3
"""Number of settings that a trial changes at most; most settings are better left as they are."""
_MOST_REFUSED = 50
"""Number of combinations in a row that are not valid, or not new, after which the search ends."""
_FINAL = 0.5
"""Fraction of the time for trainings with other seeds."""
_WHOLE_TRIALS = 12
"""Number of whole trials that fit into the time, which determines their length."""
_FIRST = "first"
"""Attribute of the trial that the others are compared with."""
_PREFIX = "final:"
"""Prefix of the study's attributes with scores for other seeds: ``final:<trial>:<seed>``."""


@dataclass(frozen=True)
class Search:
    """A search for settings in progress.

    Args:
        config: Settings of a trial that changes nothing.
        metric: Metric whose mean is maximised.
        folder: Folder of the search.
        space: Values that are tried, by setting.
        study: Optuna's study, which is stored in a journal in the folder.
        deadline: End of the search, in seconds of ``time.monotonic``.
        final: Start of the trainings with other seeds, likewise.
        random: Choice of the settings to change.
    """

    config: TrainConfig
    metric: str
    folder: Path
    space: Mapping[str, Space]
    study: optuna.Study
    deadline: float
    final: float
    random: random.Random

    def trials(self, *states: str) -> list[FrozenTrial]:
        """Return the trials in some of Optuna's states, in the order in which they began."""
        from optuna.trial import TrialState

        return self.study.get_trials(deepcopy=False, states=[TrialState[own] for own in states])

    def done(self) -> list[FrozenTrial]:
        """Return the trials that trained all of their steps, the best mean of all seeds first."""

        def mean(trial: FrozenTrial) -> float:
            return fmean([trial.values[0], *self.finals(trial).values()])

        return sorted(self.trials("COMPLETE"), key=mean, reverse=True)

    def first(self) -> FrozenTrial | None:
        """Return the trial that the others are compared with, if it is done."""
        return next((trial for trial in self.trials("COMPLETE") if is_first(trial)), None)

    def finals(self, trial: FrozenTrial) -> dict[int, float]:
        """Return the scores of a trial's trainings with other seeds, by the number of the seed."""
        name = f"{_PREFIX}{trial.number}:"
        attributes = self.study.user_attrs
        return {int(k.removeprefix(name)): v for k, v in attributes.items() if k.startswith(name)}

    def add_final(self, trial: FrozenTrial, number: int, score: float) -> None:
        """Store the score of a training with another seed."""
        self.study.set_user_attr(f"{_PREFIX}{trial.number}:{number}", score)

    def changes(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the settings of a trial that differ from the given ones."""
        pairs = trial.params.items()
        return {name: value for name, value in pairs if value != value_of(self.config, name)}

    def ask(self) -> tuple[optuna.Trial, TrainConfig] | None:
        """Begin a trial with a valid and new combination of values.

        Returns:
            The trial and its settings, or None if many combinations in a row were not new.

        Raises:
            ConfigError: None of many combinations was valid.
        """
        from optuna.trial import TrialState

        study, refusal, first = self.study, None, False
        tried = [trial.params for trial in self.trials("COMPLETE", "PRUNED")]
        best = [trial.params for trial in self.done()[:1]]
        for _ in range(_MOST_REFUSED):
            if best and not self.trials("WAITING"):
                number = max(0, len(self.space) - _CHANGED)
                kept = self.random.sample(list(self.space), number)
                study.enqueue_trial({name: best[0][name] for name in kept})
            trial = study.ask({name: distribution(own) for name, own in self.space.items()})
            first = first or is_first(trial)
            try:
                config = with_changes(self.config, trial.params)
            except ConfigError as error:  # for example a minibatch larger than a rollout
                refusal = error
            else:
                if trial.params not in tried:
                    if first:
                        trial.set_user_attr(_FIRST, True)
                    return trial, config
            study.tell(trial, state=TrialState.FAIL)
        if refusal is not None and not tried:
            raise ConfigError(
                f"the last {_MOST_REFUSED} combinations of values were refused",
                hint=f"give values that can be combined; the last error was: {refusal}",
            ) from refusal
        return None


def is_first(trial: optuna.Trial | FrozenTrial) -> bool:
    """Return True if the other trials are compared with this one."""
    return _FIRST in trial.user_attrs


def open_search(
    base: TrainConfig,
    space: Mapping[str, Space],
    folder: Path,
    metric: str,
    seed: int,
    seconds: float,
    settings: Sequence[str],
) -> Search:
    """Begin a search in a folder, or continue the one in it.

    Args:
        base: Settings to begin with.
        space: Values to try, by setting.
        folder: Folder of the search, which exists.
        metric: Metric whose mean is maximised.
        seed: Seed of the choice of settings.
        seconds: Duration of the search.
        settings: Settings of the command line, by which a search is recognised.

    Raises:
        ConfigError: The folder contains another search.
        MissingPackageError: Optuna is not installed.
    """
    begun = time.monotonic()
    study = _study(folder, seed)
    about = {"settings": list(settings), "metric": metric}
    known = study.user_attrs.get("search")
    if known is None:  # a new search, or one that ended before its first trial
        sizes = measure(base, folder, metric, seconds / _WHOLE_TRIALS)
        nearest = {name: nearest_value(own, value_of(base, name)) for name, own in space.items()}
        study.enqueue_trial(nearest, {_FIRST: True}, skip_if_exists=True)
        known = {**about, "sizes": sizes}
        study.set_user_attr("search", known)
    elif {name: known[name] for name in about} != about:
        raise ConfigError(
            f"{folder} contains another search",
            expected=f"{known['settings']}, metric {known['metric']}",
            received=f"{about['settings']}, metric {metric}",
            hint="give another folder with --folder",
        )
    config = with_changes(base, {**known["sizes"], "run_dir": str(folder / "runs")})
    # The second part of a search makes other choices than the first one.
    choice = random.Random(f"{seed} {len(study.trials)}")
    final, deadline = begun + (1 - _FINAL) * seconds, begun + seconds
    search = Search(config, metric, folder, space, study, deadline, final, choice)
    for trial in search.trials("RUNNING"):  # interrupted
        _repeat(study, trial)
    return search


def _study(folder: Path, seed: int) -> optuna.Study:
    """Return Optuna's study in a folder, a new one if there is none."""
    try:
        import optuna
    except ImportError as error:
        raise MissingPackageError(
            "searching for settings needs Optuna", hint='pip install "ragged-rl[tune]"'
        ) from error
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(folder / "trials.journal"))),
        study_name="tune",
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=8, multivariate=True),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )


def _repeat(study: optuna.Study, trial: FrozenTrial) -> None:
    """Replace an interrupted trial by one with the same values that waits."""
    from optuna.trial import TrialState

    # In this order a program that is killed here repeats the trial twice rather than never.
    study.enqueue_trial(trial.params, trial.user_attrs)
    study.tell(trial.number, state=TrialState.FAIL)
