"""Games of several players as rows of a VecEnv."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import LINES, TicTacToe
from support.seat_games import Played, Secrets, asked, told

from entity_env import Observation, RaggedBufferI64, SeatRows, errors
from entity_env.play import random_policy
from entity_env.seats import seat_rows


def choose(obs, *choices):
    """One choice for each row that is asked."""
    assert len(choices) == obs.num_frames
    values = np.array(choices, np.int64).reshape(-1, 1)
    return {"Go": RaggedBufferI64.from_flattened(values, np.ones(len(choices), np.int64))}


# a and b take turns; c comes in, is paid while it waits, is cut off, and comes back.
TURNS = [
    {"a": asked(1.0)},
    {"b": asked(2.0, reward=0.5), "a": told(reward=-1.0)},
    {"c": asked(3.0), "a": told(reward=2.0)},
    {"a": asked(4.0), "c": told(reward=0.25)},
    {"c": told(reward=1.0, done=True, truncated=True, score=7.0), "a": asked(5.0), "b": asked(6.0)},
    {"c": asked(7.0), "b": told(reward=3.0, done=True)},
    {"c": told(done=True), "a": told(reward=4.0, done=True)},
]


def test_turns_rewards_and_ends_belong_to_their_rows():
    env = SeatRows(lambda: Played(*TURNS), 3)
    obs = env.reset()
    shown = [(obs.rows.tolist(), obs.features["Card"].as_array()[:, 0].tolist())]
    rewards, ends, metrics = [], [], []
    for step in range(6):
        obs = env.act(choose(obs, *[step % 2] * obs.num_frames))
        shown.append((obs.rows.tolist(), obs.features["Card"].as_array()[:, 0].tolist()))
        rewards.append(obs.reward.tolist())
        ends.append((obs.done.tolist(), obs.truncated.tolist()))
        metrics.append({k: v.tolist() for k, v in obs.metrics.items()})
    assert shown == [
        ([0], [1.0]),
        ([1], [2.0]),
        ([2], [3.0]),
        ([0], [4.0]),
        ([0, 1], [5.0, 6.0]),
        ([2], [7.0]),
        ([0], [1.0]),  # the next game
    ]
    assert rewards == [
        [-1.0, 0.5, 0.0],
        [2.0, 0.0, 0.0],
        [0.0, 0.0, 0.25],
        [0.0, 0.0, 1.0],
        [0.0, 3.0, 0.0],
        [4.0, 0.0, 0.0],
    ]
    assert [end[0] for end in ends] == [
        [False] * 3,
        [False] * 3,
        [False] * 3,
        [False, False, True],
        [False, True, False],
        [True, False, True],
    ]
    assert [end[1] for end in ends].count([False] * 3) == 5
    assert ends[3][1] == [False, False, True]
    nan = pytest.approx(np.nan, nan_ok=True)
    # c has decided once before it is cut off, and once more as another episode.
    assert metrics[3] == {
        "episodic_length": [nan, nan, 1.0],
        "episodic_reward": [nan, nan, 1.25],
        "score": [nan, nan, 7.0],
    }
    assert metrics[4] == {"episodic_length": [nan, 2.0, nan], "episodic_reward": [nan, 3.5, nan]}
    assert metrics[5] == {"episodic_length": [3.0, nan, 1.0], "episodic_reward": [5.0, nan, 0.0]}


def test_the_game_hears_those_who_were_asked():
    games = []

    def create():
        games.append(Played(*TURNS))
        return games[-1]

    env = SeatRows(create, 6)
    obs = env.reset()
    assert obs.rows.tolist() == [0, 3]
    obs = env.act(choose(obs, 0, 1))
    obs = env.act(choose(obs, 1, 1))
    obs = env.act(choose(obs, 1, 0))
    obs = env.act(choose(obs, 0, 0))
    assert obs.rows.tolist() == [0, 1, 3, 4]
    env.act(choose(obs, 0, 1, 1, 0))
    assert games[0].heard == [
        {"a": "left"}, {"b": "right"}, {"c": "right"}, {"a": "left"}, {"a": "left", "b": "right"},
    ]  # fmt: skip
    assert games[1].heard == [
        {"a": "right"}, {"b": "right"}, {"c": "left"}, {"a": "left"}, {"a": "right", "b": "left"},
    ]  # fmt: skip


def test_a_truncated_seat_has_its_last_observation():
    env = SeatRows(lambda: Played(*TURNS), 6)
    obs = env.reset()
    for _ in range(4):
        obs = env.act(choose(obs, *[0] * obs.num_frames))
    assert obs.truncated.tolist() == [False, False, True] * 2
    assert obs.final.num_frames == 2


def test_a_seat_that_is_never_asked_ends_without_breaking_the_batch():
    script = [{"a": asked()}, {"a": told(1.0, True), "b": told(-1.0, True)}]
    env = SeatRows(lambda: Played(*script, seats=["a", "b"]), 2)
    obs = env.act(choose(env.reset(), 0))
    assert (obs.rows.tolist(), obs.reward.tolist(), obs.done.tolist()) == ([0], [1, -1], [True] * 2)
    assert obs.metrics["episodic_length"][1] == 0
    assert obs.metrics["episodic_reward"][1] == -1


def test_a_game_plays_what_it_plays_alone():
    def play(rows):
        env = SeatRows(TicTacToe, rows, 5)
        obs, seen = env.reset(), []
        for _ in range(60):
            # the first empty cell: nothing depends on how many games there are
            mask = obs.action_masks["Mark"]
            starts = np.cumsum([0, *mask.actees.size1()])[:-1]
            chosen = mask.actees.as_array()[starts]
            obs = env.act(
                {"Mark": RaggedBufferI64.from_flattened(chosen, np.ones(len(chosen), np.int64))}
            )
            seen.append((obs.reward.copy(), obs.done.copy()))
        return seen

    many, one = play(6), play(2)
    for (reward, done), (own_reward, own_done) in zip(many, one, strict=True):
        assert reward[:2].tolist() == own_reward.tolist()
        assert done[:2].tolist() == own_done.tolist()


def test_seeds_belong_to_games():
    bits = [[tuple(g.bits) for g in _games(SeatRows(lambda: Secrets(3), n, 7))] for n in (3, 12)]
    assert bits[0] == bits[1][:1]
    assert len(set(bits[1])) > 1


def _games(env):
    env.reset()
    return [table.game for table in env._tables]


def test_a_saved_state_goes_on_in_another_object():
    env, policy = SeatRows(TicTacToe, 8, 1), random_policy(0)
    obs = env.reset()
    for _ in range(31):
        obs = env.act(policy(obs))
    saved = json.loads(json.dumps(env.get_state()))
    other = SeatRows(TicTacToe, 8, 9)
    there = other.set_state(saved)
    assert there.rows.tolist() == obs.rows.tolist()
    ours, theirs = random_policy(3), random_policy(3)
    for _ in range(40):
        obs, there = env.act(ours(obs)), other.act(theirs(there))
        assert there.rows.tolist() == obs.rows.tolist()
        assert there.reward.tolist() == obs.reward.tolist()
        assert {k: v.tolist() for k, v in there.metrics.items()} == {
            k: pytest.approx(v.tolist(), nan_ok=True) for k, v in obs.metrics.items()
        }
    saved[0]["game"]["rng"] = 3
    with pytest.raises(errors.StateError, match="game 0"):
        other.set_state(saved)


def test_random_play_of_tic_tac_toe_ends_as_is_known():
    """Of random games X wins 58.5%, O 28.8%, and 12.7% are draws."""
    env, policy = SeatRows(TicTacToe, 400, 2), random_policy(1)
    obs, wins = env.reset(), []
    while len(wins) < 8000:
        obs = env.act(policy(obs))
        wins += obs.metrics["win"][::2][obs.done[::2]].tolist() if obs.metrics else []
    shares = [np.mean(np.array(wins) == end) for end in (1.0, 0.0, 0.5)]
    assert shares == pytest.approx([0.585, 0.288, 0.127], abs=0.02)
    assert len(LINES) == 8


def test_a_game_that_cannot_be_restored_has_no_state():
    class Half(Secrets):
        def get_state(self):
            return {"bits": self.bits}

    assert not SeatRows(Half, 3).has_state()
    assert SeatRows(TicTacToe, 2).has_state()


BROKEN = {
    "an unknown seat": ([{"d": asked()}], errors.SeatError, "seat 'd', which does not exist"),
    "no dict": ([[asked()]], errors.SeatError, "did not return a dict"),
    "one observation": ([asked()], errors.SeatError, "did not return a dict"),
    "no observation": ([{"a": {"Card": []}}], errors.SeatError, "did not return an Observation"),
    "nobody": ([{}], errors.SeatError, "returned no observation"),
    "done at once": ([{"a": told(done=True)}], errors.SeatError, "'a' that is done"),
    "a second end": (
        [{"a": asked(), "b": asked()}, {"a": told(done=True), "b": asked()},
         {"a": told(done=True)}], errors.SeatError, "'a' is done, and was done already",
    ),
    "an entity type": (
        [{"a": Observation(features={"Dog": [[1.0]]})}], errors.ObservationError, "Dog",
    ),
    "a reward": ([{"a": asked()}, {"a": asked(reward=np.nan)}], errors.ObservationError, "finite"),
    "a failure": ([{"a": asked()}], errors.EnvironmentFailedError, "IndexError"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_games_are_told_apart(case):
    script, error, words = BROKEN[case]
    env = SeatRows(lambda: Played(*script), 3)

    def play():
        obs = env.reset()
        for _ in range(3):
            obs = env.act(choose(obs, *[0] * obs.num_frames))

    with pytest.raises(error, match=words) as caught:
        play()
    assert type(caught.value) is error
    assert str(caught.value).startswith("game 0, step ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seats": []}, "is not a list"),
        ({"seats": "abc"}, "is not a list"),
        ({"seats": ["a", "b", "a"]}, "names a seat twice"),
        ({"seats": [["a"], "b"]}, "cannot be hashed"),
        ({"teams": {"red": ["a", "x"]}}, "team 'red' has a seat that does not exist"),
        ({"teams": {"red": ["a"], "blue": ["b", "a"]}}, "'a' is in two teams"),
    ],
)
def test_broken_seats_are_told_apart(settings, words):
    with pytest.raises(errors.SeatError, match=words):
        SeatRows(lambda: Played(*TURNS, **settings), 3)


def test_a_game_that_is_over_lets_everybody_go():
    class Over(Played):
        def is_over(self):
            return True

    script = [{"a": asked(), "b": asked()}, {"a": told(done=True)}]
    env = SeatRows(lambda: Over(*script), 3)
    with pytest.raises(errors.SeatError, match=r"(?s)seats are still in it.*'b'"):
        env.act(choose(env.reset(), 0, 0))


def test_a_game_may_go_on_while_all_are_out():
    class Spawns(Played):
        def is_over(self):
            return self.at == 3

    script = [{"a": asked()}, {"a": told(1.0, done=True)}, {"a": asked()}, {"a": told(done=True)}]
    env = SeatRows(lambda: Spawns(*script, seats=["a"]), 1)
    obs = env.act(choose(env.reset(), 0))
    assert (obs.num_frames, obs.done.tolist()) == (0, [True])
    obs = env.act({})
    assert (obs.rows.tolist(), obs.done.tolist()) == ([0], [False])
    obs = env.act(choose(obs, 0))
    assert (obs.rows.tolist(), obs.done.tolist()) == ([0], [True])


def test_a_game_that_asks_nobody_any_more_is_an_error(monkeypatch):
    monkeypatch.setattr(seat_rows, "MOST_IDLE_STEPS", 5)
    env = SeatRows(lambda: Played({"a": asked()}, *[{}] * 9), 3)
    obs = env.act(choose(env.reset(), 0))
    for _ in range(4):
        obs = env.act({})
    assert obs.num_frames == 0
    with pytest.raises(errors.SeatError, match="no seat had to act in 5 steps"):
        env.act({})


def test_rows_are_whole_games():
    with pytest.raises(errors.SettingError, match=r"(?s)7 rows cannot .* 3 seats.*such as 9"):
        SeatRows(lambda: Played(*TURNS), 7)
    with pytest.raises(errors.ObservationError, match="several players"):
        SeatRows(lambda: 3, 3)
    game = Played(*TURNS)
    with pytest.raises(errors.ObservationError, match="create_env made game 0 again"):
        SeatRows(lambda: game, 6)
