"""The best network of a run, in the folder ``runs/x/best``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torch import Tensor

from entity_env.errors import CheckpointError
from ppo_trainer.config import CheckpointConfig
from ppo_trainer.runs.checkpoint import TrainState, save_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.saved_files import SavedFiles

__all__ = ["Best", "BestNetwork", "read_best"]


@dataclass(frozen=True)
class Best:
    """The evaluation that made a network the best.

    Args:
        metric: Metric that ``checkpoint.best`` names.
        mode: ``max`` or ``min``.
        value: Mean of the metric over the last episodes.
        update: Number of updates done by then.
        steps: Number of frames trained on by then.
        is_sure: True if enough episodes had ended for a mean.
    """

    metric: str
    mode: str
    value: float
    update: int
    steps: int
    is_sure: bool


class BestNetwork:
    """The best network so far, which is written together with the next checkpoint.

    A run that is killed and resumed therefore has the best network of its checkpoint's time.

    Args:
        run: Run that is resumed, whose best network may stay the best.
        config: Settings with the metric and its mode.
    """

    def __init__(self, run: RunFolder, config: CheckpointConfig) -> None:
        self._metric, self._mode = config.best, config.best_mode
        before = read_best(run)
        same = before is not None and (before.metric, before.mode) == (
            config.best,
            config.best_mode,
        )
        self._best = before if same else None
        self._unwritten: dict[str, Tensor] | None = None

    def compare(self, state: TrainState, means: Mapping[str, float], sure: bool) -> None:
        """Keep the network if its mean is better than all before.

        Args:
            state: Network, and the numbers of its last update.
            means: Means over the last episodes, by metric.
            sure: True if enough episodes have ended for a mean.
        """
        metric = self._metric
        if metric is None or metric not in means:
            return
        measured = any(name.startswith("eval/") for name in state.metrics)
        if metric.startswith("eval/"):
            if not measured:
                return  # not evaluated since then
            sure = True  # an evaluation always has enough episodes
        value = means[metric]
        if self._best is not None and self._best.is_sure:
            worse = value <= self._best.value if self._mode == "max" else value >= self._best.value
            if worse or not sure:
                return
        steps, update = state.steps, state.update
        self._best = Best(metric, self._mode, value, update, steps, sure)
        self._unwritten = {name: t.detach().clone() for name, t in state.net.state_dict().items()}

    def write(self, run: RunFolder) -> None:
        """Write the best network, unless it has been written already."""
        if self._unwritten is not None and self._best is not None:
            save_network(run.best, self._unwritten, asdict(self._best))
            self._unwritten = None


def read_best(run: RunFolder) -> Best | None:
    """Return the metric, value and update of a run's best network, or None if it has none.

    Raises:
        CheckpointError: The file is damaged.
    """
    if not os.path.lexists(run.best):
        return None
    try:
        return Best(**SavedFiles.open(run.best).facts)
    except TypeError as error:
        raise CheckpointError(
            f"{run.best} is damaged: {error}",
            hint="move the folder away; the run then keeps a new best network",
        ) from error
