"""The kit for compiled games: everything about rows that is not the game."""

from __future__ import annotations

import base64
import json
import zlib
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.broken import ragged
from support.tiny_envs import assert_same_obs, lists, obs_differ

pytest.importorskip("numba")

from entity_env import (
    CategoricalAction,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalActionSpace,
    Grid,
    ListEnv,
    ObsSpace,
    SeatRows,
    SelectEntityActionSpace,
    errors,
)
from entity_env.play import random_policy
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_float,
    random_int,
)
from entity_env.rows.single_game import CompiledEnvironment, CompiledPlayers

# ---- a game with everything in it ---------------------------------------------------------------
# A hand with a total adds 0, 1 or 2 to it, and is done at 5 or more. Up to 3 dice lie beside it.


def reset(g, game):
    g.total[game] = 0
    g.count[game] = random_int(g.random, game, 1, g.dice.shape[1])
    for i in range(g.count[game]):
        g.dice[game, i] = random_int(g.random, game, 1, 6)
    g.weight[game] = random_float(g.random, game)


def step(g, game, add, point, shout):
    g.total[game] += add[0]
    reward = add[0] + g.bonus
    if len(point) > 0:
        g.dice[game, point[0]] = 6
    if len(shout) > 0:
        reward += 10.0 * shout[0]
    return reward, g.total[game] >= 5


def hand(g, game, i, out):
    out[0], out[1] = g.total[game], g.weight[game]


def not_2_at_4(g, game, i, allowed):
    allowed[2] = g.total[game] != 4


def has_2_dice(g, game, i):
    return g.count[game] >= 2


def not_its_own_number(g, game, i, allowed):
    allowed[g.total[game] % len(allowed)] = False


def is_even(g, game):
    return g.total[game] % 2 == 0


def no_shout_at_2(g, game, allowed):
    allowed[1] = g.total[game] != 2


def values(g, game, out):
    out[0], out[1] = g.steps[game], -g.total[game]


def dice_game(**changes):
    game = CompiledGame(
        obs_space=ObsSpace(
            global_features=["step", "minus"],
            entities={"Die": Entity(["eyes"]), "Hand": Entity(["total", "weight"])},
        ),
        action_space={
            "Add": CategoricalActionSpace(["0", "1", "2"]),
            "Point": SelectEntityActionSpace(),
            "Shout": GlobalCategoricalActionSpace(["no", "yes"]),
        },
        state={
            "dice": Field((3,), np.int8, least=0, most=6),
            "count": Field(least=1, most=3),
            "total": Field((), np.int64),
            "weight": Field((), np.float64),
        },
        settings={"bonus": 0.5},
        reset=reset,
        step=step,
        entities={"Die": Entities("dice", count="count"), "Hand": Entities(hand, count=1, most=1)},
        actions={
            "Add": Actors("Hand", mask=not_2_at_4),
            "Point": Actors("Hand", when=has_2_dice, mask=not_its_own_number, targets=("Die",)),
            "Shout": Actors(when=is_even, mask=no_shout_at_2),
        },
        global_features=values,
        max_steps=4,
        metrics={"total": "total"},
    )
    return replace(game, **changes)


STATE = dice_game().state


def at(rows, *positions):
    """Go to (dice, total, step) in each row; returns the observation."""
    rows.reset()
    state = rows.get_state()
    for saved, (dice, total, steps) in zip(state, positions, strict=True):
        saved["env"] |= {"dice": [*dice, 0, 0][:3], "count": len(dice)}
        saved["env"] |= {"total": total, "steps": steps, "weight": 0.25}
    return rows.set_state(state)


def act(rows, add, point=(), shout=()):
    """Numbers for each row; None where a row has no such actor."""
    own = {"Add": add, "Point": point or [None] * len(add), "Shout": shout or [None] * len(add)}
    return rows.act(
        {
            name: ragged([n for n in given if n is not None], [int(n is not None) for n in given])
            for name, given in own.items()
        }
    )


def test_a_frame_by_hand():
    obs = at(CompiledRows(dice_game(), 2), ([3, 1], 2, 1), ([5], 1, 3))
    assert lists(obs.features["Die"]) == [[[3], [1]], [[5]]]
    assert lists(obs.features["Hand"]) == [[[2, 0.25]], [[1, 0.25]]]
    assert obs.global_features.tolist() == [[1, -2], [3, -1]]
    add, point, shout = (obs.action_masks[name] for name in ("Add", "Point", "Shout"))
    # The dice come first: the hands are entities 2 and 1.
    assert lists(add.actors) == [[[2]], [[1]]]
    assert lists(add.mask) == [[[True, True, True]], [[True, True, True]]]
    # Two dice: the total 2 forbids die 2 % 2 = 0. One die: nobody points.
    assert (lists(point.actors), lists(point.actees)) == ([[[2]], []], [[[0], [1]], []])
    assert lists(point.mask) == [[[False], [True]], []]
    # The global action is the entity behind the last one, where the total is even; not 1 at 2.
    assert lists(shout.actors) == [[[3]], []]
    assert lists(shout.mask) == [[[True, False]], []]
    assert (obs.reward.tolist(), obs.done.tolist(), dict(obs.metrics)) == ([0, 0], [False] * 2, {})


