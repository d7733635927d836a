"""Files that settings name: read with bounds, and kept with the settings of a run."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from entity_env.errors import SettingError, nearest, shorten
from entity_env.storage.files import read_file

__all__ = [
    "GivenText",
    "check_length",
    "is_kept",
    "keep_files",
    "read_given",
    "read_number",
    "read_whole",
    "table_lines",
    "text_lines",
]

_MOST_BYTES = 1 << 25
_MOST_KEPT, _MOST_MARKS = 90_000, 8_000
"""The settings of a run have a bounded size: so many bytes, commas and line ends of files."""
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x19\x1b-\x1f\x7f]")
_KEYS = ("file", "text", "sha256")


class GivenText(NamedTuple):
    """The text of a file, and the name of the file for messages."""

    name: str
    text: str


def read_given(setting: str, named: Any, names: Collection[str] = ()) -> GivenText:
    """Return the text of the file that a setting names.

    A text is in UTF-8, in UTF-16 with a byte order mark, or else in the Windows code page 1252.

    Args:
        setting: The name of the setting.
        named: The path of a file, or what ``keep_files`` makes of it: a mapping with ``file``, the
            path, and either ``text`` or ``sha256``, the digest of the bytes of the file.
        names: Further values of the setting, for messages.

    Raises:
        SettingError: There is no such file, it is no text, or another one than it was.
    """
    given = named if isinstance(named, Mapping) else {"file": named}
    file, text, digest = (given.get(key) for key in _KEYS)
    is_known = all(key in _KEYS for key in given) and isinstance(text, str | None)
    is_known &= text is None or digest is None
    if not isinstance(file, str | Path) or not is_known or not isinstance(digest, str | None):
        raise SettingError(
            f"invalid {setting}",
            expected="the path of a file, or a mapping with file and text, or with file and sha256",
            about=setting,
            received=shorten(named),
        )
    if text is not None:
        return GivenText(str(file), text)
    data = _read(setting, str(file), names)
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise SettingError(
            f"parameter {setting}: {file} has changed since the run was begun",
            expected=f"the file with the SHA-256 digest {digest}",
            hint=f"put it back, or name another one: env.{setting}=...",
            about=setting,
        )
    return GivenText(str(file), _decoded(data, str(file)))


def is_kept(named: Any) -> bool:
    """Return whether a value of a setting holds the text of its file, so that none is read."""
    return isinstance(named, Mapping) and isinstance(named.get("text"), str)


def keep_files(setting: str, named: Any, names: Collection[str] = ()) -> Any:
    """Return the value of a setting with the text of each file in the place of its path.

    A run can then be opened anywhere with the files of its training. A file that is too large for
    the settings of a run is replaced by its absolute path and its digest.

    Args:
        setting: The name of the setting.
        named: Its value: a path, the name of something else, or a list of them.
        names: Further values of the setting.

    Raises:
        SettingError: See ``read_given``.
    """
    room, marks = _MOST_KEPT, _MOST_MARKS
    kept: list[Any] = []
    for one in named if isinstance(named, list | tuple) else [named]:
        if not isinstance(one, str | Path) or str(one) in names:
            kept.append(one)
            continue
        text = read_given(setting, one, names).text
        path = Path(one).expanduser().absolute()
        room -= len(json.dumps(text))
        marks -= sum(map(text.count, "\n,:[{")) + 2 * text.count("\n")  # quoted, lines end twice
        if min(room, marks) >= 0:
            kept.append({"file": str(path), "text": text})
        else:
            digest = hashlib.sha256(_read(setting, str(path), names)).hexdigest()
            kept.append({"file": str(path), "sha256": digest})
    return kept if isinstance(named, list | tuple) else kept[0]


def text_lines(text: str, where: str) -> list[tuple[str, str]]:
    """Return the place and the text of each line; a lone carriage return ends a line, too."""
    lines = io.StringIO(text, newline=None)
    return [(f"{where}, line {number}", line) for number, line in enumerate(lines, 1)]


def check_length(here: str, words: Sequence[object], count: int, expected: str) -> None:
    """Raise SettingError unless a line has so many words; ``expected`` says which."""
    if len(words) != count:
        raise SettingError(
            f"{here}: the wrong number of values",
            expected=expected,
            received=f"{len(words)}: {shorten(' '.join(map(str, words)))}",
        )


def read_number(word: str, here: str, what: str, least: float, most: float) -> float:
    """Return the number that a word of a file is, in any form that ``float`` accepts.

    Args:
        word: The word.
        here: Its file and line, for messages.
        what: The meaning of the number, for messages.
        least: The least that is allowed.
        most: The most.

    Raises:
        SettingError: It is no number, or out of range.
    """
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise SettingError(
            f"{here}: {what} is {shorten(word)}",
            expected=f"a number from {least:.10g} to {most:.10g}",
        )
    return number


def read_whole(word: str, here: str, what: str, least: float, most: float) -> int:
    """Return the whole number that a word of a file is; the arguments are as before."""
    number = read_number(word, here, what, least, most)
    if number != int(number):
        raise SettingError(
            f"{here}: {what} is {shorten(word)}",
            expected="a whole number",
            hint="multiply all numbers of this kind to make them whole",
        )
    return int(number)


def table_lines(
    text: str, where: str, columns: Sequence[str], more: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the cells of each line of a table but the first, by its columns.

    Columns are separated by commas, semicolons or tabs.

    Args:
        text: The table.
        where: The name of its file, for messages.
        columns: The names of those that must be there.
        more: The names of those that may be there.

    Raises:
        SettingError: A column is missing or unknown, or a line is damaged; it names the line.
    """
    lines = csv.reader(
        io.StringIO(text, newline=None),  # a lone carriage return ends a line, too
        delimiter=max(",;\t", key=text.lstrip().partition("\n")[0].count),
        skipinitialspace=True,
        strict=True,
    )
    names: list[str] = []
    here = f"{where}, line 1"
    try:
        for found in lines:
            cells = [cell.strip() for cell in found]
            if not names and any(cells):
                names = [name.lower() for name in cells]
                _check_columns(names, here, columns, more)
            elif any(cells):
                check_length(here, cells, len(names), f"{len(names)}: {', '.join(names)}")
                yield here, dict(zip(names, cells, strict=True))
            here = f"{where}, line {lines.line_num + 1}"
    except csv.Error as error:
        raise SettingError(f"{here}: {error}", expected="a table of values") from error
    if not names:
        _check_columns(names, here, columns, more)


