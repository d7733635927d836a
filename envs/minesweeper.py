"""MineSweeper: robots walk a board and defuse every mine; an orbital cannon may help.

env = MineSweeper(width=6, height=6, nmines=5, nrobots=2, orbital_cannon=True)
observation = env.reset()
observation = env.act(walk_and_defuse(observation))  # from ragged_envs.minesweeper_script

rows = MineSweeperRows(128, seed=1)
obs = rows.reset()
obs = rows.act(random_policy(seed=1)(obs))  # from entity_env.play

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_span, check_whole
from entity_env.errors import SettingError, counted
from entity_env.hints import ViewerHints
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_int,
)
from entity_env.rows.single_game import CompiledEnvironment
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .minesweeper_drawing import MineBoard, Tile

__all__ = ["DEFUSE", "MOVES", "STEPS", "MineSweeper", "MineSweeperRows"]

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Spanned: TypeAlias = int | tuple[int, int] | list[int]
"""A number, or a pair (least, most) from which each episode draws its own."""

MOVES = ("Right", "Left", "Up", "Down", "Defuse Mines")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""The changes of x and y by the first four choices of ``Move``."""
DEFUSE = 4
"""The index of ``Defuse Mines``."""

_MOST_TILES = 1000
"""The widest and the highest board; each row draws from an array of all tiles."""
_MOST_ENTITIES = 10_000
"""The most mines, robots and cannons; each row has room for them."""
_MOST_STEPS = 1_000_000_000
"""The longest episode: steps are counted in 32 bits."""
_MOST_COOLDOWN = 10_000_000
"""The longest cooldown: a feature, and float32 holds each number up to it."""
_GONE = -(1 << 20)
"""The x of an entity that was removed in this step: far from every tile."""
# What a choice adds to x and y. Arrays: a tuple would be copied to the stack at each use.
_DX = np.array([dx for dx, _ in (*STEPS, (0, 0))])
_DY = np.array([dy for _, dy in (*STEPS, (0, 0))])

