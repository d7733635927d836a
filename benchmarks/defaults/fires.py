"""Fire engines drive through a town and spray; fires grow and spread."""

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

MOVES = {"North": (0, 1), "South": (0, -1), "East": (1, 0), "West": (-1, 0), "Spray": (0, 0)}


class Fires(Environment):
    """Each burning house costs 0.1 a step; the episode ends when nothing burns."""

    def __init__(self, size: int = 9, engines: int = 3, steps: int = 100) -> None:
        self.size, self.num_engines, self.limit = size, engines, steps

    def obs_space(self) -> ObsSpace:
        """Return engines and fires."""
        return ObsSpace(entities={"Engine": Entity(["x", "y"]), "Fire": Entity(["x", "y", "heat"])})

    def action_space(self) -> dict[str, Any]:
        """Return where to drive, or to spray."""
        return {"Drive": CategoricalActionSpace(list(MOVES))}

    def reset(self) -> Observation:
        """Light five houses."""
        self.steps = 0
        self.engines = [[0, k] for k in range(self.num_engines)]
        places = self.rng.choice(self.size**2, 5, replace=False)
        self.fires = {(int(p) // self.size, int(p) % self.size): 1 for p in places}
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Drive and spray, then let the fires grow."""
        self.steps += 1
        for k, index in zip(actions["Drive"].actors, actions["Drive"].indices, strict=True):
            engine, (dx, dy) = self.engines[k], list(MOVES.values())[index]
            engine[0] = min(max(engine[0] + dx, 0), self.size - 1)
            engine[1] = min(max(engine[1] + dy, 0), self.size - 1)
            place = engine[0], engine[1]
            if not (dx or dy) and place in self.fires:
                self.fires[place] -= 2
                if self.fires[place] <= 0:
                    del self.fires[place]
        for place in list(self.fires):
            if self.rng.random() < 0.1:
                self.fires[place] = min(self.fires[place] + 1, 4)
            if self.rng.random() < 0.008 * self.fires[place]:
                step = list(MOVES.values())[self.rng.integers(4)]
                near = place[0] + step[0], place[1] + step[1]
                if 0 <= near[0] < self.size and 0 <= near[1] < self.size:
                    self.fires.setdefault(near, 1)
        return self.observe(-0.1 * len(self.fires))

    def observe(self, reward: float) -> Observation:
        """Return engines and fires."""
        over = self.steps == self.limit
        return Observation(
            features={
                "Engine": [list(engine) for engine in self.engines],
                "Fire": [[*place, heat] for place, heat in self.fires.items()],
            },
            ids={"Engine": list(range(self.num_engines))},
            actions={"Drive": CategoricalActionMask(actor_types=["Engine"])},
            reward=reward,
            done=over or not self.fires,
            truncated=over and bool(self.fires),
        )


def script(observation: Observation) -> dict[str, Any]:
    """Drive to the nearest fire that nobody else drives to, and spray."""
    fires = [tuple(fire[:2]) for fire in observation.features["Fire"]]
    indices, taken = [], set[Any]()
    for x, y in observation.features["Engine"]:
        free = [fire for fire in fires if fire not in taken] or fires
        goal = min(free, key=lambda fire: abs(fire[0] - x) + abs(fire[1] - y))
        taken.add(goal)
        dx, dy = goal[0] - x, goal[1] - y
        if dx:
            name = "East" if dx > 0 else "West"
        else:
            name = "North" if dy > 0 else "South" if dy < 0 else "Spray"
        indices.append(list(MOVES).index(name))
    return {"Drive": CategoricalAction(list(observation.ids["Engine"]), indices, list(MOVES))}
