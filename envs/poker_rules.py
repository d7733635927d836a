"""The rules of small poker games for two, without cards' suits: who bets what, and who wins."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ACTIONS", "InfoState", "PokerRules"]

ACTIONS = ("Fold", "Call", "Raise")
"""Call matches what the other has put in, which may be nothing: a check."""
FOLD, CALL, RAISE = range(3)


@dataclass(frozen=True)
class InfoState:
    """All that the player who must decide knows.

    Args:
        card: The rank of their own card, from 0.
        public: Rank of the card on the table; None before there is one.
        bets: Actions of each round, as indices of ``ACTIONS``, which determine whose turn it is.
    """

    card: int
    public: int | None
    bets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PokerRules:
    """A game: each player gets a card, and each round but the first reveals one on the table.

    Each puts in one chip before the first round. In each round player 0 begins. A player may fold
    where the other has put in more, call, or raise while there are raises left; a round is over
    once both have had a turn and have put in the same. Then, or after the last round, a pair with
    the card on the table wins, else the higher card; equal cards share.

    Args:
        ranks: Number of ranks.
        suits: Number of cards of each rank.
        bets: The chips of a raise in each round; there are one or two.
        raises: The most raises in a round.
    """

    ranks: int
    suits: int
    bets: tuple[int, ...]
    raises: int

    def is_round_over(self, bets: tuple[int, ...]) -> bool:
        """Return True if a round in which this has been done is over."""
        return (len(bets) > 1 and bets[-1] == CALL) or FOLD in bets

    def is_over(self, bets: tuple[tuple[int, ...], ...]) -> bool:
        """Return True if the hand is over."""
        return FOLD in bets[-1] or (len(bets) == len(self.bets) and self.is_round_over(bets[-1]))

    def player(self, bets: tuple[tuple[int, ...], ...]) -> int:
        """Return the player whose turn it is."""
        return len(bets[-1]) % 2

    def legal(self, bets: tuple[tuple[int, ...], ...]) -> list[bool]:
        """Return a mask of ``ACTIONS`` for the player whose turn it is."""
        now = bets[-1]
        return [RAISE in now, True, now.count(RAISE) < self.raises]

    def after(self, bets: tuple[tuple[int, ...], ...], action: int) -> tuple[tuple[int, ...], ...]:
        """Return the bets after this action; begin a new round if one is over."""
        bets = (*bets[:-1], (*bets[-1], action))
        if self.is_round_over(bets[-1]) and not self.is_over(bets):
            bets = (*bets, ())
        return bets

    def chips(self, bets: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
        """Return the number of chips that each player has put in."""
        put = [1, 1]
        for size, done in zip(self.bets, bets, strict=False):
            for turn, action in enumerate(done):
                player = turn % 2
                if action != FOLD:
                    put[player] = put[1 - player] + (size if action == RAISE else 0)
        return put[0], put[1]

    def payoff(
        self, cards: tuple[int, int], public: int | None, bets: tuple[tuple[int, ...], ...]
    ) -> int:
        """Return the chips that player 0 wins from player 1 in a hand that is over."""
        put = self.chips(bets)
        if bets[-1][-1] == FOLD:
            return -put[0] if len(bets[-1]) % 2 else put[1]
        strengths = [(card == public, card) for card in cards]
        if strengths[0] == strengths[1]:
            return 0
        return put[1] if strengths[0] > strengths[1] else -put[0]