OBS_SPACE = ObsSpace(
    entities={
        "Mine": Entity(["x", "y"]),
        "Robot": Entity(["x", "y"]),
        "Orbital Cannon": Entity(["cooldown"]),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {
    "Move": CategoricalActionSpace(MOVES),
    "Fire Orbital Cannon": SelectEntityActionSpace(),
}


class MineSweeperRows(CompiledRows):
    """R rows of MineSweeper, compiled; see ``MineSweeper`` for the game.

    Row i of a seed is the same in any number of rows.

    Args:
        num_envs: The number of rows R.
        seed: Seed of all rows.
        width: Tiles from left to right, at most 1000. This and the next three are whole numbers of
            at least 1, or pairs (least, most) from which each episode draws its own.
        height: Tiles from bottom to top, at most 1000.
        nmines: Mines at the start, as robots and cannons at most 10,000; on a board that is too
            small for the most of a pair, drawn from as many as fit beside the robots.
        nrobots: Robots at the start.
        orbital_cannon: True for one cannon, or the number of cannons.
        cooldown_period: Steps that a cannon waits after a shot, and at the start, at most 10^7.
        max_steps: Steps until the episode is cut off, at most 10^9.
        threads: Number of threads that share the rows.

    Raises:
        SettingError: A parameter of the wrong type or range, or a smallest board without room for
            the least mines and the most robots.
    """

    def __init__(
        self,
        num_envs: int | None,
        seed: int = 0,
        width: Spanned = 6,
        height: Spanned = 6,
        nmines: Spanned = 5,
        nrobots: Spanned = 2,
        orbital_cannon: bool | int = False,
        cooldown_period: int = 5,
        max_steps: int = 100,
        *,
        threads: int = 1,
    ) -> None:
        if isinstance(orbital_cannon, bool | np.bool_):
            orbital_cannon = int(orbital_cannon)
        spans = {
            "width": check_span("width", width, 1, _MOST_TILES),
            "height": check_span("height", height, 1, _MOST_TILES),
            "nmines": check_span("nmines", nmines, 1, _MOST_ENTITIES),
            "nrobots": check_span("nrobots", nrobots, 1, _MOST_ENTITIES),
        }
        _check_room(spans)
        cannons = check_whole("orbital_cannon", orbital_cannon, 0, _MOST_ENTITIES)
        period = check_whole("cooldown_period", cooldown_period, 0, _MOST_COOLDOWN)
        limit = check_whole("max_steps", max_steps, 1, _MOST_STEPS)
        self._largest = spans["width"][1], spans["height"][1]
        super().__init__(_make_game(spans, cannons, period, limit), num_envs, seed, threads=threads)

    def board(self, game: int) -> MineBoard:
        """Return the board of a game."""
        saved = self.save_game(game)
        return MineBoard(
            (saved["width"], saved["height"]),
            [(x, y) for x, y in saved["mines"][: saved["nmines"]]],
            [(x, y) for x, y in saved["robots"][: saved["nrobots"]]],
            saved["cooldowns"],
            int(self._game.settings["period"]),
        )

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the board with y up, and a status bar over it if there are cannons.

        Shape: (height * tile, width * tile, 3), one more ``tile`` high with the status bar.
        """
        return self.board(row).draw(**kwargs)


class MineSweeper(CompiledEnvironment):
    """Robots walk a board and defuse every mine; an orbital cannon may help.

    Entities:
        ``Mine`` [x, y], ``Robot`` [x, y] with x to the right, y up and (0, 0) bottom left;
        ``Orbital Cannon`` [cooldown], absent without cannons. The id of an entity is its type and
        its place in the list of this frame, such as ``("Mine", 0)``: ids move up when an entity
        goes.
    Actions:
        ``Move``: each robot goes Right, Left, Up or Down, or stays to Defuse Mines; the mask
        forbids leaving the board. ``Fire Orbital Cannon``: each cannon with cooldown 0 must select
        a mine or a robot. All robots and cannons act at once, whatever their order:

        1. The cannons fire. What they select is gone, and a robot that is gone does nothing more.
           Cannons that select the same target waste all shots but one.
        2. The other robots move and defuse. Defusing removes every mine at most one tile away
           (Manhattan distance), so nobody is lost to it. Robots may share a tile and swap tiles.
        3. Robots that stand on a mine that is still there are lost; the mine stays.

        A cannon starts with ``cooldown = cooldown_period``. A step in which it fires sets that
        again, any other step takes 1 off, down to 0: it fires in steps ``cooldown_period + 1``,
        ``2 * (cooldown_period + 1)``, ... of an episode.
    Reward:
        1.0 in the step that removes the last mine, by defusing or by cannon, else 0.0.
    End:
        Won without mines, even if the last robot is lost in the same step; lost without robots
        while mines remain. ``max_steps`` steps without either truncate the episode. The last
        observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        Only the start: width, height, robots and mines, in this order, where they may vary, each
        value as likely as any other; then ``nmines + nrobots`` different tiles, the mines' first,
        drawn as one permutation of the tiles ``y * width + x``.
    Source:
        The grid world of the Entity Gym tutorials (github.com/entity-neural-network/entity-gym).

    The arguments are those of ``MineSweeperRows`` without ``num_envs`` and ``seed``.
    """

    rows = MineSweeperRows
    _rows: MineSweeperRows

    @classmethod
    def from_state(
        cls,
        mines: Sequence[Tile],
        robots: Sequence[Tile],
        cooldowns: Sequence[int] = (),
        *,
        width: int = 6,
        height: int = 6,
        cooldown_period: int = 5,
        max_steps: int = 100,
        steps: int = 0,
    ) -> MineSweeper:
        """Return a game in progress: mines and robots as (x, y), one cooldown for each cannon."""
        counts = len(mines), len(robots), len(cooldowns)
        env = cls(width, height, *counts, cooldown_period, max_steps)
        env.reset()
        state = env.get_state()
        state["rows"][0]["env"] |= {
            "mines": [[*tile] for tile in mines],
            "robots": [[*tile] for tile in robots],
            "cooldowns": [*cooldowns],
            "steps": steps,
        }
        env.set_state(state)
        return env

    def viewer_hints(self) -> ViewerHints:
        """Return the size of the largest board."""
        width, height = self._rows._largest
        return ViewerHints(bounds=(0, width - 1, 0, height - 1))

    def render_text(self) -> str:
        """Return the board with y up; M0 is the mine ("Mine", 0), R1 the robot ("Robot", 1)."""
        steps, limit = self.fields()["steps"], self._rows._game.max_steps
        return f"step {steps} of {limit}, {self._rows.board(0).text()}"


MineSweeperRows.environment = MineSweeper


def _check_room(spans: dict[str, tuple[int, int]]) -> None:
    """Raise SettingError if the smallest board has no room for the fewest mines."""
    # The mines are drawn last, from as many as the board then holds.
    (width, _), (height, _), (mines, _), (_, robots) = spans.values()
    if width * height < mines + robots:
        raise SettingError(
            f"a board of {width} x {height} tiles is too small for "
            f"{counted(mines, 'mine')} and {counted(robots, 'robot')}",
            expected=f"at least {counted(mines + robots, 'tile')}",
            received=counted(width * height, "tile"),
            about="width height nmines nrobots",
        )


def _make_game(
    spans: dict[str, tuple[int, int]], cannons: int, period: int, max_steps: int
) -> CompiledGame:
    (_, mines), (_, robots) = spans["nmines"], spans["nrobots"]
    least, most = (_GONE, 0), (_MOST_TILES - 1, _MOST_TILES - 1)
    return CompiledGame(
        obs_space=OBS_SPACE,
        action_space=ACTION_SPACE,
        state={
            "mines": Field((mines, 2), least=least, most=most),
            "robots": Field((robots, 2), least=least, most=most),
            "cooldowns": Field((cannons,), least=0, most=period),
            "width": Field(least=spans["width"][0], most=spans["width"][1]),
            "height": Field(least=spans["height"][0], most=spans["height"][1]),
            "nmines": Field(least=1, most=mines),
            "nrobots": Field(least=1, most=robots),
            "win": Field(least=0, most=1),
        },
        settings={f"least_{name}": least for name, (least, _) in spans.items()}
        | {f"most_{name}": most for name, (_, most) in spans.items()}
        | {"period": period},
        reset=_reset,
        step=_step,
        entities={
            "Mine": Entities("mines", count="nmines"),
            "Robot": Entities("robots", count="nrobots"),
            "Orbital Cannon": Entities("cooldowns"),
        },
        actions={
            "Move": Actors("Robot", mask=_moves_of),
            "Fire Orbital Cannon": Actors(
                "Orbital Cannon", when=_is_ready, targets=("Mine", "Robot")
            ),
        },
        max_steps=max_steps,
        metrics={"win": "win"},
        problems=_problems,
    )


def _problems(g: Any, game: int) -> dict[str, bool]:
    """Return the mistakes that a saved state can have, True for those that it has."""
    mines = {tuple(tile) for tile in g.mines[game, : g.nmines[game]].tolist()}
    robots = {tuple(tile) for tile in g.robots[game, : g.nrobots[game]].tolist()}
    width, height = g.width[game], g.height[game]
    return {
        "two mines on one tile": len(mines) < g.nmines[game],
        "a robot on a mine": not mines.isdisjoint(robots),
        "an entity off the board": any(
            not (0 <= x < width and 0 <= y < height) for x, y in mines | robots
        ),
    }


def _moves_of(g: Any, game: int, robot: int, allowed: Bools) -> None:
    """Forbid a robot to leave the board."""
    x, y = g.robots[game, robot, 0], g.robots[game, robot, 1]
    allowed[0], allowed[1] = x < g.width[game] - 1, x > 0
    allowed[2], allowed[3] = y < g.height[game] - 1, y > 0


def _is_ready(g: Any, game: int, cannon: int) -> bool:
    """Return True if a cannon must fire."""
    return bool(g.cooldowns[game, cannon] == 0)


def _reset(g: Any, game: int) -> None:
    """Lay out a board."""
    g.width[game] = width = random_int(g.random, game, g.least_width, g.most_width)
    g.height[game] = height = random_int(g.random, game, g.least_height, g.most_height)
    g.nrobots[game] = nrobots = random_int(g.random, game, g.least_nrobots, g.most_nrobots)
    room = min(g.most_nmines, width * height - nrobots)
    g.nmines[game] = nmines = random_int(g.random, game, g.least_nmines, room)
    # The head of a shuffle (Fisher and Yates): every order of different tiles is as likely.
    tiles = np.arange(width * height)
    for i in range(nmines + nrobots):
        other = random_int(g.random, game, i, width * height - 1)
        tile = tiles[other]
        tiles[other] = tiles[i]
        if i < nmines:
            g.mines[game, i, 0], g.mines[game, i, 1] = tile % width, tile // width
        else:
            robot = i - nmines
            g.robots[game, robot, 0], g.robots[game, robot, 1] = tile % width, tile // width
    g.cooldowns[game] = g.period


def _step(g: Any, game: int, moves: I64, shots: I64) -> tuple[float, bool]:
    """Fire, move and defuse, and lose what stands on a mine."""
    _fire(g, game, shots)
    defused = _walk(g, game, moves)
    if defused or len(shots) > 0:
        _keep_mines(g, game)
    _keep_robots(g, game)
    won = g.nmines[game] == 0
    g.win[game] = won
    return 1.0 if won else 0.0, won or g.nrobots[game] == 0


# Loops over mines run to the end of the line, not to the last mine that is left: a constant number
# of rounds is cheaper than a branch that nobody can predict.


@compiled
def _fire(g: Any, game: int, shots: I64) -> None:
    """Every ready cannon removes what it selected."""
    fired = 0
    for cannon in range(g.cooldowns.shape[1]):
        if g.cooldowns[game, cannon] > 0:
            g.cooldowns[game, cannon] -= 1
            continue
        g.cooldowns[game, cannon] = g.period
        target = shots[fired]
        fired += 1
        if target < g.nmines[game]:
            g.mines[game, target, 0] = _GONE
        else:
            g.robots[game, target - g.nmines[game], 0] = _GONE


@compiled
def _walk(g: Any, game: int, moves: I64) -> bool:
    """Move the robots or let them remove mines; return True if one did."""
    defused = False
    for robot in range(len(moves)):
        choice = moves[robot]
        x, y = g.robots[game, robot, 0], g.robots[game, robot, 1]
        if x == _GONE:
            continue
        g.robots[game, robot, 0], g.robots[game, robot, 1] = x + _DX[choice], y + _DY[choice]
        if choice == DEFUSE:
            defused = True
            for mine in range(g.mines.shape[1]):
                there = g.mines[game, mine, 0]
                near = abs(there - x) + abs(g.mines[game, mine, 1] - y) <= 1
                g.mines[game, mine, 0] = _GONE if near else there
    return defused


@compiled
def _keep_mines(g: Any, game: int) -> None:
    """Close the gaps in the list of mines."""
    left, nmines = 0, g.nmines[game]
    for mine in range(g.mines.shape[1]):
        x, y = g.mines[game, mine, 0], g.mines[game, mine, 1]
        g.mines[game, left, 0], g.mines[game, left, 1] = x, y
        left += (x != _GONE) & (mine < nmines)
    g.nmines[game] = left


@compiled
def _keep_robots(g: Any, game: int) -> None:
    """Close the gaps of robots that are gone or stand on a mine."""
    left, nmines = 0, g.nmines[game]
    for robot in range(g.nrobots[game]):
        x, y = g.robots[game, robot, 0], g.robots[game, robot, 1]
        lost = x == _GONE
        for mine in range(g.mines.shape[1]):
            on_it = (g.mines[game, mine, 0] == x) & (g.mines[game, mine, 1] == y)
            lost |= on_it & (mine < nmines)
        g.robots[game, left, 0], g.robots[game, left, 1] = x, y
        left += not lost
    g.nrobots[game] = left
