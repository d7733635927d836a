"""A YAML reader with size limits: a few lines can describe more values than fit in memory."""

from __future__ import annotations

from typing import Any

import yaml

from entity_env.errors import DAMAGES

__all__ = ["check_size", "parse_yaml"]

_MOST_BYTES = 1 << 18
_MOST_VALUES = 20_000
_MARKS = (b"\n", b",", b":", b"[", b"{")
"""Characters one of which precedes each value except the first."""


def parse_yaml(text: bytes) -> Any:
    """Return the plain value of a YAML text in UTF-8; tags of Python objects are refused.

    Raises:
        ValueError: The text is not YAML of plain values, or describes too many or infinitely many.
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
    """Raise ValueError for a text that ``parse_yaml`` would refuse because of its size."""
    values = 1 + sum(map(text.count, _MARKS))
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it has {len(text):,} bytes, more than the limit of {_MOST_BYTES:,}")
    if values > _MOST_VALUES:
        raise ValueError(f"it has {values:,} values, more than the limit of {_MOST_VALUES:,}")


def _count(node: Any, known: dict[int, int]) -> int:
    """Return the number of values of a node, with each alias counted as the node it names."""
    if id(node) not in known:
        known[id(node)] = _MOST_VALUES + 1  # a node that contains itself is infinite
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_count(part, known) for part in parts)
    if known[id(node)] > _MOST_VALUES:
        raise ValueError(f"with its aliases expanded it has more than {_MOST_VALUES:,} values")
    return known[id(node)]
