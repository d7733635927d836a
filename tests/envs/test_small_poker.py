"""Kuhn's and Leduc poker: the rules by hand, what is seen, and exact exploitability."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from ragged_envs.poker import (
    ACTIONS,
    CALL,
    FOLD,
    KUHN,
    LEDUC,
    RAISE,
    BalancedPlayer,
    KuhnPoker,
    LeducPoker,
    bets_seen,
    equilibrium,
    play_by_strength,
)

from benchmarks.exploitability import best_response_value, exploitability, info_states, uniform
from entity_env import CategoricalAction, MaskedEnvironment, SeatRows, errors
from entity_env.play import play_scripted, random_policy


def play(game, *actions):
    """Return the result of the last of these actions."""
    for action in actions:
        seat = game.seats()[game.rules.player(game.bets)]
        told = game.act({seat: {"Bet": CategoricalAction(["me"], np.array([action]), ACTIONS)}})
    return told


def dealt(kind, *cards):
    game = kind()
    game.set_state({"cards": list(cards), "bets": [[]]})
    return game


@pytest.mark.parametrize(
    ("cards", "actions", "won"),
    [
        ((2, 0), (CALL, CALL), 1),  # check, check: the ante
        ((0, 2), (CALL, CALL), -1),
        ((0, 2), (RAISE, FOLD), 1),  # a bluff
        ((1, 2), (RAISE, CALL), -2),
        ((1, 0), (CALL, RAISE, CALL), 2),
        ((1, 0), (CALL, RAISE, FOLD), -1),
    ],
)
def test_hands_of_kuhn_poker(cards, actions, won):
    told = play(dealt(KuhnPoker, *cards), *actions)
    assert [told[seat].reward for seat in ("first", "second")] == [won, -won]
    assert all(seen.done for seen in told.values())


@pytest.mark.parametrize(
    ("cards", "actions", "won"),
    [
        # 1 + 2 for a raise, then 4 more for one in the second round
        ((2, 0, 0), (RAISE, CALL, RAISE, CALL), -7),  # the jack has a pair
        ((2, 1, 0), (RAISE, CALL, RAISE, CALL), 7),  # the higher card
        ((1, 1, 0), (CALL, CALL, RAISE, CALL), 0),  # equal cards
        ((2, 0, 1), (CALL, RAISE, FOLD), -1),
        # two raises: 1 + 2 + 2 = 5 of the second and 3 of the first, who folds
        ((2, 0, 1), (RAISE, RAISE, FOLD), -3),
        # all that can be lost: 1 + 2 * 2 + 2 * 4 = 13
        ((1, 2, 1), (RAISE, RAISE, CALL, RAISE, RAISE, CALL), 13),
        ((1, 2, 0), (CALL, CALL, RAISE, RAISE, FOLD), -5),
    ],
)
def test_hands_of_leduc_poker(cards, actions, won):
    told = play(dealt(LeducPoker, *cards), *actions)
    assert [told[seat].reward for seat in ("first", "second")] == [won, -won]


def test_what_may_be_done():
    assert LEDUC.legal(((),)) == [False, True, True]
    assert LEDUC.legal(((RAISE,),)) == [True, True, True]
    assert LEDUC.legal(((RAISE, RAISE),)) == [True, True, False]
    assert LEDUC.legal(((CALL, CALL), ())) == [False, True, True]
    assert KUHN.legal(((RAISE,),)) == [True, True, False]
    game = dealt(KuhnPoker, 0, 1)
    with pytest.raises(errors.ActionError):
        play(game, FOLD)
    play(game, RAISE, CALL)
    with pytest.raises(errors.ResetNeededError):
        play(game, CALL)


def test_a_player_sees_its_own_card_only():
    """All that a seat ever sees is the same, whatever the other holds and the table will show."""
    for actions in itertools.product((CALL, RAISE), (CALL, RAISE)):
        seen = set()
        for other, public in itertools.product(range(3), range(3)):
            if [1, other, public].count(other) > 2:
                continue
            game = LeducPoker()
            told = game.set_state({"cards": [1, other, public], "bets": [[]]})
            shown = [told["first"]]
            shown += [play(game, action).get("first") for action in actions]
            seen.add(
                tuple(
                    repr((dict(one.features), one.actions))
                    for one in shown
                    if one is not None and game.bets[0] == game.bets[-1]
                )
            )
        assert len(seen) == 1, actions


def test_a_player_sees_what_it_knows():
    game = LeducPoker()
    game.seed(0)
    for _ in range(50):
        told, rng = game.reset(), np.random.default_rng(0)
        while not game.rules.is_over(game.bets):
            (seen,) = told.values()
            state = bets_seen(seen)
            assert state.bets == game.bets
            assert state.card == game.cards[game.rules.player(game.bets)]
            assert state.public == (game.cards[2] if len(game.bets) > 1 else None)
            legal = np.flatnonzero(game.rules.legal(game.bets))
            told = play(game, int(rng.choice(legal)))
    for kind in (KuhnPoker, LeducPoker):
        for state in info_states(kind().rules):
            assert bets_seen(kind().observe_state(state)) == state


def test_kuhns_equilibrium_cannot_be_exploited_and_is_worth_a_18th():
    for bluff in (0.0, 0.2, 1 / 3):

        def policy(state, bluff=bluff):
            return equilibrium(state, bluff)

        assert exploitability(KUHN, policy) == pytest.approx(0.0, abs=1e-12)
        assert best_response_value(KUHN, policy, 0) == pytest.approx(-1 / 18)


def test_the_best_response_to_uniform_play_of_kuhn_poker_by_hand():
    # As the second player against uniform play, six deals of probability 1/6:
    # King: bet after a check (the first calls half of the time: (1 + 2) / 2 = 1.5) and call a bet
    #   (2): 1/2 * 1.5 + 1/2 * 2 = 1.75, against both cards.
    # Jack: after a check, check (-1) or bet (half the time +1, half -2: -0.5): bet; after a bet
    #   fold (-1): 1/2 * -0.5 + 1/2 * -1 = -0.75, against both.
    # Queen: against jack and king alike likely. After a check, check: 0, bet: (0.5*1 + 0.5*2 +
    #   0.5*1 - 0.5*2) / 2 = 0.5; after a bet call: 0, fold: -1. 1/2 * 0.5 + 1/2 * 0 = 0.25.
    assert best_response_value(KUHN, uniform(KUHN), 1) == pytest.approx((1.75 - 0.75 + 0.25) / 3)
    # As the first: king: bet 1.5, or check: half the time 1, half a bet to call, 2: 1.5; the same.
    # Jack: bet -0.5; check: half -1, half -1 (fold): -1. Queen: bet 0.5 * 1 + 0.5 * (2 - 2) / 2 =
    #   0.5; check: half 0, half 0 (call) : 0. In all (1.5 - 0.5 + 0.5) / 3.
    assert best_response_value(KUHN, uniform(KUHN), 0) == pytest.approx(0.5)
    assert exploitability(KUHN, uniform(KUHN)) == pytest.approx((5 / 12 + 1 / 2) / 2)


def test_best_responses_of_leduc_poker_are_those_that_others_have_found():
    # NashConv of uniform play is known to be 4.747222, two players' gains together.
    assert exploitability(LEDUC, uniform(LEDUC)) == pytest.approx(4.747222 / 2, abs=1e-6)
    assert len(list(info_states(LEDUC))) == 288
    assert len(list(info_states(KUHN))) == 12


def test_the_game_pays_what_the_tree_says():
    """Random hands of the environment, beside the exact value of uniform play, by hand."""
    rows, policy = SeatRows(LeducPoker, 400, 0), random_policy(0)
    obs, won = rows.reset(), []
    while len(won) < 6000:
        obs = rows.act(policy(obs))
        won += obs.reward[::2][obs.done[::2]].tolist()
    # Both play alike, so that showdowns pay nothing on average. With p chips from each before a
    # round of bets b, and F, C, R for fold, call, raise, the folds pay the first player
    #   CRF -p / 12, CRRF (p + b) / 24, RF p / 6, RRF -(p + b) / 12, in all (p - b) / 24.
    # The first round (p = 1, b = 2) pays -1/24. The second one (b = 4) follows with p = 1, 3, 5
    # with the probabilities 1/4, 1/4, 1/8: (-3/4 - 1/4 + 1/8) / 24. The sum is -5/64.
    assert np.mean(won) == pytest.approx(-5 / 64, abs=4 * np.std(won) / len(won) ** 0.5)


def test_scripts_play_from_what_they_see():
    won = play_scripted(lambda: MaskedEnvironment(KuhnPoker), BalancedPlayer(), 600, 0)
    assert won["episodic_reward"].mean() > 0.05
    won = play_scripted(lambda: MaskedEnvironment(LeducPoker), play_by_strength, 400, 0)
    assert won["episodic_reward"].mean() > 0.4


@pytest.mark.parametrize("kind", [KuhnPoker, LeducPoker])
def test_bad_states_are_refused(kind):
    game = kind()
    game.reset()
    play(game, RAISE)
    assert "Raise" in game.render_text()
    good = json.loads(json.dumps(game.get_state()))
    for change, words in (
        ({"cards": [0]}, "another number of cards"),
        ({"cards": [7] * len(good["cards"])}, "cards that there are not"),
        ({"cards": [1] * len(good["cards"])}, "cards that there are not"),  # more than suits
        ({"bets": [[RAISE, 9]]}, "bets that the rules do not allow"),
        ({"bets": [[FOLD]]}, "bets that the rules do not allow"),
        ({"bets": 3}, "not a state"),
    ):
        with pytest.raises(errors.StateError, match=words):
            game.set_state({**good, **change})
