"""A market maker quotes prices for several instruments; the stock of each is a risk."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

QUOTES = {
    "none": None,
    "tight": (0.5, 0.5),
    "wide": (1.5, 1.5),
    "eager to buy": (0.2, 1.5),
    "eager to sell": (1.5, 0.2),
}
"""Distances of the bid and of the ask from the middle price, in half spreads."""


class Quotes(Environment):
    """Gains of trades and of what is held, less 0.01 for the square of each position.

    Args:
        instruments: Number of instruments.
        steps: Length of an episode.
        most: The largest position; trades that would exceed it do not happen.
        lucky: False to leave out the gains of what is held, whose mean is 0 for any quotes.
    """

    def __init__(
        self, instruments: int = 6, steps: int = 120, most: int = 5, lucky: bool = True
    ) -> None:
        self.count, self.limit, self.most, self.lucky = instruments, steps, most, lucky

    def obs_space(self) -> ObsSpace:
        """Return the account and the instruments."""
        names = ["mid", "spread", "volatility", "position", "last move", "volume"]
        return ObsSpace(entities={"Account": Entity(["cash", "time"]), "Instrument": Entity(names)})

    def action_space(self) -> dict[str, Any]:
        """Return the quotes of an instrument."""
        return {"Quote": CategoricalActionSpace(list(QUOTES))}

    def reset(self) -> Observation:
        """Open the market."""
        self.time, self.cash = 0, 0.0
        self.mid = self.rng.uniform(20, 200, self.count)
        self.spread = self.rng.uniform(0.2, 1.0, self.count)
        self.volatility = self.spread * self.rng.choice([0.3, 1.0, 2.0], self.count)
        self.volume = self.rng.uniform(0.3, 1.5, self.count)
        self.position = np.zeros(self.count)
        self.move = np.zeros(self.count)
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Trade with those who come, then let the prices move."""
        self.time += 1
        reward = 0.0
        orders = self.rng.poisson(self.volume, (2, self.count))
        chance = self.rng.random((2, self.count))
        quote = actions["Quote"]
        for (_, k), index in zip(quote.actors, quote.indices, strict=True):
            distances = list(QUOTES.values())[index]
            for side, distance in enumerate(distances or ()):
                if chance[side, k] < np.exp(-distance):
                    sign = -1 if side else 1  # who comes sells at the bid, and buys at the ask
                    room = self.most - sign * int(self.position[k])
                    amount = min(int(orders[side, k]), 3, room)
                    self.position[k] += sign * amount
                    price = self.mid[k] - sign * distance * self.spread[k] / 2
                    self.cash -= sign * price * amount
                    reward += distance * self.spread[k] / 2 * amount
        after = np.maximum(self.mid + self.volatility * self.rng.normal(size=self.count), 1)
        self.mid, self.move = after, after - self.mid
        reward -= 0.01 * float(self.position @ self.position)
        if self.lucky:
            reward += float(self.position @ self.move)
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the market."""
        over = self.time == self.limit
        columns = [self.mid, self.spread, self.volatility, self.position, self.move, self.volume]
        return Observation(
            features={"Account": [[self.cash, self.time]], "Instrument": np.column_stack(columns)},
            ids={"Instrument": [("paper", k) for k in range(self.count)]},
            actions={"Quote": CategoricalActionMask(actor_types=["Instrument"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Lean against the position, and quote wide where prices move much."""
    indices = []
    for _, spread, volatility, position, *_ in np.array(observation.features["Instrument"]):
        if abs(position) >= 2:
            indices.append(4 if position > 0 else 3)
        else:
            indices.append(2 if volatility > 0.5 * spread else 1)
    return {"Quote": CategoricalAction(observation.ids["Instrument"], indices, list(QUOTES))}
