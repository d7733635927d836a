"""The names of logged numbers that ``docs/metrics.md`` describes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@functools.cache
def _described() -> re.Pattern[str]:
    """What stands between backticks, in which ``<name>`` may be anything."""
    names = re.findall(r"`([^`\n]+)`", PAGE.read_text())
    forms = {re.sub(r"<\w+>", ".+", re.escape(name)) for name in names if "<i>" not in name}
    return re.compile("|".join(sorted(forms)))


def undescribed(names: Iterable[str]) -> list[str]:
    """Of logged names those that the page lacks; names without a slash may be a game's own."""
    ours = {re.sub(r"^policy_\d+/", "", name) for name in names if "/" in name}
    return sorted(name for name in ours if "/" in name and not _described().fullmatch(name))
