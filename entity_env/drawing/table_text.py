"""The entities of a frame as text: index, id and features, one block of lines for each type."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from entity_env.batching.frame import Frame
from entity_env.observation import EntityID
from entity_env.spaces import EntityName, Feature, ObsSpace, feature_name, num_values, value_names

__all__ = [
    "TextBlock",
    "entity_blocks",
    "entity_name",
    "entity_table",
    "feature_text",
    "fold",
    "id_text",
    "short_name",
    "terminal_width",
]

_LONGEST_ID = 40
_INDENT = "  "


@dataclass(frozen=True)
class TextBlock:
    """The entities of one type as text.

    Args:
        name: The entity type.
        count: Number of entities.
        header: The names of the features.
        labels: Index and id of each entity that is shown.
        cells: Its features, in the order of ``header``.
        hidden: True for entities that are hidden from the policy.
    """

    name: EntityName
    count: int
    header: Sequence[str]
    labels: Sequence[tuple[str, str]]
    cells: Sequence[Sequence[str]]
    hidden: Sequence[bool]


def entity_blocks(
    frame: Frame, obs_space: ObsSpace, limit: int = 50, leave_out: Collection[EntityName] = ()
) -> list[TextBlock]:
    """Return a block for each entity type that is not left out, of at most ``limit`` entities."""
    blocks, start = [], 0
    for name, entity in obs_space.entities.items():
        rows = frame.features[name]
        if name in leave_out:
            start += len(rows)
            continue
        shown = range(min(len(rows), limit))
        visible = frame.visible.get(name, np.ones(len(rows), np.bool_))
        blocks.append(
            TextBlock(
                name=name,
                count=len(rows),
                header=entity.names,
                labels=[(str(start + i), id_text(frame.ids[start + i])) for i in shown],
                cells=[
                    [feature_text(f, v) for f, v in zip(entity.features, rows[i], strict=True)]
                    for i in shown
                ],
                hidden=[not visible[i] for i in shown],
            )
        )
        start += len(rows)
    return blocks


def terminal_width() -> int:
    """Return the number of columns of the terminal, or 100 without a terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def entity_table(
    frame: Frame, obs_space: ObsSpace, *, limit: int = 50, width: int | None = None
) -> str:
    """Return the frame as aligned lines: global features, then for each type its entities.

    Args:
        frame: The frame.
        obs_space: Its space.
        limit: Largest number of entities of each type that are shown.
        width: Width of the lines in characters; None is that of the terminal. Features that do not
            fit are shown in further lines.
    """
    width = (terminal_width() if width is None else width) - len(_INDENT)
    values = zip(obs_space.global_features, frame.global_features, strict=True)
    lines = fold("", [f"{feature_name(f)} {feature_text(f, v)}" for f, v in values], width)
    blocks = [block for block in entity_blocks(frame, obs_space, limit) if block.count]
    heads = [[("#", block.name), *block.labels] for block in blocks]
    every = [label for labels in heads for label in labels]
    index_width = max([1, *(len(index) for index, _ in every)])
    id_width = min(max([1, *(len(text) for _, text in every)]), max(8, width // 3))
    room = width - index_width - 2 - id_width
    for block, labels in zip(blocks, heads, strict=True):
        starts = [f"{i:>{index_width}}  {_cut(text, id_width):<{id_width}}" for i, text in labels]
        columns = [
            _column([_cut(text, max(8, room - 2)) for text in texts])
            for texts in zip(block.header, *block.cells, strict=True)
        ]
        if any(block.hidden):
            columns.append(_column(["", *("hidden" if hidden else "" for hidden in block.hidden)]))
        for part in _fold(columns, room):
            rows = zip(starts, *part, strict=True)
            lines += ["".join(row).rstrip() for row in rows]
        if block.count > len(block.labels):
            lines.append(f"{'':>{index_width}}  ... and {block.count - len(block.labels):,} more")
    return textwrap.indent("\n".join(lines or ["(no entities)"]), _INDENT)


def fold(head: str, cells: Sequence[str], width: int) -> list[str]:
    """Return a head and cells, with commas in between, in lines of ``width`` characters."""
    # No-break spaces keep the words of a cell in the same line.
    text = ", ".join(cell.replace(" ", "\xa0") for cell in cells)
    text = head.replace(" ", "\xa0") + text
    lines = textwrap.wrap(
        text, max(width, 3), subsequent_indent=_INDENT if head else "", break_on_hyphens=False
    )
    return [line.replace("\xa0", " ") for line in lines]


def feature_text(feature: Feature, value: float) -> str:
    """Return a feature's value as a short text: the name of a discrete value if it has one."""
    if num_values(feature) is None or not math.isfinite(value):
        return f"{value:.5g}"
    number, names = int(value), value_names(feature)  # in a forged recording, any number
    return names[number] if 0 <= number < len(names) else str(number)


def entity_name(frame: Frame, obs_space: ObsSpace, index: int) -> str:
    """Return the name of the entity with this index: its type and its id, if any."""
    first = 0
    for name in obs_space.entities:
        first += len(frame.features[name])
        if index < first:
            if frame.ids[index] is None:
                return name
            text = id_text(frame.ids[index])
            is_named = text.casefold().startswith(name.casefold())
            return text if is_named else f"{name} {text}"
    return "you"


def short_name(name: EntityName, index: str, text: str) -> str:
    """Return an id without the type at its beginning, or the index without an id."""
    if text == "-":
        return f"#{index}"
    rest = text.removeprefix(name).strip()
    return rest or text


def id_text(entity_id: EntityID) -> str:
    """Return an id in few characters: the parts of a tuple side by side, and ``-`` for none."""
    if entity_id is None:
        return "-"
    parts = map(id_text, entity_id) if isinstance(entity_id, tuple) else [str(entity_id)]
    text = " ".join(parts)
    if not text.isprintable():
        text = repr(text)
    return _cut(text, _LONGEST_ID)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _column(cells: list[str]) -> list[str]:
    """Return the cells, padded to the same width."""
    widest = max(map(len, cells))
    return [f"  {cell:>{widest}}" for cell in cells]


def _fold(columns: list[list[str]], width: int) -> list[list[list[str]]]:
    """Return columns in groups that fit into ``width``; without columns one empty group."""
    groups: list[list[list[str]]] = [[]]
    for column in columns:
        if groups[-1] and sum(len(cells[0]) for cells in [*groups[-1], column]) > width:
            groups.append([])
        groups[-1].append(column)
    return groups
