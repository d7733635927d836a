"""Thirty items come one after the other and choose a bin in which they fit."""

from __future__ import annotations

from typing import Any

from entity_env import (
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

SIZES = (20, 25, 30, 35, 45, 50, 60)


class Bins(Environment):
    """Each bin that is opened costs 1; it holds 100."""

    def __init__(self, items: int = 30) -> None:
        self.num_items = items

    def obs_space(self) -> ObsSpace:
        """Return the item and the bins."""
        return ObsSpace(
            global_features=["items left"],
            entities={"Item": Entity(["size"]), "Bin": Entity(["room", "is new"])},
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a bin."""
        return {"Put": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Draw the first item."""
        self.bins = [100]
        self.left = self.num_items
        self.size = int(self.rng.choice(SIZES))
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Put the item away and draw the next one."""
        chosen = actions["Put"].actees[0][1]
        opens = self.bins[chosen] == 100
        self.bins[chosen] -= self.size
        if opens:
            self.bins.append(100)
        self.size = int(self.rng.choice(SIZES))
        self.left -= 1
        return self.observe(-float(opens))

    def observe(self, reward: float) -> Observation:
        """Return the bins in which anything may still fit."""
        shown = [k for k, room in enumerate(self.bins) if room >= min(SIZES)]
        fits = [("bin", k) for k in shown if self.bins[k] >= self.size]
        return Observation(
            global_features=[self.left],
            features={
                "Item": [[self.size]],
                "Bin": [[self.bins[k], self.bins[k] == 100] for k in shown],
            },
            ids={"Item": ["item"], "Bin": [("bin", k) for k in shown]},
            actions={"Put": SelectEntityActionMask(actor_ids=["item"], actee_ids=fits)}
            if self.left
            else {},
            reward=reward,
            done=not self.left,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Choose the fullest bin in which the item fits."""
    room = dict(
        zip(observation.ids["Bin"], (row[0] for row in observation.features["Bin"]), strict=True)
    )
    best = min(observation.actions["Put"].actee_ids, key=lambda name: room[name])
    return {"Put": SelectEntityAction(["item"], [best])}
