"""Leduc poker: six cards, two rounds of bets, and a public card between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .poker import PokerGame, bets_seen
from .poker_rules import ACTIONS, CALL, FOLD, RAISE, PokerRules

__all__ = ["LEDUC", "LeducPoker", "play_by_strength"]

LEDUC = PokerRules(ranks=3, suits=2, bets=(2, 4), raises=2)


class LeducPoker(PokerGame):
    """Two players get one of six cards each, two jacks, two queens, two kings, and bet twice.

    A raise is 2 chips in the first round and 4 in the second, before which a card is revealed.
    There are at most two raises in a round. A player with a pair with the card on the table wins,
    otherwise the player with the higher card; players with equal cards share.

    Entities:
        A ``Player`` [in_pot, to_call], the seat itself, with the id "me": the chips that it has put
        in, and those that calling costs. ``Card`` [public, rank]: its own, and once it is revealed
        the one on the table, whose ``public`` is 1; rank 0 for a jack, 1 for a queen, 2 for a king.
        A ``Bet`` [round, number, own, action] for each earlier action: the round, its number in the
        round, 1 for the seat's own, and the action.
    Actions:
        ``Bet``: Fold, Call, which is a check where there is nothing to match, or Raise.
    Reward:
        The chips won or lost, when the hand is over: up to 13.
    End:
        When a player folds, or after the second round. The last observations have the metric
        ``win``: 1.0, 0.0, or 0.5 where cards are equal.
    Randomness:
        The cards.
    Source:
        Southey et al. 2005, Bayes' bluff: opponent modelling in poker.
    """

    def __init__(self) -> None:
        super().__init__(LEDUC, "JQK")


def play_by_strength(observation: Observation) -> dict[str, Action]:
    """Raise with a pair or a king, call with a queen, fold a jack to a bet.

    Once there is a card on the table, a king without a pair calls.
    """
    known = bets_seen(observation)
    actions: Any = observation.actions
    may_fold, _, may_raise = np.asarray(actions["Bet"].mask)[0].tolist()
    is_pair = known.card == known.public
    if (is_pair or (known.public is None and known.card == 2)) and may_raise:
        chosen = RAISE
    elif may_fold and known.card == 0 and not is_pair:
        chosen = FOLD
    else:
        chosen = CALL
    ids: Any = observation.ids
    return {"Bet": CategoricalAction(list(ids["Player"]), np.array([chosen]), ACTIONS)}
