"""Pursuit: hunters catch runners among walls, with limited sight, and runners come back.

game = Pursuit(hunters=3, runners=3)
seats = game.reset()
seats = game.act({seat: chase_or_flee(seen) for seat, seen in seats.items()})

"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import index as whole
from typing import Any, ClassVar

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_whole
from entity_env.drawing import Sign
from entity_env.errors import SettingError, counted
from entity_env.multi_player import Seat, SeatActions, SeatObservations
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, ObsSpace

from .board_picture import INK, PLAYERS, Tiled
from .checks import check_running, check_started, read_choices
from .grid import Board, Tile, distances, is_on
from .multi_snake import WAY
from .small_game import SeatGame, maybe

__all__ = ["MOVES", "OBS_SPACE", "STEPS", "Pursuit", "chase_or_flee"]


MOVES = ("Stay", "Right", "Left", "Up", "Down")
STEPS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""The way (x, y) of each move."""

OBS_SPACE = ObsSpace(
    entities={
        "Me": Entity(["x", "y", Discrete("hunts", 2, names=("no", "yes")), "steps_left"]),
        "Hunter": Entity(WAY),
        "Runner": Entity(WAY),
        "Wall": Entity(WAY),
    }
)
_MOST_LAYOUTS = 1000


class Pursuit(Tiled, SeatGame):
    """A team of hunters catches a team of runners; a caught runner comes back in another place.

    Entities:
        ``Me`` [x, y, hunts, steps_left], the seat itself, with the id "me": its tile, 1 for a
        hunter, and the steps until the end. ``Hunter``, ``Runner``, ``Wall`` [x, y] at most
        ``sight`` tiles away in x and in y, as offsets.
    Actions:
        ``Move``: Stay, Right, Left, Up or Down; walls and the edge of the board are masked. All
        move at once, and may stand on one tile. A runner is caught that is on the tile of a hunter
        afterwards, or has changed places with one.
    Reward:
        1.0 for each runner that is caught, shared by the hunters who caught it; -1.0 for the
        runner.
    End:
        A runner is out when it is caught, and comes in again ``rejoin`` steps later, out of the
        sight of all hunters where there is such a tile. All are out after ``max_steps``. The last
        observation of a hunter has the metrics ``catches``, its own, and ``team_catches``; that of
        a runner has ``win``, 1.0 if the time is up and 0.0 if it was caught.
    Randomness:
        Walls, between which all tiles can be reached; where all begin, and where runners come back.
    Source:
        After the pursuit problem of Benda, Jagannathan and Dodhiawala, 1986.

    Args:
        hunters: At least 1, at most 20.
        runners: At least 1, at most 20.
        board_size: Tiles from left to right and from bottom to top, 4 to 100.
        walls: Number of walls.
        sight: Distance that all agents see, at least 1.
        rejoin: Steps that a runner is out.
        max_steps: Steps of a game, at most 10^6.

    Raises:
        SettingError: A parameter of the wrong type or range, or more walls than leave half of the
            board free.
    """

    looks: ClassVar = {
        "H": Sign("hunter", PLAYERS[1]),
        "r": Sign("runner", PLAYERS[0]),
        "#": Sign("wall", INK, "box"),
    }

    _obs_space = OBS_SPACE
    _action_space = {"Move": CategoricalActionSpace(MOVES)}
    _saved = {
        "walls": [(whole, whole)],
        "places": [maybe((whole, whole))],
        "back_at": [whole],
        "catches": [float],
        "steps": whole,
    }

    def __init__(
        self,
        hunters: int = 3,
        runners: int = 3,
        board_size: int = 9,
        walls: int = 12,
        sight: int = 3,
        rejoin: int = 4,
        max_steps: int = 50,
    ) -> None:
        self.hunters = check_whole("hunters", hunters, 1, 20)
        self.runners = check_whole("runners", runners, 1, 20)
        self.board_size = check_whole("board_size", board_size, 4, 100)
        self.count_walls = check_whole("walls", walls, 0)
        self.sight = check_whole("sight", sight, 1)
        self.rejoin = check_whole("rejoin", rejoin, 1)
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000)
        if walls + hunters + runners > board_size**2 // 2:
            raise SettingError(
                f"{counted(walls, 'wall')} and {hunters + runners} players are too many here",
                expected=f"at most {counted(board_size**2 // 2, 'tile')}",
                received=walls + hunters + runners,
                about="walls hunters runners board_size",
            )
        self._seats = [f"hunter {i}" for i in range(hunters)]
        self._seats += [f"runner {i}" for i in range(runners)]
        self.walls: set[Tile] = set()
        self.places: list[Tile | None] = []  # of hunters, then of runners; None: is out
        self.back_at = [0] * runners  # the step in which a runner that is out comes back
        self.catches = [0.0] * hunters

    def teams(self) -> Mapping[str, Collection[str]]:
        """Return the teams of hunters and runners."""
        return {"hunters": self._seats[: self.hunters], "runners": self._seats[self.hunters :]}

    def _begin(self) -> None:
        for _ in range(_MOST_LAYOUTS):
            drawn = self.rng.permutation(self.board_size**2).tolist()
            tiles = [(tile % self.board_size, tile // self.board_size) for tile in drawn]
            self.walls = set(tiles[: self.count_walls])
            if self._is_connected(tiles[self.count_walls :]):
                break
        else:
            self.walls = set()  # such a board has hardly any connected layout
        self.places = list(tiles[self.count_walls :][: len(self._seats)])
        self.back_at = [0] * self.runners
        self.catches = [0.0] * self.hunters

    def act(self, actions: SeatActions) -> SeatObservations:
        """Move all who are in the game."""
        check_running(self.steps, self.is_done)
        moves = {
            i: read_choices(
                actions.get(self._seats[i], {}), "Move", ["me"], MOVES, [self._ways(place)]
            )[0]
            for i, place in enumerate(self.places)
            if place is not None
        }
        before = list(self.places)
        self.steps += 1
        for i, move in moves.items():
            x, y = before[i]  # type: ignore[misc]
            self.places[i] = x + STEPS[move][0], y + STEPS[move][1]
        rewards: dict[int, float] = dict.fromkeys(moves, 0.0)
        caught = []
        for runner in range(self.hunters, len(self._seats)):
            if runner not in moves:
                continue
            own = self.places[runner]
            catching = [
                i
                for i in range(self.hunters)
                if self.places[i] == own or (self.places[i], before[i]) == (before[runner], own)
            ]
            for i in catching:
                rewards[i] += 1 / len(catching)
                self.catches[i] += 1 / len(catching)
            if catching:
                rewards[runner] = -1.0
                caught.append(runner)
        for runner in caught:
            self.places[runner] = None
            self.back_at[runner - self.hunters] = self.steps + self.rejoin
        if not self.is_done:
            for runner, step in enumerate(self.back_at):
                if self.places[self.hunters + runner] is None and step <= self.steps:
                    self.places[self.hunters + runner] = self._hidden_tile()
        told = {runner: self._end(runner, rewards[runner]) for runner in caught}
        if self.is_done:
            left = [i for i, place in enumerate(self.places) if place is not None]
            told |= {i: self._end(i, rewards[i]) for i in left}
            self.places = [None] * len(self._seats)
            return {self._seats[i]: told[i] for i in sorted(told)}
        return self._seen(rewards) | {self._seats[i]: told[i] for i in told}

    @property
    def is_done(self) -> bool:
        """True if the time is up."""
        return self.steps >= self.max_steps

    def observe(self, player: int, reward: float = 0.0) -> Observation:
        """Return the observation of a player in the game, after ``reward``."""
        check_started(self.steps)
        place: Any = self.places[player]
        from_x, from_y = place

        def near(tiles: Any) -> list[list[int]]:
            ways = ([x - from_x, y - from_y] for x, y in tiles)
            return [way for way in ways if max(map(abs, way)) <= self.sight]

        others = [
            near(
                self.places[i]
                for i in range(*numbers)
                if i != player and self.places[i] is not None
            )
            for numbers in ((0, self.hunters), (self.hunters, len(self._seats)))
        ]
        left = self.max_steps - self.steps
        return Observation(
            features={
                "Me": [[from_x, from_y, int(player < self.hunters), left]],
                "Hunter": others[0],
                "Runner": others[1],
                "Wall": near(sorted(self.walls)),
            },
            ids={"Me": ["me"]},
            actions={"Move": CategoricalActionMask(actor_ids=["me"], mask=[self._ways(place)])},
            reward=reward,
        )

    def _problems(
        self,
        walls: list[Tile],
        places: list[Tile | None],
        back_at: list[int],
        catches: list[float],
        steps: int,
    ) -> dict[str, bool]:
        there = [place for place in places if place is not None]
        over = steps >= self.max_steps
        return {
            "another number of players": len(places) != len(self._seats)
            or len(back_at) != self.runners
            or len(catches) != self.hunters,
            "something off the board": not all(
                is_on(tile, self.board_size) for tile in (*walls, *there)
            ),
            "somebody in a wall": not set(walls).isdisjoint(there),
            "a hunter who is out": not over and None in places[: self.hunters],
            "somebody in a game that is over": over and bool(there),
            "catches that cannot be": not all(
                0 <= own <= self.max_steps * self.runners for own in catches
            ),
            "a step that there is not": not 0 <= steps <= self.max_steps,
        }

    def _restore(self, **saved: Any) -> None:
        super()._restore(**{**saved, "walls": set(saved["walls"])})

    def board(self) -> Board:
        """Return the board with y up: H for hunters, r for runners, # for walls."""
        signs = dict.fromkeys(self.walls, "#")
        for i, place in enumerate(self.places):
            if place is not None:
                signs[place] = "H" if i < self.hunters else "r"
        caught = f"caught {sum(self.catches):.0f}"
        head = f"step {max(self.steps, 0)} of {self.max_steps}, {caught}"
        return Board(head, signs, range(self.board_size), range(self.board_size))

    def _shown(self) -> SeatObservations:
        return self._seen({})

    def _seen(self, rewards: Mapping[int, float]) -> dict[Seat, Observation]:
        return {
            self._seats[i]: self.observe(i, rewards.get(i, 0.0))
            for i, place in enumerate(self.places)
            if place is not None
        }

    def _end(self, player: int, reward: float) -> Observation:
        """Return the last observation of a player that is out."""
        if player < self.hunters:
            metrics = {"catches": self.catches[player], "team_catches": sum(self.catches)}
        else:
            metrics = {"win": float(reward == 0.0)}
        return Observation(features={}, reward=reward, done=True, metrics=metrics)

    def _ways(self, place: Tile) -> tuple[bool, ...]:
        x, y = place
        tiles = [(x + dx, y + dy) for dx, dy in STEPS]
        return tuple(map(self._is_free, tiles))

    def _is_free(self, tile: Tile) -> bool:
        x, y = tile
        size = self.board_size
        return 0 <= x < size and 0 <= y < size and tile not in self.walls

    def _is_connected(self, free: list[Tile]) -> bool:
        return len(distances(free[0], self._is_free)) == len(free)

    def _hidden_tile(self) -> Tile:
        """Return a tile that no hunter sees, if there is one, else any that no hunter stands on."""
        tiles = [(x, y) for x in range(self.board_size) for y in range(self.board_size)]
        free = [tile for tile in tiles if tile not in self.walls]
        hunters = [place for place in self.places[: self.hunters] if place is not None]

        def away(tile: Tile) -> int:
            return min(max(abs(tile[0] - x), abs(tile[1] - y)) for x, y in hunters)

        fits = [tile for tile in free if away(tile) > self.sight]
        fits = fits or [tile for tile in free if away(tile) > 0]
        return fits[int(self.rng.integers(len(fits)))]


def chase_or_flee(observation: Observation) -> dict[str, Action]:
    """Chase the nearest visible runner, or flee from the nearest hunter.

    A player that sees none keeps to one direction for six steps, turning at walls. Ways are
    measured without walls, so that hunters stop before them.
    """
    features: Any = observation.features
    masks: Any = observation.actions
    x, y, hunts, left = (int(number) for number in features["Me"][0])
    allowed = [move for move in range(len(MOVES)) if np.asarray(masks["Move"].mask)[0][move]]
    wanted = 1 + (7 * x + 3 * y + left // 6 if not hunts else left // 6 + x // 3) % 4
    seen = [(int(dx), int(dy)) for dx, dy in features["Runner" if hunts else "Hunter"]]

    def worth(move: int) -> tuple[float, bool, bool]:
        dx, dy = STEPS[move]
        away = min((abs(a - dx) + abs(b - dy) for a, b in seen), default=0)
        return (-away if hunts else away), move == wanted, move != 0

    best = max(allowed, key=worth)
    return {"Move": CategoricalAction(list(masks["Move"].actor_ids), np.array([best]), MOVES)}
