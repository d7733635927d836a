"""Pictures of vehicle routing: the map, the routes that have been driven, and a legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.drawing import Sign, add_legend
from entity_env.drawing.canvas import Canvas
from entity_env.errors import counted

from ..board_picture import BOARD, INK, PLAYERS
from .routing_instances import RoutingInstance

__all__ = ["draw_routes"]

_CUSTOMERS = (
    Sign("customer waits", (150, 158, 170)),
    Sign("served", INK),
    Sign("missed", (200, 40, 40), "diamond"),
)
_MOST_NAMES = 60


def draw_routes(
    own: Mapping[str, Any], instance: RoutingInstance | None, size: int = 480
) -> npt.NDArray[np.uint8]:
    """Draw a game.

    Args:
        own: The state of one game, as ``save_game`` returns it.
        instance: Names of the places; None: none.
        size: The width of the map in pixels.

    Returns:
        Shape: (H, W, 3), uint8.
    """
    size = check_whole("size", size, 100, 4000)
    count, fleet = own["customers"], own["vehicles"]
    places = np.vstack([own["depot"], np.stack([own["x"], own["y"]], 1)[:count]])
    low = places.min(0)
    extent = float((places.max(0) - low).max()) or 1.0
    head, margin = 24, 22
    spots = margin + (places - low) / extent * (size - 2 * margin)
    spots[:, 1] = size + head - spots[:, 1]
    canvas = Canvas(size, size + head)
    canvas.box(0, 0, size, size + head, BOARD)
    name = f"{instance.name}: " if instance else ""
    title = f"{name}{counted(count, 'customer')}, driven {own['driven']:.6g}, now {own['now']:.6g}"
    canvas.text(8, head / 2, canvas.shortened(title, 13, size - 16), 13, INK)
    at = [0] * fleet
    for vehicle, node in own["route"][: own["stops"]]:
        color = PLAYERS[vehicle % len(PLAYERS)]
        canvas.arrow(complex(*spots[at[vehicle]]), complex(*spots[node]), 1.6, color, head=7)
        at[vehicle] = node
    names = instance.names if instance and count <= _MOST_NAMES else ()
    for i, (x, y) in enumerate(spots[1:].tolist()):
        if own["known"][i] <= own["now"]:
            sign = _CUSTOMERS[own["served"][i]]
            shape: Any = sign.mark
            canvas.dot(x, y, 4, sign.color, shape, edge=sign.color)
            if names:
                canvas.text(x + 6, y - 6, names[i + 1], 10, INK)
    canvas.dot(float(spots[0, 0]), float(spots[0, 1]), 7, INK, "square", edge=INK)
    colors = len(PLAYERS)
    signs = [Sign("depot", INK, "square"), *_CUSTOMERS]
    for k in range(min(fleet, colors)):
        others = "".join(f", {other}" for other in range(k + colors, fleet, colors)[:2])
        more = ", ..." if k + 3 * colors < fleet else ""
        signs.append(Sign(f"vehicle {k}{others}{more}", PLAYERS[k], "arrow"))
    return add_legend(canvas.picture(), signs)
