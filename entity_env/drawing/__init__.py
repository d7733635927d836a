"""Pictures and tables of observations, for environments that do not draw themselves."""

from __future__ import annotations

from entity_env.drawing.drawer import Drawer, draw_observation
from entity_env.drawing.table_text import entity_table

__all__ = ["Drawer", "draw_observation", "entity_table"]
