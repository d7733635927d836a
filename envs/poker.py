"""The common part of Kuhn's and Leduc poker: two players with hidden cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any

from entity_env.observation import CategoricalActionMask, Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Discrete,
    Entity,
    ObsSpace,
)

from .checks import check_running, check_started, read_choices, reading_state, refuse_state
from .poker_rules import ACTIONS, InfoState, PokerRules

__all__ = ["SEATS", "PokerGame", "bets_seen"]

SEATS = ("first", "second")


class PokerGame(MultiPlayerEnvironment):
    """A hand of poker for two; subclasses say by which rules, and describe what is seen.

    Args:
        rules: Of the game.
        names: The ranks' letters, from the lowest.
    """

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
        self._action_space = {"Bet": CategoricalActionSpace(ACTIONS)}

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Bet``."""
        return self._action_space

    def seats(self) -> Sequence[str]:
        """Return the seats; the first one begins each round."""
        return SEATS

    def reset(self) -> SeatObservations:
        """Deal the cards of both players, and one for the table where there are two rounds."""
        rules = self.rules
        drawn = self.rng.permutation(rules.ranks * rules.suits)[: 1 + len(rules.bets)]
        self.cards = [int(card) // rules.suits for card in drawn]
        self.bets = ((),)
        return {SEATS[0]: self.observe(0)}

    def act(self, actions: SeatActions) -> SeatObservations:
        """Do what the player whose turn it is does."""
        check_running(self._steps, self._is_over)
        mover = self.rules.player(self.bets)
        mask = [self.rules.legal(self.bets)]
        own = actions.get(SEATS[mover], {})
        (chosen,) = read_choices(own, "Bet", ["me"], ACTIONS, mask)
        self.bets = self.rules.after(self.bets, chosen)
        return self._shown()

    def observe_state(self, state: InfoState) -> Observation:
        """Go to ``state``, and return the observation of the player to move."""
        player = self.rules.player(state.bets)
        # Nothing shows the other's card: any that is left will do.
        held = [state.card] if state.public is None else [state.card, state.public]
        left = next(rank for rank in range(self.rules.ranks) if held.count(rank) < self.rules.suits)
        cards = [left, left]
        cards[player] = state.card
        self.cards = [*cards, *([state.public or 0] if len(self.rules.bets) > 1 else [])]
        self.bets = state.bets
        return self.observe(player)

    def observe(self, player: int) -> Observation:
        """Return the observation of a player, without the other's card."""
        check_started(self._steps)
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

    def get_state(self) -> dict[str, Any]:
        """Return the ranks of the cards, the table's last, and the bets of each round."""
        check_started(self._steps)
        return {"cards": list(self.cards), "bets": [list(done) for done in self.bets]}

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go to a state of such a hand; else StateError."""
        rules, name = self.rules, type(self).__name__
        with reading_state(name, state):
            cards = [whole(card) for card in state["cards"]]
            given = tuple(tuple(whole(action) for action in done) for done in state["bets"])
        counts = [cards.count(rank) for rank in range(rules.ranks)]
        problems = {
            "another number of cards": len(cards) != 1 + len(rules.bets),
            "cards that there are not": sum(counts) != len(cards) or max(counts) > rules.suits,
            "bets that the rules do not allow": not self._is_possible(given),
        }
        refuse_state(name, state, problems)
        self.cards, self.bets = cards, given
        return self._shown()

    def render_text(self) -> str:
        """Both cards, the one on the table, and the bets of each round."""
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
    def _steps(self) -> int:
        return sum(map(len, self.bets)) if self.cards else -1

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

    def _is_possible(self, given: tuple[tuple[int, ...], ...]) -> bool:
        """Return True if these bets follow from the rules, one after the other."""
        bets: tuple[tuple[int, ...], ...] = ((),)
        for action in (action for done in given for action in done):
            if self.rules.is_over(bets) or not 0 <= action < len(ACTIONS):
                return False
            if not self.rules.legal(bets)[action]:
                return False
            bets = self.rules.after(bets, action)
        return bets == given


def bets_seen(observation: Observation) -> InfoState:
    """Return the knowledge of a player, from its observation."""
    features: Any = observation.features
    cards = {bool(public): int(rank) for public, rank in features["Card"]}
    rounds: list[list[int]] = [[], []] if True in cards else [[]]
    for number, _, _, action in features["Bet"]:
        rounds[int(number)].append(int(action))
    return InfoState(cards[False], cards.get(True), tuple(map(tuple, rounds)))
