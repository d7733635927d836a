"""Thirty fields: sow, water and harvest; what is ripe for too long rots."""

from __future__ import annotations

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

LABELS = ["Rest", "Sow", "Water", "Harvest"]


class Farm(Environment):
    """A harvest pays up to 30; seed costs 3, water 1. Wheat grows where it is moist."""

    def __init__(self, fields: int = 30, days: int = 80) -> None:
        self.num_fields, self.days = fields, days

    def obs_space(self) -> ObsSpace:
        """Return fields and the weather."""
        return ObsSpace(
            global_features=["day", "rain"],
            entities={"Field": Entity(["east", "north", "moisture", "is sown", "growth"])},
        )

    def action_space(self) -> dict[str, Any]:
        """Return what can be done on a field."""
        return {"Do": CategoricalActionSpace(LABELS)}

    def reset(self) -> Observation:
        """Begin in spring with bare fields."""
        self.day, self.rain = 0, 0.0
        self.fields = [
            [float(k % 6), float(k // 6), float(self.rng.uniform(0, 5)), 0.0, 0.0]
            for k in range(self.num_fields)
        ]
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Work on all fields, then let a day pass."""
        self.day += 1
        reward = 0.0
        for k, index in zip(actions["Do"].actors, actions["Do"].indices, strict=True):
            field = self.fields[k]
            if index == 1:
                reward -= 3
                field[3:] = [1.0, 0.0]
            elif index == 2:
                reward -= 1
                field[2] = min(field[2] + 3, 8.0)
            elif index == 3:
                reward += 30 * (0.0 if field[4] < 6 else 1.0)
                field[3:] = [0.0, 0.0]
        self.rain = float(self.rng.exponential(2) if self.rng.random() < 0.15 else 0)
        for field in self.fields:
            if field[3] and field[2] >= 1:
                field[4] += 1
                field[2] -= 0.5
            if field[4] > 14:
                field[3:] = [0.0, 0.0]
            field[2] = min(max(field[2] - 0.3, 0.0) + self.rain, 8.0)
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return all fields."""
        over = self.day == self.days
        return Observation(
            global_features=[self.day, self.rain],
            features={"Field": [list(field) for field in self.fields]},
            ids={"Field": list(range(self.num_fields))},
            actions={
                "Do": CategoricalActionMask(
                    actor_types=["Field"],
                    mask=[[True, not f[3], True, bool(f[3])] for f in self.fields],
                )
            },
            reward=reward,
            done=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Harvest what is ripe, sow what is bare, water what is dry."""
    indices = []
    late = observation.global_features[0] > 72
    for _, _, moisture, is_sown, growth in observation.features["Field"]:
        if growth >= 6:
            indices.append(3)
        elif not is_sown:
            indices.append(0 if late else 1)
        else:
            indices.append(2 if moisture < 1 else 0)
    return {"Do": CategoricalAction(list(observation.ids["Field"]), indices, LABELS)}