def test_an_end_and_a_limit_by_hand():
    rows = CompiledRows(dice_game(), 2)
    at(rows, ([5], 1, 0), ([4], 1, 2))
    obs = act(rows, [2, 0])  # totals 3 and 1, steps 1 and 3 of 4
    assert (obs.reward.tolist(), obs.done.any(), obs.final) == ([2.5, 0.5], False, None)
    obs = act(rows, [2, 2])  # 5 ends the first; step 4 ends the second at 3
    assert obs.reward.tolist() == [2.5, 2.5]
    assert (obs.done.tolist(), obs.truncated.tolist()) == ([True, True], [False, True])
    # 2.5 + 2.5 and 0.5 + 2.5, in two steps each since set_state.
    assert {name: own.tolist() for name, own in obs.metrics.items()} == {
        "episodic_length": [2, 2],
        "episodic_reward": [5, 3],
        "total": [5, 3],
    }
    final = obs.final
    assert (final.num_frames, final.reward.tolist(), final.done.tolist()) == (1, [2.5], [True])
    assert lists(final.features["Hand"]) == [[[3, 0.25]]]
    assert lists(final.features["Die"]) == [[[4]]]
    assert final.global_features.tolist() == [[4, -3]]
    assert [mask.actors.items() for mask in final.action_masks.values()] == [0, 0, 0]
    assert obs.global_features.tolist() == [[0, 0], [0, 0]], "new episodes have begun"
    assert [own["env"]["steps"] for own in rows.get_state()] == [0, 0]


def test_actions_reach_their_actors():
    rows = CompiledRows(dice_game(), 2)
    at(rows, ([3, 1], 0, 0), ([5, 5, 5], 2, 0))
    obs = act(rows, [0, 1], [1, 0], [1, 0])
    assert lists(obs.features["Die"]) == [[[3], [6]], [[6], [5], [5]]]
    assert obs.reward.tolist() == [10.5, 1.5]


# ---- random numbers, rows and threads -----------------------------------------------------------


def play(rows, steps=30, seed=None):
    """What the first two rows see while all play alike: what the others do has no influence."""
    obs = rows.reset(seed)
    for _ in range(steps):
        yield obs
        choices = {"Add": obs.action_masks["Add"], "Shout": obs.action_masks["Shout"]}
        actions = {
            name: ragged([0] * mask.actors.items(), mask.actors.size1())
            for name, mask in choices.items()
        }
        point = obs.action_masks["Point"]
        actees, counts = point.actees.as_array()[:, 0], point.actors.size1()
        allowed = point.mask.as_array()[:, 0]
        starts = np.cumsum(point.actees.size1()) - point.actees.size1()
        chosen = [
            actees[s:][np.argmax(allowed[s:])] for s, n in zip(starts, counts, strict=True) if n
        ]
        obs = rows.act(actions | {"Point": ragged(chosen, counts)})


def first_two(obs):
    return [lists(obs.features[name])[:2] for name in obs.features]


def test_a_row_is_the_same_among_2_and_among_50():
    few, many = (list(play(CompiledRows(dice_game(), rows, seed=3))) for rows in (2, 50))
    assert [first_two(obs) for obs in few] == [first_two(obs) for obs in many]
    assert len({json.dumps(lists(many[0].features["Hand"])[row]) for row in range(50)}) == 50


@pytest.mark.parametrize("threads", [3, 99])
def test_threads_change_nothing(threads):
    rows = CompiledRows(dice_game(), 7, seed=1, threads=threads)
    one, policy = CompiledRows(dice_game(), 7, seed=1), random_policy(5)
    obs = one.reset()
    assert_same_obs(rows.reset(), obs)
    ended, cut_off = 0, 0
    for _ in range(60):
        actions = policy(obs)
        obs = one.act(actions)
        assert_same_obs(rows.act(actions), obs)
        ended, cut_off = ended + obs.done.sum(), cut_off + obs.truncated.sum()
    assert ended > cut_off > 0
    assert rows.get_state() == one.get_state()
    rows.close()


def test_one_seed_is_one_run():
    first, again = (list(play(CompiledRows(dice_game(), 5, seed=4))) for _ in range(2))
    other = CompiledRows(dice_game(), 5, seed=8)
    assert obs_differ(first[0], other.reset())
    for a, b, c in zip(first, again, play(other, seed=4), strict=True):
        assert_same_obs(a, b)
        assert_same_obs(a, c)
    assert obs_differ(other.reset(), first[0]), "without a seed the random numbers go on"


