"""Solitaire: play cards that rise, or fall in the same suit; only the end of a game pays."""

from __future__ import annotations

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


class Cards(Environment):
    """A game is won, for 1, when 16 cards lie on the pile; it is lost when no card fits."""

    def __init__(self, hand: int = 5, goal: int = 16) -> None:
        self.hand_size, self.goal = hand, goal

    def obs_space(self) -> ObsSpace:
        """Return the player, the pile's top and the hand."""
        card = [Discrete("suit", 4), "rank"]
        return ObsSpace(
            entities={"Player": Entity(["played"]), "Top": Entity(card), "Card": Entity(card)}
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a card."""
        return {"Play": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Shuffle and deal."""
        order = self.rng.permutation(52)
        self.deck = [(int(card) // 13, int(card) % 13) for card in order]
        self.top = self.deck.pop()
        self.hand = [self.deck.pop() for _ in range(self.hand_size)]
        self.played = 0
        return self.observe()

    def fitting(self) -> list[int]:
        """Return the positions of the cards that may be played."""
        suit, rank = self.top
        return [k for k, (s, r) in enumerate(self.hand) if r > rank or (s == suit and r < rank)]

    def act(self, actions: Any) -> Observation:
        """Play a card and draw another one."""
        self.top = self.hand.pop(actions["Play"].actees[0][1])
        self.played += 1
        if self.deck:
            self.hand.append(self.deck.pop())
        return self.observe()

    def observe(self) -> Observation:
        """Return the table."""
        fits = self.fitting()
        is_won = self.played == self.goal
        over = is_won or not fits
        return Observation(
            features={
                "Player": [[self.played]],
                "Top": [list(self.top)],
                "Card": [list(card) for card in self.hand],
            },
            ids={"Player": ["player"], "Card": [("card", k) for k in range(len(self.hand))]},
            actions={}
            if over
            else {
                "Play": SelectEntityActionMask(
                    actor_ids=["player"], actee_ids=[("card", k) for k in fits]
                )
            },
            reward=float(is_won),
            done=over,
            metrics={"win": float(is_won)} if over else {},
        )


def script(observation: Observation) -> dict[str, Any]:
    """Rise by as little as possible; fall as far as possible when the pile is high."""
    cards = observation.features["Card"]
    suit, rank = observation.features["Top"][0]
    fits = [card[1] for card in observation.actions["Play"].actee_ids]

    def cost(k: int) -> float:
        falls = cards[k][0] == suit and cards[k][1] < rank
        return cards[k][1] - rank if not falls else (cards[k][1] if rank > 6 else 20)

    best = min(fits, key=cost)
    return {"Play": SelectEntityAction(["player"], [("card", best)])}
