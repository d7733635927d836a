"""Pictures of a warehouse: walls, shelves, one-way aisles, items, robots and what they carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.drawing import Sign, add_legend
from entity_env.drawing.canvas import Canvas, Color
from entity_env.errors import counted

from ..board_picture import INK
from .warehouse_rules import CLAIMED, WAITING, FloorPlan

__all__ = ["draw_warehouse"]

_FLOOR: Color = (246, 247, 249)
_WALL: Color = (92, 100, 114)
_SHELF: Color = (186, 150, 108)
_STATION: Color = (24, 150, 118)
_CHARGER: Color = (214, 170, 24)
_ROBOT: Color = (38, 114, 214)
_ASKED: Color = (214, 44, 60)
_ITEM: Color = (226, 106, 24)
_WHITE: Color = (255, 255, 255)
_SIGNS = (
    Sign("wall", _WALL, "box"),
    Sign("shelf", _SHELF, "box"),
    Sign("one way", (168, 174, 184), "arrow"),
    Sign("station", _STATION, "box"),
    Sign("charger", _CHARGER, "box"),
    Sign("item waits, or is carried", _ITEM, "diamond"),
    Sign("item that a robot fetches", _ITEM, "diamond", hollow=True),
    Sign("robot", _ROBOT),
    Sign("robot that is asked", _ASKED),
    Sign("battery", _STATION, "line"),
)


def draw_warehouse(own: Mapping[str, Any], plan: FloorPlan, cell: int) -> npt.NDArray[np.uint8]:
    """Draw a moment of a warehouse.

    Args:
        own: The state of one game, as ``save_game`` returns it, and its settings.
        plan: The floor.
        cell: The size of a cell in pixels.

    Returns:
        Shape: (H, W, 3), uint8.
    """
    cell = check_whole("cell", cell, 8, 200)
    width, height, head = plan.width * cell, plan.height * cell, 24
    canvas = Canvas(width, height + head)
    title = f"tick {own['tick']} of {own['ticks']}: {counted(own['handed'], 'item')} handed over"
    canvas.text(6, head / 2, canvas.shortened(title, 13, width - 12), 13, INK)

    def corner(number: int) -> tuple[float, float]:
        x, y = plan.cells[number].tolist()
        return x * cell, (plan.height - 1 - y) * cell + head

    # Shelves stand between the two ways across, all else that is no floor is wall.
    canvas.box(0, head, width, height + head, _WALL)
    canvas.box(0, 2 * cell + head, width, height - 2 * cell + head, _SHELF)
    for number, (_, y) in enumerate(plan.cells.tolist()):
        left, top = corner(number)
        color = _FLOOR
        if number in plan.stations or number in plan.chargers:
            color = _STATION if number in plan.stations else _CHARGER
        canvas.box(left, top, left + cell, top + cell, color)
        onward = plan.next[number]
        if 2 <= y < plan.height - 2 and (there := int(onward.max())) >= 0:
            up = int(plan.cells[there, 1]) > y
            x, middle = left + cell / 2, top + cell / 2
            tail, tip = (0.3 * cell, -0.3 * cell) if up else (-0.3 * cell, 0.3 * cell)
            start, end = complex(x, middle + tail), complex(x, middle + tip)
            canvas.arrow(start, end, 1, (168, 174, 184), head=0.25 * cell)
    for number, _, state in own["item"]:
        if state in (WAITING, CLAIMED):
            left, top = corner(number)
            x, y = left + 0.22 * cell, top + 0.24 * cell
            is_fetched = state == CLAIMED
            canvas.dot(x, y, 0.17 * cell, _ITEM, "diamond", edge=_ITEM, hollow=is_fetched)
    for i in range(own["robots"]):
        left, top = corner(own["cell"][i])
        x, y, color = left + cell / 2, top + cell / 2, _ASKED if i == own["asked"] else _ROBOT
        canvas.dot(x, y, 0.36 * cell, color, "circle", edge=color)
        canvas.text(x, y, str(i), 0.36 * cell, _WHITE, anchor="mm")
        for k in range(own["loaded"][i]):
            at = left + (0.84 - 0.16 * k) * cell
            canvas.dot(at, top + 0.16 * cell, 0.15 * cell, _ITEM, "diamond", edge=_WHITE)
        full, low = left + 0.86 * cell, top + 0.92 * cell
        canvas.box(left + 0.14 * cell, low - 2, full, low + 1, _WALL)
        end = left + (0.14 + 0.72 * own["battery"][i] / own["full"]) * cell
        canvas.box(left + 0.14 * cell, low - 2, end, low + 1, _STATION)
    return add_legend(canvas.picture(), _SIGNS)
