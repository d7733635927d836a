"""One-step games, each of which needs one kind of input: maps, cells, flags, vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env import (
    Action,
    ActionMask,
    ActionSpace,
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    Flags,
    Grid,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

__all__ = ["CoinOnAMap", "Locks", "PickTheCoin", "SameTerrain"]


class _OneStep(Environment):
    """Shows a puzzle, takes an answer, and begins anew. Reward: 1 for the right one."""

    action: ActionSpace

    def action_space(self) -> dict[str, ActionSpace]:
        """One action."""
        return {"Answer": self.action}

    def reset(self) -> Observation:
        """The first puzzle."""
        self.features, self.right = self._puzzle()
        return self._show()

    def _show(self) -> Observation:
        names = {"ids": self._ids(), "actions": {"Answer": self._mask()}}
        return Observation(features=self.features, **names)

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Compare."""
        got = self._answer(actions["Answer"])
        return Observation(done=True, reward=float(got == self.right))

    def get_state(self) -> dict[str, Any]:
        """The puzzle and its solution."""
        features = {name: np.asarray(rows).tolist() for name, rows in self.features.items()}
        return {"features": features, "right": self.right}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Show the puzzle of ``state``."""
        right = state["right"]
        self.right = tuple(right) if isinstance(right, list) else right
        self.features = {name: np.array(rows) for name, rows in state["features"].items()}
        return self._show()

    def _puzzle(self) -> tuple[dict[str, Any], Any]:
        raise NotImplementedError

    def _mask(self) -> ActionMask:
        return CategoricalActionMask(actor_types=["Robot"])

    def _ids(self) -> dict[str, Any]:
        return {}

    def _answer(self, action: Any) -> Any:
        return action.indices[0]


class CoinOnAMap(_OneStep):
    """A robot amid a map of 7 x 7 cells says in which direction the coin is, the longer way first.

    Without the map: 1 / 4.
    """

    SIDE = 7
    action = CategoricalActionSpace(["up", "down", "left", "right"])

    def obs_space(self) -> ObsSpace:
        """A robot, and the map around it."""
        kinds = Discrete("kind", 3)
        grid = Grid((self.SIDE, self.SIDE), [kinds, "height"])
        return ObsSpace(entities={"Tile": grid, "Robot": Entity(["fuel"])})

    def _puzzle(self) -> tuple[dict[str, Any], Any]:
        cells = np.zeros((self.SIDE, self.SIDE, 2), np.float32)
        cells[..., 0] = self.rng.random((self.SIDE, self.SIDE)) < 0.2  # stones, which mean nothing
        cells[..., 1] = self.rng.normal(size=(self.SIDE, self.SIDE))
        down = right = 0
        while abs(down) == abs(right):
            row, column = self.rng.integers(self.SIDE, size=2)
            down, right = row - self.SIDE // 2, column - self.SIDE // 2
        cells[row, column, 0] = 2
        where = (int(down > 0)) if abs(down) > abs(right) else 2 + int(right > 0)
        return {"Tile": cells, "Robot": [[1.0]]}, where


class PickTheCoin(_OneStep):
    """A robot selects the one cell of 5 x 5 with a coin. At random: 1 / 25."""

    action = SelectEntityActionSpace()

    def obs_space(self) -> ObsSpace:
        """A robot, and cells that can be selected."""
        grid = Grid((5, 5), [Discrete("has_coin", 2)], cells=True)
        return ObsSpace(entities={"Robot": Entity([]), "Tile": grid})

    def _puzzle(self) -> tuple[dict[str, Any], Any]:
        cells = np.zeros((5, 5, 1), np.float32)
        row, column = self.rng.integers(5, size=2).tolist()
        cells[row, column] = 1
        return {"Tile": cells, "Robot": [[]]}, ("Tile", row, column)

    def _mask(self) -> ActionMask:
        return SelectEntityActionMask(actor_types=["Robot"], actee_types=["Tile"])

    def _answer(self, action: Any) -> Any:
        return action.actees[0]


class Locks(_OneStep):
    """A robot says whether that one of its four flags is on that ``asked`` names. Blind: 1 / 2."""

    action = CategoricalActionSpace(["off", "on"])

    def obs_space(self) -> ObsSpace:
        """A robot."""
        return ObsSpace(entities={"Robot": Entity([Flags("status", 4), Discrete("asked", 4)])})

    def _puzzle(self) -> tuple[dict[str, Any], Any]:
        status, asked = int(self.rng.integers(16)), int(self.rng.integers(4))
        return {"Robot": [[status, asked]]}, status >> asked & 1


class SameTerrain(_OneStep):
    """A unit selects the one of four places with the terrain that it stands on. Blind: 1 / 4."""

    action = SelectEntityActionSpace()

    def obs_space(self) -> ObsSpace:
        """A unit, and places, with terrains of one vocabulary."""
        below, terrain = (Discrete(name, 6, "terrain") for name in ("below", "terrain"))
        return ObsSpace(entities={"Unit": Entity([below]), "Place": Entity([terrain])})

    def _puzzle(self) -> tuple[dict[str, Any], Any]:
        terrains = self.rng.permutation(6)[:4]
        right = int(self.rng.integers(4))
        return {"Unit": [[terrains[right]]], "Place": terrains[:, None]}, right

    def _mask(self) -> ActionMask:
        return SelectEntityActionMask(actor_types=["Unit"], actee_types=["Place"])

    def _ids(self) -> dict[str, Any]:
        return {"Place": [0, 1, 2, 3]}

    def _answer(self, action: Any) -> Any:
        return action.actees[0]
