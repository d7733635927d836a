"""Games of a few lines, each of which shows one thing: rules by hand, draws, texts and scripts."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from game_support import assert_bad_states_are_refused, choose, plain, select
from ragged_envs.cherry_pick import CherryPick, pick_best
from ragged_envs.count import NUMBERS, Count, count_beans
from ragged_envs.multi_armed_bandit import ARMS, MultiArmedBandit, pull_a
from ragged_envs.not_hotdog import ANSWERS, NotHotdog, spot_hotdog
from ragged_envs.repeat_after_k import RepeatAfterK
from ragged_envs.rock_paper_scissors import THROWS, RockPaperScissors, throw_best
from ragged_envs.xor import OUTPUTS, Xor, output_xor

from entity_env import GlobalCategoricalAction, make
from entity_env.errors import SettingError
from entity_env.play import play_episodes, play_scripted, random_policy

ROCK, PAPER, SCISSORS = 0, 1, 2
HOTDOG, NOT_HOTDOG = 0, 1


def xor(first, second):
    env = Xor()
    env.set_state({"bits": [first, second], "output": None})
    return env


def hotdog(thing):
    env = NotHotdog()
    env.set_state({"thing": thing, "answer": None})
    return env


def count(beans, allowed=tuple(range(10))):
    env = Count(masked_choices=len(allowed))
    env.set_state({"beans": beans, "allowed": list(allowed), "answer": None})
    return env


def cherries(*qualities, picks=2):
    env = CherryPick(len(qualities), picks)
    env.set_state({"cherries": [[i, q] for i, q in enumerate(qualities)], "steps": 0})
    return env


def bandit(steps):
    env = MultiArmedBandit()
    env.set_state({"steps": steps})
    return env


def against(opponent, cheat=False):
    env = RockPaperScissors(cheat)
    env.set_state({"opponent": opponent, "throw": None})
    return env


def repeating(symbol, steps, k=3):
    env = RepeatAfterK(k)
    env.set_state({"symbol": symbol, "steps": steps, "answer": None})
    return env


def pick(cherry):
    return select("Pick Cherry", ("Cherry", cherry))


CHOICES = {
    Xor: ("output", OUTPUTS),
    NotHotdog: ("classify", ANSWERS),
    Count: ("count", NUMBERS),
    RockPaperScissors: ("throw", THROWS),
    RepeatAfterK: ("say", ("0", "1", "2", "3")),
}


def answer(env, index):
    """Play the choice of this index in a game of one categorical choice."""
    name, labels = CHOICES[type(env)]
    return env.act(choose(name, ["Player"], [index], labels))


# ---- what is seen -------------------------------------------------------------------------------


def test_xor_shows_both_bits():
    observation = xor(0, 1).observe()
    assert plain(observation) == {
        "features": {"Bit": [[0], [1]], "Player": [[]]},
        "global_features": [],
        "masks": {"output": None},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert list(observation.ids["Player"]) == ["Player"]
    assert list(observation.actions["output"].actor_types) == ["Player"]


@pytest.mark.parametrize(
    ("thing", "objects", "hotdogs"),
    [("object", [[0]], []), ("hotdog object", [[1]], []), ("hotdog", [], [()])],
)
def test_a_hotdog_is_an_object_or_a_type(thing, objects, hotdogs):
    observation = hotdog(thing).observe()
    assert observation.features == {"Player": [()], "Object": objects, "Hotdog": hotdogs}
    assert observation.actions["classify"].actor_types == ("Player",)
    assert observation.actions["unused_action"].actor_types == ()


def test_beans_are_entities_and_some_numbers_are_masked():
    observation = count(3, (2, 3, 9)).observe()
    assert {name: len(rows) for name, rows in observation.features.items()} == {
        "Bean": 3,
        "Player": 1,
    }
    assert observation.actions["count"].actor_types == ["Player"]
    # choices        0      1      2     3     4      5      6      7      8      9
    assert observation.actions["count"].mask == [
        [False, False, True, True, False, False, False, False, False, True]
    ]
    assert count(3).observe().actions["count"].mask is None
    assert len(count(0).observe().features["Bean"]) == 0


def test_only_a_cheat_sees_the_opponent():
    for cheat, visible in ((False, {"Opponent": [False]}), (True, {})):
        observation = against(SCISSORS, cheat).observe()
        assert observation.features == {"Opponent": [[2]], "Player": [()]}
        assert observation.visible == visible


# ---- what is paid -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("create", "options", "right"),
    [
        *((functools.partial(xor, a, b), 2, a ^ b) for a in (0, 1) for b in (0, 1)),
        (functools.partial(hotdog, "object"), 2, NOT_HOTDOG),
        (functools.partial(hotdog, "hotdog object"), 2, HOTDOG),
        (functools.partial(hotdog, "hotdog"), 2, HOTDOG),
        *((functools.partial(count, beans), 10, beans) for beans in (0, 1, 8, 9)),
        (functools.partial(repeating, 2, 3), 4, 2),
    ],
)
def test_the_right_answer_pays(create, options, right):
    for index in range(options):
        last = answer(create(), index)
        assert (last.done, last.truncated) == (True, False)
        assert last.reward == last.metrics["win"] == float(index == right)


def test_every_pair_of_throws():
    wins = {(ROCK, PAPER), (PAPER, SCISSORS), (SCISSORS, ROCK)}  # the opponent's comes first
    for opponent in range(3):
        for throw in range(3):
            last = answer(against(opponent), throw)
            assert last.done
            assert last.reward == 2.0 * ((opponent, throw) in wins)
            assert last.metrics == {"win": last.reward / 2}


def test_a_game_of_cherries():
    env = cherries(0.25, -1.0, 0.75, 0.5)
    first = env.act(pick(2))
    assert plain(first) == {
        "features": {"Cherry": [[0.25], [-1.0], [0.5]], "Player": [[]]},
        "global_features": [],
        "masks": {"Pick Cherry": None},
        "reward": 0.75,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    # the ids of the others stay
    assert first.ids == {"Cherry": [("Cherry", i) for i in (0, 1, 3)], "Player": ["Player"]}
    assert list(first.actions["Pick Cherry"].actor_types) == ["Player"]
    assert list(first.actions["Pick Cherry"].actee_types) == ["Cherry"]
    last = env.act(pick(1))
    assert (last.reward, last.done, last.truncated) == (-1.0, True, False)
    assert last.features["Cherry"] == [(0.25,), (0.5,)]


def test_an_episode_of_32_pulls():
    env = MultiArmedBandit()
    observation = env.reset()
    assert (observation.features, observation.global_features) == ({}, [0])
    rewards = []
    for step in range(32):
        assert not observation.done
        observation = env.act({"pull": GlobalCategoricalAction(step % 5, ARMS[step % 5])})
        assert observation.global_features == [step + 1]
        rewards.append(observation.reward)
    assert (observation.done, observation.truncated) == (True, False)
    # A is pulled in steps 0, 5, ..., 30: 7 times
    assert rewards == [1 / 32 if step % 5 == 0 else 0.0 for step in range(32)]


def test_a_symbol_is_shown_and_asked_for_k_steps_later():
    env = repeating(2, 0)
    shown = [env.observe(), env.act({}), env.act({}), env.act({})]
    assert [plain(own)["features"] for own in shown] == [
        {"Symbol": [[2]], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [[]], "Player": [[]]},
    ]
    assert [list(own.actions["say"].actor_types) for own in shown] == [[], [], [], ["Player"]]
    assert not any(own.done or own.reward for own in shown)
    assert answer(env, 2).reward == 1.0
    # The question says nothing about the symbol.
    assert plain(repeating(0, 3).observe()) == plain(repeating(3, 3).observe())


# ---- how episodes begin -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "drawn", "expected"),
    [
        # Of 4,000 games; the standard deviation is at most 32.
        (Xor, lambda env, seen: str(seen.features["Bit"]), [1000] * 4),
        (NotHotdog, lambda env, seen: env.thing, [1000, 1000, 2000]),
        (RepeatAfterK, lambda env, seen: seen.features["Symbol"][0][0], [1000] * 4),
        (RockPaperScissors, lambda env, seen: seen.features["Opponent"][0][0], [2000, 1200, 800]),
    ],
)
def test_beginnings_are_as_likely_as_they_should_be(kind, drawn, expected):
    env = kind()
    env.seed(0)
    found = [drawn(env, env.reset()) for _ in range(4000)]
    counts = [found.count(value) for value in sorted(set(found))]
    if kind is NotHotdog:
        counts.sort()
        assert found.count("object") == counts[-1]
    assert counts == pytest.approx(expected, abs=130)


@pytest.mark.parametrize("masked_choices", [1, 4, 10])
def test_the_mask_allows_the_right_number_and_so_many_in_all(masked_choices):
    env = Count(masked_choices)
    env.seed(0)
    for _ in range(40):
        observation = env.reset()
        allowed = env.get_state()["allowed"]
        assert len(allowed) == masked_choices
        assert len(observation.features["Bean"]) in allowed


def test_all_numbers_are_as_likely_right_and_wrong():
    # 9,000 games: each number is right in 900, deviation 28; each wrong one is allowed in
    # 2/9 of the 8,100 games where it is wrong, 1,800, deviation 37
    env = Count(masked_choices=3)
    env.seed(0)
    right, wrong = np.zeros(10), np.zeros(10)
    for _ in range(9000):
        beans = len(env.reset().features["Bean"])
        right[beans] += 1
        wrong[[number for number in env.get_state()["allowed"] if number != beans]] += 1
    assert np.abs(right - 900).max() < 125
    assert np.abs(wrong - 1800).max() < 165


@pytest.mark.parametrize(("number", "picks"), [(32, 16), (5, 2), (4, 4), (1, 1)])
def test_the_best_cherries_sum_to_1(number, picks):
    env = CherryPick(number, picks)
    env.seed(0)
    for _ in range(20):
        qualities = sorted(quality for (quality,) in env.reset().features["Cherry"])
        assert len(qualities) == number
        assert sum(qualities[-picks:]) == pytest.approx(1.0)


# ---- states, settings, texts --------------------------------------------------------------------


def picked():
    env = cherries(0.25, -1.0, 0.75)
    env.act(pick(1))
    return env


@pytest.mark.parametrize(
    ("env", "changes"),
    [
        (
            xor(1, 1),
            [
                ({"bits": [0]}, "number of bits"),
                ({"bits": [0, 2]}, "a bit"),
                ({"bits": [0, 0.5]}, "not a state"),
                ({"output": 2}, "an output"),
            ],
        ),
        (
            hotdog("hotdog"),
            [
                ({"thing": "sausage"}, "a thing"),
                ({"thing": ["hotdog"]}, "a thing"),
                ({"answer": "yes"}, "an answer"),
            ],
        ),
        (
            count(4, (4, 7)),
            [
                ({"beans": 10}, "right answer"),
                ({"beans": 5}, "right answer"),
                ({"allowed": [4]}, "number of allowed"),
                ({"allowed": [4, 4]}, "number of allowed"),
                ({"allowed": [4, 4, 7]}, "number of allowed"),
                ({"allowed": [4, 10]}, "0 to 9"),
                ({"allowed": None}, "not a state"),
                ({"answer": 5}, "an answer"),
            ],
        ),
        (
            picked(),
            [
                ({"steps": 3}, "number of picks"),
                ({"steps": -1}, "number of picks"),
                ({"steps": 0}, "number of cherries"),
                ({"cherries": [[0, 0.25]]}, "number of cherries"),
                ({"cherries": [[0, 0.25], [0, 0.75]]}, "twice"),
                ({"cherries": [[0, 0.25], [3, 0.75]]}, "unknown"),
                ({"cherries": [[0, 0.25], [2, float("nan")]]}, "not a state"),
            ],
        ),
        (bandit(7), [({"steps": 33}, "0 to 32"), ({"steps": -1}, "0 to 32")]),
        (against(SCISSORS), [({"opponent": 3}, "an opponent's throw"), ({"throw": -1}, "a throw")]),
        (
            repeating(1, 2),
            [
                ({"symbol": 4}, "a symbol"),
                ({"steps": 5}, "beyond the last"),
                ({"steps": 4}, "before its time, or none"),
                ({"answer": 1}, "before its time"),
                ({"answer": 7}, "an answer"),
            ],
        ),
    ],
    ids=lambda own: type(own).__name__,
)
def test_states_that_do_not_fit_are_refused_and_change_nothing(env, changes):
    assert_bad_states_are_refused(env, changes)


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("xor", {"width": 3}, "width"),
        *(("count", {"masked_choices": n}, "masked_choices") for n in (0, 11, 2.0, "2", True)),
        ("cherry_pick", {"num_cherries": 0}, "num_cherries"),
        ("cherry_pick", {"num_cherries": 10_001}, "num_cherries"),
        ("cherry_pick", {"num_cherries": 32.0}, "num_cherries"),
        ("cherry_pick", {"num_picks": 0}, "num_picks"),
        ("cherry_pick", {"num_picks": 33}, "num_picks"),
        ("cherry_pick", {"num_cherries": 8}, "num_picks"),
        ("rock_paper_scissors", {"cheat": 1}, "cheat"),
        ("repeat_after_k", {"k": 0}, "k"),
        ("repeat_after_k", {"k": 2.5}, "k"),
        ("repeat_after_k", {"symbols": 1}, "symbols"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name, settings, text):
    with pytest.raises(SettingError, match=text):
        make(name, **settings)


@pytest.mark.parametrize(
    ("env", "before", "index", "after"),
    [
        (xor(1, 0), "1 xor 0 = ?", 0, "1 xor 0 = 0"),
        (hotdog("hotdog"), "hotdog: ?", NOT_HOTDOG, "hotdog: not_hotdog"),
        (count(3), "How many?\no o o . . . . . .", 2, "2\no o o . . . . . ."),
        (against(SCISSORS), "? against scissors", ROCK, "rock against scissors"),
        (repeating(2, 3), "2 . . ?", 1, "2 . . ? 1"),
    ],
    ids=lambda own: type(own).__name__,
)
def test_texts_show_the_game_before_and_after_the_answer(env, before, index, after):
    assert env.render_text() == before
    answer(env, index)
    assert env.render_text() == after


def test_texts_count_picks_and_pulls():
    env = cherries(0.25, -1.0, 0.75)
    env.act(pick(0))
    assert env.render_text() == "1 of 2 picks, left: 0.75 -1.00"
    assert bandit(3).render_text() == "3 of 32 pulls"


# ---- scripts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("create", "script", "expected"),
    [
        (Xor, output_xor, 1.0),
        (NotHotdog, spot_hotdog, 1.0),
        (functools.partial(Count, 2), count_beans, 1.0),
        (Count, count_beans, 1.0),
        (CherryPick, pick_best, 1.0),
        (MultiArmedBandit, pull_a, 1.0),
        (functools.partial(RockPaperScissors, True), throw_best, 2.0),
    ],
)
def test_scripts_are_always_right(create, script, expected):
    returns = play_scripted(create, script, 100, seed=1)["episodic_reward"]
    assert returns == pytest.approx(np.full(100, expected))


def test_the_script_throws_paper_where_it_sees_nothing():
    # 2,000 games: mean 1, standard deviation 1 / 2000**0.5 = 0.022
    returns = play_scripted(RockPaperScissors, throw_best, 2000, seed=1)["episodic_reward"]
    assert returns.mean() == pytest.approx(1.0, abs=0.09)


@pytest.mark.parametrize(
    ("create", "games", "expected", "tolerance"),
    [
        # Standard deviations: at most 0.011 of 2,000 games, and of 200 with 32 pulls 0.005.
        (Xor, 2000, 0.5, 0.045),
        (NotHotdog, 2000, 0.5, 0.045),
        (functools.partial(Count, 2), 2000, 0.5, 0.045),
        (functools.partial(Count, 10), 2000, 0.1, 0.045),
        (MultiArmedBandit, 200, 0.2, 0.02),
    ],
)
def test_random_play_is_right_as_often_as_chance(create, games, expected, tolerance):
    returns = play_episodes(create, random_policy(1), games, seed=1)["episodic_reward"]
    assert returns.mean() == pytest.approx(expected, abs=tolerance)