def test_groups_draw_alike_though_their_games_ended_at_other_times():
    rows, policy = CompiledRows(dice_game(), 8, seed=3), random_policy(1)
    rows.share_draws(2)
    obs, apart, together = rows.reset(), 0, 0
    for _ in range(60):
        obs = rows.act(policy(obs))
        weights = obs.features["Hand"].as_array()[:, 1].reshape(4, 2)
        ends = obs.done.reshape(4, 2)
        apart += int((ends[:, 0] != ends[:, 1]).sum())
        both = ends.all(1)
        together += int(both.sum())
        assert (weights[both, 0] == weights[both, 1]).all()
    assert min(apart, together) > 10
    with pytest.raises(errors.SettingError, match="groups of 3"):
        rows.share_draws(3)


def test_numbers_are_drawn_as_published():
    # The first output of SplitMix64 for 1234567, of which 32 and 53 bits are used.
    streams = np.array([1234567, 1234567], np.uint64)
    assert random_int(streams, 0, 0, 2**32 - 1) == 6457827717110365317 >> 32
    assert random_float(streams, 1) == (6457827717110365317 >> 11) / 2**53
    before = int(streams[0])
    assert random_int(streams, 0, 7, 7) == 7
    assert int(streams[0]) == before, "one choice draws nothing"


# ---- saved states -------------------------------------------------------------------------------


def test_a_saved_state_goes_on_the_same_in_other_rows():
    rows, other = CompiledRows(dice_game(), 6, 1), CompiledRows(dice_game(), 6, 2, threads=2)
    policy, obs = random_policy(0), rows.reset()
    for _ in range(7):
        obs = rows.act(policy(obs))
    text = json.dumps(rows.get_state())
    again = other.set_state(json.loads(text))
    assert again.reward.tolist() == [0.0] * 6
    for name in obs.features:
        assert lists(again.features[name]) == lists(obs.features[name])
    for _ in range(20):
        actions = policy(again)
        again = other.act(actions)
        assert_same_obs(rows.act(actions), again)
    assert json.dumps(rows.get_state()) == json.dumps(other.get_state()) != text


def test_single_games_are_copied_exactly():
    rows = CompiledRows(dice_game(), 4, 1)
    at(rows, ([3, 1], 1, 1), ([5], 1, 1), ([2], 1, 0), ([1], 3, 0))
    act(rows, [1, 0, 0, 0], [0, None, None, None])
    saved, before = rows.copy_games([0]), rows.get_state()
    act(rows, [0, 0, 0, 0], [1, None, None, None], [0, None, None, None])
    obs = rows.put_games([0, 3], rows.copy_games([1, 1]))
    after = rows.get_state()
    assert after[0] == after[3] == after[1] != before[1]
    obs = rows.put_games([2], saved)
    state = rows.get_state()
    assert {**state[2], "step": 0} == {**before[0], "step": 0}, "random numbers and return, too"
    assert lists(obs.features["Hand"])[2] == [[2, 0.25]]
    assert state[0] == after[0], "others stay as they are"
    for wrong in ([4], [-1], [0.5], 3, [[1]]):
        with pytest.raises(errors.ActionError):
            rows.copy_games(wrong)
    with pytest.raises(errors.StateError, match="differs"):
        rows.put_games([0, 1], saved)
    other = CompiledRows(dice_game(state={**dice_game().state, "dice": Field((2,), np.int8)}), 4)
    other.reset()
    with pytest.raises(errors.StateError, match="'dice'"):
        other.put_games([0], saved)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dice": [1, 2]}, "dice"),
        ({"dice": [1, 2, 300]}, "dice"),
        ({"dice": [1, 2, 7]}, "out of range"),
        ({"dice": [1.5, 2, 3]}, "dice"),
        ({"count": 4}, "'count' out of range"),
        ({"count": True}, "damaged|out of range"),
        ({"count": "1"}, "count"),
        ({"total": None}, "total"),
        ({"steps": 4}, "'steps' out of range"),
        ({"steps": -1}, "'steps' out of range"),
    ],
)
def test_states_that_do_not_fit_are_refused(change, text):
    rows = CompiledRows(dice_game(), 2)
    rows.reset()
    before = rows.get_state()
    state = json.loads(json.dumps(before))
    state[1]["env"] |= change
    if change == {"count": True}:
        rows.set_state(state)  # 1, as everywhere in Python
        return
    with pytest.raises(errors.StateError, match=text) as caught:
        rows.set_state(state)
    assert caught.value.where.startswith("environment 1")
    assert rows.get_state() == before


def test_fields_of_all_kinds_are_restored_exactly():
    more = {
        "nothing": Field((0, 2)),
        "large": Field((2,), np.uint32),
        "small": Field((2,), np.float32),
        "flag": Field((2, 1), np.bool_),
    }
    rows = CompiledRows(dice_game(state={**STATE, **more}), 1)
    rows.reset()
    (saved,) = json.loads(json.dumps(rows.get_state()))
    tenth = float(np.float32(0.1))
    own = {"large": [2**32 - 1, 3], "small": [tenth, 1.5], "flag": [[True], [False]]}
    saved["env"] |= {"nothing": [], **own}
    rows.set_state([saved])
    assert json.dumps(rows.get_state()) == json.dumps([saved])
    for name, wrong in (
        ("large", [-1, 3]),
        ("large", [2**32, 3]),
        ("small", [0.1, 0]),
        ("small", [float("nan"), 0]),
        ("small", [0, float("inf")]),
        ("flag", [[1], [0]]),
    ):
        with pytest.raises(errors.StateError, match=name):
            rows.set_state([{**saved, "env": {**saved["env"], name: wrong}}])


