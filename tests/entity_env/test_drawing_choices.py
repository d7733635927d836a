"""Choices in pictures and in text; labels; y up and y down."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny_envs import Farm

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Drawer,
    Entity,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    errors,
)
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.drawing import Chosen, add_caption, choices_of, chosen_lines
from entity_env.drawing.scene import Arrows, Marks, Words
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.environment import hints_of
from entity_env.hints import ViewerHints
from entity_env.viewer.messages import to_message
from entity_env.wrappers import TimeLimit, Wrapper

pytest.importorskip("PIL")

SPACE = ObsSpace(
    entities={
        "Ant": Entity(["x", "y", "hp", Discrete("kind", 3)]),
        "Leaf": Entity(["x", "y"]),
        "Queen": Entity(["age"]),
    }
)
ACTIONS = {
    "Move": CategoricalActionSpace(["left", "right"]),
    "Eat": SelectEntityActionSpace(),
    "Mood": GlobalCategoricalActionSpace(["calm", "bold"]),
}
ANT, LEAF = (0, 114, 178), (213, 94, 0)


def frame(ants, leaves, queens=(), ids=None, **actions):
    features = {"Ant": ants, "Leaf": leaves, "Queen": list(queens)}
    observation = Observation(features=features, ids=ids or {}, actions=actions)
    return FrameReader(SPACE, ACTIONS).read(observation)


def everybody():
    """Two ants, two leaves and a queen; all that can be chosen is chosen."""
    ids = {"Ant": [("Ant", 0), ("Ant", 1)], "Leaf": ["oak", "elm"], "Queen": ["queen"]}
    seen = frame(
        [[0, 0, 0.51234, 2], [9, 9, 7, 0]],
        [[9, 0], [0, 9]],
        [[40]],
        ids,
        Move=CategoricalActionMask(actor_types=["Ant"]),
        Eat=SelectEntityActionMask(actor_types=["Ant", "Queen"], actee_types=["Leaf", "Queen"]),
        Mood=GlobalCategoricalActionMask(),
    )
    indices = {"Move": [1, 0], "Eat": [2, 4, 3], "Mood": [1]}
    arrays = {name: np.array(own) for name, own in indices.items()}
    return seen, choices_of(seen, SPACE, ACTIONS, arrays)


def middle_of(picture, color):
    ys, xs = np.nonzero((picture[:, : len(picture)] == color).all(axis=2))
    return xs.mean(), ys.mean()


# ----------------------------------------------------------------------------------------- text


def test_who_has_chosen_what_and_whom():
    seen, chosen = everybody()
    assert chosen == [
        Chosen("Move", 0, "right"),
        Chosen("Move", 1, "left"),
        Chosen("Eat", 0, "Leaf oak", 2),
        Chosen("Eat", 1, "queen", 4),
        Chosen("Eat", 4, "Leaf elm", 3),
        Chosen("Mood", 5, "bold"),
    ]
    assert chosen_lines(chosen, seen, SPACE) == [
        "Move: Ant 0 right, Ant 1 left",
        "Eat: Ant 0 -> Leaf oak, Ant 1 -> queen, queen -> Leaf elm",
        "Mood: bold",
    ]


def test_entities_without_ids_are_told_apart_by_their_index():
    seen = frame([[0, 0, 1, 0], [1, 1, 1, 0]], [], Move=CategoricalActionMask(actor_types=["Ant"]))
    chosen = choices_of(seen, SPACE, ACTIONS, {"Move": np.array([0, 1])})
    assert chosen_lines(chosen, seen, SPACE) == ["Move: Ant #0 left, Ant #1 right"]


def test_nobody_who_acts_has_chosen_nothing():
    seen = frame([[0, 0, 1, 0]], [])
    assert choices_of(seen, SPACE, ACTIONS, {}) == []
    assert chosen_lines([], seen, SPACE) == []


def test_long_lines_go_on_in_the_next():
    rows = [[i, 0, 1, 0] for i in range(6)]
    seen = frame(rows, [], Move=CategoricalActionMask(actor_types=["Ant"]))
    chosen = choices_of(seen, SPACE, ACTIONS, {"Move": np.zeros(6, np.int64)})
    whole = [
        "Move: Ant #0 left, Ant #1 left,",
        "  Ant #2 left, Ant #3 left,",
        "  Ant #4 left, Ant #5 left",
    ]
    assert chosen_lines(chosen, seen, SPACE, width=31) == whole


# ------------------------------------------------------------------------------------- pictures


def scene_of(seen, chosen=(), **settings):
    return SceneMaker(SPACE, **settings).scene(seen, chosen)


def dots(scene):
    """Middle and radius of each entity, by its index."""
    return {
        index: (x, y, size)
        for own in scene.shapes
        if isinstance(own, Marks) and own.index is not None
        for index, x, y, size in zip(own.index, own.x, own.y, own.size, strict=True)
    }


def test_a_line_leads_from_the_actor_to_what_it_selected():
    seen, chosen = everybody()
    scene = scene_of(seen, chosen)
    (arrows,) = (own for own in scene.shapes if isinstance(own, Arrows) and own.head)
    # Ant 0 eats the oak to its right; the queen of ant 1 and of the elm has no place.
    (x, y, _), (to_x, to_y, radius) = dots(scene)[0], dots(scene)[2]
    assert (arrows.x, arrows.y) == ([x], [y])
    assert arrows.to_y == [to_y]
    assert to_x - radius - 0.1 < arrows.to_x[0] < to_x - radius
    assert arrows.color == ANT


def words_of(scene):
    """The texts beside dots, each with its place and anchor."""
    return {
        text: (x, y, own.anchor)
        for own in scene.shapes
        if isinstance(own, Words) and own.halo
        for text, x, y in zip(own.text, own.x, own.y, strict=True)
    }


def test_choices_stand_beside_the_actors():
    seen, chosen = everybody()
    scene = scene_of(seen, chosen)
    words, places = words_of(scene), dots(scene)
    margin = 0.2 * 10 / 22  # ten cells are 22 units
    (x0, y0, r0), (x1, y1, r1) = places[0], places[1]
    expected = {
        # The line to the oak is to the right of ant 0: its word stands to the left.
        "right": (x0 - r0 - margin, y0, "rm"),
        # The queen has no place: no line can lead there. At the edge there is room to the left.
        "left, -> queen": (x1 - r1 - margin, y1, "rm"),
    }
    assert words.keys() == expected.keys()
    for text, (x, y, anchor) in expected.items():
        assert words[text] == (pytest.approx(x), pytest.approx(y), anchor), text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, -7.0])
def test_a_frame_of_a_forged_recording_has_a_scene(value):
    kind = Discrete("kind", 2, names=("oak", "elm"))
    space = ObsSpace(entities={"Tree": Entity(["x", "y", "hp", kind]), "Leaf": Entity([kind])})
    rows = np.array([[1, 2, 3, 1], [value, value, value, value]], np.float64)
    features = {"Tree": rows, "Leaf": rows[:, 3:]}
    frame = Frame(features, np.zeros(0), {}, [None] * 4, {}, 0.0, False, False, {})
    with np.errstate(all="ignore"):
        scene = SceneMaker(space).scene(frame)
    assert to_message(scene.to_json())
    assert dots(scene)[0]


def test_a_word_avoids_neighbours():
    def side(*others):
        mask = CategoricalActionMask(actor_ids=["a"])
        seen = frame([[4, 4, 1, 0]], [[0, 0], [8, 8], *others], ids={"Ant": ["a"]}, Move=mask)
        chosen = choices_of(seen, SPACE, ACTIONS, {"Move": np.array([0])})
        ((_, _, anchor),) = words_of(scene_of(seen, chosen)).values()
        return anchor

    assert side() == "lm"
    assert side([5, 4]) == "rm"
    assert side([5, 4], [3, 4]) == "mb"
    assert side([5, 4], [3, 4], [4, 5]) == "mt"


def test_what_an_actor_without_a_place_selects_has_a_ring():
    seen, chosen = everybody()
    scene = scene_of(seen, [own for own in chosen if own.actor == 4])
    (ring,) = (own for own in scene.shapes if isinstance(own, Marks) and own.edge == "ink")
    (x, y, radius) = dots(scene)[3]  # the elm
    assert (ring.fill, ring.x, ring.y) == (None, [x], [y])
    assert ring.size[0] > radius


def test_what_is_selected_is_marked_in_a_table():
    space = ObsSpace(entities={"Card": Entity(["value"])})
    actions = {"Take": SelectEntityActionSpace()}
    observation = Observation(
        features={"Card": [[1], [2], [3]]}, actions={"Take": SelectEntityActionMask()}
    )
    seen = FrameReader(space, actions).read(observation)
    picture = Drawer(space).draw(seen, [Chosen("Take", 0, "Card #1", 1)])
    ys, _ = np.nonzero((picture == (255, 236, 179)).all(axis=2))
    # A heading and a line of names above; lines of 19 pixels from 12 on.
    assert (ys.min(), ys.max()) == pytest.approx((12 + 3 * 19, 12 + 4 * 19), abs=1)


def test_y_down_turns_the_plane_over():
    seen = Observation(features={"Ant": [[0, 0, 1, 0]], "Leaf": [[0, 8]]})
    up = Drawer(SPACE).draw(seen)
    down = Drawer(SPACE, hints=ViewerHints(y_axis="down")).draw(seen)
    assert middle_of(up, ANT)[1] > 300 > 100 > middle_of(up, LEAF)[1]
    assert middle_of(down, LEAF)[1] > 300 > 100 > middle_of(down, ANT)[1]
    with pytest.raises(errors.SettingError, match="'up', 'down'"):
        ViewerHints(y_axis="left").check(SPACE)


def test_wrappers_pass_on_where_y_is():
    class OnAScreen(Farm):
        def viewer_hints(self):
            return ViewerHints(y_axis="down")

    assert hints_of(TimeLimit(Farm(), 3)).y_axis == "up"
    assert hints_of(TimeLimit(Wrapper(OnAScreen()), 3)).y_axis == "down"


def test_texts_of_a_crowd_are_bounded():
    rows = [[i % 100, i // 100, i, 0] for i in range(5000)]
    mask = CategoricalActionMask(actor_types=["Ant"])
    seen = frame(rows, [], Move=mask)
    chosen = choices_of(seen, SPACE, ACTIONS, {"Move": np.zeros(5000, np.int64)})
    assert Drawer(SPACE).draw(seen, chosen).shape == (400, 580, 3)


# ------------------------------------------------------------------------------------- captions


def test_a_caption_stands_under_the_picture_and_enlarges_small_ones():
    picture = np.full((9, 7, 3), 100, np.uint8)
    # 40 times as large: 280 wide.
    plain, written = add_caption(picture, [], 2), add_caption(picture, ["step 3", "left"], 2)
    assert plain.shape == written.shape == (360 + 48, 280, 3)  # two lines of 18 and half of both
    assert (written[:360] == 100).all()
    assert (plain[360:] == 255).all()
    rows = np.flatnonzero((written[360:] < 128).any(axis=(1, 2)))
    assert rows.min() < 24 <= rows.max(), "both lines"
    assert add_caption(np.zeros((300, 600, 3), np.uint8), [], 1).shape[1] == 600
