"""Three tanks against three of the computer: drive, and shoot at who is in range."""

from __future__ import annotations

import math
from typing import Any

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

RANGE = 3.0
HEADINGS = ["Stay", *(f"{45 * k} degrees" for k in range(8))]


def moved(tank: list[float], heading: int, size: float) -> None:
    """Drive one step of length 0.5."""
    if heading:
        angle = (heading - 1) * math.pi / 4
        for axis, part in ((0, math.cos(angle)), (1, math.sin(angle))):
            tank[axis] = min(max(tank[axis] + 0.5 * part, 0.0), size)


class Tanks(Environment):
    """1 for a battle that is won, -1 for one that is lost, 0 after 80 steps."""

    def __init__(self, tanks: int = 3, size: float = 10.0, steps: int = 80) -> None:
        self.num_tanks, self.size, self.limit = tanks, size, steps

    def obs_space(self) -> ObsSpace:
        """Return both sides."""
        tank = Entity(["x", "y", "armour", "loads"])
        return ObsSpace(entities={"Mine": tank, "Theirs": tank})

    def action_space(self) -> dict[str, Any]:
        """Return headings and targets."""
        return {"Drive": CategoricalActionSpace(HEADINGS), "Shoot": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Line both sides up."""
        self.steps = 0
        self.sides = [
            {
                f"{side} {k}": [x, self.size * (k + 1) / (self.num_tanks + 1), 4.0, 0.0]
                for k in range(self.num_tanks)
            }
            for side, x in (("mine", 1.0), ("theirs", self.size - 1.0))
        ]
        for side in self.sides:
            for tank in side.values():
                tank[1] += float(self.rng.uniform(-1, 1))
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Drive, then let both sides shoot at the same time."""
        self.steps += 1
        mine, theirs = self.sides
        drive = actions["Drive"]
        for name, heading in zip(drive.actors, drive.indices, strict=True):
            moved(mine[name], heading, self.size)
        shots = []
        if "Shoot" in actions:
            shoot = actions["Shoot"]
            shots = [(mine[a], theirs[b]) for a, b in zip(shoot.actors, shoot.actees, strict=True)]
        for tank in theirs.values():
            nearest = min(mine.values(), key=lambda other: math.dist(tank[:2], other[:2]))
            if math.dist(tank[:2], nearest[:2]) > RANGE:
                towards = math.atan2(nearest[1] - tank[1], nearest[0] - tank[0])
                heading = round(towards / (math.pi / 4)) % 8 + 1
                moved(tank, heading if self.rng.random() < 0.6 else 0, self.size)
            elif not tank[3]:
                shots.append((tank, nearest))
        for side in self.sides:
            for tank in side.values():
                tank[3] = max(0.0, tank[3] - 1)
        for tank, target in shots:
            tank[3] = 3.0
            target[2] -= self.rng.random() < 0.8
        self.sides = [
            {name: tank for name, tank in side.items() if tank[2] > 0} for side in self.sides
        ]
        mine, theirs = self.sides
        result = float(not theirs) - float(not mine)
        return self.observe(result)

    def observe(self, reward: float) -> Observation:
        """Return the field."""
        mine, theirs = self.sides
        late = self.steps == self.limit
        over = late or not mine or not theirs
        pairs = {
            name: [other for other, t in theirs.items() if math.dist(tank[:2], t[:2]) <= RANGE]
            for name, tank in mine.items()
            if not tank[3]
        }
        able = [name for name, targets in pairs.items() if targets]
        every = list(theirs)
        return Observation(
            features={
                "Mine": [list(t) for t in mine.values()],
                "Theirs": [list(t) for t in theirs.values()],
            },
            ids={"Mine": list(mine), "Theirs": every},
            actions={}
            if over
            else {
                "Drive": CategoricalActionMask(actor_types=["Mine"]),
                "Shoot": SelectEntityActionMask(
                    actor_ids=able,
                    actee_ids=every,
                    mask=[[other in pairs[name] for other in every] for name in able],
                ),
            },
            reward=reward,
            done=over,
            truncated=late and bool(mine) and bool(theirs),
            metrics={"win": float(reward > 0)} if over else {},
        )


def script(observation: Observation) -> dict[str, Any]:
    """Stay together, wait for the enemy, and shoot at the weakest in range."""
    mine, theirs = observation.features["Mine"], observation.features["Theirs"]
    names, others = list(observation.ids["Mine"]), list(observation.ids["Theirs"])
    middle = [sum(t[axis] for t in mine) / len(mine) for axis in (0, 1)]
    headings = []
    for tank in mine:
        nearest = min(theirs, key=lambda other: math.dist(tank[:2], other[:2]))
        apart = math.dist(tank[:2], middle)
        goal = middle if apart > 1.0 else nearest
        near = math.dist(tank[:2], nearest[:2]) <= RANGE
        towards = math.atan2(goal[1] - tank[1], goal[0] - tank[0])
        headings.append(0 if near else round(towards / (math.pi / 4)) % 8 + 1)
    actions: dict[str, Any] = {"Drive": CategoricalAction(names, headings, HEADINGS)}
    shoot = observation.actions["Shoot"]
    able = list(shoot.actor_ids or [])
    if able:
        armour = dict(zip(others, (t[2] for t in theirs), strict=True))
        every = list(shoot.actee_ids or [])
        chosen = [
            min((o for o, may in zip(every, row, strict=True) if may), key=lambda o: armour[o])
            for row in shoot.mask
        ]
        actions["Shoot"] = SelectEntityAction(able, chosen)
    return actions
