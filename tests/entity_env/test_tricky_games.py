"""Tricky games of several players: each seat gets the same wherever it is played.

What it gets stands in ``support.tricky_games``, by hand. PettingZoo plays the same games in
``test_interop_pettingzoo_games.py``.
"""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from support.recorded import by_row
from support.tricky_games import LIVES, SCRIPTS, Medley, Tricky, all_seats

from entity_env import (
    AsyncEnv,
    CategoricalAction,
    MaskedEnvironment,
    ParallelEnv,
    RaggedBufferI64,
    SeatRows,
)
from entity_env.recording import EpisodeDataset, RecordEpisodes
from entity_env.wrappers import SeatRewardScale, SeatTimeLimit, VecFeatureFilter, VecValidate

EXPECTED = all_seats() * 2
"""Of two tables at once."""


def left(obs):
    """The first choice of all who are asked."""
    actors = obs.action_masks["Go"].actors
    return {"Go": RaggedBufferI64.from_flattened(np.zeros_like(actors.as_array()), actors.size1())}


def lives_of(env):
    """What each row gets: in each life before its first decision, and for each decision."""
    found = [[] for _ in range(len(env))]
    now = [[0.0, []] for _ in range(len(env))]
    obs = env.reset()
    for _ in range(120):
        for row, card in zip(obs.rows, obs.features["Card"].as_array()[:, 0], strict=True):
            now[row][1].append([int(card), 0.0])
        obs = env.act(left(obs))
        for row, reward in enumerate(obs.reward):
            own = now[row]
            if own[1]:
                own[1][-1][1] += float(reward)
            else:
                own[0] += float(reward)
            if obs.done[row]:
                found[row].append((own[0], [tuple(one) for one in own[1]]))
                now[row] = [0.0, []]
                check_metrics(obs, row, found[row][-1])
    return [own[: len(expected)] for own, expected in zip(found, EXPECTED, strict=True)]


def check_metrics(obs, row, life):
    """An episode's length counts its decisions, and its reward all that the seat was paid."""
    before, decisions = life
    assert obs.metrics["episodic_length"][row] == len(decisions)
    total = before + sum(reward for _, reward in decisions)
    assert obs.metrics["episodic_reward"][row] == pytest.approx(total)


def far_limit():
    """Return a game with a limit that it never reaches."""
    return SeatTimeLimit(Medley(), 100)


