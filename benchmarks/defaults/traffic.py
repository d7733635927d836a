"""Nine crossings switch their lights; each car that waits costs 0.01 a step."""

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

LABELS = ["Keep", "Switch"]


class Traffic(Environment):
    """Cars drive east or north through a grid of crossings; to switch takes two steps of red."""

    def __init__(self, side: int = 3, steps: int = 200) -> None:
        self.side, self.limit = side, steps

    def obs_space(self) -> ObsSpace:
        """Return the crossings."""
        crossing = ["column", "row", "east is green", "red for", "cars east", "cars north"]
        return ObsSpace(entities={"Crossing": Entity(crossing)})

    def action_space(self) -> dict[str, Any]:
        """Return to keep the lights or to switch them."""
        return {"Light": CategoricalActionSpace(LABELS)}

    def reset(self) -> Observation:
        """Begin with few cars; the main road changes from game to game."""
        self.steps = 0
        self.rates = self.rng.uniform(0.1, 0.5, (2, self.side))
        self.lights = [[k % self.side, k // self.side, 1, 0, 0, 0] for k in range(self.side**2)]
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Switch, then let up to one car through each green light."""
        self.steps += 1
        light = actions["Light"]
        for k, index in zip(light.actors, light.indices, strict=True):
            crossing = self.lights[k]
            if index:
                crossing[2] = 1 - crossing[2]
                crossing[3] = 2
        passed = []
        for crossing in self.lights:
            lane = 4 if crossing[2] else 5
            if crossing[3]:
                crossing[3] -= 1
            elif crossing[lane]:
                crossing[lane] -= 1
                passed.append((crossing[0] + crossing[2], crossing[1] + 1 - crossing[2], lane))
        for column, row, lane in passed:
            if column < self.side and row < self.side:
                self.lights[row * self.side + column][lane] += 1
        for k in range(self.side):
            self.lights[k * self.side][4] += int(self.rng.random() < self.rates[0, k])
            self.lights[k][5] += int(self.rng.random() < self.rates[1, k])
        return self.observe(-0.01 * sum(crossing[4] + crossing[5] for crossing in self.lights))

    def observe(self, reward: float) -> Observation:
        """Return the crossings."""
        over = self.steps == self.limit
        return Observation(
            features={"Crossing": [list(crossing) for crossing in self.lights]},
            ids={"Crossing": list(range(self.side**2))},
            actions={
                "Light": CategoricalActionMask(
                    actor_types=["Crossing"], mask=[[True, not c[3]] for c in self.lights]
                )
            },
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Switch where clearly more cars wait at the red light."""
    indices = []
    for _, _, east, red, cars_east, cars_north in observation.features["Crossing"]:
        green, waiting = (cars_east, cars_north) if east else (cars_north, cars_east)
        indices.append(int(not red and (waiting > green + 3 or (waiting > 0 and not green))))
    return {"Light": CategoricalAction(list(observation.ids["Crossing"]), indices, LABELS)}
