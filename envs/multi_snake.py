"""MultiSnake: snakes of different colours share a board, and each eats food of its own colour.

env = MultiSnake(num_snakes=2)
observation = env.reset()
observation = env.act(crawl_to_food(observation))

"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any, ClassVar, TypeAlias

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_flag, check_whole
from entity_env.drawing import Sign
from entity_env.errors import SettingError, shorten
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import (
    ActionName,
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    Feature,
    ObsSpace,
)

from .board_picture import PLAYERS, Tiled
from .checks import read_choices
from .grid import MOVES, STEPS, Board, Tile, distances, is_on, next_tile
from .small_game import SmallGame, as_it_is, maybe

__all__ = [
    "MOVES",
    "STEPS",
    "WAY",
    "MultiSnake",
    "Rows",
    "Snake",
    "crawl_to_food",
    "in_pieces",
    "show_board",
    "show_views",
    "snake_entities",
]


Rows: TypeAlias = dict[str, list[tuple[int, ...]]]
"""The features of each entity type, a tuple for each entity."""
# Next to a head a tile more or less is everything, and on the other side of the board nothing.
WAY: list[Feature] = [Continuous("x", mean=0.0, std=2.0), Continuous("y", mean=0.0, std=2.0)]
"""The features of a way (x, y), scaled for those who stand next to its end."""


def snake_entities(num_snakes: int, relative: bool) -> dict[str, Entity]:
    """Return the entity types of ``show_views``, or else those of ``show_board``."""
    tile = Entity(["x", "y", Discrete("snake", num_snakes)])
    if not relative:
        return {"SnakeHead": tile, "SnakeBody": tile, "Food": tile}
    seen = [*WAY, Discrete("viewer", num_snakes)]
    thing = Entity([*seen, Discrete("own", 2, names=("no", "yes"))])
    return {"SnakeHead": tile, "SnakeBody": thing, "Food": thing, "OtherHead": Entity(seen)}


def show_board(snakes: Sequence[Sequence[Tile]], food: Sequence[Tile | None]) -> Rows:
    """Return all entities once, with their tiles."""
    numbered = list(enumerate(snakes))
    return {
        "SnakeHead": [(*snake[0], i) for i, snake in numbered],
        "SnakeBody": [(*tile, i) for i, snake in numbered for tile in snake[1:]],
        "Food": [(*tile, i) for i, tile in enumerate(food) if tile is not None],
    }


def show_views(snakes: Sequence[Sequence[Tile]], food: Sequence[Tile | None]) -> Rows:
    """Return the heads where they are, and all else once for each of them, as the way to it."""
    board = show_board(snakes, food)
    heads = board["SnakeHead"]
    shown: Rows = {"SnakeHead": heads, "SnakeBody": [], "Food": [], "OtherHead": []}
    for from_x, from_y, viewer in heads:
        for name in ("SnakeBody", "Food"):
            shown[name] += [
                (x - from_x, y - from_y, viewer, int(i == viewer)) for x, y, i in board[name]
            ]
        shown["OtherHead"] += [(x - from_x, y - from_y, viewer) for x, y, i in heads if i != viewer]
    return shown


Snake: TypeAlias = list[Tile]
"""The tiles of a snake, head first."""


class MultiSnake(Tiled, SmallGame):
    """Snakes of different colours share a board, and each eats food of its own colour.

    Entities:
        ``SnakeHead`` [x, y, snake], with the ids ("SnakeHead", 0), ("SnakeHead", 1), ...;
        ``SnakeBody`` [x, y, snake], the other tiles of all snakes; ``Food`` [x, y, snake]. x goes
        to the right, y up, (0, 0) is bottom left. ``snake`` is the number of the snake, which is
        its colour. With ``relative`` all but the heads are there once for each snake, as its head
        sees them: ``SnakeBody`` and ``Food`` [x, y, viewer, own], ``OtherHead`` [x, y, viewer],
        where (x, y) is the way from the head of snake ``viewer``, and ``own`` is 1 for what is
        its own.
    Actions:
        ``Move``: each head goes Right, Left, Up or Down; the mask forbids the way back into the
        snake's own neck. All snakes move at once:

        1. Each head moves one tile. A snake whose head is on its own food grows: its tail stays.
           Of the others the tail follows. A snake starts with one tile.
        2. A head off the board, on food of another colour, on the body of any snake, or on another
           head ends the game. The tile that a tail has just left is free.
        3. Food that was eaten appears again on a free tile, until its snake is ``max_length`` long.
           A snake of that length has no food; it only has to stay alive.
    Reward:
        1 / (num_snakes * (max_length - 1)) for each growth, 0.1 / num_snakes by default, also in
        the step that ends the game. 1.0 in all is the most.
    End:
        A collision as above, or all snakes of full length. ``max_steps`` steps truncate the
        episode. The last observation has the metric ``win``, 1.0 if all snakes are full-grown.
    Randomness:
        The start: heads and then food, all on different tiles. Each new food: one of the tiles
        without snake and food, each as likely as any other.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        num_snakes: Snakes, 1 to 10.
        board_size: Tiles from left to right and from bottom to top, at most 1000.
        max_length: The length of a full-grown snake, 2 to 10,000.
        max_steps: Steps until the episode is cut off, at most 10^9.
        relative: True if each snake has its own view of bodies, food and other heads.

    Raises:
        SettingError: A parameter of the wrong type or range, or a board too small for all snakes
            of full length and their food.
    """

    looks: ClassVar = {
        **{c: Sign("", PLAYERS[i % len(PLAYERS)], letter=c) for i, c in enumerate("ABCDEFGHIJ")},
        **{c: Sign("", PLAYERS[i % len(PLAYERS)], "box") for i, c in enumerate("abcdefghij")},
        **{c: Sign("", PLAYERS[i % len(PLAYERS)], "diamond") for i, c in enumerate("0123456789")},
    }

    _action_space = {"Move": CategoricalActionSpace(MOVES)}
    _saved = {
        "snakes": [[(whole, whole)]],
        "food": [maybe((whole, whole))],
        "crashed": as_it_is,
        "steps": whole,
    }

    def __init__(
        self,
        num_snakes: int = 2,
        board_size: int = 10,
        max_length: int = 11,
        max_steps: int = 180,
        relative: bool = True,
    ) -> None:
        self.num_snakes = check_whole("num_snakes", num_snakes, 1, 10)
        self.board_size = check_whole("board_size", board_size, 1, 1000)
        self.max_length = check_whole("max_length", max_length, 2, 10_000)
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000_000)
        self.relative = check_flag("relative", relative)
        if board_size**2 < num_snakes * (max_length + 1):
            raise SettingError(
                f"a board of {board_size} x {board_size} tiles is too small for {num_snakes} "
                f"snakes of length {max_length} and their food",
                expected=f"at least {num_snakes * (max_length + 1)} tiles",
                received=f"{board_size**2} tiles",
                about="board_size num_snakes max_length",
            )
        self.snakes: list[Snake] = []
        self.food: list[Tile | None] = []
        self.crashed = False
        self._mask: list[tuple[bool, ...]] = []
        self._obs_space = ObsSpace(entities=snake_entities(self.num_snakes, self.relative))
        self._ids = [("SnakeHead", i) for i in range(self.num_snakes)]
        self._growth = 1.0 / (self.num_snakes * (self.max_length - 1))

    @property
    def over(self) -> bool:
        """True after a collision, or if all snakes are full-grown."""
        return self.crashed or self.won

    @property
    def won(self) -> bool:
        """True if all snakes live and are full-grown."""
        return not self.crashed and all(len(snake) == self.max_length for snake in self.snakes)

    def _begin(self) -> None:
        size, count = self.board_size, self.num_snakes
        drawn = self.rng.choice(size * size, 2 * count, replace=False).tolist()
        tiles = [(tile % size, tile // size) for tile in drawn]
        self.snakes = [[tile] for tile in tiles[:count]]
        self.food = list(tiles[count:])
        self.crashed = False

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        moves = read_choices(actions, "Move", self._ids, MOVES, self._mask)
        eaten = []
        for i, (snake, move) in enumerate(zip(self.snakes, moves, strict=True)):
            head = next_tile(snake[0], move)
            if head == self.food[i]:
                eaten.append(i)
                self.snakes[i] = [head, *snake]
            else:
                self.snakes[i] = [head, *snake[:-1]]
        self.crashed = self._crashes()
        for i in eaten:
            self.food[i] = None
        for i in eaten:
            if len(self.snakes[i]) < self.max_length:
                self.food[i] = self._free_tile()
        return len(eaten) * self._growth

    def _show(self) -> Observation:
        show = show_views if self.relative else show_board
        self._mask = [_ways(snake) for snake in self.snakes]
        mask = CategoricalActionMask(actor_types=["SnakeHead"], mask=self._mask[:])
        return Observation(
            features=show(self.snakes, self.food),
            ids={"SnakeHead": self._ids[:]},
            actions={"Move": mask},
        )

    def board(self) -> Board:
        """Return the board with y up: A is the head of snake 0, a its body, 0 its food."""
        signs: dict[Tile | None, str] = {tile: str(i) for i, tile in enumerate(self.food)}
        for i, snake in enumerate(self.snakes):
            signs.update(dict.fromkeys(snake[1:], "abcdefghij"[i]))
        signs.update({snake[0]: "ABCDEFGHIJ"[i] for i, snake in enumerate(self.snakes)})
        lengths = ", ".join(str(len(snake)) for snake in self.snakes)
        head = f"step {max(self.steps, 0)} of {self.max_steps}, lengths {lengths}"
        return Board(head, signs, range(self.board_size), range(self.board_size))

    def _crashes(self) -> bool:
        """Return True if a head is where none may be, after all have moved."""
        size = self.board_size
        bodies = {tile for snake in self.snakes for tile in snake[1:]}
        for i, snake in enumerate(self.snakes):
            head = snake[0]
            if not is_on(head, size) or head in bodies:
                return True
            if self.num_snakes > 1:
                bodies.add(head)
                if any(head == tile for other, tile in enumerate(self.food) if other != i):
                    return True
        return False

    def _free_tile(self) -> Tile:
        taken = {tile for snake in self.snakes for tile in snake} | set(self.food)
        size = self.board_size
        while True:
            tile = int(self.rng.integers(size * size))
            if (tile % size, tile // size) not in taken:
                return tile % size, tile // size

    def _problems(
        self, snakes: list[Snake], food: list[Tile | None], crashed: Any, steps: int
    ) -> dict[str, bool]:
        size = self.board_size
        tiles = [tile for snake in snakes for tile in snake]
        places = tiles + [tile for tile in food if tile is not None]
        grown = [len(snake) == self.max_length for snake in snakes]
        return {
            f"crashed = {shorten(crashed)}": not isinstance(crashed, bool),
            "another number of snakes": not len(snakes) == len(food) == self.num_snakes,
            "a snake of another length": any(not 0 < len(s) <= self.max_length for s in snakes),
            "a snake in pieces": in_pieces(snakes),
            "food for a full-grown snake, or none for another": any(
                is_grown == (tile is not None) for is_grown, tile in zip(grown, food, strict=False)
            ),
            "two things on one tile": not crashed and len(set(places)) < len(places),
            "something off the board": not crashed
            and not all(is_on(tile, size) for tile in places),
            "a negative step": steps < 0,
        }


def in_pieces(snakes: Sequence[Snake]) -> bool:
    """Return True if tiles that follow each other in a snake are not neighbours."""
    return any(
        abs(a[0] - b[0]) + abs(a[1] - b[1]) != 1
        for snake in snakes
        for a, b in itertools.pairwise(snake)
    )


def _ways(snake: Snake) -> tuple[bool, ...]:
    """Return the moves that a head has: all but the one into its neck."""
    if len(snake) == 1:
        return True, True, True, True
    (x, y), (neck_x, neck_y) = snake[:2]
    return neck_x <= x, neck_x >= x, neck_y <= y, neck_y >= y


def crawl_to_food(observation: Observation, board_size: int = 10) -> dict[str, Action]:
    """Send each head a shortest way to its food around all bodies, heads and other food.

    Heads decide one after the other, so that no two go to one tile. Without a way to its food a
    head goes to the free tile from which it can reach the most others. It knows the size of the
    board and does not look further ahead, so it can trap itself. For ``relative=True``.
    """
    features: Any = observation.features
    ids: Any = observation.ids
    mask: Any = (observation.actions or {})["Move"]
    heads = [(int(x), int(y)) for x, y, _ in features["SnakeHead"]]
    taken = {_tile(row, heads) for row in features["SnakeBody"]} | set(heads)
    food = {int(row[2]): _tile(row, heads) for row in features["Food"] if row[3]}
    moves = []
    for i, head in enumerate(heads):
        walls = taken | {tile for snake, tile in food.items() if snake != i}
        allowed = [move for move in range(len(MOVES)) if mask.mask[i][move]]
        move = _best_move(head, food.get(i), allowed, walls, board_size)
        moves.append(move)
        taken.add(next_tile(head, move))
    return {"Move": CategoricalAction(ids["SnakeHead"], np.array(moves), MOVES)}


def _best_move(
    head: Tile, goal: Tile | None, allowed: list[int], walls: set[Tile], size: int
) -> int:
    """Return the move with the shortest way to the goal, or else with the most room."""

    def is_free(tile: Tile) -> bool:
        return is_on(tile, size) and tile not in walls

    tiles = {move: next_tile(head, move) for move in allowed}
    found = {move: distances(tile, is_free) for move, tile in tiles.items() if is_free(tile)}
    if not found:
        return allowed[0]
    ways = {} if goal is None else {m: reach[goal] for m, reach in found.items() if goal in reach}
    if ways:
        return min(ways, key=lambda move: ways[move])
    return max(found, key=lambda move: len(found[move]))


def _tile(row: Any, heads: list[Tile]) -> Tile:
    """Return the tile of a body or food from its offset to a snake's head."""
    x, y = heads[int(row[2])]
    return x + int(row[0]), y + int(row[1])