def deflated(values: bytes) -> str:
    return base64.b64encode(zlib.compress(values)).decode()


def test_large_fields_are_packed_and_restored_exactly():
    numbers = np.random.default_rng(0).integers(-2, 3, (20, 20))
    more = {
        "tiles": Field((20, 20), np.int8, least=-2, most=2),
        "flags": Field((20, 20), np.bool_),
        "heights": Field((20, 20), np.float32),
    }
    rows, other = (CompiledRows(dice_game(state={**STATE, **more}), 1) for _ in range(2))
    rows.reset()
    other.reset()
    for name, field in more.items():
        rows._fields[name][0] = (numbers > 0) if field.dtype is np.bool_ else numbers / 2
    (saved,) = json.loads(json.dumps(rows.get_state()))
    own = saved["env"]
    assert all(isinstance(own[name], str) for name in more)
    assert isinstance(own["dice"], list), "small fields can be read"
    other.set_state([saved])
    for name in more:
        assert np.array_equal(other._fields[name], rows._fields[name]), name
    in_lists = rows.save_game(0)
    assert in_lists["tiles"] == rows._fields["tiles"][0].tolist()
    other.reset()
    other.set_state([{**saved, "env": in_lists}])  # lists can be read as well
    assert other.get_state() == rows.get_state()

    before, text = rows.get_state(), own["tiles"]
    damaged = {
        "tiles": [
            text[:-8], text + "AAAA", "%" + text[1:], "é" * 8, "",
            deflated(bytes(399)), deflated(bytes(401)), deflated(bytes(10**7)),
            deflated(bytes([0] * 399 + [3])),
        ],
        "flags": [deflated(bytes([0] * 399 + [2]))],
        "heights": [deflated(np.full(400, value, "<f4").tobytes()) for value in (np.nan, np.inf)],
        "dice": [deflated(bytes(2))],
    }  # fmt: skip
    for name, texts in damaged.items():
        for wrong in texts:
            with pytest.raises(errors.StateError, match=f"field '{name}'"):
                rows.set_state([{**saved, "env": {**own, name: wrong}}])
    assert rows.get_state() == before


def total_is_wrong(g, game):
    before = g.total[game]
    add_up(g, game)
    return {"another total": g.total[game] != before, "a bonus": g.bonus != 0.5}


@compiled
def add_up(g, game):
    g.total[game] = g.dice[game, : g.count[game]].sum()


def test_problems_of_a_saved_state_are_found_by_the_game_itself():
    state = {**STATE, "dice": Field((3,), np.int8, least=(0, 0, 0), most=(6, 6, 5))}
    rows = CompiledRows(dice_game(state=state, problems=total_is_wrong), 1)
    rows.reset()
    (saved,) = rows.get_state()

    def put(**changes):
        return rows.set_state([{**saved, "env": {**saved["env"], **changes}}])

    assert lists(put(dice=[6, 4, 0], count=2, total=10).features["Hand"])[0][0][0] == 10
    before = rows.get_state()
    with pytest.raises(errors.StateError, match="the saved state has another total"):
        put(dice=[6, 4, 0], count=2, total=9)
    message = r"field 'dice' out of range\n  expected: 0 to 5\n  received: 6 at \[2\]"
    with pytest.raises(errors.StateError, match=message):
        put(dice=[1, 2, 6], count=3, total=9)
    assert rows.get_state() == before, "what is refused changes nothing"


def test_fixed_fields_are_no_part_of_a_saved_state():
    rows = CompiledRows(dice_game(state={**STATE, "plan": Field((2,), fixed=True)}), 2)
    rows._fields["plan"][:] = [3, 4]
    rows.reset()
    state = rows.get_state()
    assert "plan" not in state[0]["env"]
    state[1]["env"]["plan"] = [7, 8]
    rows.set_state(state)
    assert rows._fields["plan"].tolist() == [[3, 4], [3, 4]]


def test_states_of_other_rows_are_refused():
    rows = CompiledRows(dice_game(), 1)
    with pytest.raises(errors.ResetNeededError):
        rows.get_state()
    with pytest.raises(errors.ResetNeededError):
        rows.copy_games([0])
    rows.reset()
    (saved,) = rows.get_state()
    for wrong in ({"bit_generator": "PCG64", "state": 1}, {"state": 1}, None):
        with pytest.raises(errors.StateError):
            rows.set_state([{**saved, "rng": wrong}])
    missing = {name: own for name, own in saved["env"].items() if name != "dice"}
    with pytest.raises(errors.StateError, match="dice"):
        rows.set_state([{**saved, "env": missing}])


# ---- seats --------------------------------------------------------------------------------------
# Nim: two seats in turn take 1 or 2 stones; who takes the last one wins.


