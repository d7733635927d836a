"""One explorer with a torch looks for a key and for the door, and sees only what is near."""

from __future__ import annotations

from collections import deque
from typing import Any

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

Cell = tuple[int, int]
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class Dungeon(Environment):
    """0.5 for the key and 1 for the door, which needs it, before the torch burns out."""

    def __init__(self, size: int = 11, sight: int = 2, torch: int = 120) -> None:
        self.size, self.sight, self.torch = size, sight, torch

    def obs_space(self) -> ObsSpace:
        """Return the explorer, and what the torch lights."""
        place = ["row", "col"]
        return ObsSpace(
            entities={
                "Explorer": Entity([*place, "torch", "has key"]),
                "Wall": Entity(place),
                "Key": Entity(place),
                "Door": Entity(place),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the four directions."""
        return {"Step": CategoricalActionSpace(list(STEPS))}

    def reset(self) -> Observation:
        """Build a dungeon whose parts are connected."""
        while True:
            walls = self.rng.random((self.size, self.size)) < 0.3
            walls[[0, -1]] = walls[:, [0, -1]] = True
            floor = [(int(row), int(col)) for row, col in zip(*(~walls).nonzero(), strict=True)]
            start, key, door = (floor[k] for k in self.rng.choice(len(floor), 3, replace=False))
            if {key, door} <= ways(start, set(floor)).keys():
                break
        self.explorer, self.key, self.door, self.floor = start, key, door, set(floor)
        self.left, self.has_key = self.torch, False
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Go, unless there is a wall."""
        self.left -= 1
        row, col = list(STEPS.values())[actions["Step"].indices[0]]
        place = self.explorer[0] + row, self.explorer[1] + col
        if place in self.floor:
            self.explorer = place
        reward = 0.0
        if self.explorer == self.key and not self.has_key:
            self.has_key, reward = True, 0.5
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return what is in sight."""
        is_won = self.has_key and self.explorer == self.door
        over = is_won or not self.left
        row, col = self.explorer
        near = range(-self.sight, self.sight + 1)
        lit = [(row + down, col + right) for down in near for right in near]
        inside = [place for place in lit if min(place) >= 0 and max(place) < self.size]
        return Observation(
            features={
                "Explorer": [[row, col, self.left, self.has_key]],
                "Wall": [list(place) for place in inside if place not in self.floor],
                "Key": [list(self.key)] if self.key in inside and not self.has_key else [],
                "Door": [list(self.door)] if self.door in inside else [],
            },
            ids={"Explorer": ["explorer"]},
            actions={} if over else {"Step": CategoricalActionMask(actor_ids=["explorer"])},
            reward=reward + is_won,
            done=over,
            metrics={"win": float(is_won)} if over else {},
        )


def ways(start: Cell, floor: set[Cell]) -> dict[Cell, int]:
    """Return the first step of a shortest way to each cell, the nearest cell first."""
    first = {start: 0}
    queue = deque([start])
    while queue:
        row, col = cell = queue.popleft()
        for index, (down, right) in enumerate(STEPS.values()):
            place = row + down, col + right
            if place in floor and place not in first:
                first[place] = index if cell == start else first[cell]
                queue.append(place)
    return first


class Mapper:
    """A script that draws a map, and walks to the nearest cell with an unknown one beside it."""

    def __call__(self, observation: Observation) -> dict[str, Any]:
        """Go to what is needed if its place is known, and otherwise explore."""
        row, col, torch, has_key = (int(x) for x in observation.features["Explorer"][0])
        if torch > getattr(self, "torch", 0):  # a new dungeon
            self.floor: set[Cell] = set()
            self.seen: set[Cell] = set()
            self.goals: dict[str, Cell] = {}
        self.torch = torch
        near = range(-2, 3)
        lit = {(row + down, col + right) for down in near for right in near}
        self.seen |= lit
        self.floor |= lit - {(int(r), int(c)) for r, c in observation.features["Wall"]}
        for kind in ("Key", "Door"):
            for place in observation.features[kind]:
                self.goals[kind] = int(place[0]), int(place[1])
        reached = ways((row, col), self.floor)
        goal = self.goals.get("Door" if has_key else "Key")
        if goal not in reached:
            goal = next((place for place in reached if not around(place) <= self.seen), (row, col))
        return {"Step": CategoricalAction(["explorer"], [reached[goal]], list(STEPS))}


def around(place: Cell) -> set[Cell]:
    """Return the four cells beside a cell."""
    return {(place[0] + down, place[1] + right) for down, right in STEPS.values()}


script = Mapper()
