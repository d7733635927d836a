"""Mini-RTS by commands to each unit: what every unit may be told, and telling it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entity_env.observation import CategoricalActionMask, Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, ActionSpace, CategoricalActionSpace
from entity_env.spaces import SelectEntityActionSpace as Select

from .minirts_view import observe
from .rules import ATTACK, BUILD, GATHER, MOVE
from .world import GOING, NOWHERE, Command, Unit, World, single

__all__ = ["COMMANDS", "UNIT_ACTIONS", "LegalCommands", "legal", "observe_units", "tell_units"]

BUILT = ("Worker", "Barracks", "Melee", "Range")
WAYS = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1))
COMMANDS = (
    *("None", "Attack", "Gather", *(f"Build{name}" for name in BUILT)),
    *("Left", "Right", "Up", "Down", "UpLeft", "UpRight", "DownLeft", "DownRight"),
)
NONE, TO_ATTACK, TO_GATHER, TO_BUILD = range(4)
TO_MOVE = TO_BUILD + len(BUILT)
FAR, BESIDE = 2.0, 0.75
"""The cells of one move, and the distance from a worker at which a barracks is begun: so near
that it is paid at once."""
UNIT_ACTIONS: Mapping[ActionName, ActionSpace] = {
    "Command": CategoricalActionSpace(list(COMMANDS)),
    "Target": Select(),
}
"""The target counts only for those who attack."""


@dataclass(frozen=True)
class LegalCommands:
    """The legal commands of one unit.

    Args:
        unit: The unit.
        mask: Which of ``COMMANDS``. Shape: (15,).
    """

    unit: Unit
    mask: list[bool]


def targets(world: World, player: int, fog: bool) -> list[Unit]:
    """Return the enemies to attack: those in sight, then remembered buildings."""
    others = [u for u in world.of(1 - player) if world.kind(u).name != "Resource"]
    seen = [u for u in others if not fog or world.sees(player, u.x, u.y)]
    known = [u for u in others if u not in seen and (u.seen or world.kind(u).name == "Base")]
    return seen + known


def legal(world: World, player: int, fog: bool) -> list[LegalCommands]:
    """Every unit that may be told something, and what: all that the engine will then do.

    Money counts once: a unit may build what is left when all before it build what costs them most,
    and workers on their way to something have paid for it.
    """
    kinds, number = world.rules.kinds, world.rules.number
    can_gather = all(world.first(player, name) is not None for name in ("Resource", "Base"))
    can_attack = bool(targets(world, player, fog))
    money = world.resource[player]
    for unit in world.of(player):
        own = unit.command
        if own is not None and own.kind == BUILD and own.phase == GOING:
            money -= kinds[own.builds].cost
    told = []
    for unit in world.of(player):
        kind = world.kind(unit)
        if not kind.commands or (kind.is_building and unit.command is not None):
            continue
        mask = [False] * len(COMMANDS)
        mask[NONE] = True
        mask[TO_ATTACK] = can_attack and ATTACK in kind.commands
        mask[TO_GATHER] = can_gather and GATHER in kind.commands
        if BUILD in kind.commands and (kind.is_building or beside(world, unit) is not None):
            for i, name in enumerate(BUILT):
                mask[TO_BUILD + i] = name in kind.builds and kinds[number[name]].cost <= money
        if MOVE in kind.commands:
            for i in range(len(WAYS)):
                mask[TO_MOVE + i] = is_way(world, unit, i)
        told.append(LegalCommands(unit, mask))
        costs = [kinds[number[name]].cost for i, name in enumerate(BUILT) if mask[TO_BUILD + i]]
        money -= max(costs, default=0)
    return told


def is_way(world: World, unit: Unit, way: int) -> bool:
    """Return True if there is ground where a unit would move to."""
    x, y = unit.x + FAR * WAYS[way][0], unit.y + FAR * WAYS[way][1]
    last = world.rules.size - 1
    return 0 <= x <= last and 0 <= y <= last and world.is_ground(x, y)


def beside(world: World, unit: Unit) -> tuple[float, float] | None:
    """Return the first free of four points where a worker can build."""
    last = world.rules.size - 1
    for dx, dy in WAYS[:4]:
        x, y = single(unit.x + BESIDE * dx), single(unit.y + BESIDE * dy)
        if 0 <= x <= last and 0 <= y <= last and world.can_pass(x, y):
            return x, y
    return None


def tell_units(world: World, player: int, told: Mapping[int, tuple[int, int]]) -> None:
    """Tell units what to do.

    Args:
        world: The game.
        player: Who tells them.
        told: For each unit, by its number, which of ``COMMANDS``, and the number of its target.
    """
    for uid, (what, target) in told.items():
        unit = world.units.get(uid)
        if unit is None or what == NONE:
            continue
        command = Command(ATTACK, target=target)
        if what >= TO_MOVE:
            dx, dy = WAYS[what - TO_MOVE]
            command = Command(MOVE, unit.x + FAR * dx, unit.y + FAR * dy)
        elif what >= TO_BUILD:
            builds = world.rules.number[BUILT[what - TO_BUILD]]
            place = None if world.kind(unit).is_building else beside(world, unit)
            x, y = place or (NOWHERE, NOWHERE)
            command = Command(BUILD, x, y, builds=builds)
        elif what == TO_GATHER:
            base, resource = world.first(player, "Base"), world.first(player, "Resource")
            if base is not None and resource is not None:
                command = Command(GATHER, target=resource.uid, base=base.uid)
        world.send(player, uid, command)


def observe_units(world: World, player: int, reward: float, fog: bool) -> Observation:
    """Return the observation of a player who commands single units."""
    shown = observe(world, player, reward, fog)
    own = [u.uid for u in world.of(player) if world.kind(u).name != "Resource"]
    known, seen = targets(world, player, fog), shown.features or {}
    count = len(seen.get("Enemy") or [])
    shown.ids = {
        "Own": own,
        "Enemy": [u.uid for u in known[:count]],
        "Remembered": [u.uid for u in known[count:]],
    }
    if world.is_over:
        return shown
    told = legal(world, player, fog)
    attackers = [own.unit.uid for own in told if own.mask[TO_ATTACK]]
    actions: dict[str, Any] = {}
    if told:
        actions["Command"] = CategoricalActionMask(
            actor_ids=[own.unit.uid for own in told], mask=[own.mask for own in told]
        )
    if attackers:
        actions["Target"] = SelectEntityActionMask(
            actor_ids=attackers, actee_types=["Enemy", "Remembered"]
        )
    shown.actions = actions
    return shown
