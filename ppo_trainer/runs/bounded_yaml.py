"""YAML with size limits and without aliases.

With aliases, a few lines could describe more values than fit in memory.
"""

from __future__ import annotations

from typing import Any

import yaml

from entity_env.errors import DAMAGES

__all__ = ["parse_yaml", "write_yaml"]

_MOST_BYTES = 1 << 18
_MOST_VALUES = 20_000
_MARKS = (b"\n", b",", b":", b"[", b"{")
"""Characters one of which precedes each value except the first."""


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*name), which is not allowed")
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def parse_yaml(text: bytes) -> Any:
    """Return the plain value of a YAML text in UTF-8; tags of Python objects are refused.

    Raises:
        ValueError: The text is not YAML of plain values, is too large, or has aliases.
    """
    _check_size(text)
    try:
        return yaml.load(text.decode(), _Loader)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (yaml.YAMLError, *DAMAGES) as error:  # such as an IndexError for !!int ""
        raise ValueError(str(error) or type(error).__name__) from error


def write_yaml(values: Any) -> bytes:
    """Return a text for ``parse_yaml``, or raise ValueError if it would be too large."""
    text = yaml.dump(values, Dumper=_Dumper, sort_keys=False).encode()
    _check_size(text)
    return text


def _check_size(text: bytes) -> None:
    values = 1 + sum(map(text.count, _MARKS))
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it has {len(text):,} bytes, more than the limit of {_MOST_BYTES:,}")
    if values > _MOST_VALUES:
        raise ValueError(f"it has {values:,} values, more than the limit of {_MOST_VALUES:,}")
