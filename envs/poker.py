"""Kuhn and Leduc poker: two players with hidden cards."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index as whole
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, CategoricalAction
from entity_env.multi_player import SeatActions, SeatObservations
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import check_running, check_started, read_choices
from .small_game import SeatGame

__all__ = [
    "ACTIONS",
    "KUHN",
    "LEDUC",
    "SEATS",
    "BalancedPlayer",
    "InfoState",
    "KuhnPoker",
    "LeducPoker",
    "PokerGame",
    "PokerRules",
    "bets_seen",
    "equilibrium",
    "play_by_strength",
]


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


SEATS = ("first", "second")


class PokerGame(SeatGame):
    """A hand of poker for two players; subclasses pass the rules.

    Args:
        rules: Rules of the game.
        names: Letters of the ranks, from the lowest.
    """

    _action_space = {"Bet": CategoricalActionSpace(ACTIONS)}
    hides_state = True
    _seats = SEATS
    _saved = {"cards": [whole], "bets": [[whole]]}

    def __init__(self, rules: PokerRules, names: str) -> None:
        self.rules, self.names = rules, names
        self.cards: list[int] = []
        self.bets: tuple[tuple[int, ...], ...] = ((),)
        self._obs_space = ObsSpace(
            entities={
                "Player": Entity(["in_pot", "to_call"]),
                "Card": Entity(["public", Discrete("rank", rules.ranks)]),
                "Bet": Entity(
                    ["round", "number", "own", Discrete("action", len(ACTIONS), names=ACTIONS)]
                ),
            }
        )

    def _begin(self) -> None:
        rules = self.rules
        drawn = self.rng.permutation(rules.ranks * rules.suits)[: 1 + len(rules.bets)]
        self.cards = [int(card) // rules.suits for card in drawn]
        self.bets = ((),)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Take the action of the player whose turn it is."""
        check_running(self.steps, self._is_over)
        mover = self.rules.player(self.bets)
        mask = [self.rules.legal(self.bets)]
        own = actions.get(SEATS[mover], {})
        (chosen,) = read_choices(own, "Bet", ["me"], ACTIONS, mask)
        self.bets = self.rules.after(self.bets, chosen)
        self.steps += 1
        return self._shown()

    def resample(self, seat: Any = None) -> None:
        """Draw the other player's card, and the public card before it is shown."""
        own = SEATS.index(seat)
        shown = [self.cards[own], *([] if self._public is None else [self._public])]
        left = [rank for rank in range(self.rules.ranks) for _ in range(self.rules.suits)]
        for card in shown:
            left.remove(card)
        drawn = [left[i] for i in self.rng.permutation(len(left))]
        cards = list(self.cards)
        cards[1 - own] = drawn[0]
        if len(cards) > 2 and self._public is None:
            cards[2] = drawn[1]
        self.cards = cards

    def observe_state(self, state: InfoState) -> Observation:
        """Go to ``state``, and return the observation of the player to move."""
        player = self.rules.player(state.bets)
        # Nothing shows the other's card: any that is left will do.
        held = [state.card] if state.public is None else [state.card, state.public]
        left = next(rank for rank in range(self.rules.ranks) if held.count(rank) < self.rules.suits)
        cards = [left, left]
        cards[player] = state.card
        cards += [state.public or 0] if len(self.rules.bets) > 1 else []
        self._restore(cards=cards, bets=state.bets)
        return self.observe(player)

    def observe(self, player: int) -> Observation:
        """Return the observation of a player, without the other's card."""
        check_started(self.steps)
        put = self.rules.chips(self.bets)
        cards = [[0, self.cards[player]]]
        if self._public is not None:
            cards.append([1, self._public])
        bets = [
            [number, turn, turn % 2 == player, action]
            for number, done in enumerate(self.bets)
            for turn, action in enumerate(done)
        ]
        over = self._is_over
        to_call = 0 if over else put[1 - player] - put[player]
        seen = Observation(
            features={"Player": [[put[player], to_call]], "Card": cards, "Bet": bets},
            ids={"Player": ["me"]},
            done=over,
        )
        if over:
            won = self.rules.payoff((self.cards[0], self.cards[1]), self._public, self.bets)
            seen.reward = float(won if player == 0 else -won)
            seen.metrics = {"win": 0.5 + 0.5 * (seen.reward > 0) - 0.5 * (seen.reward < 0)}
        elif self.rules.player(self.bets) == player:
            mask = [self.rules.legal(self.bets)]
            seen.actions = {"Bet": CategoricalActionMask(actor_types=["Player"], mask=mask)}
        return seen

    def _problems(self, cards: list[int], bets: list[list[int]]) -> dict[str, bool]:
        rules = self.rules
        counts = [cards.count(rank) for rank in range(rules.ranks)]
        return {
            "another number of cards": len(cards) != 1 + len(rules.bets),
            "cards that there are not": sum(counts) != len(cards) or max(counts) > rules.suits,
            "bets that the rules do not allow": not self._is_possible(bets),
        }

    def _restore(self, **saved: Any) -> None:
        bets = tuple(map(tuple, saved["bets"]))
        super()._restore(cards=saved["cards"], bets=bets, steps=sum(map(len, bets)))

    def render_text(self) -> str:
        """Return both cards, the one on the table, and the bets of each round."""
        if not self.cards:
            return "no cards"
        put = self.rules.chips(self.bets)
        lines = [
            f"{seat}: {self.names[card]}, {chips} in the pot"
            for seat, card, chips in zip(SEATS, self.cards[:2], put, strict=True)
        ]
        if self._public is not None:
            lines.append(f"table: {self.names[self._public]}")
        lines += [" ".join(ACTIONS[action] for action in done) for done in self.bets if done]
        return "\n".join(lines)

    @property
    def _is_over(self) -> bool:
        return self.rules.is_over(self.bets)

    @property
    def _public(self) -> int | None:
        return self.cards[2] if len(self.bets) > 1 else None

    def _shown(self) -> SeatObservations:
        if self._is_over:
            return {seat: self.observe(player) for player, seat in enumerate(SEATS)}
        mover = self.rules.player(self.bets)
        return {SEATS[mover]: self.observe(mover)}

    def _is_possible(self, given: list[list[int]]) -> bool:
        """Return True if these bets follow from the rules, one after the other."""
        bets: tuple[tuple[int, ...], ...] = ((),)
        for action in (action for done in given for action in done):
            if self.rules.is_over(bets) or not 0 <= action < len(ACTIONS):
                return False
            if not self.rules.legal(bets)[action]:
                return False
            bets = self.rules.after(bets, action)
        return bets == tuple(map(tuple, given))


def bets_seen(observation: Observation) -> InfoState:
    """Return the knowledge of a player, from its observation."""
    features: Any = observation.features
    cards = {bool(public): int(rank) for public, rank in features["Card"]}
    rounds: list[list[int]] = [[], []] if True in cards else [[]]
    for number, _, _, action in features["Bet"]:
        rounds[int(number)].append(int(action))
    return InfoState(cards[False], cards.get(True), tuple(map(tuple, rounds)))


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
