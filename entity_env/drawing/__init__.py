"""Pictures and tables of observations, for environments without ``render``."""

from __future__ import annotations

from entity_env.drawing.chosen import Chosen, choices_of, chosen_lines
from entity_env.drawing.drawer import Drawer
from entity_env.drawing.legend import Sign, add_caption, add_legend, caption_columns
from entity_env.drawing.table_text import entity_table

__all__ = [
    "Chosen",
    "Drawer",
    "Sign",
    "add_caption",
    "add_legend",
    "caption_columns",
    "choices_of",
    "chosen_lines",
    "entity_table",
]
