"""Tower Defence as an environment: the defender selects the cell where a tower is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.environment import Environment
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from ..errors import check_whole
from .one_world import OneWorld
from .tower_defence import BASE_HP, TOWER_DEFENCE, TowerDefence, aim, build_tower, possible
from .world import World

__all__ = ["ACTION_SPACE", "OBS_SPACE", "TowerDefenceEnv", "observe"]

OBS_SPACE = ObsSpace(
    global_features=["money", "tick", "base hp"],
    entities={
        "Defender": Entity([]),
        "Cell": Entity(["x", "y", Discrete("is", 3), "covers"]),
        "Attacker": Entity(["x", "y", "hp"]),
        "Tower": Entity(["x", "y", "ready"]),
    },
)
"""``is`` of a cell: open, a wall, or a wall with something on it; ``covers``: how many cells of the
attackers' way a tower there would reach."""
ACTION_SPACE: Mapping[ActionName, ActionSpace] = {"Build": SelectEntityActionSpace()}


class TowerDefenceEnv(OneWorld[TowerDefence], Environment):
    """Tower Defence: build towers on walls, so that the base stands when time is up.

    Entities:
        ``Defender`` acts. ``Cell`` [x, y, is, covers]: all 400, row by row. ``Attacker`` [x, y, hp]
        and ``Tower`` [x, y, ready]; ``hp`` is a share, ``ready`` the share of the time to reload
        that has passed. Global: money, tick and the share of the base's hit points.
    Actions:
        ``Build``: the defender selects a cell where a tower is built, or itself: it waits.
    Reward:
        -0.1 for each attacker who reaches the base; 1 for a win, -1 for a defeat, at the end.
    End:
        The base is gone, or ``max_tick``: the defender has won.
    Randomness:
        The maze.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        frame_skip: Every how many ticks the defender acts.
        max_tick: When the defender has won.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    def __init__(self, frame_skip: int = 50, max_tick: int = TOWER_DEFENCE.max_tick) -> None:
        self.max_tick = check_whole("max_tick", max_tick, 1, 4000)
        self.frame_skip = check_whole("frame_skip", frame_skip, 1, max_tick)
        self.game = TowerDefence()

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Build``."""
        return ACTION_SPACE

    def reset(self) -> Observation:
        """Begin a game."""
        return observe(self.begun(self.max_tick), 0.0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Build a tower or wait, and let ``frame_skip`` ticks pass."""
        world, own = self.running(), actions["Build"]
        assert isinstance(own, SelectEntityAction)
        before = base_hp(world)
        aim(world)
        if own.actees[0] != "defender":
            build_tower(world, int(own.actees[0]))  # type: ignore[call-overload]
        world.play_tick()
        while not world.is_over and world.tick % self.frame_skip:
            world.play_tick()
        won = 0.0 if not world.is_over else {0: 1.0, 1: -1.0}.get(world.winner, 0.0)
        return observe(world, base_hp(world) - before + won)


def base_hp(world: World) -> float:
    """Return the share of the base's hit points that is left."""
    base = world.first(0, "TowerBase")
    return 0.0 if base is None else base.hp / BASE_HP


def observe(world: World, reward: float) -> Observation:
    """Return the observation of the defender, who sees everything."""
    size, over, can_build = world.rules.size, world.is_over, possible(world)
    taken = {world.cell(u.x, u.y) for u in world.units.values() if world.kind(u).name != "Attacker"}
    cells = []
    for y in range(size):
        for x in range(size):
            wall, number = world.walls[y][x], y * size + x
            what = (2 if number in taken else 1) if wall else 0
            cells.append([x, y, what, world.notes["covers"][number]])
    reload = world.rules.kinds[world.rules.number["Tower"]].attack_ticks
    towers = [
        [u.x, u.y, min(1.0, (world.tick - u.attacked) / reload)] for u in world.of(0, "Tower")
    ]
    attackers = [[u.x, u.y, u.hp / world.kind(u).hp] for u in world.of(1, "Attacker")]
    shown: dict[str, list[Any]] = {"Defender": [[]], "Cell": cells}
    shown |= {"Attacker": attackers} if attackers else {}
    shown |= {"Tower": towers} if towers else {}
    mask = SelectEntityActionMask(
        actor_types=["Defender"], actee_types=["Defender", "Cell"], mask=[[True, *can_build]]
    )
    ids: dict[str, list[Any]] = {"Defender": ["defender"], "Cell": list(range(size * size))}
    return Observation(
        features=shown,
        ids=ids,
        global_features=[world.resource[0], world.tick, base_hp(world)],
        actions={} if over else {"Build": mask},
        reward=reward,
        done=over,
        metrics={"win": float(world.winner == 0), "base_hp": base_hp(world)} if over else {},
    )
