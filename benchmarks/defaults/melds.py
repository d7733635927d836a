"""A player lays cards of a hand on the table; three that belong together are a set, and pay."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from entity_env import (
    Discrete,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

Card = tuple[int, int]


def worth(cards: list[Card]) -> int:
    """Return what three cards pay: 5 for a run in a suit, 3 for one rank, 1 for one suit."""
    suits = {suit for suit, _ in cards}
    low, middle, high = sorted(rank for _, rank in cards)
    if low == high:
        return 3
    if len(suits) > 1:
        return 0
    return 5 if high - middle == middle - low == 1 else 1


class Melds(Environment):
    """What each set pays; three cards that are none are thrown away. The hand is always full."""

    def __init__(self, hand: int = 8, ranks: int = 9, turns: int = 90) -> None:
        self.hand_size, self.ranks, self.limit = hand, ranks, turns

    def obs_space(self) -> ObsSpace:
        """Return the player, the hand, and the cards on the table."""
        card = [Discrete("suit", 4), "rank"]
        return ObsSpace(
            entities={"Player": Entity(["turn"]), "Hand": Entity(card), "Table": Entity(card)}
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a card."""
        return {"Lay": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Deal."""
        self.turn = 0
        self.hand = [self.draw() for _ in range(self.hand_size)]
        self.table: list[Card] = []
        return self.observe(0)

    def draw(self) -> Card:
        """Return a card of an endless stock."""
        return int(self.rng.integers(4)), int(self.rng.integers(self.ranks))

    def act(self, actions: Any) -> Observation:
        """Lay a card and draw another one; the third card closes the set."""
        self.turn += 1
        place = actions["Lay"].actees[0][1]
        self.table.append(self.hand[place])
        self.hand[place] = self.draw()
        reward = 0
        if len(self.table) == 3:
            reward = worth(self.table)
            self.table = []
        return self.observe(reward)

    def observe(self, reward: int) -> Observation:
        """Return the cards."""
        over = self.turn == self.limit
        return Observation(
            features={
                "Player": [[self.turn]],
                "Hand": [list(card) for card in self.hand],
                "Table": [list(card) for card in self.table],
            },
            ids={"Player": ["player"], "Hand": [("hand", k) for k in range(self.hand_size)]},
            actions={"Lay": SelectEntityActionMask(actor_ids=["player"], actee_types=["Hand"])},
            reward=float(reward),
            done=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Go for the best set that hand and table allow; without one, begin with the loneliest card."""
    hand = [(int(suit), int(rank)) for suit, rank in observation.features["Hand"]]
    table = [(int(suit), int(rank)) for suit, rank in observation.features["Table"]]
    sets = combinations(range(len(hand)), 3 - len(table))
    best = max(sets, key=lambda places: worth([*table, *(hand[k] for k in places)]))
    if worth([*table, *(hand[k] for k in best)]):
        chosen = best[0]
    else:

        def friends(k: int) -> int:
            suit, rank = hand[k]
            return sum(
                other[1] == rank or (other[0] == suit and abs(other[1] - rank) < 3)
                for other in hand
            )

        chosen = min(range(len(hand)), key=friends)
    return {"Lay": SelectEntityAction(["player"], [("hand", chosen)])}