MAKERS = {
    "in this process": lambda: SeatRows(Medley, 6),
    "validated": lambda: VecValidate(SeatRows(Medley, 6)),
    "scaled by one": lambda: SeatRows(lambda: SeatRewardScale(Medley(), 1.0), 6),
    "filtered": lambda: VecFeatureFilter(SeatRows(Medley, 6), Medley().obs_space()),
    "with a far limit": lambda: SeatRows(far_limit, 6),
    "two workers": lambda: ParallelEnv(far_limit, 6, 2),
    "each when it is ready": lambda: AsyncEnv(Medley, 6, 2, 1),
    "all that are asked": lambda: AsyncEnv(Medley, 6, 1, 6),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_rows_get_what_seats_get(kind):
    with MAKERS[kind]() as env:
        assert env.num_seats == 3
        assert lives_of(env) == EXPECTED


@pytest.mark.parametrize("frames", [1, 5, 256])
def test_recordings_hold_what_seats_get(tmp_path, frames):
    path = tmp_path / "games"
    with RecordEpisodes(SeatRows(Medley, 6), path, part_frames=frames) as env:
        obs = env.reset()
        for _ in range(60):
            obs = env.act(left(obs))
    found = [[] for _ in range(6)]
    for episode in by_row(path):
        if not episode.is_whole:
            continue
        cards = episode.steps.obs.features["Card"].as_array()[:, 0].tolist()
        rewards = episode.steps.reward.tolist()
        decisions = [(int(card), reward) for card, reward in zip(cards, rewards, strict=True)]
        before = episode.metrics["episodic_reward"] - sum(rewards)
        found[episode.row].append((before, decisions))
        assert episode.steps.done.tolist() == ([False] * len(cards) + [True])[1:]
    decided = [[life for life in own if life[1]] for own in EXPECTED]  # others have no frames
    found = [own[: len(expected)] for own, expected in zip(found, decided, strict=True)]
    assert found == decided


def test_minibatches_of_a_recording_have_the_rewards_that_came_later(tmp_path):
    """One decision of c is paid 0.25 and 1 in later steps, and later parts."""
    for steps in (1, 2, 256):
        path = tmp_path / str(steps)
        make = functools.partial(Tricky, "dies and comes back")
        with RecordEpisodes(SeatRows(make, 3), path, part_frames=steps) as env:
            obs = env.reset()
            for _ in range(12):  # two games
                obs = env.act(left(obs))
        got = []
        for batch in EpisodeDataset(path).minibatches(3, seed=0):
            cards = batch.obs.features["Card"].as_array()[:, 0].tolist()
            got += list(zip(cards, batch.reward.tolist(), batch.done.tolist(), strict=True))
        # The next game's first card is not acted on.
        game = [(1, 1, 0), (2, 0, 0), (3, 1.25, 1), (4, 0, 0), (5, 4, 1), (6, 3, 1), (7, 0, 1)]
        assert sorted(got) == sorted(2 * [(float(c), float(r), bool(d)) for c, r, d in game])


def go_left(observation):
    return {"Go": CategoricalAction(["card"], np.array([0]), ["left", "right"])}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_learner_gets_what_its_seat_gets_in_its_first_life(name):
    for seat, lives in LIVES[name].items():
        if not lives or not lives[0][1]:
            continue  # a game without its turn is no episode
        env = MaskedEnvironment(Tricky(name), go_left, shuffle_seats=False, seat=seat)
        shown = env.reset()
        decisions = []
        while not shown.done:
            card = int(shown.features["Card"][0][0])
            shown = env.act(go_left(shown))
            decisions.append((card, shown.reward))
        assert decisions == lives[0][1]


def test_a_limit_cuts_all_off_who_are_in_the_game():
    """In step 4 of "dies and comes back" c is out by itself, a is asked, and b has come in."""
    rows = VecValidate(SeatRows(lambda: SeatTimeLimit(Tricky("dies and comes back"), 4), 3))
    obs = rows.reset()
    for _ in range(4):
        obs = rows.act(left(obs))
    assert obs.done.tolist() == [True] * 3
    assert obs.truncated.tolist() == [True, True, True]
    assert obs.final.features["Card"].as_array()[:, 0].tolist() == [5.0, 6.0, 0.0]
    assert obs.rows.tolist() == [0]  # another game has begun
    limited = SeatTimeLimit(Tricky("dies and comes back"), 3)
    limited.reset()
    limited.act({"a": go_left(None)})
    limited.act({"b": go_left(None)})
    told = limited.act({"c": go_left(None)})
    # b is told nothing in this step: it is cut off at the card that it saw last.
    assert {s: (own.done, np.array(own.features["Card"]).tolist()) for s, own in told.items()} == {
        "a": (True, [[4.0]]), "b": (True, [[2.0]]), "c": (True, [[0.0]]),
    }  # fmt: skip
    assert limited.is_over()


def test_a_seat_that_would_come_back_in_the_last_step_stays_out():
    """c ends in step 4 of "dies and comes back", and would be asked again in step 5."""
    rows = SeatRows(lambda: SeatTimeLimit(Tricky("dies and comes back"), 5), 3)
    other = SeatRows(lambda: SeatTimeLimit(Tricky("dies and comes back"), 5), 3)
    obs = rows.reset()
    for _ in range(4):
        obs = rows.act(left(obs))
    there = other.set_state(json.loads(json.dumps(rows.get_state())))
    for own, seen in ((rows, obs), (other, there)):
        last = own.act(left(seen))
        assert last.done.tolist() == [True, True, False]
        assert last.reward.tolist() == [0.0, 3.0, 0.0]
        assert last.rows.tolist() == [0]  # another game has begun
