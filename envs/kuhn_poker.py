"""Kuhn poker, a game with three cards and one bet, in which optimal play includes bluffing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .poker import PokerGame, bets_seen
from .poker_rules import ACTIONS, CALL, RAISE, InfoState, PokerRules

__all__ = ["KUHN", "BalancedPlayer", "KuhnPoker", "equilibrium"]

KUHN = PokerRules(ranks=3, suits=1, bets=(1,), raises=1)


class KuhnPoker(PokerGame):
    """Two players get one of the cards jack, queen, king, and may bet one chip.

    Entities:
        A ``Player`` [in_pot, to_call], the seat itself, with the id "me": the chips that it has put
        in, and those that calling costs. A ``Card`` [public, rank], its own: public is 0, rank 0
        for the jack, 1 for the queen, 2 for the king. A ``Bet`` [round, number, own, action] for
        each earlier action: round 0, its number in the round, 1 for the seat's own, and the action.
    Actions:
        ``Bet``: Fold, Call, which is a check if there is no bet, or Raise.
    Reward:
        The chips won or lost, when the hand is over: 1 or 2.
    End:
        After two or three actions. The last observations have the metric ``win``: 1.0 or 0.0.
    Randomness:
        The cards.
    Source:
        H. W. Kuhn, A simplified two-person poker, 1950. In an equilibrium, the first player wins
        -1/18 chips per hand.
    """

    def __init__(self) -> None:
        super().__init__(KUHN, "JQK")


def equilibrium(state: InfoState, bluff: float = 1 / 3) -> npt.NDArray[np.float64]:
    """Return a perfect player (Kuhn 1950): the probabilities of Fold, Call and Raise.

    Args:
        state: State known to the player.
        bluff: Probability that the first player bets with a jack, 0 to 1/3.
    """
    jack, queen, king = (state.card == rank for rank in range(3))
    (done,) = state.bets
    if done == ():
        raising = bluff * jack + 3 * bluff * king
    elif done == (CALL,):
        raising = jack / 3 + king
    else:  # a bet, to call or to fold
        calling = king + queen * (1 / 3 if done == (RAISE,) else bluff + 1 / 3)
        return np.array([1 - calling, calling, 0.0])
    return np.array([0.0, 1 - raising, raising])


class BalancedPlayer:
    """A scripted player that plays ``equilibrium``.

    Args:
        seed: Seed of its random numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart its random numbers."""
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation: Observation) -> dict[str, Action]:
        """Return the actions."""
        chosen = self._rng.choice(len(ACTIONS), p=equilibrium(bets_seen(observation)))
        ids: Any = observation.ids
        return {"Bet": CategoricalAction(list(ids["Player"]), np.array([chosen]), ACTIONS)}
