"""TreasureHunt: a hunter collects treasures, which appear anew elsewhere, and avoids traps.

env = TreasureHunt(trap_ends=False, relative=True)
observation = env.reset()
observation = env.act(go_to_nearest(observation))  # from ragged_envs.treasure_hunt_script

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any, TypeAlias

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Continuous,
    Entity,
    GlobalCategoricalActionSpace,
    ObsSpace,
)

from .checks import (
    check_running,
    check_started,
    read_global_choice,
    reading_state,
    refuse_state,
)
from .errors import check_flag, check_whole

__all__ = ["EDGE", "MOVES", "STEPS", "TreasureHunt"]

EDGE = 10
"""x and y go from -EDGE to EDGE."""
MOVES = ("Right", "Left", "Up", "Down")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""The way (x, y) of each move."""

Tile: TypeAlias = tuple[int, int]

_SIZE = 2 * EDGE + 1
# Next to the hunter a tile more or less is everything, and 20 tiles away it is nothing.
_NEAR = Entity([Continuous("x", mean=0.0, std=2.0), Continuous("y", mean=0.0, std=2.0)])
_ANYWHERE = Entity(["x", "y"])
_ACTION_SPACE: dict[ActionName, ActionSpace] = {"Move": GlobalCategoricalActionSpace(MOVES)}
_TREASURE, _TRAP = 1.0, -0.5


class TreasureHunt(Environment):
    """A hunter collects treasures, which appear anew elsewhere, and avoids traps.

    Entities:
        ``Trap`` [x, y], ``Treasure`` [x, y], without ids. The global features x and y are the place
        of the hunter, who is no entity. x goes to the right, y up, both from -10 to 10. With
        ``relative`` traps and treasures are relative to the hunter; the global features are not.
    Actions:
        ``Move``: the hunter goes Right, Left, Up or Down; the mask forbids leaving the world.
    Reward:
        1.0 for a step onto a treasure, -0.5 for a step onto a trap, else 0.0.
    End:
        ``max_steps`` steps truncate the episode. With ``trap_ends`` a trap ends it, and still costs
        0.5; by default traps stay where they are, and the hunt goes on. So all episodes are of one
        length and their returns compare, and what a trap costs does not depend on when. The last
        observation has the metrics ``treasures`` and ``traps``, how many there were.
    Randomness:
        The start: hunter, traps and treasures on different tiles, drawn in this order. Each new
        treasure: one of the tiles without hunter, trap and treasure, each as likely as any other.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        traps: Traps, at most 100.
        treasures: Treasures that are there at any time, 1 to 100.
        trap_ends: Whether a trap ends the episode.
        max_steps: Steps until the episode is cut off, at most 10^9.
        relative: Whether traps and treasures are relative to the hunter.

    Raises:
        EnvConfigError: A parameter of the wrong type or range.
    """

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
        self.steps = -1  # before the first reset

    def obs_space(self) -> ObsSpace:
        """Traps, treasures, and the place of the hunter."""
        return self._obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Move``, a global action."""
        return _ACTION_SPACE

    @property
    def trapped(self) -> bool:
        """A trap has ended the episode."""
        return self.trap_ends and self.found["traps"] > 0

    @property
    def done(self) -> bool:
        """A trap has ended the episode, or it has taken ``max_steps`` steps."""
        return self.steps >= self.max_steps or self.trapped

    def reset(self) -> Observation:
        """Lay out hunter, traps and treasures."""
        count = 1 + self.num_traps + self.num_treasures
        drawn = self.rng.choice(_SIZE * _SIZE, count, replace=False).tolist()
        tiles = [_tile(number) for number in drawn]
        self.hunter = tiles[0]
        self.traps, self.treasures = tiles[1 : 1 + self.num_traps], tiles[1 + self.num_traps :]
        self.found = {"treasures": 0, "traps": 0}
        self.steps = 0
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Go one tile."""
        check_running(self.steps, self.done)
        move = read_global_choice(actions, "Move", MOVES, self._mask())
        self.hunter = self.hunter[0] + STEPS[move][0], self.hunter[1] + STEPS[move][1]
        self.steps += 1
        reward = 0.0
        if self.hunter in self.treasures:
            reward = _TREASURE
            self.found["treasures"] += 1
            self.treasures[self.treasures.index(self.hunter)] = self._free_tile()
        elif self.hunter in self.traps:
            reward = _TRAP
            self.found["traps"] += 1
        return self.observe(reward)

    def observe(self, reward: float = 0.0) -> Observation:
        """Return the observation of the current state, after a step that paid ``reward``."""
        check_started(self.steps)
        done = self.done
        x, y = self.hunter if self.relative else (0, 0)
        return Observation(
            features={
                "Trap": [(trap_x - x, trap_y - y) for trap_x, trap_y in self.traps],
                "Treasure": [(there_x - x, there_y - y) for there_x, there_y in self.treasures],
            },
            actions={"Move": GlobalCategoricalActionMask(self._mask())},
            reward=reward,
            done=done,
            truncated=done and not self.trapped,
            global_features=self.hunter,
            metrics=dict(self.found) if done else {},
        )

    def get_state(self) -> dict[str, Any]:
        """All positions, what was found, and the step."""
        check_started(self.steps)
        return {
            "hunter": list(self.hunter),
            "traps": [list(tile) for tile in self.traps],
            "treasures": [list(tile) for tile in self.treasures],
            "found": dict(self.found),
            "steps": self.steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go to a state of such a game and return its observation; else StateError."""
        with reading_state("TreasureHunt", state):
            hunter, *others = (
                (whole(x), whole(y))
                for x, y in (state["hunter"], *state["traps"], *state["treasures"])
            )
            traps, treasures = others[: len(state["traps"])], others[len(state["traps"]) :]
            found = {name: whole(state["found"][name]) for name in ("treasures", "traps")}
            steps = whole(state["steps"])
        problems = {
            "another number of traps": len(traps) != self.num_traps,
            "another number of treasures": len(treasures) != self.num_treasures,
            "two things on one tile": len(set(others)) < len(others),
            "the hunter on a treasure": hunter in treasures,
            "something outside of the world": any(
                not (-EDGE <= x <= EDGE and -EDGE <= y <= EDGE) for x, y in (hunter, *others)
            ),
            "a negative number": min(steps, *found.values()) < 0,
        }
        refuse_state("TreasureHunt", state, problems)
        self.hunter, self.traps, self.treasures = hunter, traps, treasures
        self.found, self.steps = found, steps
        return self.observe()

    def render_text(self) -> str:
        """Return the world with y up: H the hunter, $ treasures, ^ traps."""
        signs = {**dict.fromkeys(self.traps, "^"), **dict.fromkeys(self.treasures, "$")}
        signs[self.hunter] = "H"
        axis = range(-EDGE, EDGE + 1)
        rows = [" ".join(signs.get((x, y), ".") for x in axis) for y in reversed(axis)]
        found = f"{self.found['treasures']} treasures and {self.found['traps']} traps so far"
        return "\n".join([f"step {max(self.steps, 0)} of {self.max_steps}, {found}", *rows])

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