def begin(g, game):
    g.stones[game], g.turn[game] = g.heap, 0


def take(g, game, seat, taken):
    g.stones[game] -= taken[0] + 1
    g.taken[game, seat] = taken[0] + 1
    g.turn[game] = 1 - seat


def judge(g, game, reward):
    over = g.stones[game] == 0
    if over:
        reward[1 - g.turn[game]] += 1.0
        reward[g.turn[game]] -= 1.0
    return over


def has_turn(g, game, seat):
    return g.turn[game] == seat


def one(g, game, seat):
    return 1


def me(g, game, seat, i, out):
    out[0] = seat


def enough(g, game, seat, i, allowed):
    allowed[1] = g.stones[game] >= 2


def heap(g, game, seat, i, out):
    out[0] = g.stones[game]


def nim(**changes):
    game = CompiledGame(
        obs_space=ObsSpace(entities={"Heap": Entity(["stones"]), "Me": Entity(["seat"])}),
        action_space={"Take": CategoricalActionSpace(["1", "2"])},
        state={"stones": Field(), "turn": Field(), "taken": Field((2,))},
        settings={"heap": 5},
        reset=begin,
        step=take,
        entities={"Heap": Entities(heap, count=one, most=1), "Me": Entities(me, count=1, most=1)},
        actions={"Take": Actors("Me", mask=enough)},
        metrics={"taken": "taken", "turn": "turn"},
        seats=2,
        asks=has_turn,
        resolve=judge,
    )
    return replace(game, **changes)


def take_stones(rows, *numbers):
    return rows.act({"Take": ragged([n - 1 for n in numbers], [1] * len(numbers))})


def test_seats_take_turns_by_hand():
    rows = CompiledRows(nim(), 4)  # games of rows 0, 1 and 2, 3
    obs = rows.reset()
    assert (obs.rows.tolist(), obs.num_frames, len(obs)) == ([0, 2], 2, 4)
    assert lists(obs.features["Me"]) == [[[0]], [[0]]]
    obs = take_stones(rows, 2, 1)  # 3 and 4 stones are left
    assert obs.rows.tolist() == [1, 3]
    assert lists(obs.features["Heap"]) == [[[3]], [[4]]]
    assert lists(obs.features["Me"]) == [[[1]], [[1]]]
    obs = take_stones(rows, 2, 2)  # 1 and 2
    assert lists(obs.action_masks["Take"].mask) == [[[True, False]], [[True, True]]]
    assert not obs.done.any()
    obs = take_stones(rows, 1, 1)  # seat 0 of the first game takes the last one; 1 left
    assert obs.reward.tolist() == [1, -1, 0, 0]
    assert obs.done.tolist() == [True, True, False, False]
    assert not obs.truncated.any()
    metrics = {name: own[:2].tolist() for name, own in obs.metrics.items()}
    assert metrics == {
        "episodic_length": [2, 1],  # decisions of the row
        "episodic_reward": [1, -1],
        "taken": [1, 2],
        "turn": [1, 1],
    }
    assert all(np.isnan(own[2:]).all() for own in obs.metrics.values())
    assert obs.rows.tolist() == [0, 3], "a new game, and the other one goes on"
    obs = take_stones(rows, 1, 1)
    assert (obs.rows.tolist(), obs.reward.tolist()) == ([1, 2], [0, 0, -1, 1])


def test_a_limit_cuts_off_all_seats():
    rows = CompiledRows(nim(max_steps=2), 2)
    rows.reset()
    take_stones(rows, 2)
    obs = take_stones(rows, 1)
    assert (obs.done.tolist(), obs.truncated.tolist()) == ([True] * 2, [True] * 2)
    assert lists(obs.final.features["Heap"]) == [[[2]], [[2]]]
    assert lists(obs.final.features["Me"]) == [[[0]], [[1]]]
    assert obs.metrics["episodic_length"].tolist() == [1, 1]
    assert obs.rows.tolist() == [0]


@pytest.mark.parametrize("asks", [has_turn, None])
def test_seats_in_threads_and_from_saved_states(asks):
    game = nim(asks=asks, step=take if asks else grab, resolve=judge if asks else share)
    rows, other = CompiledRows(game, 10, 1, threads=2), CompiledRows(game, 10, 2)
    policy, obs = random_policy(0), rows.reset()
    assert obs.num_frames == (5 if asks else 10)
    for _ in range(3):
        obs = rows.act(policy(obs))
    text = json.dumps(rows.get_state())
    other.set_state(json.loads(text))
    other.put_games(range(5), rows.copy_games(range(5)))
    for _ in range(20):
        actions = policy(obs)
        obs = rows.act(actions)
        assert_same_obs(obs, other.act(actions))
    assert rows.get_state() == other.get_state()
    rows.close()


def grab(g, game, seat, taken):
    g.taken[game, seat] = taken[0] + 1


def share(g, game, reward):
    """Both take at once, as far as there are stones."""
    for seat in range(len(reward)):
        got = min(g.taken[game, seat], g.stones[game])
        g.stones[game] -= got
        reward[seat] += got
    return g.stones[game] == 0


