"""TreasureHunt: a hunter collects treasures, which appear again elsewhere, and avoids traps.

env = TreasureHunt(trap_ends=False, relative=True)
observation = env.reset()
observation = env.act(go_to_nearest(observation))  # from ragged_envs.treasure_hunt_script

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import ClassVar

from entity_env.actions import Action
from entity_env.arguments import check_flag, check_whole
from entity_env.drawing import Sign
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import ActionName, Continuous, Entity, GlobalCategoricalActionSpace, ObsSpace

from .board_picture import PLAYERS, Tiled
from .checks import read_global_choice
from .grid import MOVES, STEPS, Board, Tile, next_tile
from .small_game import SmallGame

__all__ = ["EDGE", "MOVES", "STEPS", "TreasureHunt"]

EDGE = 10
"""x and y go from -EDGE to EDGE."""

_SIZE = 2 * EDGE + 1
# Next to the hunter a tile more or less is everything, and 20 tiles away it is nothing.
_NEAR = Entity([Continuous("x", mean=0.0, std=2.0), Continuous("y", mean=0.0, std=2.0)])
_ANYWHERE = Entity(["x", "y"])
_TREASURE, _TRAP = 1.0, -0.5


class TreasureHunt(Tiled, SmallGame):
    """A hunter collects treasures, which appear again elsewhere, and avoids traps.

    Entities:
        ``Trap`` [x, y], ``Treasure`` [x, y], without ids. The global features x and y are the place
        of the hunter, which is not an entity. x goes to the right, y up, both from -10 to 10. With
        ``relative`` traps and treasures are relative to the hunter; the global features are not.
    Actions:
        ``Move``: the hunter goes Right, Left, Up or Down; the mask forbids leaving the world.
    Reward:
        1.0 for a step onto a treasure, -0.5 for a step onto a trap, else 0.0.
    End:
        ``max_steps`` steps truncate the episode. With ``trap_ends`` a trap ends it, and still costs
        0.5; by default traps stay where they are, and the episode continues. All episodes then have
        the same length, so that their returns are comparable, and the cost of a trap does not
        depend on the step. The last observation has the metrics ``treasures`` and ``traps``, their
        numbers.
    Randomness:
        The start: hunter, traps and treasures on different tiles, drawn in this order. Each new
        treasure: one of the tiles without hunter, trap and treasure, each as likely as any other.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        traps: Traps, at most 100.
        treasures: Treasures that are there at any time, 1 to 100.
        trap_ends: True if a trap ends the episode.
        max_steps: Steps until the episode is cut off, at most 10^9.
        relative: True if traps and treasures are relative to the hunter.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    looks: ClassVar = {
        "H": Sign("hunter", PLAYERS[0]),
        "$": Sign("treasure", PLAYERS[3], "diamond"),
        "^": Sign("trap", PLAYERS[1], "square"),
    }

    _action_space = {"Move": GlobalCategoricalActionSpace(MOVES)}
    _saved = {
        "hunter": (whole, whole),
        "traps": [(whole, whole)],
        "treasures": [(whole, whole)],
        "found": {"treasures": whole, "traps": whole},
        "steps": whole,
    }

    def __init__(
        self,
        traps: int = 5,
        treasures: int = 5,
        trap_ends: bool = False,
        max_steps: int = 100,
        relative: bool = True,
    ) -> None:
        self.num_traps = check_whole("traps", traps, 0, 100)
        self.num_treasures = check_whole("treasures", treasures, 1, 100)
        self.trap_ends = check_flag("trap_ends", trap_ends)
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000_000)
        self.relative = check_flag("relative", relative)
        place = _NEAR if self.relative else _ANYWHERE
        entities = {"Trap": place, "Treasure": place}
        self._obs_space = ObsSpace(global_features=["x", "y"], entities=entities)
        self.hunter: Tile = (0, 0)
        self.traps: list[Tile] = []
        self.treasures: list[Tile] = []
        self.found = {"treasures": 0, "traps": 0}

    @property
    def over(self) -> bool:
        """True if a trap has ended the episode."""
        return self.trap_ends and self.found["traps"] > 0

    def _begin(self) -> None:
        count = 1 + self.num_traps + self.num_treasures
        drawn = self.rng.choice(_SIZE * _SIZE, count, replace=False).tolist()
        tiles = [_tile(number) for number in drawn]
        self.hunter = tiles[0]
        self.traps, self.treasures = tiles[1 : 1 + self.num_traps], tiles[1 + self.num_traps :]
        self.found = {"treasures": 0, "traps": 0}

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        self.hunter = next_tile(
            self.hunter, read_global_choice(actions, "Move", MOVES, self._mask())
        )
        if self.hunter in self.treasures:
            self.found["treasures"] += 1
            self.treasures[self.treasures.index(self.hunter)] = self._free_tile()
            return _TREASURE
        if self.hunter in self.traps:
            self.found["traps"] += 1
            return _TRAP
        return 0.0

    def _show(self) -> Observation:
        x, y = self.hunter if self.relative else (0, 0)
        return Observation(
            features={
                "Trap": [(trap_x - x, trap_y - y) for trap_x, trap_y in self.traps],
                "Treasure": [(there_x - x, there_y - y) for there_x, there_y in self.treasures],
            },
            actions={"Move": GlobalCategoricalActionMask(self._mask())},
            global_features=self.hunter,
            metrics=dict(self.found) if self.done else {},
        )

    def _problems(
        self,
        hunter: Tile,
        traps: list[Tile],
        treasures: list[Tile],
        found: dict[str, int],
        steps: int,
    ) -> dict[str, bool]:
        others = traps + treasures
        return {
            "another number of traps": len(traps) != self.num_traps,
            "another number of treasures": len(treasures) != self.num_treasures,
            "two things on one tile": len(set(others)) < len(others),
            "the hunter on a treasure": hunter in treasures,
            "something outside of the world": any(
                not (-EDGE <= x <= EDGE and -EDGE <= y <= EDGE) for x, y in (hunter, *others)
            ),
            "a negative number": min(steps, *found.values()) < 0,
        }

    def board(self) -> Board:
        """Return the world with y up: H the hunter, $ treasures, ^ traps."""
        signs = {**dict.fromkeys(self.traps, "^"), **dict.fromkeys(self.treasures, "$")}
        signs[self.hunter] = "H"
        axis = range(-EDGE, EDGE + 1)
        found = f"{self.found['treasures']} treasures and {self.found['traps']} traps so far"
        head = f"step {max(self.steps, 0)} of {self.max_steps}, {found}"
        return Board(head, signs, axis, axis)

    def _mask(self) -> tuple[bool, ...]:
        """Return a mask of the hunter's moves."""
        x, y = self.hunter
        return x < EDGE, x > -EDGE, y < EDGE, y > -EDGE

    def _free_tile(self) -> Tile:
        taken = {self.hunter, *self.traps, *self.treasures}
        while True:
            tile = _tile(int(self.rng.integers(_SIZE * _SIZE)))
            if tile not in taken:
                return tile


def _tile(number: int) -> Tile:
    """Return the tile with a number from 0, row by row."""
    return number % _SIZE - EDGE, number // _SIZE - EDGE
