"""A shop orders eight products each day; orders arrive two days later. Rewards in hundreds."""

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

AMOUNTS = (0, 10, 20, 40)


class Inventory(Environment):
    """Sell what is in stock; pay for each order, for what is stored and for what is missing."""

    def __init__(self, products: int = 8, days: int = 60) -> None:
        self.num_products, self.days = products, days

    def obs_space(self) -> ObsSpace:
        """Return the products."""
        product = ["stock", "ordered today", "ordered before", "price", "demand", "storage"]
        return ObsSpace(global_features=["day"], entities={"Product": Entity(product)})

    def action_space(self) -> dict[str, Any]:
        """Return the amounts that can be ordered."""
        return {"Order": CategoricalActionSpace([str(amount) for amount in AMOUNTS])}

    def reset(self) -> Observation:
        """Begin with half-full shelves."""
        count = self.num_products
        self.day = 0
        self.demand = self.rng.uniform(5, 20, count)
        self.price = self.rng.uniform(5, 15, count)
        self.storage = self.rng.uniform(0.2, 0.6, count)
        self.stock = self.rng.uniform(0, 2, count) * self.demand // 1
        self.coming = [[0.0] * count, [0.0] * count]
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Order, receive what was ordered two days ago, then sell."""
        self.day += 1
        ordered = [0.0] * self.num_products
        for product, index in zip(actions["Order"].actors, actions["Order"].indices, strict=True):
            ordered[product] = AMOUNTS[index]
        self.stock = self.stock + self.coming.pop(0)
        self.coming.append(ordered)
        wanted = self.rng.poisson(self.demand)
        sold = [min(have, want) for have, want in zip(self.stock, wanted, strict=True)]
        self.stock = self.stock - sold
        cost = sum(0.5 * price * amount for price, amount in zip(self.price, ordered, strict=True))
        cost += sum(8.0 for amount in ordered if amount)
        cost += float((self.storage * self.stock).sum())
        return self.observe(float((self.price * sold).sum()) - cost)

    def observe(self, reward: float) -> Observation:
        """Return one entity for each product."""
        over = self.day == self.days
        columns = (self.stock, *reversed(self.coming), self.price, self.demand, self.storage)
        return Observation(
            global_features=[self.day],
            features={"Product": [list(row) for row in zip(*columns, strict=True)]},
            ids={"Product": list(range(self.num_products))},
            actions={"Order": CategoricalActionMask(actor_types=["Product"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Order what is missing to four days of demand."""
    indices = []
    for stock, today, before, _, demand, _ in observation.features["Product"]:
        missing = 3.6 * demand - stock - today - before
        best = [amount for amount in AMOUNTS if amount <= missing + 3]
        indices.append(AMOUNTS.index(best[-1]) if best else 0)
    labels = [str(amount) for amount in AMOUNTS]
    return {"Order": CategoricalAction(list(observation.ids["Product"]), indices, labels)}
