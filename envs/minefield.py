"""Minefield: a vehicle drives to a target and around the mines on its way.

env = Minefield(mines=(0, 10))
observation = env.reset()
observation = env.act(drive_around(observation))

"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any, TypeAlias

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_span, check_whole
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import (
    ActionName,
    CategoricalActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    Position,
)

from .checks import as_number, read_choices
from .small_game import SmallGame

__all__ = ["DIRECTIONS", "FIELD", "MOVES", "RADIUS", "STRIDE", "Minefield", "drive_around"]


FIELD = 200.0
"""The width and the height of the field."""
RADIUS = 5.0
"""A mine or the target is reached from this distance or less."""
STRIDE = 3.0
"""The length of one move."""
DIRECTIONS = 16
"""Direction d points pi/8 * d to the left of the x axis."""
MOVES = ("Turn Left", "Move", "Turn Right")

Point: TypeAlias = tuple[float, float]

_AHEAD = [(math.cos(d * math.pi / 8), math.sin(d * math.pi / 8)) for d in range(DIRECTIONS)]
_NEAREST_TARGET, _FARTHEST_TARGET, _MINES_APART = 10.0, 150.0, 15.0
_MASKS = {"Drive": CategoricalActionMask(actor_types=("Vehicle",))}
_VEHICLE = ("Vehicle",)


class Minefield(SmallGame):
    """A vehicle drives to a target and around the mines on its way.

    The positions of mines relative to the vehicle and its heading matter. The recipe transforms
    positions in this way for the network (``net.translation``).

    Entities:
        ``Vehicle`` [x, y, direction], with the id "Vehicle"; ``Target`` [x, y]; ``Mine`` [x, y].
        The field goes from (0, 0) to (200, 200); nothing keeps the vehicle in it. The direction is
        a whole number d from 0 to 15, an angle of pi/8 * d from the x axis to the left.
    Actions:
        ``Drive``: turn by pi/8 to the left or to the right on the spot, or move 3 ahead.
    Reward:
        1.0 for a step that ends at most 5 from the target, unless a mine is that near, too; else
        0.0.
    End:
        At the target, or at most 5 from a mine. ``max_steps`` steps truncate the episode. The last
        observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        Only the start: the vehicle, anywhere in the field, and its direction; the target, at a
        distance from 10 to 150, each as likely as any other, and in any direction, drawn until it
        is in the field; how many mines; and each mine, drawn until it is at least 15 from vehicle
        and target.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        mines: Mines at the start, 0 to 100: a number, or a pair (least, most) from which each
            episode draws its own.
        max_steps: Steps until the episode is cut off, at most 10^9.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    _obs_space = ObsSpace(
        entities={
            "Vehicle": Entity([Position("x", "y"), Discrete("direction", DIRECTIONS)]),
            "Target": Entity([Position("x", "y")]),
            "Mine": Entity([Position("x", "y")]),
        }
    )
    _action_space = {"Drive": CategoricalActionSpace(MOVES)}
    _saved = {
        "vehicle": (as_number, as_number),
        "direction": whole,
        "target": (as_number, as_number),
        "mines": [(as_number, as_number)],
        "steps": whole,
    }

    def __init__(
        self, mines: int | tuple[int, int] | list[int] = (0, 10), max_steps: int = 200
    ) -> None:
        self.mine_span = check_span("mines", mines, 0, 100)
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000_000)
        self.vehicle: Point = (0.0, 0.0)
        self.direction = 0
        self.target: Point = (FIELD, FIELD)
        self.mines: list[Point] = []

    @property
    def lost(self) -> bool:
        """True if the vehicle is at a mine."""
        return any(_is_near(self.vehicle, mine, RADIUS) for mine in self.mines)

    @property
    def over(self) -> bool:
        """True if the vehicle is at a mine or at the target."""
        return self.lost or _is_near(self.vehicle, self.target, RADIUS)

    @property
    def won(self) -> bool:
        """True if the vehicle is at the target, and at no mine."""
        return not self.lost and _is_near(self.vehicle, self.target, RADIUS)

    def _begin(self) -> None:
        self.vehicle = self._away_from([], 0.0)
        self.direction = int(self.rng.integers(DIRECTIONS))
        self.target = self._some_way_from(self.vehicle)
        count = int(self.rng.integers(self.mine_span[0], self.mine_span[1] + 1))
        ends = [self.vehicle, self.target]
        self.mines = [self._away_from(ends, _MINES_APART) for _ in range(count)]

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        (move,) = read_choices(actions, "Drive", _VEHICLE, MOVES)
        if MOVES[move] == "Move":
            (x, y), (cos, sin) = self.vehicle, _AHEAD[self.direction]
            self.vehicle = x + STRIDE * cos, y + STRIDE * sin
        else:
            self.direction = (self.direction + (1 if move == 0 else -1)) % DIRECTIONS

    def _show(self) -> Observation:
        return Observation(
            features={
                "Vehicle": [(*self.vehicle, self.direction)],
                "Target": [self.target],
                "Mine": self.mines[:],
            },
            ids={"Vehicle": _VEHICLE},
            actions=dict(_MASKS),
        )

    def _problems(
        self, direction: int, mines: list[Point], steps: int, **others: Any
    ) -> dict[str, bool]:
        return {
            "a direction out of range": not 0 <= direction < DIRECTIONS,
            "another number of mines": not self.mine_span[0] <= len(mines) <= self.mine_span[1],
            "a negative step": steps < 0,
        }

    def render_text(self) -> str:
        """Return the field in tiles of 10 x 5 with y up: V the vehicle, T the target, o mines."""
        lines = [["."] * 20 for _ in range(40)]
        marks = [(mine, "o") for mine in self.mines]
        for (x, y), sign in (*marks, (self.target, "T"), (self.vehicle, "V")):
            column, row = int(x // 10), int(y // 5)
            if 0 <= column < 20 and 0 <= row < 40:
                lines[row][column] = sign
        board = "\n".join("".join(line) for line in reversed(lines))
        (x, y), angle = self.vehicle, 22.5 * self.direction
        step = f"step {max(self.steps, 0)} of {self.max_steps}"
        return f"{step}, vehicle at ({x:.1f}, {y:.1f}), {angle:g} degrees\n{board}"

    def _some_way_from(self, start: Point) -> Point:
        """Return a place for the target.

        Anywhere in the field, it would hardly ever be so near that random play meets it.
        """
        while True:
            distance = self.rng.uniform(_NEAREST_TARGET, _FARTHEST_TARGET)
            angle = self.rng.uniform(0.0, math.tau)
            x, y = start[0] + distance * math.cos(angle), start[1] + distance * math.sin(angle)
            if 0.0 <= x <= FIELD and 0.0 <= y <= FIELD:
                return x, y

    def _away_from(self, others: Sequence[Point], apart: float) -> Point:
        """Return a point of the field at least so far from all others."""
        while True:
            x, y = self.rng.uniform(0.0, FIELD, 2).tolist()
            if not any(_is_near((x, y), other, apart) for other in others):
                return x, y


def _is_near(point: Point, other: Point, distance: float) -> bool:
    x, y = point[0] - other[0], point[1] - other[1]
    return x * x + y * y <= distance * distance


_LOOK_AHEAD = 30.0
_MARGIN = 0.5
_ALL = range(DIRECTIONS)


def drive_around(observation: Observation) -> dict[str, Action]:
    """Drive in the direction without a mine ahead that points best to the target.

    It looks 30 ahead, or to the target if that is nearer. If all ways are blocked it takes the best
    direction all the same.
    """
    features: Any = observation.features
    ((*place, heading),) = features["Vehicle"]
    (x, y), *mines = (
        _seen(point, place, heading) for point in (*features["Target"], *features["Mine"])
    )
    bearing = math.atan2(y, x)
    sight = min(_LOOK_AHEAD, math.hypot(x, y) - RADIUS)
    clear = [d for d in _ALL if not any(_blocks(mine, d, sight) for mine in mines)]
    # Turning costs a little, so that two equally good directions do not make it waver.
    cost = {d: abs(_turn(_angle(d) - bearing)) + 0.01 * abs(_turn(_angle(d))) for d in _ALL}
    best = min(clear or _ALL, key=lambda d: cost[d])
    label = "Move" if best == 0 else "Turn Left" if best <= DIRECTIONS // 2 else "Turn Right"
    return {"Drive": CategoricalAction(["Vehicle"], np.array([MOVES.index(label)]), MOVES)}


def _seen(point: Sequence[float], place: Sequence[float], heading: float) -> Point:
    """Return a point from where the vehicle is: how far ahead, how far to the left."""
    dx, dy = point[0] - place[0], point[1] - place[1]
    cos, sin = math.cos(_angle(heading)), math.sin(_angle(heading))
    return cos * dx + sin * dy, cos * dy - sin * dx


def _blocks(mine: Point, direction: int, sight: float) -> bool:
    """Return True if a mine, relative to the vehicle, lies on the way in a direction."""
    ahead, aside = _seen(mine, (0.0, 0.0), direction)
    nearest = min(max(ahead, 0.0), max(sight, 0.0))
    return ahead > 0 and math.hypot(ahead - nearest, aside) <= RADIUS + _MARGIN


def _angle(direction: float) -> float:
    return direction * math.pi / 8


def _turn(angle: float) -> float:
    """Return the same angle from -pi to pi."""
    return math.remainder(angle, math.tau)
