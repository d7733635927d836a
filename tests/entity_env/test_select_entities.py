"""Actors that select a set of entities: from the observation to the action, and all between."""

import builtins

import numpy as np
import pytest
from ragged_envs.fill_order import FillOrder, fill_order

from entity_env import (
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferI64,
    SelectEntitiesAction,
    SelectEntitiesActionSpace,
    SelectEntityActionMask,
    batch_obs,
)
from entity_env.batching.action_checks import check_actions
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.table import typed_actions
from entity_env.batching.row_reader import RowReader
from entity_env.drawing.chosen import choices_of, chosen_lines
from entity_env.errors import ActionError, MaskError, SettingError, SpaceError
from entity_env.play import random_policy
from entity_env.runner import play_in_terminal
from entity_env.scripted_agent import ScriptedAgent
from entity_env.wrappers import FeatureFilter, VecFeatureFilter

SPACE = ObsSpace(entities={"Hand": Entity(), "Card": Entity(["x"])})
PICK = {"Pick": SelectEntitiesActionSpace(2)}


def shown(cards, mask=None, hands=1):
    return Observation(
        features={"Hand": [()] * hands, "Card": [(x,) for x in cards]},
        ids={"Hand": [f"H{i}" for i in range(hands)], "Card": [f"C{i}" for i in range(len(cards))]},
        actions={"Pick": SelectEntityActionMask(None, ["Hand"], ["Card"], mask=mask)},
    )


OBSERVATIONS = [shown([1.0, 2.0, 3.0], [[True, False, True]]), shown([]), shown([4.0], hands=2)]


def answer(rows, lengths):
    flat = np.array(rows, np.int64).reshape(-1, 2)
    return {"Pick": RaggedBufferI64.from_flattened(flat, np.array(lengths))}


@pytest.mark.parametrize("at_most", [0, -1, 1.5, True, None])
def test_a_set_has_a_size(at_most):
    with pytest.raises(SpaceError, match=r"at_most(.|\n)*a whole number >= 1"):
        SelectEntitiesActionSpace(at_most)


def test_both_readers_read_the_same_masks_and_answer_with_the_same_actions():
    rows = RowReader(SPACE, PICK).read(OBSERVATIONS, str)
    one = batch_obs(OBSERVATIONS, SPACE, PICK)
    for obs in (rows.obs, one):
        mask = obs.action_masks["Pick"]
        assert mask.at_most == 2
        # The hand is entity 0 and the cards come after all hands; nobody acts without cards.
        assert mask.actors.as_array()[:, 0].tolist() == [0, 0, 1]
        assert mask.actors.size1().tolist() == [1, 0, 2]
        assert mask.actees.as_array()[:, 0].tolist() == [1, 2, 3, 2]
        assert mask.mask.as_array()[:, 0].tolist() == [True, False, True, True, True]
    chosen = answer([[3, 1], [-1, -1], [2, -1]], [1, 0, 2])
    typed = rows.typed_actions(check_actions(chosen, rows.obs, PICK), PICK)
    assert typed == [
        {"Pick": SelectEntitiesAction(["H0"], [["C2", "C0"]])},
        {"Pick": SelectEntitiesAction([], [])},
        {"Pick": SelectEntitiesAction(["H0", "H1"], [[], ["C0"]])},
    ]
    reader = FrameReader(SPACE, PICK)
    for i, part in enumerate(([[3, 1]], np.zeros((0, 2)), [[-1, -1], [2, -1]])):
        frame = reader.read(OBSERVATIONS[i])
        assert typed_actions(frame, {"Pick": np.array(part, np.int64)}, PICK) == typed[i]


def test_a_script_selects_sets_in_rows():
    def backwards(observation):
        mask = observation.actions.get("Pick")
        if mask is None:
            return {}
        others = [[] for _ in mask.actor_ids[1:]]
        return {"Pick": SelectEntitiesAction(mask.actor_ids, [mask.actee_ids[::-1], *others])}

    obs = batch_obs(OBSERVATIONS, SPACE, PICK)
    taken = ScriptedAgent(backwards, SPACE, PICK).act_rows(obs)["Pick"]
    # The second card of the first frame cannot be selected; the second hand of the last selects
    # nothing.
    assert taken.as_array().tolist() == [[3, 1], [2, -1], [-1, -1]]
    assert taken.size1().tolist() == [1, 0, 2]
    obs = batch_obs([shown([1.0, 2.0, 3.0])], SPACE, PICK)
    with pytest.raises(ActionError, match=r"too many(.|\n)*at most 2 ids"):
        ScriptedAgent(backwards, SPACE, PICK).act_rows(obs)


def test_sets_are_equal_in_any_order():
    one = SelectEntitiesAction(["H"], [["a", "b"]])
    assert one == SelectEntitiesAction(["H"], [["b", "a"]])
    assert one != SelectEntitiesAction(["H"], [["a"]])
    assert one != SelectEntitiesAction(["H"], [["a", "c"]])
    with pytest.raises(ActionError, match="actors, actees"):
        SelectEntitiesAction(["H"])


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        ([3, 3], ActionError, r"twice(.|\n)*each entity at most once(.|\n)*\[3, 3\]"),
        ([-1, 3], ActionError, "after it has stopped"),
        ([2, -1], ActionError, r"entity 2 cannot be selected(.|\n)*\[1, 3\]"),
        ([0, -1], ActionError, "entity 0 cannot be selected"),
        ([-2, -1], ActionError, "entity -2 cannot be selected"),
    ],
)
def test_sets_that_are_wrong_name_their_environment(row, error, text):
    obs = batch_obs([OBSERVATIONS[1], OBSERVATIONS[0]], SPACE, PICK)
    with pytest.raises(error, match=text) as raised:
        check_actions(answer([row], [0, 1]), obs, PICK)
    assert "environment 1" in str(raised.value)


