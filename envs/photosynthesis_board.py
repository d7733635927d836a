"""The board, the pieces and the prices of Photosynthesis."""

from __future__ import annotations

__all__ = [
    "AVAILABLE",
    "BEFORE",
    "COLLECT_PRICE",
    "DIRECTIONS",
    "KINDS",
    "MOST_LIGHT",
    "PRICES",
    "SOIL",
    "SPACES",
    "TOKENS",
    "distance",
    "space_at",
]

KINDS = ("Seed", "Small", "Medium", "Large")
PRICES = ((1, 1, 2, 2), (2, 2, 3, 3), (3, 3, 4), (4, 5))
"""Of each kind on a player's board, from the slot that is emptied first."""
AVAILABLE = (2, 4, 1, 0)
COLLECT_PRICE = 4
MOST_LIGHT = 20
TOKENS = (
    (14, 14, 13, 13, 13, 12, 12, 12, 12),
    (17, 16, 16, 14, 14, 13, 13),
    (19, 18, 18, 17, 17),
    (22, 21, 20),
)
"""The points of each soil's tokens, from one leaf to four, the top one first."""

DIRECTIONS = ((1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1), (0, 1))
"""The direction of the light in hexagonal coordinates (q, r), for each angle of the sun."""
_RADIUS = 3


def _length(q: int, r: int) -> int:
    return max(abs(q), abs(r), abs(q + r))


SPACES = tuple(
    (q, r)
    for q in range(-_RADIUS, _RADIUS + 1)
    for r in range(-_RADIUS, _RADIUS + 1)
    if _length(q, r) <= _RADIUS
)
"""The 37 spaces (q, r); their numbers are places in this tuple."""
SOIL = tuple(4 - _length(q, r) for q, r in SPACES)
"""The leaves of each space: one for the outermost, four for the centre."""
_NUMBER = {space: i for i, space in enumerate(SPACES)}
_DISTANCES = tuple(tuple(_length(q - a, r - b) for a, b in SPACES) for q, r in SPACES)
BEFORE = tuple(
    tuple(
        tuple(
            (_NUMBER[q - k * dq, r - k * dr], k)
            for k in range(1, 4)
            if (q - k * dq, r - k * dr) in _NUMBER
        )
        for q, r in SPACES
    )
    for dq, dr in DIRECTIONS
)
"""For each angle and space the spaces that the light passes before, and how far away they are."""


def space_at(q: int, r: int) -> int:
    """Return the number of a space."""
    return _NUMBER[q, r]


def distance(one: int, other: int) -> int:
    """Return the number of steps between two spaces."""
    return _DISTANCES[one][other]