def test_all_seats_act_at_once_by_hand():
    rows = CompiledRows(nim(asks=None, step=grab, resolve=share), 2)
    assert rows.reset().rows.tolist() == [0, 1]
    assert take_stones(rows, 2, 1).reward.tolist() == [2, 1]  # 2 left
    obs = take_stones(rows, 1, 2)
    assert (obs.reward.tolist(), obs.done.tolist()) == ([1, 1], [True, True])
    assert obs.metrics["episodic_reward"].tolist() == [3, 2]


# ---- seats that come and go ---------------------------------------------------------------------
# A corridor of shops, which all see, and three places for people. Somebody comes in at the first
# empty place in every second step; who goes right beyond the last shop leaves with a reward of 1.
# The corridor closes after six steps, where the next one begins.

SHOPS = np.array([7, 3, 9, 4])


def open_doors(g, game):
    for i in range(len(SHOPS)):
        g.shops[game, 0, i] = SHOPS[i]
    g.at[game] = -1
    g.at[game, 0] = 0


def walk(g, game, seat, moved):
    g.at[game, seat] += moved[0]


def let_people_in_and_out(g, game, reward, left):
    for seat in range(len(reward)):
        if g.at[game, seat] > g.shops.shape[2] - 2:  # the window is two shops wide
            g.at[game, seat], left[seat] = -1, True
            reward[seat] += 1.0
    if g.steps[game] % 2 == 1:
        for seat in range(len(reward)):
            if g.at[game, seat] < 0 and not left[seat]:
                g.at[game, seat] = 0
                break
    return g.steps[game] == 5


def is_there(g, game, seat):
    return g.at[game, seat] >= 0


def what_is_near(g, game, seat):
    return 0, g.at[game, seat]


def corridor(**changes):
    game = CompiledGame(
        obs_space=ObsSpace(entities={"Me": Entity(["seat"]), "Shop": Grid((1, 2), ["price"])}),
        action_space={"Take": CategoricalActionSpace(["stay", "right"])},
        state={"shops": Field((1, 4)), "at": Field((3,))},
        reset=open_doors,
        step=walk,
        entities={
            "Me": Entities(me, count=1, most=1),
            "Shop": Entities("shops", window=what_is_near),
        },
        actions={"Take": Actors("Me")},
        seats=3,
        asks=is_there,
        resolve=let_people_in_and_out,
    )
    return replace(game, **changes)


def test_seats_come_and_go_by_hand():
    rows = CompiledRows(corridor(), 6)
    obs = rows.reset()
    assert (obs.rows.tolist(), obs.over.any()) == ([0, 3], False)
    assert lists(obs.features["Shop"]) == [[[7], [3]]] * 2
    obs = take_stones(rows, 2, 1)  # the one of the first corridor goes right
    assert (obs.rows.tolist(), lists(obs.features["Shop"])[0]) == ([0, 3], [[3], [9]])
    obs = take_stones(rows, 2, 1)  # step 1: somebody comes in
    assert obs.rows.tolist() == [0, 1, 3, 4]
    assert lists(obs.features["Shop"]) == [[[9], [4]], *[[[7], [3]]] * 3]
    obs = take_stones(rows, 2, 1, 1, 1)  # beyond the last shop
    assert (obs.rows.tolist(), obs.reward.tolist()) == ([1, 3, 4], [1, 0, 0, 0, 0, 0])
    assert (obs.done.tolist(), obs.truncated.any()) == ([True] + [False] * 5, False)
    assert not obs.over.any()
    assert obs.metrics["episodic_length"][0] == 3
    assert np.isnan(obs.metrics["episodic_reward"][1:]).all()
    obs = take_stones(rows, 1, 1, 1)  # step 3: somebody comes in at each first empty place
    assert (obs.rows.tolist(), obs.done.any()) == ([0, 1, 3, 4, 5], False)
    take_stones(rows, *[1] * 5)
    obs = take_stones(rows, *[1] * 5)  # step 5: both close, and nobody was at place 2
    assert obs.done.tolist() == [True, True, False, True, True, True]
    assert (obs.over.all(), obs.rows.tolist()) == (True, [0, 3])
    lengths = obs.metrics["episodic_length"]
    assert lengths[obs.done].tolist() == [2, 4, 6, 4, 2]


def test_a_limit_cuts_off_those_who_are_there():
    rows = CompiledRows(corridor(max_steps=3), 3)
    rows.reset()
    take_stones(rows, 2)
    take_stones(rows, 2)
    obs = take_stones(rows, 2, 2)  # one leaves, the other is cut off after one step
    assert (obs.done.tolist(), obs.truncated.tolist()) == (
        [True, True, False],
        [False, True, False],
    )
    assert lists(obs.final.features["Shop"]) == [[[3], [9]]]
    assert (obs.reward.tolist(), obs.rows.tolist()) == ([1, 0, 0], [0])


def off_the_map(g, game, seat):
    return 0, g.at[game, seat] + 2


