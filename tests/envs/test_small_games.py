"""Properties of all small games: they pass the check, and refuse actions that do not fit."""

from __future__ import annotations

import copy
import functools
import json

import numpy as np
import pytest
from game_support import choose, plain
from ragged_envs.connect_four import ConnectFour
from ragged_envs.photosynthesis import Photosynthesis
from ragged_envs.poker import KuhnPoker, LeducPoker
from ragged_envs.pursuit import Pursuit
from ragged_envs.rts.capture_the_flag import CaptureTheFlagDuel
from ragged_envs.rts.minirts_rows import MiniRtsDuel
from ragged_envs.rts.tower_defence import TowerDefence
from ragged_envs.tic_tac_toe import TicTacToe

from entity_env import (
    CategoricalAction,
    GlobalCategoricalAction,
    ListEnv,
    MaskedEnvironment,
    SelectEntityAction,
    check_env,
    make,
)
from entity_env.errors import ActionError, MaskError, ResetNeededError
from entity_env.play import random_policy

GAMES = [
    ("cherry_pick", {"num_cherries": 5, "num_picks": 3}),
    ("count", {"masked_choices": 9}),
    ("count", {}),
    ("floor_is_lava", {}),
    ("floor_is_lava", {"tiles": 1}),
    ("minefield", {"max_steps": 40}),
    ("minefield", {"mines": 0, "max_steps": 5}),
    ("move_to_origin", {}),
    ("multi_armed_bandit", {}),
    ("multi_snake", {}),
    ("multi_snake", {"num_snakes": 1, "max_steps": 8, "relative": False}),
    ("not_hotdog", {}),
    ("repeat_after_k", {}),
    ("rock_paper_scissors", {}),
    ("rock_paper_scissors", {"cheat": True}),
    ("xor", {}),
]
CHECKED = [*GAMES, ("fill_order", {})]
CHECKED += [("minesweeper", {"orbital_cannon": 2, "cooldown_period": 2, "nmines": 8})]


def played(name, settings):
    """Play an episode; return the game before each step, what was chosen, and the end."""
    env, steps = make(name, **settings), []
    act = env.act

    def recorded(actions):
        del env.act
        before = copy.deepcopy(env)
        seen = act(actions)
        steps.append((before, actions, copy.deepcopy(env), seen))
        env.act = recorded
        return seen

    env.act = recorded
    rows, policy = ListEnv(lambda: env, 1, seed=1), random_policy(1)
    obs = rows.reset()
    while not obs.done.any():
        obs = rows.act(policy(obs))
    return steps


@pytest.mark.parametrize(("name", "settings"), CHECKED)
def test_it_passes_the_check(name, settings, monkeypatch):
    monkeypatch.setattr("entity_env.check._LEAST_STEPS", 60)  # most of its time
    check_env(functools.partial(make, name, **settings))


@pytest.mark.parametrize(
    "create",
    [
        *(ConnectFour, KuhnPoker, LeducPoker, Pursuit, TicTacToe),
        functools.partial(Photosynthesis, players=2, rounds=2),
        functools.partial(CaptureTheFlagDuel, frame_skip=1, opponent_skip=3, max_tick=60),
        functools.partial(MiniRtsDuel, interface="units", frame_skip=1, max_tick=60),
        functools.partial(TowerDefence, frame_skip=1, max_tick=90),
    ],
)
def test_larger_games_pass_the_check(create, monkeypatch):
    monkeypatch.setattr("entity_env.check._LEAST_STEPS", 40)
    check_env(create, episodes=1)


def test_one_player_of_several_is_played_by_name():
    # Also where the name is that of compiled rows.
    assert isinstance(make("pursuit"), MaskedEnvironment)
    assert isinstance(make("connect_four"), MaskedEnvironment)


@pytest.mark.parametrize(("name", "settings"), GAMES)
def test_only_a_running_episode_is_played(name, settings):
    env, (*_, (_, actions, ended, last)) = make(name, **settings), played(name, settings)
    for call in (lambda: env.act(actions), env.get_state):
        with pytest.raises(ResetNeededError, match="no episode has been started"):
            call()
    back = env.set_state(json.loads(json.dumps(ended.get_state())))
    assert {**plain(back), "reward": 0} == {**plain(last), "reward": 0}
    for over in (ended, env):
        with pytest.raises(ResetNeededError, match="over"):
            over.act(actions)
    assert not ended.reset().done


@pytest.mark.parametrize(("name", "settings"), GAMES)
def test_actions_that_do_not_fit_are_refused_and_change_nothing(name, settings):
    before = {}
    for env, good, *_ in played(name, settings)[:4]:
        state = env.get_state()
        for action, chosen in good.items():
            for bad, error in near(env, action, chosen, before.get(action)):
                with pytest.raises(error) as caught:
                    env.act({**{k: v for k, v in good.items() if k != action}, **bad})
                assert action in str(caught.value)
                assert env.get_state() == state
        env.act(good)
        before = good


def near(env, name, good, before):
    """Return what is close to a good action of one actor, and the errors; nothing for several."""
    if isinstance(good, GlobalCategoricalAction):
        labels = env.action_space()[name].index_to_label
        return [
            ({}, ActionError),
            ({name: CategoricalAction([], np.zeros(0, np.int64), labels)}, MaskError),
            *(
                ({name: GlobalCategoricalAction(index, "")}, ActionError)
                for index in (len(labels), -1, True, None)
            ),
        ]
    actors = list(good.actors)
    if len(actors) != 1:
        return []
    if isinstance(good, SelectEntityAction):
        (actee,) = good.actees
        others = [*actors, None, [actee], *(before.actees if before else ())]
        return [
            ({}, ActionError),
            ({name: CategoricalAction(actors, np.array([0]), ["a"])}, MaskError),
            ({name: SelectEntityAction(actors, [])}, ActionError),
            ({name: SelectEntityAction(actors, [actee, actee])}, ActionError),
            *(
                ({name: SelectEntityAction(other, [actee])}, MaskError)
                for other in ([], ["nobody"], [None])
            ),
            *(({name: SelectEntityAction(actors, [other])}, MaskError) for other in others),
        ]
    labels = good.index_to_label
    return [
        ({}, ActionError),
        ({name: SelectEntityAction(actors, actors)}, MaskError),
        ({name: None}, MaskError),
        ({name: CategoricalAction(actors, np.array([0.5]), labels)}, ActionError),
        ({name: CategoricalAction(actors, 0, labels)}, ActionError),
        *(
            (choose(name, actors, wrong, labels), ActionError)
            for wrong in ([0, 0], [], [len(labels)], [-1])
        ),
        *(
            (choose(name, wrong, [0] * len(wrong), labels), MaskError)
            for wrong in (["nobody"], [None], [], actors * 2)
        ),
    ]
