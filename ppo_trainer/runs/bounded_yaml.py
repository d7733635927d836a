"""A reader of YAML with bounds: a few lines can stand for more values than any memory holds."""

from __future__ import annotations

from typing import Any

import yaml

from entity_env.errors import DAMAGES

__all__ = ["check_size", "parse_yaml"]

_MOST_BYTES = 1 << 18
_MOST_VALUES = 20_000
_MARKS = (b"\n", b",", b":", b"[", b"{")
"""One of them stands before each value but the first."""


def parse_yaml(text: bytes) -> Any:
    """Return the plain value of a YAML text in UTF-8; tags of Python objects are refused.

    Raises:
        ValueError: It is no YAML of plain values, or stands for too many, or for endless ones.
    """
    check_size(text)
    try:
        loader = yaml.SafeLoader(text.decode())
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _count(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (yaml.YAMLError, *DAMAGES) as error:  # such as an IndexError for !!int ""
        raise ValueError(str(error) or type(error).__name__) from error


def check_size(text: bytes) -> None:
    """Raise ValueError for a text that ``parse_yaml`` would refuse for its size alone."""
    values = 1 + sum(map(text.count, _MARKS))
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it has {len(text):,} bytes, and at most {_MOST_BYTES:,} make sense")
    if values > _MOST_VALUES:
        raise ValueError(f"it has {values:,} values, and at most {_MOST_VALUES:,} make sense")


def _count(node: Any, known: dict[int, int]) -> int:
    """Return the number of values of a node, with each alias counted as what it names."""
    if id(node) not in known:
        known[id(node)] = _MOST_VALUES + 1  # until it is known: a node within itself has no end
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_count(part, known) for part in parts)
    if known[id(node)] > _MOST_VALUES:
        raise ValueError(f"with its aliases it stands for more than {_MOST_VALUES:,} values")
    return known[id(node)]
