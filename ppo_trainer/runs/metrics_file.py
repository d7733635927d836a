"""``metrics.jsonl``, with one record in each line; damaged lines are left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import UnfitFileError, new_file, open_file
from ppo_trainer.machine.screen import complain
from ppo_trainer.runs.folder import RunFolder, reading, writing

__all__ = ["keep_records", "read_metrics"]

_MOST_BYTES = 1 << 20  # in a line
_MOST_VALUES = 20_000
_LARGEST = 1e300


@dataclass(frozen=True)
class _Line:
    number: int
    text: bytes
    record: dict[str, Any] | None
    """None for a damaged line."""


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
        complain(f"{run.metrics_file}: {_named(damaged)} not a record and left out")
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
            complain(f"{run.metrics_file}: {_named(damaged)} no record; the file is kept: {aside}")
    return kept


def _lines(run: RunFolder) -> Iterator[_Line]:
    """Yield the lines of the file, if there is one, without a last line that a kill has cut off."""
    if not os.path.lexists(run.metrics_file):
        return
    with reading(run.metrics_file):
        file = open_file(run.metrics_file)
    number = 0
    with file, reading(run.metrics_file, "move it away to continue: the curves then start again"):
        while text := file.readline(_MOST_BYTES + 1):
            number += 1
            if len(text) > _MOST_BYTES:
                raise UnfitFileError(f"line {number} has more than {_MOST_BYTES:,} bytes")
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
