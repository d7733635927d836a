"""Kinds of units and their numbers, the map, and limits of strategy games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_number
from entity_env.errors import SettingError, shorten

__all__ = ["ATTACK", "BUILD", "COMMANDS", "GATHER", "MOVE", "NOTHING", "Rules", "UnitKind"]

NOTHING, MOVE, ATTACK, GATHER, BUILD = range(5)
COMMANDS = ("nothing", "move", "attack", "gather", "build")
"""The durative commands of the engine; a game may add others after them."""

RADIUS = 0.25
"""Of every unit and building."""
CROWD_TICKS, CROWD_MOVES = 30, 250
"""The number of failed moves within a number of ticks that ends a game without a winner."""
PLAN_TICKS, PLAN_ROOM = 10, 64
"""The ticks for which a path is used again, and the number that a player keeps."""
BULLET_SPEED, BULLET_REACH = 0.2, 0.3
MOST_BULLETS = 256
"""The largest number of bullets at a time; further shots miss."""
HARVEST = 5
"""The load of a worker."""


@dataclass(frozen=True)
class UnitKind:
    """The numbers of one kind of unit.

    Args:
        name: Name of the type.
        cost: Price for its player.
        hp: Hit points at first.
        defence: Number subtracted from each damage.
        speed: Cells per tick.
        attack: Damage of a hit, before defence.
        range: Range of its weapon in cells; above 1 it shoots bullets.
        vision: Number of cells that it sees, counted along the axes.
        attack_ticks: Ticks from one shot to the next.
        gather_ticks: Ticks to take a load off a resource.
        build_ticks: Ticks to build anything.
        commands: Commands that it accepts.
        builds: The kinds that it can build.
        is_building: True if it finishes one command before it takes another.
        is_resource: True if loads are gathered from it.
        is_store: True if its player's loads are brought to it.
        is_known: True if the enemy knows its place from the beginning.
    """

    name: str
    cost: int = 0
    hp: int = 1
    defence: int = 0
    speed: float = 0.0
    attack: int = 0
    range: int = 0
    vision: int = 0
    attack_ticks: int = 0
    gather_ticks: int = 0
    build_ticks: int = 0
    commands: tuple[int, ...] = ()
    builds: tuple[str, ...] = ()
    is_building: bool = False
    is_resource: bool = False
    is_store: bool = False
    is_known: bool = False


@dataclass(frozen=True)
class Rules:
    """The rules of a game.

    Args:
        kinds: Its kinds of units, in the order of their numbers.
        size: Cells from left to right and from top to bottom.
        max_tick: Time at which the game ends in any case.
        resource: The money of each player at first.
        most_units: The most units that each player can have at a time.
        has_walls: True if the map has walls, between which plans count near bodies only.
        extra_commands: Names of durative commands that only this game has.

    Raises:
        SettingError: The numbers make the game impossible.
    """

    kinds: tuple[UnitKind, ...]
    size: int = 20
    max_tick: int = 30_000
    resource: int = 0
    most_units: int = 32
    has_walls: bool = False
    extra_commands: tuple[str, ...] = ()
    number: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Check all numbers, else SettingError."""
        names = [kind.name for kind in self.kinds]
        if not names or len(set(names)) < len(names):
            raise SettingError(
                "the kinds of units need names of their own",
                expected="at least one, all different",
                received=shorten(names),
            )
        object.__setattr__(self, "number", {name: i for i, name in enumerate(names)})
        limits = {"size": (4, 64), "max_tick": (1, 10**8), "resource": (0, 10**6)}
        for name, (least, most) in {**limits, "most_units": (1, 500)}.items():
            check_number(f"rules: {name}", getattr(self, name), least, most)
        for kind in self.kinds:
            bounds = dict.fromkeys(("cost", "defence", "attack", "range", "vision"), 10**6)
            bounds |= dict.fromkeys(("attack_ticks", "gather_ticks", "build_ticks", "hp"), 10**6)
            for name, greatest in {**bounds, "speed": 1}.items():
                what, least = f"unit {kind.name!r}: {name}", 1 if name == "hp" else 0
                check_number(what, getattr(kind, name), least, greatest)
            unknown = [name for name in kind.builds if name not in self.number]
            if unknown:
                raise SettingError(
                    f"unit {kind.name!r} builds what there is not",
                    expected=f"kinds among {', '.join(names)}",
                    received=shorten(unknown),
                )

    def table(self) -> npt.NDArray[np.float64]:
        """All numbers as an array that compiled code reads. Shape: (kinds, columns).

        The columns are cost, hp, defence, speed, attack, range, vision, ticks of attack, gather
        and build, the sum of 2^command of allowed commands, the sum of 2^kind of what it builds,
        whether it is a building, a resource, and a store.
        """
        return np.array(
            [
                (
                    *(kind.cost, kind.hp, kind.defence, kind.speed, kind.attack, kind.range),
                    *(kind.vision, kind.attack_ticks, kind.gather_ticks, kind.build_ticks),
                    sum(1 << command for command in set(kind.commands)),
                    sum(1 << self.number[name] for name in set(kind.builds)),
                    kind.is_building,
                    kind.is_resource,
                    kind.is_store,
                )
                for kind in self.kinds
            ],
            np.float64,
        )
