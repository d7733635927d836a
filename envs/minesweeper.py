"""MineSweeper: robots walk a board and defuse every mine; an orbital cannon may help.

env = MineSweeper(width=6, height=6, nmines=5, nrobots=2, orbital_cannon=True)
observation = env.reset()
observation = env.act(walk_and_defuse(observation))  # from ragged_envs.minesweeper_script

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.errors import ResetNeededError
from entity_env.observation import (
    CategoricalActionMask,
    EntityID,
    Observation,
    SelectEntityActionMask,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from .minesweeper_actions import read_moves, read_shots
from .minesweeper_drawing import draw_board, write_board
from .minesweeper_rules import (
    ACTION_SPACE,
    DEFUSE,
    MOVES,
    OBS_SPACE,
    STEPS,
    MineSweeperSettings,
    Spanned,
    Tile,
)
from .minesweeper_state import check_state

__all__ = ["DEFUSE", "MOVES", "STEPS", "MineSweeper"]

_TARGETS = ("Mine", "Robot")
_NOBODY_FIRES = SelectEntityActionMask(actor_types=(), actee_types=_TARGETS)
_ALL_FIRE = SelectEntityActionMask(actor_types=("Orbital Cannon",), actee_types=_TARGETS)


class MineSweeper(Environment):
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

    Args:
        width: Tiles from left to right, at most 1000. This and the next three are whole numbers of
            at least 1, or pairs (least, most) from which each episode draws its own.
        height: Tiles from bottom to top, at most 1000.
        nmines: Mines at the start, as robots and cannons at most 10,000; on a board that is too
            small for the most of a pair, drawn from as many as fit beside the robots.
        nrobots: Robots at the start.
        orbital_cannon: Whether there is a cannon, or the number of cannons.
        cooldown_period: Steps that a cannon waits after a shot, and at the start, at most 10^7.
        max_steps: Steps until the episode is cut off, at most 10^9.

    Raises:
        EnvConfigError: A parameter of the wrong type or range, or a smallest board without room for
            the least mines and the most robots.
    """

    def __init__(
        self,
        width: Spanned = 6,
        height: Spanned = 6,
        nmines: Spanned = 5,
        nrobots: Spanned = 2,
        orbital_cannon: bool | int = False,
        cooldown_period: int = 5,
        max_steps: int = 100,
    ) -> None:
        self.settings = settings = MineSweeperSettings.check(
            width, height, nmines, nrobots, orbital_cannon, cooldown_period, max_steps
        )
        self.ncannons = settings.ncannons
        self.cooldown_period = settings.cooldown_period
        self.max_steps = settings.max_steps
        # Of the running episode, where they vary.
        self.width, self.height = settings.width[1], settings.height[1]
        self.nmines, self.nrobots = settings.nmines[1], settings.nrobots[1]
        self.mines: list[Tile] = []
        self.robots: list[Tile] = []
        self.cooldowns: list[int] = []
        self.steps = -1  # before the first reset
        self._mine_ids = _ids("Mine", self.nmines)
        self._robot_ids = _ids("Robot", self.nrobots)
        self._cannon_ids = _ids("Orbital Cannon", self.ncannons)

    @classmethod
    def from_state(
        cls,
        mines: Sequence[Sequence[int]],
        robots: Sequence[Sequence[int]],
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
        env.set_state({"mines": mines, "robots": robots, "cooldowns": cooldowns, "steps": steps})
        return env

    def obs_space(self) -> ObsSpace:
        """Mines, robots and cannons."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Move`` and ``Fire Orbital Cannon``, with or without cannons."""
        return ACTION_SPACE

    @property
    def won(self) -> bool:
        """No mine is left."""
        return self.steps >= 0 and not self.mines

    @property
    def done(self) -> bool:
        """The game is won or lost, or has taken ``max_steps`` steps."""
        over = not self.mines or not self.robots or self.steps >= self.max_steps
        return over and self.steps >= 0

    def reset(self) -> Observation:
        """Lay out mines and robots on different tiles."""
        settings = self.settings
        self.width, self.height = self._draw(*settings.width), self._draw(*settings.height)
        self.nrobots = self._draw(*settings.nrobots)
        room = self.width * self.height - self.nrobots
        self.nmines = self._draw(settings.nmines[0], min(settings.nmines[1], room))
        drawn = self.rng.permutation(self.width * self.height)[: self.nmines + self.nrobots]
        tiles = [(tile % self.width, tile // self.width) for tile in drawn.tolist()]
        self.mines, self.robots = tiles[: self.nmines], tiles[self.nmines :]
        self.cooldowns = [self.cooldown_period] * self.ncannons
        self.steps = 0
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step. A robot or cannon that ``actions`` leaves out does nothing."""
        if self.steps < 0 or self.done:
            raise ResetNeededError(
                "the episode is over" if self.done else "no episode has been started",
                hint="call reset() first",
            )
        moves = read_moves(actions.get("Move"), self.robots, self.width, self.height)
        shots = read_shots(
            actions.get("Fire Orbital Cannon"), self.cooldowns, len(self.mines), len(self.robots)
        )
        self.steps += 1
        gone = set(shots.values())
        if self.cooldowns:
            self.cooldowns = [
                self.cooldown_period if cannon in shots else max(cooldown - 1, 0)
                for cannon, cooldown in enumerate(self.cooldowns)
            ]
            self.mines = [tile for i, tile in enumerate(self.mines) if ("Mine", i) not in gone]
        robots: list[Tile] = []
        cleared: set[Tile] = set()
        for i, (x, y) in enumerate(self.robots):
            if gone and ("Robot", i) in gone:
                continue
            move = moves[i]
            if move == DEFUSE:
                cleared.update(((x, y), (x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)))
            elif move is not None:
                x, y = x + STEPS[move][0], y + STEPS[move][1]
            robots.append((x, y))
        if cleared:
            self.mines = [tile for tile in self.mines if tile not in cleared]
        mined = set(self.mines)
        self.robots = [tile for tile in robots if tile not in mined]
        return self.observe()

    def observe(self) -> Observation:
        """Return the observation of the current state."""
        if self.steps < 0:
            raise ResetNeededError("no episode has been started", hint="call reset() first")
        mines, robots, cooldowns = self.mines, self.robots, self.cooldowns
        right, top = self.width - 1, self.height - 1
        features: dict[str, Sequence[Sequence[int]]] = {"Mine": mines[:], "Robot": robots[:]}
        ids = {"Mine": self._mine_ids[: len(mines)], "Robot": self._robot_ids[: len(robots)]}
        if cooldowns:
            features["Orbital Cannon"] = [(cooldown,) for cooldown in cooldowns]
            ids["Orbital Cannon"] = self._cannon_ids[:]
        mask = [(x < right, x > 0, y < top, y > 0, True) for x, y in robots]
        won, done = self.won, self.done
        return Observation(
            features=features,
            ids=ids,
            actions={
                "Move": CategoricalActionMask(actor_types=["Robot"], mask=mask),
                "Fire Orbital Cannon": self._cannon_mask() if cooldowns else _NOBODY_FIRES,
            },
            reward=float(won),
            done=done,
            truncated=done and bool(mines) and bool(robots),
            metrics={"win": float(won)} if done else {},
        )

    def get_state(self) -> dict[str, Any]:
        """Positions, cooldowns, the step, and the size where it varies: all else follows."""
        if self.steps < 0:
            raise ResetNeededError("no episode has been started", hint="call reset() first")
        state = {
            "mines": [list(tile) for tile in self.mines],
            "robots": [list(tile) for tile in self.robots],
            "cooldowns": list(self.cooldowns),
            "steps": self.steps,
        }
        return {**state, "size": [self.width, self.height]} if self.settings.size_varies else state

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go to a state of such a game and return its observation; else StateError."""
        position = check_state(state, self.settings)
        self.width, self.height = position.size
        self.mines, self.robots = list(position.mines), list(position.robots)
        self.cooldowns, self.steps = list(position.cooldowns), position.steps
        return self.observe()

    def render(self, tile: int = 24, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the board with y up, and a status bar over it if there are cannons.

        Shape: (height * tile, width * tile, 3), one more ``tile`` high with the status bar.
        """
        size, period = (self.width, self.height), self.cooldown_period
        return draw_board(size, self.mines, self.robots, self.cooldowns, period, tile, **kwargs)

    def render_text(self) -> str:
        """Return the board with y up; M0 is the mine ("Mine", 0), R1 the robot ("Robot", 1)."""
        board = write_board((self.width, self.height), self.mines, self.robots, self.cooldowns)
        return f"step {max(self.steps, 0)} of {self.max_steps}, {board}"

    def _draw(self, least: int, most: int) -> int:
        """Return a number from ``least`` to ``most``; draws nothing where there is only one."""
        return int(self.rng.integers(least, most + 1)) if least < most else least

    def _cannon_mask(self) -> SelectEntityActionMask:
        ready = [i for i, cooldown in enumerate(self.cooldowns) if cooldown == 0]
        if not ready:
            return _NOBODY_FIRES
        if len(ready) == self.ncannons:
            return _ALL_FIRE
        return SelectEntityActionMask(
            actor_ids=[self._cannon_ids[i] for i in ready], actee_types=_TARGETS
        )


def _ids(kind: str, count: int) -> list[EntityID]:
    return [(kind, i) for i in range(count)]
