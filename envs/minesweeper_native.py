"""MineSweeper for all rows at once: the game of ``minesweeper.py``, a hundred times as fast.

rows = MineSweeperVec(128, seed=1, width=6, height=6, nmines=5, nrobots=2)
obs = rows.reset()
obs = rows.act(random_policy(seed=1)(obs))  # from entity_env.play

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Environment
from entity_env.errors import ObservationError
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_int,
)

from .minesweeper import MineSweeper
from .minesweeper_rules import ACTION_SPACE, DEFUSE, OBS_SPACE, STEPS, MineSweeperSettings

__all__ = ["MineSweeperVec"]

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_GONE = -(1 << 20)
"""The x of an entity that was removed in this step: far from every tile."""
# What a choice adds to x and y. Arrays: a tuple would be copied to the stack at each use.
_DX = np.array([dx for dx, _ in (*STEPS, (0, 0))])
_DY = np.array([dy for _, dy in (*STEPS, (0, 0))])


class MineSweeperVec(CompiledRows):
    """R rows of MineSweeper, compiled; see ``MineSweeper`` for the game.

    The random numbers are not those of ``MineSweeper``: the same seed gives other boards. Row i
    of a seed is the same in any number of rows.

    Args:
        num_envs: The number of rows R.
        seed: Seed of all rows.
        threads: Number of threads that share the rows.
        settings: The arguments of ``MineSweeper``.

    Raises:
        SettingError: A setting is not valid for ``MineSweeper``.
    """

    environment: ClassVar[type[Environment]] = MineSweeper

    def __init__(self, num_envs: int, seed: int = 0, *, threads: int = 1, **settings: Any) -> None:
        self._alone = MineSweeper(**settings)
        self._settings = self._alone.settings
        super().__init__(_game(self._settings), num_envs, seed, threads=threads)

    def save_game(self, game: int) -> dict[str, Any]:
        """Return the state of a row as ``MineSweeper`` saves it."""
        saved = super().save_game(game)
        state = {
            "mines": saved["mines"][: saved["nmines"]],
            "robots": saved["robots"][: saved["nrobots"]],
            "cooldowns": saved["cooldowns"],
            "steps": saved["steps"],
        }
        if self._settings.size_varies:
            state["size"] = [saved["width"], saved["height"]]
        return state

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a result of ``save_game``."""
        game, most = self._alone, self._settings
        if game.set_state(saved).done:
            raise ObservationError(
                "set_state led to an observation that is done",
                expected="done=False: a new episode has at least one step",
            )
        return {
            "width": game.width,
            "height": game.height,
            "mines": np.pad(game.mines, ((0, most.nmines[1] - len(game.mines)), (0, 0))),
            "robots": np.pad(game.robots, ((0, most.nrobots[1] - len(game.robots)), (0, 0))),
            "nmines": len(game.mines),
            "nrobots": len(game.robots),
            "cooldowns": game.cooldowns,
            "steps": game.steps,
        }

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the board of a row, as ``MineSweeper`` draws it."""
        self._alone.set_state(self.save_game(row))
        return self._alone.render(**kwargs)


def _game(settings: MineSweeperSettings) -> CompiledGame:
    spans = ("width", "height", "nmines", "nrobots")
    limits = {name: getattr(settings, name) for name in spans}
    return CompiledGame(
        obs_space=OBS_SPACE,
        action_space=ACTION_SPACE,
        state={
            "mines": Field((settings.nmines[1], 2)),
            "robots": Field((settings.nrobots[1], 2)),
            "cooldowns": Field((settings.ncannons,)),
            **{name: Field() for name in (*spans, "win")},
        },
        settings={f"least_{name}": least for name, (least, _) in limits.items()}
        | {f"most_{name}": most for name, (_, most) in limits.items()}
        | {"period": settings.cooldown_period},
        reset=reset,
        step=step,
        entities={
            "Mine": Entities("mines", count="nmines"),
            "Robot": Entities("robots", count="nrobots"),
            "Orbital Cannon": Entities("cooldowns"),
        },
        actions={
            "Move": Actors("Robot", mask=moves_of),
            "Fire Orbital Cannon": Actors(
                "Orbital Cannon", when=is_ready, targets=("Mine", "Robot")
            ),
        },
        max_steps=settings.max_steps,
        metrics={"win": "win"},
    )


def moves_of(g: Any, game: int, robot: int, allowed: Bools) -> None:
    """Forbid a robot to leave the board."""
    x, y = g.robots[game, robot, 0], g.robots[game, robot, 1]
    allowed[0], allowed[1] = x < g.width[game] - 1, x > 0
    allowed[2], allowed[3] = y < g.height[game] - 1, y > 0


def is_ready(g: Any, game: int, cannon: int) -> bool:
    """Return True if a cannon must fire."""
    return bool(g.cooldowns[game, cannon] == 0)


def reset(g: Any, game: int) -> None:
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


def step(g: Any, game: int, moves: I64, shots: I64) -> tuple[float, bool]:
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