class Cards(Environment):
    """Three cards, of which the first hand may not have the second; pays how many are taken."""

    def __init__(self):
        self.steps, self.got = 0, []

    def obs_space(self):
        return SPACE

    def action_space(self):
        return PICK

    def reset(self):
        self.steps, self.got = 0, []
        return self._show()

    def act(self, actions):
        self.got.append([list(own) for own in actions["Pick"].actees])
        self.steps += 1
        return self._show(float(sum(map(len, actions["Pick"].actees))))

    def _show(self, reward=0.0):
        obs = shown([1.0, 2.0, 3.0], [[True, False, True], [True, True, True]], hands=2)
        obs.reward, obs.done = reward, self.steps == 3
        return obs


def test_random_sets_have_all_sizes_and_are_allowed():
    obs = batch_obs([OBSERVATIONS[0]] * 600, SPACE, PICK)
    chosen = random_policy(0)(obs)
    check_actions(chosen, obs, PICK)
    rows = chosen["Pick"].as_array()
    sizes = np.bincount((rows != -1).sum(axis=1)) / 600
    # 3 standard deviations: 3 * sqrt(1/3 * 2/3 / 600) = 0.058.
    assert sizes == pytest.approx([1 / 3] * 3, abs=0.058)
    assert set(map(tuple, rows.tolist())) == {(-1, -1), (1, -1), (3, -1), (1, 3), (3, 1)}


def test_text_names_all_that_is_selected():
    frame = FrameReader(SPACE, PICK).read(OBSERVATIONS[0])
    for row, text in (([3, 1], "Card C2 + Card C0"), ([-1, -1], "nothing")):
        every = choices_of(frame, SPACE, PICK, {"Pick": np.array([row])})
        assert chosen_lines(every, frame, SPACE) == [f"Pick: Hand H0 {text}"]


def test_people_type_sets_with_commas(monkeypatch, capsys):
    typed = iter(["C0, C2", "C0,C0", "C0,C1,C2", "C1", "-", ".", "q"])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(typed))
    env = Cards()
    play_in_terminal(lambda: env, "random", seed=0, episodes=1)
    shown_text = capsys.readouterr().out
    assert env.got[0] == [["C0", "C2"], ["C1"]]
    assert env.got[1][0] == []
    assert "select at most 2 entities" in shown_text
    assert shown_text.count("at most 2, each once, with commas in between; - for none") == 2


def smaller():
    """Without a type between the hand and the cards, so that indices change."""
    whole = ObsSpace(entities={"Hand": Entity(), "Wall": Entity(), "Card": Entity(["x"])})

    class Walled(Cards):
        def obs_space(self):
            return whole

        def _show(self, reward=0.0):
            obs = super()._show(reward)
            obs.features = {**obs.features, "Wall": [(), ()]}
            return obs

    return Walled


@pytest.mark.parametrize("rows", [False, True])
def test_a_filter_gives_the_environment_its_own_indices(rows):
    make = smaller()
    env = make()
    outer = (
        VecFeatureFilter(ListEnv(lambda: env, 1), SPACE)
        if rows
        else ListEnv(lambda: FeatureFilter(env, SPACE), 1)
    )
    obs = outer.reset()
    assert obs.action_masks["Pick"].actees.as_array()[:, 0].tolist() == [2, 3, 4]
    outer.act(answer([[4, 2], [3, -1]], [2]))
    assert env.got == [[["C2", "C0"], ["C1"]]]


def test_what_has_no_place_for_sets_says_so():
    pytest.importorskip("gymnasium")
    from entity_env.interop.padded_spaces import PaddedSpaces

    with pytest.raises(SettingError, match="is a SelectEntitiesActionSpace"):
        PaddedSpaces(SPACE, PICK, 4, 4)


def test_fill_order_pays_for_one_item_of_each_colour():
    env = FillOrder(items=4)
    env.seed(0)
    env.reset()
    start = {"colors": [0, 0, 1, 2], "orders": [0, 1], "steps": 0}
    for items, reward in (
        ([0, 2], 1.0),
        ([1, 2], 1.0),
        ([0], 1 / 2),  # one of two orders
        ([0, 1], 1 / 2),  # the second item of a colour fills nothing
        ([0, 2, 3], 2 / 3),  # two of three items
        ([3], 0.0),
        ([], 0.0),
    ):
        env.set_state(start)
        picked = [("Item", i) for i in items]
        obs = env.act({"Pick": SelectEntitiesAction(["Picker"], [picked])})
        assert (obs.reward, obs.done) == (pytest.approx(reward), True)
    for seed in range(20):
        env.seed(seed)
        assert env.act(fill_order(env.reset())).reward == 1.0
    env.set_state(start)
    with pytest.raises(MaskError, match="each once"):
        env.act({"Pick": SelectEntitiesAction(["Picker"], [[("Item", 0), ("Item", 0)]])})
