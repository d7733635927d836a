"""Pictures and tables of observations, for environments without ``render``."""

from __future__ import annotations

from entity_env.drawing.caption import Caption
from entity_env.drawing.chosen import Chosen, choices_of, chosen_lines
from entity_env.drawing.drawer import Drawer, draw_observation
from entity_env.drawing.labels import check_labels, label_lines
from entity_env.drawing.legend import Sign, add_legend
from entity_env.drawing.table_text import entity_table

__all__ = [
    "Caption",
    "Chosen",
    "Drawer",
    "Sign",
    "add_legend",
    "check_labels",
    "choices_of",
    "chosen_lines",
    "draw_observation",
    "entity_table",
    "label_lines",
]
