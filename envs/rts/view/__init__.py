"""Pictures of strategy games, and their maps in characters."""

from __future__ import annotations

from .map_text import write_map
from .map_view import MapView
from .picture import draw_map

__all__ = ["MapView", "draw_map", "write_map"]