def test_a_window_beside_the_map_is_an_error():
    shop = Entities("shops", window=off_the_map)
    rows = CompiledRows(corridor(entities={**corridor().entities, "Shop": shop}), 3)
    rows.reset()
    with pytest.raises(errors.ObservationError, match="window of 'Shop'"):
        take_stones(rows, 2)
    with pytest.raises(errors.SettingError, match="does not fit a map"):
        corridor(state={"shops": Field((1, 1)), "at": Field((3,))})


# ---- what is wrong ------------------------------------------------------------------------------


def test_wrong_actions_are_refused_and_change_nothing():
    rows = CompiledRows(dice_game(), 2)
    at(rows, ([3, 1], 4, 0), ([5], 1, 0))
    before = rows.get_state()
    for error, arguments in (
        (errors.ActionError, ([2, 0], [1, None], [0, None])),  # 2 at 4
        (errors.ActionError, ([3, 0], [1, None], [0, None])),
        (errors.ActionError, ([-1, 0], [1, None], [0, None])),
        (errors.ActionError, ([0, -1], [1, None], [0, None])),  # where the last one is allowed
        (errors.ActionError, ([0, 0], [0, None], [0, None])),  # die 4 % 2 = 0
        (errors.ActionError, ([0, 0], [2, None], [0, None])),  # the hand itself
        (errors.ActionError, ([0, None], [1, None], [0, None])),
        (errors.ActionError, ([0, 0], [1, None], [None, 0])),
    ):
        with pytest.raises(error):
            act(rows, *arguments)
        assert rows.get_state() == before
    with pytest.raises(errors.ActionError, match="missing"):
        rows.act({"Add": ragged([0, 0], [1, 1])})
    act(rows, [0, 0], [1, None], [0, None])


def test_choices_are_compared_with_the_game_and_not_only_with_the_observation():
    rows = CompiledRows(nim(), 2)
    take = rows.reset().action_masks["Take"]
    take.actors.extend(take.actors.clone())
    take.mask.extend(take.mask.clone())
    with pytest.raises(errors.ActionError, match="observation was changed"):
        take_stones(rows, 1, 1)


def many_dice(g, game):
    return g.steps[game] + 3


def not_a_number(g, game, add, point, shout):
    return np.nan, False


def test_a_game_that_is_wrong_is_told():
    crowded = {"Die": Entities("dice", count=many_dice), "Hand": dice_game().entities["Hand"]}
    rows = CompiledRows(dice_game(entities=crowded), 2)
    rows.interpret()
    obs = rows.reset()
    with pytest.raises(errors.ObservationError, match=r"environment 0.* 4 entities of type 'Die'"):
        rows.act(random_policy(0)(obs))
    with pytest.raises(errors.ResetNeededError):
        rows.act(random_policy(0)(obs))
    rows = CompiledRows(dice_game(step=not_a_number), 2)
    rows.interpret()
    with pytest.raises(errors.ObservationError):
        rows.act(random_policy(0)(rows.reset()))
    rows = CompiledRows(dice_game(step=unknown_field), 2)
    with pytest.raises(errors.EnvironmentFailedError, match="totl"):
        rows.reset()


def unknown_field(g, game, add, point, shout):
    return g.totl[game], False


def closure():
    bonus = 3
    return lambda g, game: bonus


WRONG = {
    "a field that is no name": ({"state": {**STATE, "my dice": Field()}}, "my dice"),
    "a field of the kit": ({"state": {**STATE, "random": Field()}}, "'random'"),
    "a shape that is none": ({"state": {**STATE, "total": Field((-1,))}}, "'total'"),
    "a type too large": ({"state": {**STATE, "total": Field((), np.uint64)}}, "'total'"),
    "no Field": ({"state": {**STATE, "total": 3}}, "'total'"),
    "a setting that is a field": ({"settings": {"total": 1}}, "'total'"),
    "rows of another width": ({"state": {**STATE, "dice": Field((3, 2))}}, "rows of 1 feature"),
    "a count that is a list": ({"state": {**STATE, "count": Field((2,))}}, "'count'"),
    "a metric without field": ({"metrics": {"sum": "totl"}}, "did you mean 'total'"),
    "a metric that is a list": ({"metrics": {"sum": "dice"}}, "another shape"),
    "types without source": ({"entities": {}}, "'Die'"),
    "an action without actors": ({"actions": {}}, "'Add'"),
    "seats without resolve": ({"seats": 2}, "resolve"),
    "a closure": ({"reset": closure()}, "top level"),
    "no function": ({"step": 3}, "step"),
    "too few arguments": ({"step": reset}, "expected: +5"),
    "no global features": ({"global_features": None}, "global_features"),
}


@pytest.mark.parametrize("name", WRONG)
def test_declarations_that_do_not_fit_are_refused(name):
    changes, text = WRONG[name]
    with pytest.raises(errors.SettingError, match=text):
        dice_game(**changes)