def _check_columns(
    names: list[str], here: str, columns: Sequence[str], more: Sequence[str]
) -> None:
    known = (*columns, *more)
    missing = [name for name in columns if name not in names]
    wrong = [name for i, name in enumerate(names) if name not in known or name in names[:i]]
    if missing or wrong:
        raise SettingError(
            f"{here}: no column {missing[0]!r}" if missing
            else f"{here}: column {shorten(wrong[0])} is there twice" if wrong[0] in known
            else f"{here}: unknown column {shorten(wrong[0])}",
            expected=f"the columns {', '.join(columns)}, and perhaps {', '.join(more)}",
            received=shorten(", ".join(names)) if names else "nothing",
            hint=nearest(missing[0], names) if missing else nearest(wrong[0], known),
        )  # fmt: skip


def _read(setting: str, file: str, names: Collection[str]) -> bytes:
    try:
        return read_file(Path(file).expanduser(), _MOST_BYTES)
    except (OSError, ValueError, RuntimeError) as error:  # such as no home folder for ~
        options, folder = list(names), ""
        with suppress(OSError):  # a hint is not worth an error
            folder = f" in {str(Path.cwd())!r}"
            options += map(str, islice(Path(file).parent.iterdir(), 1000))
        raise SettingError(
            f"parameter {setting}: there is no file {shorten(file)}{folder} that can be read",
            expected="the path of a text file"
            + (f", or a name from {min(names)} to {max(names)}" if names else ""),
            received=str(getattr(error, "strerror", None) or error),
            hint=nearest(file, options),
            about=setting,
        ) from error


def _decoded(data: bytes, where: str) -> str:
    is_wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    before = b""
    for encoding in ["utf-16"] if is_wide else ["utf-8-sig", "cp1252"]:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            before = data[: error.start]
            continue
        found = _NO_TEXT.search(text)
        if found is None:
            return text
        before = text[: found.start()].encode()
        break
    line = before.count(b"\n") + 1
    raise SettingError(f"{where}, line {line}: this is no text", expected="a text file in UTF-8")
