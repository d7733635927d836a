"""Reader of the metrics of a training while they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import open_file

__all__ = ["MetricsFile"]

_MOST_POINTS = 400
_MOST_BYTES, _MOST_VALUES = 1 << 20, 20_000
"""Limits of a line: its bytes, and its numbers."""
_MOST_NAMES = 500


class MetricsFile:
    """A file of JSON lines, each with the numbers of an update by their names, and ``steps``.

    Args:
        path: Path of the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._records: list[dict[str, float]] = []

    def read(self) -> dict[str, Any]:
        """Return the curves so far, with fewer points; lines that are not records are left out."""
        self._read_on()
        count = len(self._records)
        places = np.unique(np.linspace(0, max(count - 1, 0), min(count, _MOST_POINTS)).astype(int))
        shown = [self._records[place] for place in places]
        names = list(dict.fromkeys(name for own in shown for name in own))[:_MOST_NAMES]
        return {
            "steps": np.array([own["steps"] for own in shown], np.float64),
            "metrics": {
                name: np.array([own.get(name, np.nan) for own in shown], np.float64)
                for name in names
                if name not in ("steps", "update")
            },
        }

    def _read_on(self) -> None:
        """Read the lines since the last call; start again if the file has become shorter."""
        try:
            with open_file(self._path) as file:
                if file.seek(0, 2) < self._end:  # a resumed run has rewritten it
                    self._end, self._records = 0, []
                file.seek(self._end)
                while (line := file.readline(_MOST_BYTES)).endswith(b"\n"):
                    self._end = file.tell()
                    self._add(line)
        except OSError:  # the file does not exist yet
            return

    def _add(self, line: bytes) -> None:
        try:
            record = parse_json(line, _MOST_VALUES)
        except ValueError:
            return
        if isinstance(record, dict) and type(record.get("steps")) is int:
            numbers = {name: v for name, v in record.items() if type(v) in (int, float)}
            self._records.append({name: float(value) for name, value in numbers.items()})