@pytest.mark.parametrize(
    ("name", "actors", "text"),
    [
        ("Add", Actors("Hnd"), "did you mean 'Hand'"),
        ("Add", Actors(), "entity type"),
        ("Add", Actors("Hand", targets=("Die",)), "targets"),
        ("Point", Actors("Hand"), "targets"),
        ("Point", Actors("Hand", targets=("Dice",)), "targets"),
        ("Shout", Actors("Hand"), "None for a global action"),
        ("Shout", Actors(mask=not_2_at_4), "expected: +3"),
    ],
)
def test_actors_that_do_not_fit_are_refused(name, actors, text):
    with pytest.raises(errors.SettingError, match=text):
        dice_game(actions={**dice_game().actions, name: actors})


def test_rows_and_threads_that_do_not_fit_are_refused():
    with pytest.raises(errors.SettingError, match="multiple of 2 seats"):
        CompiledRows(nim(), 3)
    for threads in (0, 1.5, None):
        with pytest.raises(errors.SettingError, match="threads"):
            CompiledRows(nim(), 2, threads=threads)
    with pytest.raises(errors.SettingError):
        CompiledRows(nim(), 0)
    with pytest.raises(errors.SettingError):
        CompiledRows(nim(), 2, -1)


# ---- single games -------------------------------------------------------------------------------


class Dice(CompiledEnvironment):
    rows = partial(CompiledRows, dice_game())


class Nim(CompiledPlayers):
    rows = partial(CompiledRows, nim())


class Corridor(CompiledPlayers):
    rows = partial(CompiledRows, corridor())


def test_a_single_game_has_the_picture_that_its_rows_draw():
    class DrawnRows(CompiledRows):
        def __init__(self, num_envs=1, seed=0):
            super().__init__(dice_game(), num_envs, seed=seed)

        def draw_row(self, row, shade=1):
            return np.full((2, 2, 3), shade + row, np.uint8)

    class Drawn(CompiledEnvironment):
        rows = DrawnRows

    class Shaded(Drawn):
        def render(self, **kwargs):
            return super().render(shade=7)

    class StillShaded(Shaded):
        rows = DrawnRows

    for game, shade in ((Drawn(), 1), (StillShaded(), 7)):
        game.reset()
        assert game.render().max() == shade
    assert Dice.render is Environment.render


@pytest.mark.parametrize(
    ("single", "rows_of"), [(Dice, ListEnv), (Nim, SeatRows), (Corridor, SeatRows)]
)
def test_a_single_game_is_the_game_of_the_rows(single, rows_of):
    seed = int(np.random.SeedSequence(3, spawn_key=(0,)).generate_state(1)[0])
    theirs = single.rows(None, seed=seed)
    ours = rows_of(single, len(theirs), seed=3)
    policy, here, there = random_policy(1), ours.reset(), theirs.reset()
    ends = 0
    for _ in range(60):
        for part in ("rows", "reward", "done", "truncated", "global_features"):
            assert np.array_equal(getattr(here, part), getattr(there, part)), part
        assert {name: lists(own) for name, own in here.features.items()} == {
            name: lists(own) for name, own in there.features.items()
        }
        for name, own in here.metrics.items():
            assert np.array_equal(own, there.metrics[name], equal_nan=True)
        ends += here.done.any()
        actions = policy(here)
        here, there = ours.act(actions), theirs.act(actions)
    assert ends > 5


def test_a_single_game_goes_on_from_a_saved_state_as_json():
    one, other = Dice(), Dice()
    one.seed(5)
    seen = one.reset()
    there = other.set_state(json.loads(json.dumps(one.get_state())))
    assert np.array_equal(seen.features["Die"], there.features["Die"])
    act = {"Add": CategoricalAction([("Hand", 0)], [1], ["0", "1", "2"])}
    with pytest.raises(errors.ActionError, match="Shout"):
        one.act(act)
    with pytest.raises(errors.StateError, match="not a state of this game"):
        one.set_state({"die": 3})
    with pytest.raises(errors.ResetNeededError, match="started"):
        Dice().act(act)


@pytest.mark.parametrize("moves", [None, 0, 3], ids=["before", "begun", "later"])
def test_a_copy_of_a_single_game_plays_on_by_itself(moves):
    game = Nim()
    game.seed(4)
    policy = random_policy(2)
    rows = SeatRows(lambda: game, 2, seed=4)
    obs = None if moves is None else rows.reset()
    for _ in range(moves or 0):
        obs = rows.act(policy(obs))
    copies = [deepcopy(game), deepcopy(game)]
    before = None if moves is None else game.get_state()
    for one in copies:
        one.seed(7)
    seen = [one.reset() for one in copies]
    assert [*seen[0]] == [*seen[1]]  # both took the seed, and so does the game in them
    assert copies[0].get_state() == copies[1].get_state()
    assert moves is None or game.get_state() == before


def test_a_state_that_was_set_has_its_own_random_numbers():
    one, other = Dice(), Dice()
    one.seed(5)
    one.reset()
    other.seed(6)  # for a game that is not played, for a state comes first
    other.set_state(one.get_state())
    for game in (one, other):
        game.reset()
    assert one.get_state() == other.get_state()
