"""Agents: one protocol for observations and for rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ragged_envs.fill_order import FillOrder
from ragged_envs.tic_tac_toe import TicTacToe
from support.input_envs import PickTheCoin
from support.seat_games import Secrets
from support.tiny_envs import Farm

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    ListEnv,
    MaskedEnvironment,
    Observation,
    ObsSpace,
    SeatRows,
    SelectEntityAction,
    batch_obs,
    errors,
)
from entity_env.agent import RandomAgent
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.unbatch import answers_in_frame, observations_of
from entity_env.scripted_agent import ScriptedAgent


def first_cell(observation):
    ids = observation.ids["Player"]
    return {"Mark": SelectEntityAction(ids, [observation.actions["Mark"].actee_ids[0]])}


def spaces(game):
    return game.obs_space(), game.action_space()


@pytest.mark.parametrize("make", [lambda: Farm(max_steps=50), FillOrder, PickTheCoin])
def test_a_batch_taken_apart_and_packed_again_is_the_same_batch(make):
    """Also of sets of entities, and of a map whose cells are selected."""
    with ListEnv(make, 6, seed=1) as rows:
        agent = RandomAgent(rows.obs_space(), rows.action_space(), 3)
        obs = rows.reset()
        for _ in range(20):
            again = batch_obs(
                observations_of(obs, rows.obs_space(), rows.action_space()),
                rows.obs_space(),
                rows.action_space(),
            )
            for name, buffer in obs.features.items():
                assert (buffer.as_array() == again.features[name].as_array()).all()
                assert (buffer.size1() == again.features[name].size1()).all()
            for name, mask in obs.action_masks.items():
                theirs = again.action_masks[name]
                assert (mask.actors.as_array() == theirs.actors.as_array()).all()
                if hasattr(mask, "options"):
                    # Entities that nobody can select are left out of the single observations.
                    own, found = ([each.tolist() for each in m.options()] for m in (mask, theirs))
                    assert own == found
                elif getattr(mask, "mask", None) is not None and len(mask.mask.as_array()):
                    assert (mask.mask.as_array() == theirs.mask.as_array()).all()
            assert (obs.global_features == again.global_features).all()
            obs = rows.act(agent.act_rows(obs))


def test_a_script_plays_rows_as_it_plays_single_observations():
    # X takes cells 0, 2, 4, 6 and O 1, 3, 5: X has 2, 4, 6 and wins with its fourth mark.
    with SeatRows(TicTacToe, 2) as rows:
        agent = ScriptedAgent(first_cell, *spaces(rows))
        obs, marks = rows.reset(), []
        while not obs.done.any():
            actions = agent.act_rows(obs)
            marks.append(actions["Mark"].as_array()[0, 0] - 1)  # the player is entity 0
            obs = rows.act(actions)
        assert marks == [0, 1, 2, 3, 4, 5, 6]
        assert obs.reward.tolist() == [1.0, -1.0]


def test_answers_come_in_the_order_of_the_mask_whatever_order_a_script_has():
    with SeatRows(lambda: Secrets(2), 2) as rows:
        agent = ScriptedAgent(lambda o: {"Stay": None}, *spaces(rows))
        with pytest.raises(errors.ActionError, match="'Go' was left out"):
            agent.act_rows(rows.reset())

        def somebody_else(observation):
            return {"Mark": SelectEntityAction([("Cell", 0)], [("Cell", 1)])}

    with SeatRows(TicTacToe, 2) as rows:
        with pytest.raises(errors.MaskError, match="other actors"):
            ScriptedAgent(somebody_else, *spaces(rows)).act_rows(rows.reset())
        nobody = lambda o: {"Mark": SelectEntityAction([("Player", 0)], ["x"])}  # noqa: E731
        with pytest.raises(errors.MaskError, match="not in the frame"):
            ScriptedAgent(nobody, *spaces(rows)).act_rows(rows.reset())
        wrong = lambda o: {"Mark": 3}  # noqa: E731
        with pytest.raises(errors.ActionError, match="'Mark' has the wrong type"):
            ScriptedAgent(wrong, *spaces(rows)).act_rows(rows.reset())
        with pytest.raises(errors.SettingError, match="did not return actions"):
            ScriptedAgent(lambda o: None, *spaces(rows)).act_rows(rows.reset())
        with pytest.raises(errors.SettingError, match="cannot be called"):
            ScriptedAgent(3, *spaces(rows))


@pytest.mark.parametrize(
    ("ids", "actors", "indices"),
    [
        ([None, None, None], [None, None, None], [1, 0, 2]),
        (["a", "b", "c"], [None, None, None], [1, 0, 2]),
        ([None, "b", None], [None, "b", None], [1, 0, 2]),
        ([None, "b", None], ["b", None, None], [0, 1, 2]),
        (["a", "b", "c"], ["c", "b", "a"], [2, 0, 1]),
    ],
)
def test_actors_that_a_script_does_not_name_are_none(ids, actors, indices):
    space = {"Move": CategoricalActionSpace(["left", "stay", "right"])}
    spaces = ObsSpace(entities={"Robot": Entity(["x"])}), space
    observation = Observation(
        features={"Robot": [[0.0], [5.0], [7.0]]},
        actions={"Move": CategoricalActionMask()},
        reward=0.0,
        done=False,
    )
    frame = replace(FrameReader(*spaces).read(observation), ids=ids)
    given = {"Move": CategoricalAction(actors, indices, space["Move"].index_to_label)}
    assert answers_in_frame(given, frame, space)["Move"].tolist() == [1, 0, 2]
    # A batch has no ids, so that a script sees other ones there.
    obs = batch_obs([observation], *spaces)
    named = {"a": ("Robot", 0), "b": ("Robot", 1), "c": ("Robot", 2)}
    given["Move"].actors = [named.get(actor) for actor in actors]
    chosen = ScriptedAgent(lambda _: given, *spaces).act_rows(obs)
    assert chosen["Move"].as_array()[:, 0].tolist() == [1, 0, 2]


@pytest.mark.parametrize("actors", [[None] * 2, [None] * 4, ["a", "a", None], ["a", "b", "b"]])
def test_as_many_actors_as_must_act_are_needed(actors):
    space = {"Move": CategoricalActionSpace(["left", "right"])}
    frame = FrameReader(ObsSpace(entities={"Robot": Entity(["x"])}), space).read(
        Observation(
            features={"Robot": [[0.0], [5.0], [7.0]]},
            ids={"Robot": ["a", "b", "c"]},
            actions={"Move": CategoricalActionMask()},
            reward=0.0,
            done=False,
        )
    )
    given = {"Move": CategoricalAction(actors, [1] * len(actors), ["left", "right"])}
    with pytest.raises(errors.MaskError, match="other actors than those that can act"):
        answers_in_frame(given, frame, space)


def test_a_random_agent_goes_on_drawing_where_its_state_was_saved():
    with SeatRows(TicTacToe, 2) as rows:
        obs = rows.reset()
        agent, other = RandomAgent(*spaces(rows), 1), RandomAgent(*spaces(rows), 2)
        agent.act_rows(obs)
        other.set_state(agent.get_state())
        ours = [agent.act_rows(obs)["Mark"].as_array()[0, 0] for _ in range(20)]
        theirs = [other.act_rows(obs)["Mark"].as_array()[0, 0] for _ in range(20)]
        assert ours == theirs
        assert len(set(ours)) > 3


def test_any_agent_plays_the_other_seats_of_a_masked_environment():
    for make in (RandomAgent, lambda *s: ScriptedAgent(first_cell, *s)):
        env = MaskedEnvironment(TicTacToe, make(*spaces(TicTacToe())), seat="O")
        env.seed(1)
        shown = env.reset()
        while not shown.done:
            ids = shown.ids["Player"]
            last = shown.actions["Mark"].actee_ids[-1]
            shown = env.act({"Mark": SelectEntityAction(ids, [last])})
        assert shown.metrics["win"] in (0.0, 0.5, 1.0)
