"""MineSweeper: robots walk a board and defuse every mine; an orbital cannon may help.

env = MineSweeper(width=6, height=6, nmines=5, nrobots=2, orbital_cannon=True)
observation = env.reset()
observation = env.act(walk_and_defuse(observation))  # from ragged_envs.minesweeper_script

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, CategoricalAction, SelectEntityAction
from entity_env.errors import ActionError, MaskError, counted, shorten
from entity_env.hints import ViewerHints
from entity_env.observation import (
    CategoricalActionMask,
    EntityID,
    Observation,
    SelectEntityActionMask,
)
from entity_env.spaces import ActionName

from .checks import check_index, indices_of, of_kind
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
from .small_game import SmallGame

__all__ = ["DEFUSE", "MOVES", "STEPS", "MineSweeper"]

_MOVE, _FIRE = "Move", "Fire Orbital Cannon"
_TARGETS = ("Mine", "Robot")
_NOBODY_FIRES = SelectEntityActionMask(actor_types=(), actee_types=_TARGETS)
_ALL_FIRE = SelectEntityActionMask(actor_types=("Orbital Cannon",), actee_types=_TARGETS)


class MineSweeper(SmallGame):
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
        orbital_cannon: True for one cannon, or the number of cannons.
        cooldown_period: Steps that a cannon waits after a shot, and at the start, at most 10^7.
        max_steps: Steps until the episode is cut off, at most 10^9.

    Raises:
        SettingError: A parameter of the wrong type or range, or a smallest board without room for
            the least mines and the most robots.
    """

    _obs_space, _action_space = OBS_SPACE, ACTION_SPACE

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
        self._saved = {
            "mines": [(whole, whole)],
            "robots": [(whole, whole)],
            "cooldowns": [whole],
            "steps": whole,
            **({"size": (whole, whole)} if settings.size_varies else {}),
        }
        self._moves: list[tuple[bool, ...]] = []  # the mask of the current state
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

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height

    @property
    def won(self) -> bool:
        """True if no mine is left."""
        return self.steps >= 0 and not self.mines

    @property
    def over(self) -> bool:
        """True if the game is won or lost."""
        return not self.mines or not self.robots

    def _begin(self) -> None:
        settings = self.settings
        self.width, self.height = self._draw(*settings.width), self._draw(*settings.height)
        self.nrobots = self._draw(*settings.nrobots)
        room = self.width * self.height - self.nrobots
        self.nmines = self._draw(settings.nmines[0], min(settings.nmines[1], room))
        drawn = self.rng.permutation(self.width * self.height)[: self.nmines + self.nrobots]
        tiles = [(tile % self.width, tile // self.width) for tile in drawn.tolist()]
        self.mines, self.robots = tiles[: self.nmines], tiles[self.nmines :]
        self.cooldowns = [self.cooldown_period] * self.ncannons

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        # A robot or cannon that ``actions`` leaves out does nothing.
        moves, shots = self._read_moves(actions), self._read_shots(actions)
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

    def _show(self) -> Observation:
        mines, robots, cooldowns = self.mines, self.robots, self.cooldowns
        right, top = self.width - 1, self.height - 1
        features: dict[str, Sequence[Sequence[int]]] = {"Mine": mines[:], "Robot": robots[:]}
        ids = {"Mine": self._mine_ids[: len(mines)], "Robot": self._robot_ids[: len(robots)]}
        if cooldowns:
            features["Orbital Cannon"] = [(cooldown,) for cooldown in cooldowns]
            ids["Orbital Cannon"] = self._cannon_ids[:]
        self._moves = [(x < right, x > 0, y < top, y > 0, True) for x, y in robots]
        return Observation(
            features=features,
            ids=ids,
            actions={
                _MOVE: CategoricalActionMask(actor_types=["Robot"], mask=self._moves[:]),
                _FIRE: self._cannon_mask() if cooldowns else _NOBODY_FIRES,
            },
        )

    def _problems(
        self,
        mines: list[Tile],
        robots: list[Tile],
        cooldowns: list[int],
        steps: int,
        size: tuple[int, int] | None = None,
    ) -> dict[str, bool]:
        settings, (width, height) = self.settings, size or self.size
        limits = ((width, settings.width), (height, settings.height))
        return {
            "another size of board": not all(low <= own <= high for own, (low, high) in limits),
            "more mines than the game starts with": len(mines) > settings.nmines[1],
            "more robots than the game starts with": len(robots) > settings.nrobots[1],
            "another number of cannons": len(cooldowns) != self.ncannons,
            "two mines on one tile": len(set(mines)) < len(mines),
            "a robot on a mine": not set(mines).isdisjoint(robots),
            "a cooldown out of range": any(not 0 <= c <= self.cooldown_period for c in cooldowns),
            "a negative step": steps < 0,
            "an entity off the board": any(
                not (0 <= x < width and 0 <= y < height) for x, y in mines + robots
            ),
        }

    def _restore(self, **saved: Any) -> None:
        self.width, self.height = saved.pop("size", self.size)
        super()._restore(**saved)

    def viewer_hints(self) -> ViewerHints:
        """Return the size of the largest board."""
        width, height = self.settings.width[1], self.settings.height[1]
        return ViewerHints(bounds=(0, width - 1, 0, height - 1))

    def render(self, tile: int = 24, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the board with y up, and a status bar over it if there are cannons.

        Shape: (height * tile, width * tile, 3), one more ``tile`` high with the status bar.
        """
        state = self.mines, self.robots, self.cooldowns, self.cooldown_period
        return draw_board(self.size, *state, tile, **kwargs)

    def render_text(self) -> str:
        """Return the board with y up; M0 is the mine ("Mine", 0), R1 the robot ("Robot", 1)."""
        board = write_board(self.size, self.mines, self.robots, self.cooldowns)
        return f"step {max(self.steps, 0)} of {self.max_steps}, {board}"

    def _draw(self, least: int, most: int) -> int:
        """Return a number from ``least`` to ``most``; draws nothing where there is only one."""
        return int(self.rng.integers(least, most + 1)) if least < most else least

    def _read_moves(self, actions: Mapping[ActionName, Action]) -> list[int | None]:
        """Return the choice of each robot, None for a robot that has none."""
        moves: list[int | None] = [None] * len(self.robots)
        if actions.get(_MOVE) is not None:
            action = of_kind(actions, _MOVE, CategoricalAction)
            for actor, index in zip(action.actors, indices_of(_MOVE, action), strict=True):
                robot = _place(_MOVE, actor, "Robot", len(self.robots))
                check_index(f"robot {actor!r}", _MOVE, index, MOVES, self._moves[robot])
                moves[robot] = index
        return moves

    def _read_shots(self, actions: Mapping[ActionName, Action]) -> dict[int, EntityID]:
        """Return the target of each cannon that fires."""
        if actions.get(_FIRE) is None:
            return {}
        action = of_kind(actions, _FIRE, SelectEntityAction)
        if len(action.actors) != len(action.actees):
            raise ActionError(
                f"action {_FIRE!r} does not give one target for each actor",
                expected=counted(len(action.actors), "actee"),
                received=shorten(action.actees),
            )
        shots: dict[int, EntityID] = {}
        for actor, actee in zip(action.actors, action.actees, strict=True):
            cannon = _place(_FIRE, actor, "Orbital Cannon", self.ncannons)
            if self.cooldowns[cannon] > 0:
                raise ActionError(
                    f"cannon {actor!r} is not ready", received=f"cooldown {self.cooldowns[cannon]}"
                )
            is_robot = isinstance(actee, tuple) and actee[:1] == ("Robot",)
            kind, tiles = ("Robot", self.robots) if is_robot else ("Mine", self.mines)
            _place(_FIRE, actee, kind, len(tiles))
            shots[cannon] = actee
        return shots

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


def _place(action: ActionName, entity: Any, kind: str, count: int) -> int:
    """Return the place of an entity in the list of its type."""
    if (
        isinstance(entity, tuple)
        and len(entity) == 2
        and entity[0] == kind
        and entity[1] in range(count)
    ):
        return int(entity[1])
    raise MaskError(
        f"action {action!r} names an entity that is not in the frame",
        expected=f"({kind!r}, 0) to ({kind!r}, {count - 1})"
        if count
        else f"no {kind}: none is left",
        received=shorten(entity),
    )
