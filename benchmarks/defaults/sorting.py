"""Gates along a belt push parcels left or right, into the bin of their colour. Rewards of 0.01."""

from __future__ import annotations

from typing import Any

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

LABELS = ["Pass", "Left", "Right"]


class Sorting(Environment):
    """0.01 for a parcel in its own bin, -0.01 in another one or at the end of the belt."""

    def __init__(self, gates: int = 4, steps: int = 60) -> None:
        self.num_gates, self.limit = gates, steps

    def obs_space(self) -> ObsSpace:
        """Return gates and parcels."""
        colours = 2 * self.num_gates
        return ObsSpace(
            entities={
                "Gate": Entity([Discrete("gate", self.num_gates), "place"]),
                "Parcel": Entity([Discrete("colour", colours), "place", "weight", "barcode"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return what a gate does."""
        return {"Push": CategoricalActionSpace(LABELS)}

    def reset(self) -> Observation:
        """Start an empty belt."""
        self.steps = 0
        self.belt: list[list[float] | None] = [None] * (2 * self.num_gates + 1)
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Push, then move the belt."""
        self.steps += 1
        reward = 0.0
        push = actions["Push"]
        for gate, index in zip(push.actors, push.indices, strict=True):
            parcel = self.belt[2 * gate + 1]
            if parcel is not None and index:
                reward += 0.01 if parcel[0] == 2 * gate + index - 1 else -0.01
                self.belt[2 * gate + 1] = None
        if self.belt[-1] is not None:
            reward -= 0.01
        new = None
        if self.rng.random() < 0.6:
            colour = float(self.rng.integers(2 * self.num_gates))
            new = [colour, float(self.rng.uniform(1, 30)), float(self.rng.integers(10**6))]
        self.belt = [new, *self.belt[:-1]]
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the belt."""
        over = self.steps == self.limit
        return Observation(
            features={
                "Gate": [[k, 2 * k + 1] for k in range(self.num_gates)],
                "Parcel": [
                    [parcel[0], place, *parcel[1:]]
                    for place, parcel in enumerate(self.belt)
                    if parcel is not None
                ],
            },
            ids={"Gate": list(range(self.num_gates))},
            actions={"Push": CategoricalActionMask(actor_types=["Gate"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Push what belongs here."""
    colours = {int(place): int(colour) for colour, place, *_ in observation.features["Parcel"]}
    indices = []
    for gate, place in observation.features["Gate"]:
        side = colours.get(int(place), -1) - 2 * int(gate)
        indices.append(side + 1 if side in (0, 1) else 0)
    return {"Push": CategoricalAction(list(observation.ids["Gate"]), indices, LABELS)}
