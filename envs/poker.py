"""The common part of Kuhn's and Leduc poker: two players with hidden cards."""

from __future__ import annotations

from operator import index as whole
from typing import Any

from entity_env.multi_player import SeatActions, SeatObservations
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import check_running, check_started, read_choices
from .poker_rules import ACTIONS, InfoState, PokerRules
from .small_game import SeatGame

__all__ = ["SEATS", "PokerGame", "bets_seen"]

SEATS = ("first", "second")


class PokerGame(SeatGame):
    """A hand of poker for two players; subclasses pass the rules.

    Args:
        rules: Rules of the game.
        names: Letters of the ranks, from the lowest.
    """

    _action_space = {"Bet": CategoricalActionSpace(ACTIONS)}
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
