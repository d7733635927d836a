import pytest
from game_support import assert_bad_states_are_refused, choose, plain
from ragged_envs.repeat_after_k import RepeatAfterK

from entity_env import make
from entity_env.errors import SettingError


def say(symbol):
    return choose("say", ["Player"], [symbol], ("0", "1", "2", "3"))


def at(symbol, steps, k=3):
    env = RepeatAfterK(k)
    env.set_state({"symbol": symbol, "steps": steps, "answer": None})
    return env


def test_a_symbol_is_shown_and_asked_for_k_steps_later():
    env = at(2, 0)
    shown = [env.observe(), env.act({}), env.act({}), env.act({})]
    assert [plain(own)["features"] for own in shown] == [
        {"Symbol": [[2]], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [], "Player": [[]]},
        {"Symbol": [], "Question": [[]], "Player": [[]]},
    ]
    assert [list(own.actions["say"].actor_types) for own in shown] == [[], [], [], ["Player"]]
    assert not any(own.done or own.reward for own in shown)
    last = env.act(say(2))
    assert (last.done, last.truncated, last.reward, last.metrics) == (True, False, 1.0, {"win": 1})


def test_another_answer_is_worth_nothing():
    last = at(2, 3).act(say(1))
    assert (last.done, last.reward, last.metrics) == (True, 0.0, {"win": 0})


def test_the_question_says_nothing_about_the_symbol():
    assert plain(at(0, 3).observe()) == plain(at(3, 3).observe())


def test_all_symbols_are_as_likely():
    # 4,000 games: 1,000 of each expected, standard deviation 27
    env = RepeatAfterK()
    env.seed(0)
    drawn = [env.reset().features["Symbol"][0][0] for _ in range(4000)]
    assert [drawn.count(symbol) for symbol in range(4)] == pytest.approx([1000] * 4, abs=120)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    changes = [
        ({"symbol": 4}, "a symbol"),
        ({"symbol": 0.5}, "not a state"),
        ({"steps": 5}, "beyond the last"),
        ({"steps": 4}, "before its time, or none"),
        ({"answer": 1}, "before its time"),
        ({"answer": 7}, "an answer"),
    ]
    assert_bad_states_are_refused(at(1, 2), changes)


def test_settings():
    for wrong in ({"k": 0}, {"symbols": 1}, {"k": 2.5}, {"width": 3}):
        with pytest.raises(SettingError):
            make("repeat_after_k", **wrong)


def test_text():
    env = at(2, 0)
    assert env.render_text() == "2"
    for _ in range(3):
        env.act({})
    assert env.render_text() == "2 . . ?"
    env.act(say(1))
    assert env.render_text() == "2 . . ? 1"
