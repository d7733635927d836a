"""The entities of a frame as text: index, id and features, one block of lines for each type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from entity_env.batching.frame import Frame
from entity_env.observation import EntityID
from entity_env.spaces import Discrete, EntityName, Feature, ObsSpace, feature_name

__all__ = [
    "TextBlock",
    "entity_blocks",
    "entity_name",
    "entity_table",
    "feature_text",
    "global_text",
    "id_text",
]

_LONGEST_ID = 40


@dataclass(frozen=True)
class TextBlock:
    """The entities of one type as text.

    Args:
        name: The entity type.
        count: How many there are.
        header: The names of the features.
        labels: Index and id of each entity that is shown.
        cells: Its features, in the order of ``header``.
        hidden: Which of them the policy does not see.
    """

    name: EntityName
    count: int
    header: Sequence[str]
    labels: Sequence[tuple[str, str]]
    cells: Sequence[Sequence[str]]
    hidden: Sequence[bool]


def entity_blocks(frame: Frame, obs_space: ObsSpace, limit: int = 50) -> list[TextBlock]:
    """A block for each entity type of the space; at most ``limit`` entities of each are shown."""
    blocks, start = [], 0
    for name, entity in obs_space.entities.items():
        rows = frame.features[name]
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


def entity_table(frame: Frame, obs_space: ObsSpace, *, limit: int = 50, width: int = 100) -> str:
    """The frame as aligned lines: global features, then for each type its entities.

    Args:
        frame: What to show.
        obs_space: Its space.
        limit: How many entities of each type are shown.
        width: Where more features follow than fit, they go on in lines of their own.
    """
    lines = [global_text(frame, obs_space)] if obs_space.global_features else []
    blocks = [block for block in entity_blocks(frame, obs_space, limit) if block.count]
    labels = [label for block in blocks for label in block.labels]
    index_width = max([1, *(len(index) for index, _ in labels)])
    id_width = max([1, *(len(text) for _, text in labels), *(len(block.name) for block in blocks)])
    for block in blocks:
        heads = [("#", block.name), *block.labels]
        starts = [f"{index:>{index_width}}  {text:<{id_width}}" for index, text in heads]
        columns = [
            _column([name, *(row[i] for row in block.cells)]) for i, name in enumerate(block.header)
        ]
        if any(block.hidden):
            columns.append(_column(["", *("hidden" if hidden else "" for hidden in block.hidden)]))
        for part in _fold(columns, width - len(starts[0])):
            rows = zip(starts, *part, strict=True)
            lines += ["".join(row).rstrip() for row in rows]
        if block.count > len(block.labels):
            lines.append(f"{'':>{index_width}}  ... and {block.count - len(block.labels):,} more")
    return "\n".join(f"  {line}" for line in lines or ["(no entities)"])


def global_text(frame: Frame, obs_space: ObsSpace) -> str:
    """The global features in one line."""
    return ", ".join(
        f"{feature_name(feature)} {feature_text(feature, value)}"
        for feature, value in zip(obs_space.global_features, frame.global_features, strict=True)
    )


def feature_text(feature: Feature, value: float) -> str:
    """A feature's value, short."""
    return str(int(value)) if isinstance(feature, Discrete) else f"{value:.5g}"


def entity_name(frame: Frame, obs_space: ObsSpace, index: int) -> str:
    """What to call the entity with this index: its type and its id, if it has one."""
    first = 0
    for name in obs_space.entities:
        first += len(frame.features[name])
        if index < first:
            own = frame.ids[index]
            text = id_text(own)
            is_named = text.casefold().startswith(name.casefold())
            return name if own is None else text if is_named else f"{name} {text}"
    return "you"


def id_text(entity_id: EntityID) -> str:
    """An id in few characters: the parts of a tuple side by side, and ``-`` for none."""
    if entity_id is None:
        return "-"
    parts = map(id_text, entity_id) if isinstance(entity_id, tuple) else [str(entity_id)]
    text = " ".join(parts)
    if not text.isprintable():
        text = repr(text)
    return text if len(text) <= _LONGEST_ID else text[: _LONGEST_ID - 3] + "..."


def _column(cells: list[str]) -> list[str]:
    """The cells, each as wide as the widest, with space before them."""
    widest = max(map(len, cells))
    return [f"  {cell:>{widest}}" for cell in cells]


def _fold(columns: list[list[str]], width: int) -> list[list[list[str]]]:
    """Columns in groups that fit into ``width``, at least one in each; one group without any."""
    groups: list[list[list[str]]] = [[]]
    for column in columns:
        if groups[-1] and sum(len(own[0]) for own in [*groups[-1], column]) > width:
            groups.append([])
        groups[-1].append(column)
    return groups
