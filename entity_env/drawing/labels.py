"""Features whose values are written beside each entity."""

from __future__ import annotations

from collections.abc import Sequence

from entity_env.batching.frame import Frame
from entity_env.drawing.chosen import fold, name_in_frame
from entity_env.drawing.table_text import feature_text
from entity_env.errors import SettingError, check_known
from entity_env.spaces import ObsSpace

__all__ = ["check_labels", "label_lines", "label_texts"]


def check_labels(obs_space: ObsSpace, labels: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of features, or of one feature, as a tuple.

    Raises:
        SettingError: No entity type has a feature of this name.
    """
    names = (labels,) if isinstance(labels, str) else tuple(labels)
    options = list(dict.fromkeys(own for e in obs_space.entities.values() for own in e.names))
    check_known(SettingError, "no entity type has a feature {} for a label", names, options)
    return names


def label_texts(frame: Frame, obs_space: ObsSpace, labels: Sequence[str]) -> dict[int, str]:
    """Return the values of the features named in ``labels`` as text, by entity index."""
    texts, first = {}, 0
    for name, entity in obs_space.entities.items():
        rows = frame.features[name]
        places = [entity.names.index(label) for label in labels if label in entity.names]
        if places:
            for row, own in enumerate(rows):
                values = (feature_text(entity.features[at], own[at], digits=3) for at in places)
                texts[first + row] = ", ".join(values)
        first += len(rows)
    return texts


def label_lines(frame: Frame, obs_space: ObsSpace, labels: Sequence[str]) -> list[str]:
    """Return lines with the values of each feature in ``labels`` of all entities."""
    lines = []
    for label in labels:
        texts = label_texts(frame, obs_space, [label])
        cells = [f"{name_in_frame(frame, obs_space, i)} {text}" for i, text in texts.items()]
        lines += [line for line, _ in fold(f"{label}: ", cells or ["-"], 100)]
    return lines
