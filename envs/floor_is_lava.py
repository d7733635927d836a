"""FloorIsLava: a player steps from its tile to the one neighbour that is high ground.

env = FloorIsLava()
observation = env.reset()
observation = env.act(to_high_ground(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any, ClassVar

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_span, check_whole
from entity_env.drawing import Sign
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Entity, ObsSpace, Position

from .board_picture import PLAYERS, Tiled
from .checks import read_choices
from .grid import Board, Tile
from .small_game import SmallGame

__all__ = ["DIRECTIONS", "STEPS", "FloorIsLava", "to_high_ground"]

DIRECTIONS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
"""The way (x, y) of each direction; x grows to the east, y to the north."""

_TILE = Entity([Position("x", "y")])
_MASKS = {"Move": CategoricalActionMask(actor_types=("Player",))}
_PLAYER = ("Player",)


class FloorIsLava(Tiled, SmallGame):
    """A player steps from its tile to the one neighbour that is high ground.

    The positions of tiles relative to the player matter. In a world of 2001 tiles, coordinates of
    neighbours differ by a thousandth of the standard deviation, which a network cannot distinguish
    if it reads them as numbers. They are declared as positions, so that networks read offsets.

    Entities:
        ``Player`` [x, y], ``HighGround`` [x, y], ``Lava`` [x, y], x to the east, y to the north.
        The id of the player is "Player"; the others have none.
    Actions:
        ``Move``: the player moves to one of the 8 tiles around it.
    Reward:
        1.0 for the high ground, else 0.0: for lava, and for a tile with nothing on it.
    End:
        After one move. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        Only the start: x and y of the player, each from ``-world`` to ``world``; how many of the
        tiles around it hold something; which ones, drawn as a permutation of the 8 directions. The
        first is the high ground, the others are lava.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        world: The player starts within this many tiles of (0, 0) on each axis, at most 10^6.
        tiles: Tiles with something on them, 1 to 8: a number, or a pair (least, most) from which
            each episode draws its own.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    looks: ClassVar = {
        "P": Sign("player", PLAYERS[0]),
        "H": Sign("high ground", PLAYERS[2], "box"),
        "L": Sign("lava", PLAYERS[1], "box"),
    }

    _obs_space = ObsSpace(entities={"Player": _TILE, "HighGround": _TILE, "Lava": _TILE})
    _action_space = {"Move": CategoricalActionSpace(DIRECTIONS)}
    _saved = {
        "player": (whole, whole),
        "high_ground": (whole, whole),
        "lava": [(whole, whole)],
        "steps": whole,
    }

    def __init__(
        self, world: int = 1000, tiles: int | tuple[int, int] | list[int] = (1, 8)
    ) -> None:
        self.world = check_whole("world", world, 0, 1_000_000)
        self.tiles = check_span("tiles", tiles, 1, 8)
        self.player: Tile = (0, 0)
        self.high_ground: Tile = (0, 1)
        self.lava: list[Tile] = []

    @property
    def over(self) -> bool:
        """True after one move."""
        return self.steps == 1

    @property
    def won(self) -> bool:
        """True if the player is on the high ground."""
        return self.player == self.high_ground

    def _begin(self) -> None:
        drawn = self.rng.random(3).tolist()  # several times as fast as three whole numbers
        x, y = (int(share * (2 * self.world + 1)) - self.world for share in drawn[:2])
        least, most = self.tiles
        count = least + int(drawn[2] * (most - least + 1))
        ways = self.rng.permutation(8)[:count].tolist()
        around = [(x + STEPS[way][0], y + STEPS[way][1]) for way in ways]
        self.player, self.high_ground, self.lava = (x, y), around[0], around[1:]

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        (move,) = read_choices(actions, "Move", _PLAYER, DIRECTIONS)
        (x, y), (dx, dy) = self.player, STEPS[move]
        self.player = x + dx, y + dy

    def _show(self) -> Observation:
        return Observation(
            features={
                "Player": [self.player],
                "HighGround": [self.high_ground],
                "Lava": self.lava[:],
            },
            ids={"Player": _PLAYER},
            actions=dict(_MASKS),
        )

    def _problems(
        self, player: Tile, high_ground: Tile, lava: list[Tile], steps: int
    ) -> dict[str, bool]:
        moves = [(x - player[0], y - player[1]) for x, y in (high_ground, *lava)]
        return {
            "a step that is not 0 or 1": steps not in (0, 1),
            "two things on one tile": len(set(moves)) < len(moves),
            "a tile that is not around the player": steps == 0 and not set(moves) <= set(STEPS),
            "another number of tiles": not self.tiles[0] <= len(moves) <= self.tiles[1],
        }

    def board(self) -> Board:
        """Return the tiles around the player with north up: P the player, H high ground, L lava."""
        x, y = self.player
        signs = {**dict.fromkeys(self.lava, "L"), self.high_ground: "H", self.player: "P"}
        return Board(f"player at {x}, {y}", signs, range(x - 2, x + 3), range(y - 2, y + 3))


def to_high_ground(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    (x, y), (to_x, to_y) = features["Player"][0], features["HighGround"][0]
    move = STEPS.index((int(to_x - x), int(to_y - y)))
    return {"Move": CategoricalAction(_PLAYER, np.array([move]), DIRECTIONS)}
