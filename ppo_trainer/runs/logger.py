"""The log of a run: JSON lines, TensorBoard, and W&B if it is switched on."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import SEEK_END, BufferedWriter
from typing import Any

from entity_env.errors import RunFolderError, SettingError
from entity_env.storage.files import open_to_append, read_file, write_file
from ppo_trainer.config import TrainConfig, config_to_dict
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.runs.folder import RunFolder, reading, refuse_link, writing
from ppo_trainer.runs.results import keep_records

__all__ = ["RunLogger", "check_wandb"]


class RunLogger:
    """A log with one record for each update.

    Args:
        run: Run folder to write to.
        config: Settings of the run.
        update: Number of updates done before. Later records of an interrupted run are removed,
            because the resumed run writes them again.
        recent: Gets the episodes of the records that are kept; None makes a new one.

    Attributes:
        recent: Means over the last episodes of the records that were kept.
    """

    def __init__(
        self, run: RunFolder, config: TrainConfig, update: int, recent: RecentEpisodes | None = None
    ) -> None:
        self.recent = RecentEpisodes(config.rollout.num_envs) if recent is None else recent
        kept = keep_records(run, update)
        for record in kept:
            self.recent.add(record)
        # Imported here because it takes half a second.
        from torch.utils.tensorboard import SummaryWriter

        self._file, last_step = run.metrics_file, kept[-1]["steps"] + 1 if kept else None
        with writing(self._file):
            self._lines = BufferedWriter(open_to_append(self._file))
            self._lines.seek(0, SEEK_END)
            # A name that cannot be guessed, so that nobody can prepare a link with it.
            suffix = f".{secrets.token_hex(8)}"
            self._board = SummaryWriter(str(run.path), purge_step=last_step, filename_suffix=suffix)
        self._wandb = _start_wandb(run, config)

    def __enter__(self) -> RunLogger:
        """Use as a context manager that closes the files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        try:
            with writing(self._file):
                self._lines.close()
                self._board.close()
        finally:
            if self._wandb is not None:
                self._wandb.finish()

    def write(self, update: int, steps: int, metrics: Mapping[str, float]) -> None:
        """Write the numbers of one update that are finite.

        Raises:
            RunFolderError: They cannot be written, or the file does not exist any more.
        """
        if not self._file.exists():  # otherwise the lines would go to a deleted file
            raise RunFolderError(
                f"{self._file} does not exist any more",
                hint="the folder of the run was moved or removed while it trains",
            )
        finite = {name: value for name, value in sorted(metrics.items()) if math.isfinite(value)}
        with writing(self._file):
            record = json.dumps({"update": update, "steps": steps} | finite)
            self._lines.write(f"{record}\n".encode())
            self._lines.flush()
            board: Any = self._board.file_writer
            board.add_summary(_summary(finite), steps)
        if self._wandb is not None:
            self._wandb.log({"update": update, **finite}, step=steps)


def _summary(metrics: Mapping[str, float]) -> Any:
    """Return one event for all numbers, in a third of the time of a call for each."""
    from tensorboard.compat.proto.summary_pb2 import Summary  # loaded with the writer

    values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
    return Summary(value=values)


def _wandb_id(run: RunFolder) -> str:
    """Return the W&B id of a run, which stays the same when it is resumed."""
    file = run.path / "wandb_id"
    with writing(file):
        if not os.path.lexists(file):
            write_file(file, secrets.token_hex(8).encode())
    with reading(file):
        return read_file(file, 64).decode("ascii").strip()


def check_wandb(config: TrainConfig) -> None:
    """Log in to W&B if it will be needed, before there is a run folder.

    Raises:
        SettingError: W&B is switched on, but is not installed or refuses the login.
    """
    if config.wandb.mode == "disabled":
        return
    try:
        import wandb
    except ImportError as error:
        raise SettingError(
            "wandb.mode is not disabled, but wandb is not installed", hint="pip install wandb"
        ) from error
    if config.wandb.mode == "online":
        with _explained():
            wandb.login()


@contextmanager
def _explained() -> Iterator[None]:
    import wandb

    try:
        yield
    except wandb.errors.Error as error:
        raise SettingError(
            f"W&B cannot be reached: {error}",
            hint="run `wandb login` first, or set WANDB_API_KEY; wandb.mode=offline needs neither",
        ) from error


def _start_wandb(run: RunFolder, config: TrainConfig) -> Any:
    if config.wandb.mode == "disabled":
        return None
    import wandb

    refuse_link(run.path / "wandb")
    with _explained():
        return wandb.init(
            mode=config.wandb.mode,
            project=config.wandb.project,
            dir=str(run.path),
            name=run.path.name,
            id=_wandb_id(run),
            resume="allow",
            config=config_to_dict(config),
        )
