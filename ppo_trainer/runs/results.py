"""The results in a run folder: ``metrics.jsonl``, ``ratings.jsonl`` and ``evaluation.json``.

Lines of ``metrics.jsonl`` that are damaged are left out, and those of ``ratings.jsonl`` are errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entity_env.errors import DAMAGES, RunFolderError
from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import UnfitFileError, new_file, open_file, read_file, write_file
from ppo_trainer.config import TrainConfig
from ppo_trainer.machine.screen import warn
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.folder import RunFolder, reading, writing

__all__ = [
    "RatedPlayer",
    "describe",
    "keep_records",
    "read_metrics",
    "read_ratings",
    "write_evaluation",
    "write_ratings",
]

_MOST_LINE = 1 << 20  # bytes
_MOST_RATINGS = 1 << 26  # bytes
_MOST_VALUES = 100_000  # in a line
_LARGEST = 1e300


@dataclass(frozen=True)
class RatedPlayer:
    """One line of the file.

    Args:
        player: Name of a version, or of a reference player.
        steps: Number of frames that the version was trained on; None for a reference player.
        rating: Rating of the player.
        deviation: Standard deviation of the rating.
        games: Numbers of games won, drawn and lost, by the names of opponents that were rated
            before.
    """

    player: str
    steps: int | None
    rating: float
    deviation: float
    games: Mapping[str, tuple[int, int, int]]


def read_metrics(run: RunFolder) -> list[dict[str, Any]]:
    """Return all complete records of a run.

    A last line that a kill has cut off is left out. Other lines that are not records are left out,
    too, and stderr names them.

    Raises:
        RunFolderError: The file cannot be read.
    """
    records, damaged = [], []
    for line in _lines(run):
        if line.record is None:
            damaged.append(line.number)
        else:
            records.append(line.record)
    if damaged:
        warn(f"{run.metrics_file}: {_named(damaged)} not a record and left out")
    return records


def keep_records(run: RunFolder, update: int) -> list[dict[str, Any]]:
    """Remove the records after ``update``, which a resumed run writes again; return the others.

    A file with damaged lines is kept under another name, which is printed on stderr.

    Raises:
        RunFolderError: The file cannot be read or written.
    """
    kept, damaged = [], []
    with writing(run.metrics_file), new_file(run.metrics_file) as file:
        for line in _lines(run):
            if line.record is None:
                damaged.append(line.number)
            elif line.record["update"] <= update:
                kept.append(line.record)
                file.write(line.text + b"\n")
        if damaged:
            aside = _put_aside(run.metrics_file)
            warn(f"{run.metrics_file}: {_named(damaged)} no record; the file is kept: {aside}")
    return kept


def write_ratings(run: RunFolder, players: Iterable[RatedPlayer]) -> None:
    """Replace the file in one step."""
    lines = "".join(f"{json.dumps(asdict(player))}\n" for player in players)
    file = run.ratings_file
    with writing(file):
        write_file(file, lines.encode())


def read_ratings(run: RunFolder) -> list[RatedPlayer]:
    """Return all players, in the order of their first ratings; none if there is no file.

    Raises:
        RunFolderError: The file cannot be read, or is damaged.
    """
    if not run.ratings_file.is_file():
        return []
    with reading(run.ratings_file):
        lines = read_file(run.ratings_file, _MOST_RATINGS).splitlines()
    try:
        return [_player(parse_json(line, _MOST_VALUES)) for line in lines]
    except DAMAGES as error:
        raise RunFolderError(f"{run.ratings_file} is damaged: {error}") from error


def describe(
    run: Path, steps: int, config: TrainConfig, episodes: int, results: Sequence[Evaluation]
) -> dict[str, Any]:
    """Return the results and the settings that they depend on, as JSON values.

    Args:
        run: Run folder.
        steps: Number of frames that the network was trained on.
        config: Settings of the evaluation, which may differ from those of the run.
        episodes: Number of episodes that were asked for.
        results: Results of each player.
    """
    return {
        "run": run.name,
        "steps": steps,
        "settings": {
            "env": dict(config.env),
            "seed": config.seed,
            "episodes": episodes,
            "max_steps": config.eval.max_steps,
            "seconds": config.eval.seconds,
            "scripted": config.eval.scripted,
            "num_envs": config.rollout.num_envs,
        },
        "players": [result.summary() for result in results],
    }


def write_evaluation(run: RunFolder, facts: Mapping[str, Any]) -> None:
    """Write the result of ``describe`` to the run folder."""
    with writing(run.evaluation_file):
        write_file(run.evaluation_file, f"{json.dumps(facts, indent=1)}\n".encode())


@dataclass(frozen=True)
class _Line:
    number: int
    text: bytes
    record: dict[str, Any] | None
    """None for a damaged line."""


def _lines(run: RunFolder) -> Iterator[_Line]:
    """Yield the lines of the file, if there is one, without a last line that a kill has cut off."""
    if not os.path.lexists(run.metrics_file):
        return
    with reading(run.metrics_file):
        file = open_file(run.metrics_file)
    number = 0
    with file, reading(run.metrics_file, "move it away to continue: the curves then start again"):
        while text := file.readline(_MOST_LINE + 1):
            number += 1
            if len(text) > _MOST_LINE:
                raise UnfitFileError(f"line {number} has more than {_MOST_LINE:,} bytes")
            record = _record(text)
            if record is not None or text.endswith(b"\n"):
                yield _Line(number, text.rstrip(b"\r\n"), record)


def _record(text: bytes) -> dict[str, Any] | None:
    try:
        record = parse_json(text, _MOST_VALUES)
    except ValueError:
        return None
    if not isinstance(record, dict) or not {"update", "steps"} <= record.keys():
        return None
    whole = all(type(record[name]) is int and record[name] >= 0 for name in ("update", "steps"))
    numbers = all(type(value) in (int, float) for value in record.values())
    if not (whole and numbers and all(abs(value) <= _LARGEST for value in record.values())):
        return None
    return record


def _put_aside(path: Path) -> Path:
    """Rename a damaged file, so that a new one can take its name."""
    number, aside = 1, path.with_name(f"{path.stem}.damaged{path.suffix}")
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
    try:
        os.link(path, aside, follow_symlinks=False)
    except OSError:  # some file systems have no hard links
        path.rename(aside)
    return aside


def _named(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (" and others" if len(numbers) > 5 else "")
    return f"line {shown} is" if len(numbers) == 1 else f"lines {shown} are"


def _player(values: Any) -> RatedPlayer:
    return RatedPlayer(
        player=str(values["player"]),
        steps=None if values["steps"] is None else int(values["steps"]),
        rating=float(values["rating"]),
        deviation=float(values["deviation"]),
        games={str(name): _counts(counts) for name, counts in values["games"].items()},
    )


def _counts(counts: Any) -> tuple[int, int, int]:
    won, drawn, lost = counts
    return int(won), int(drawn), int(lost)
