"""SnakeArena: two to four players steer a snake each, and the last one alive wins.

game = SnakeArena(players=2)
seats = game.reset()
seats = game.act({seat: crawl_safely(seen) for seat, seen in seats.items()})  # snake_arena_script

"""

from __future__ import annotations

import itertools
from operator import index as whole
from typing import ClassVar

from entity_env.arguments import check_whole
from entity_env.drawing import Sign
from entity_env.multi_player import SeatActions, SeatObservations
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, ObsSpace

from .board_picture import INK, PLAYERS, Tiled
from .checks import check_running, check_started, read_choices
from .grid import MOVES, STEPS, Board, Tile, next_tile
from .multi_snake import Snake, in_pieces
from .multi_snake_views import WAY
from .small_game import SeatGame

__all__ = ["OBS_SPACE", "SnakeArena"]

OBS_SPACE = ObsSpace(
    entities={
        "Head": Entity(
            ["x", "y", "length", "steps_left", "others", *(f"free_{m.lower()}" for m in MOVES)]
        ),
        "OtherHead": Entity([*WAY, "longer"]),
        "Body": Entity([*WAY, Discrete("own", 2, names=("no", "yes")), "stays"]),
        "Food": Entity(WAY),
    }
)


class SnakeArena(Tiled, SeatGame):
    """Snakes share a board and its food; one that hits a body dies, and the last one alive wins.

    Entities:
        ``Head`` [x, y, length, steps_left, others, free_right, ...], one's own, with the id
        "head": its tile, how many other snakes live, and for each move whether it leads to a tile
        of the board that no body lies on after all tails have left it. All else as the way (x, y)
        to it from the head: ``OtherHead`` [x, y, longer], by how many tiles that snake is longer
        than one's own; ``Body`` [x, y, own, stays], for how many more moves it lies there if its
        snake does not eat; ``Food`` [x, y].
    Actions:
        ``Move``: the head goes Right, Left, Up or Down; the mask forbids the way back into the
        snake's own neck. All snakes move at once:

        1. Each head moves one tile. A snake whose head is on food grows: its tail stays. Of the
           others the tail follows. Snakes start with two tiles, near the corners.
        2. A snake dies whose head is off the board, on a body, or on the head of a snake that is
           not shorter. Dead snakes leave the board.
        3. Food that was eaten appears anew on a free tile: there is one for each player.
    Reward:
        When a seat is out, by its place: 1.0 for the first, -1.0 for the last, evenly between;
        those who go at the same time have the mean of their places.
    End:
        A seat is out when its snake dies, and the winner when it is alone. After ``max_steps``
        those who live are out together, the longest before the others. The last observation of a
        seat has the metrics ``win``, 1.0 for the first, shared by equals, and ``length``.
    Randomness:
        Which corner a seat has, and where food appears: each free tile as likely as any other.
    Source:
        After the arcade game Blockade (Gremlin, 1976); longer heads win as in Battlesnake.

    Args:
        players: 2 to 4.
        board_size: Tiles from left to right and from bottom to top, 6 to 100.
        max_steps: Steps until the longest snake wins, at most 10^6.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    looks: ClassVar = {
        **{c: Sign("", PLAYERS[i], letter=c) for i, c in enumerate("ABCD")},
        **{c: Sign("", PLAYERS[i], "box") for i, c in enumerate("abcd")},
        "*": Sign("food", INK, "diamond"),
    }

    _obs_space = OBS_SPACE
    _action_space = {"Move": CategoricalActionSpace(MOVES)}
    _saved = {"snakes": [[(whole, whole)]], "food": [(whole, whole)], "steps": whole}

    def __init__(self, players: int = 2, board_size: int = 8, max_steps: int = 150) -> None:
        self.players = check_whole("players", players, 2, 4)
        self.board_size = check_whole("board_size", board_size, 6, 100)
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000)
        self.snakes: list[Snake] = []  # of the dead: nothing
        self.food: list[Tile] = []
        self._seats = [f"snake {i}" for i in range(self.players)]

    def _begin(self) -> None:
        # A snake near each corner, and food anywhere.
        far = self.board_size - 2
        corners = [[(1, 1), (0, 1)], [(far, far), (far + 1, far)]]
        corners += [[(1, far), (0, far)], [(far, 1), (far + 1, 1)]]
        order = self.rng.permutation(self.players)
        self.snakes = [list(corners[i]) for i in order]
        self.food = []
        for _ in range(self.players):
            self._lay_food()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Move all snakes."""
        check_running(self.steps, not self.alive)
        before = self.alive
        moves = {
            i: read_choices(
                actions.get(self._seats[i], {}), "Move", ["head"], MOVES, [self._ways(i)]
            )[0]
            for i in before
        }
        self.steps += 1
        eaten = set()
        for i, move in moves.items():
            snake = self.snakes[i]
            head = next_tile(snake[0], move)
            if head in self.food:
                eaten.add(head)
                self.snakes[i] = [head, *snake]
            else:
                self.snakes[i] = [head, *snake[:-1]]
        dead = self._dying(before)
        lengths = {i: len(self.snakes[i]) for i in before}
        for i in dead:
            self.snakes[i] = []
        self.food = [tile for tile in self.food if tile not in eaten]
        while len(self.food) < self.players and self._free_tiles():
            self._lay_food()
        out = [dead] if dead else []
        if len(self.alive) == 1 or self.steps >= self.max_steps:
            # Of those who live at the end, the shorter ones are out before the longer ones.
            rest = sorted(self.alive, key=lengths.__getitem__)
            out += [list(group) for _, group in itertools.groupby(rest, lengths.__getitem__)]
        told = {}
        place = self.players - len(before)  # how many were out before
        for group in out:
            for i in group:
                told[i] = self._end(i, place, len(group), lengths[i])
            place += len(group)
        if len(told) == len(before):
            self.snakes = [[] for _ in self.snakes]
        told |= {i: self.observe(i) for i in self.alive}
        return {self._seats[i]: told[i] for i in sorted(told)}

    @property
    def alive(self) -> list[int]:
        """The numbers of the seats whose snakes live."""
        return [i for i, snake in enumerate(self.snakes) if snake]

    def observe(self, player: int) -> Observation:
        """Return the observation of a player whose snake lives."""
        check_started(self.steps)
        from_x, from_y = self.snakes[player][0]
        own = len(self.snakes[player])
        others = [i for i in self.alive if i != player]
        stays = self._lying()
        around = [(from_x + dx, from_y + dy) for dx, dy in STEPS]
        free = [self._is_on(tile) and stays.get(tile, 0) < 1 for tile in around]
        heads = [(*self.snakes[i][0], len(self.snakes[i]) - own) for i in others]
        return Observation(
            features={
                "Head": [[from_x, from_y, own, self.max_steps - self.steps, len(others), *free]],
                "OtherHead": [[x - from_x, y - from_y, longer] for x, y, longer in heads],
                "Body": [
                    [x - from_x, y - from_y, int(i == player), len(self.snakes[i]) - 1 - k]
                    for i in self.alive
                    for k, (x, y) in enumerate(self.snakes[i])
                    if k
                ],
                "Food": [[x - from_x, y - from_y] for x, y in self.food],
            },
            ids={"Head": ["head"]},
            actions={"Move": CategoricalActionMask(actor_ids=["head"], mask=[self._ways(player)])},
        )

    def _shown(self) -> SeatObservations:
        return {self._seats[i]: self.observe(i) for i in self.alive}

    def _problems(self, snakes: list[Snake], food: list[Tile], steps: int) -> dict[str, bool]:
        tiles = [tile for snake in snakes for tile in snake] + food
        return {
            "another number of snakes": len(snakes) != self.players,
            "a snake of one tile": any(len(snake) == 1 for snake in snakes),
            "a snake in pieces": in_pieces(snakes),
            "two things on one tile": len(set(tiles)) < len(tiles),
            "something off the board": not all(map(self._is_on, tiles)),
            "too much food": len(food) > self.players,
            "a step that there is not": not 0 <= steps <= self.max_steps,
        }

    def board(self) -> Board:
        """Return the board with y up: A is the head of snake 0, a its body, * food."""
        signs = dict.fromkeys(self.food, "*")
        for i, snake in enumerate(self.snakes):
            signs.update(dict.fromkeys(snake[1:], "abcd"[i]))
        signs.update({snake[0]: "ABCD"[i] for i, snake in enumerate(self.snakes) if snake})
        lengths = ", ".join(str(len(snake)) if snake else "dead" for snake in self.snakes)
        head = f"step {max(self.steps, 0)} of {self.max_steps}, lengths {lengths}"
        return Board(head, signs, range(self.board_size), range(self.board_size))

    def _end(self, player: int, place: int, equals: int, length: int) -> Observation:
        """Return the last observation of a player that is out."""
        mean = place + (equals - 1) / 2
        is_first = place + equals == self.players
        return Observation(
            features={},
            reward=2 * mean / (self.players - 1) - 1,
            done=True,
            metrics={"win": is_first / equals, "length": float(length)},
        )

    def _dying(self, moved: list[int]) -> list[int]:
        bodies = {tile for snake in self.snakes for tile in snake[1:]}
        return [
            i
            for i in moved
            if not self._is_on(self.snakes[i][0])
            or self.snakes[i][0] in bodies
            or any(
                self.snakes[i][0] == self.snakes[j][0]
                and len(self.snakes[i]) <= len(self.snakes[j])
                for j in moved
                if j != i
            )
        ]

    def _lying(self) -> dict[Tile, int]:
        """Return for how many more moves tiles of bodies are taken; 0 for a tail, which leaves."""
        return {
            tile: len(snake) - 1 - k for snake in self.snakes for k, tile in enumerate(snake) if k
        }

    def _ways(self, player: int) -> tuple[bool, ...]:
        """Return the moves that a head has: all but the one into its neck."""
        (x, y), neck = self.snakes[player][:2]
        return tuple((x + dx, y + dy) != neck for dx, dy in STEPS)

    def _is_on(self, tile: Tile) -> bool:
        return 0 <= tile[0] < self.board_size and 0 <= tile[1] < self.board_size

    def _free_tiles(self) -> list[Tile]:
        taken = {tile for snake in self.snakes for tile in snake} | set(self.food)
        size = range(self.board_size)
        return [(x, y) for x in size for y in size if (x, y) not in taken]

    def _lay_food(self) -> None:
        free = self._free_tiles()
        self.food.append(free[int(self.rng.integers(len(free)))])
