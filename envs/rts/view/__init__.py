"""Pictures of strategy games, and their maps in characters."""

from __future__ import annotations

from .map_text import write_world
from .picture import draw_world

__all__ = ["draw_world", "write_world"]
