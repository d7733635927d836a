"""MineSweeper as a person writes it in Python: the baseline of ``ragged_envs.minesweeper``.

It has the rules and settings of that game, and no checks of settings, actions and states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ragged_envs.minesweeper import ACTION_SPACE, DEFUSE, OBS_SPACE, STEPS

from entity_env import CategoricalActionMask, Environment, Observation, SelectEntityActionMask

__all__ = ["PythonMineSweeper"]

_TARGETS = ("Mine", "Robot")


class PythonMineSweeper(Environment):
    """One game; the arguments are those of ``MineSweeper``."""

    def __init__(
        self,
        width: Any = 6,
        height: Any = 6,
        nmines: Any = 5,
        nrobots: Any = 2,
        orbital_cannon: int = 0,
        cooldown_period: int = 5,
        max_steps: int = 100,
    ) -> None:
        spans = (width, height, nrobots, nmines)
        self.spans = [own if isinstance(own, list) else [own, own] for own in spans]
        self.cannons, self.period, self.max_steps = orbital_cannon, cooldown_period, max_steps
        most = max(own[1] for own in self.spans)
        self.ids = {name: [(name, i) for i in range(most)] for name in OBS_SPACE.entities}

    def obs_space(self) -> Any:
        """Return the space of the compiled game."""
        return OBS_SPACE

    def action_space(self) -> Any:
        """Return the actions of the compiled game."""
        return ACTION_SPACE

    def reset(self) -> Observation:
        """Lay out a board."""
        width, height, robots, mines = (
            int(self.rng.integers(low, high + 1)) if low < high else low for low, high in self.spans
        )
        mines = min(mines, width * height - robots)
        drawn = self.rng.permutation(width * height)[: mines + robots].tolist()
        tiles = [(tile % width, tile // width) for tile in drawn]
        self.width, self.height, self.steps = width, height, 0
        self.mines, self.robots = tiles[:mines], tiles[mines:]
        self.cooldowns = [self.period] * self.cannons
        return self.observe()

    def act(self, actions: Mapping[str, Any]) -> Observation:
        """Fire, move and defuse, and lose what stands on a mine."""
        self.steps += 1
        fire = actions.get("Fire Orbital Cannon")
        shots = {} if fire is None else dict(zip(fire.actors, fire.actees, strict=True))
        gone = set(shots.values())
        if self.cooldowns:
            self.cooldowns = [
                self.period if ("Orbital Cannon", i) in shots else max(left - 1, 0)
                for i, left in enumerate(self.cooldowns)
            ]
            self.mines = [tile for i, tile in enumerate(self.mines) if ("Mine", i) not in gone]
        robots, cleared = [], set()
        for i, ((x, y), move) in enumerate(
            zip(self.robots, np.asarray(actions["Move"].indices).tolist(), strict=True)
        ):
            if gone and ("Robot", i) in gone:
                continue
            if move == DEFUSE:
                cleared.update(((x, y), (x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)))
            else:
                x, y = x + STEPS[move][0], y + STEPS[move][1]
            robots.append((x, y))
        if cleared:
            self.mines = [tile for tile in self.mines if tile not in cleared]
        mined = set(self.mines)
        self.robots = [tile for tile in robots if tile not in mined]
        return self.observe()

    def observe(self) -> Observation:
        """Return what is on the board."""
        mines, robots, cooldowns = self.mines, self.robots, self.cooldowns
        features: dict[str, Any] = {"Mine": mines[:], "Robot": robots[:]}
        if cooldowns:
            features["Orbital Cannon"] = [(left,) for left in cooldowns]
        ready = [("Orbital Cannon", i) for i, left in enumerate(cooldowns) if left == 0]
        right, top = self.width - 1, self.height - 1
        moves = [(x < right, x > 0, y < top, y > 0, True) for x, y in robots]
        over = not mines or not robots
        done = over or self.steps >= self.max_steps
        return Observation(
            features=features,
            ids={name: self.ids[name][: len(own)] for name, own in features.items()},
            actions={
                "Move": CategoricalActionMask(actor_types=["Robot"], mask=moves),
                "Fire Orbital Cannon": SelectEntityActionMask(
                    actor_ids=ready, actee_types=_TARGETS
                ),
            },
            reward=float(not mines),
            done=done,
            truncated=done and not over,
            metrics={"win": float(not mines)} if done else {},
        )
