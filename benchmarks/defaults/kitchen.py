"""Cooks choose the order that they work on; orders have deadlines, and some pay three times."""

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


class Kitchen(Environment):
    """An order that is ready pays; one that is too late costs its guests' patience."""

    def __init__(self, cooks: int = 3, steps: int = 80) -> None:
        self.num_cooks, self.limit = cooks, steps

    def obs_space(self) -> ObsSpace:
        """Return cooks and orders."""
        return ObsSpace(
            entities={
                "Cook": Entity(["skill"]),
                "Order": Entity(["work left", "steps left", "pays"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of an order."""
        return {"Work": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Open with four orders."""
        self.steps = self.serial = 0
        self.orders: dict[str, list[float]] = {}
        for _ in range(4):
            self.arrive()
        return self.observe(0.0)

    def arrive(self) -> None:
        """Take an order."""
        self.serial += 1
        work = int(self.rng.integers(2, 9))
        pays = 3.0 if self.rng.random() < 0.3 else 1.0
        slack = int(self.rng.integers(2, 14))
        self.orders[f"order {self.serial}"] = [work, work + slack, pays]

    def act(self, actions: Any) -> Observation:
        """Work, then let orders run out and new ones arrive."""
        self.steps += 1
        reward = 0.0
        for cook, order in zip(actions["Work"].actors, actions["Work"].actees, strict=True):
            self.orders[order][0] -= 1 + (cook == "cook 0")
        for name, (work, left, pays) in list(self.orders.items()):
            self.orders[name][1] = left - 1
            if work <= 0 or left <= 1:
                reward += pays if work <= 0 else -0.5
                del self.orders[name]
        for _ in range(min(int(self.rng.poisson(0.9)), 12 - len(self.orders))):
            self.arrive()
        if not self.orders:
            self.arrive()
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return what hangs on the board."""
        over = self.steps == self.limit
        return Observation(
            features={
                "Cook": [[2.0 if k == 0 else 1.0] for k in range(self.num_cooks)],
                "Order": [list(order) for order in self.orders.values()],
            },
            ids={"Cook": [f"cook {k}" for k in range(self.num_cooks)], "Order": list(self.orders)},
            actions={"Work": SelectEntityActionMask(actor_types=["Cook"], actee_types=["Order"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Work together on the order that pays most for its work and can still be ready."""
    orders = observation.features["Order"]
    names = list(observation.ids["Order"])
    left = {name: order[0] for name, order in zip(names, orders, strict=True)}
    chosen = []
    for cook in observation.ids["Cook"]:

        def worth(k: int) -> tuple[bool, float]:
            work, steps, pays = left[names[k]], orders[k][1], orders[k][2]
            return work > 0 and work <= 4 * steps, pays / max(work, 1.0) - 0.02 * steps

        best = names[max(range(len(names)), key=worth)]
        left[best] -= 1 + (cook == "cook 0")
        chosen.append(best)
    return {"Work": SelectEntityAction(list(observation.ids["Cook"]), chosen)}
