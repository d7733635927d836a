"""Pictures of observations: who is drawn where, and that a sequence stays still."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from ragged_envs.floor_is_lava import FloorIsLava
from support.tiny_envs import Farm

from entity_env import Discrete, Drawer, Entity, Observation, ObsSpace, check_env, errors
from entity_env.drawing import Sign, add_legend
from entity_env.drawing.ground import Ground
from entity_env.drawing.looks import find_place
from entity_env.drawing.plane import Extent, Spread, check_bounds, nice_step
from entity_env.hints import EntityHints, ViewerHints

pytest.importorskip("PIL")

BLUE, RED, GREEN = (0, 114, 178), (213, 94, 0), (0, 158, 115)
SPACE = ObsSpace(
    global_features=["time"],
    entities={
        "Ant": Entity(["hp", "x", "y"]),
        "Bee": Entity(["at.x", "at.y"]),
        "Cloud": Entity(["rain", Discrete("kind", 3)]),
    },
)


def seen(time=0.0, ids=None, visible=None, **features):
    return Observation(features=features, ids=ids, visible=visible, global_features=[time])


def draw_observation(observation, space, **settings):
    return Drawer(space, **settings).draw(observation)


def spots(picture, color, *, within=None):
    """The pixels (x, y) of exactly this colour; ``within`` is a part of the picture's width."""
    ys, xs = np.nonzero((picture == color).all(axis=2))
    inside = xs < (within or picture.shape[1])
    return np.stack([xs[inside], ys[inside]], axis=1)


def plane(picture):
    """The width of the part with the plane."""
    return picture.shape[0]


def middle(picture, color):
    own = spots(picture, color, within=plane(picture))
    return (own.min(axis=0) + own.max(axis=0)) / 2


def test_a_picture_has_the_promised_form():
    picture = draw_observation(seen(Ant=[[1, 2, 3]]), SPACE)
    assert picture.dtype == np.uint8
    assert picture.shape == (400, 580, 3)
    assert draw_observation(seen(), SPACE, size=200).shape == (200, 290, 3)


def test_dots_lie_where_the_features_say_with_y_up_and_equal_scale():
    # Four corners of a rectangle 4 wide and 2 high: the first one alone is a bee.
    ants = [[0, 4, 0], [0, 0, 2], [0, 4, 2]]
    drawer = Drawer(SPACE, hints=ViewerHints(bounds=(0, 4, -1, 3)))
    bee = middle(drawer.draw(seen(Bee=[[0, 0]])), RED)
    places = [middle(drawer.draw(seen(Ant=[ant])), BLUE) for ant in ants]
    right, up, both = (place - bee for place in places)
    # Five cells, and 2.2 + 0.6 units of 5 / 22 beside them, are 400 pixels: a cell is 70.97.
    np.testing.assert_allclose(right, [4 * 70.97, 0], atol=1.5)
    np.testing.assert_allclose(up, [0, -2 * 70.97], atol=1.5)
    np.testing.assert_allclose(both, right + up, atol=1.5)


def test_each_type_has_its_colour_and_the_legend_its_number():
    picture = draw_observation(seen(Ant=[[0, 1, 1]], Bee=[[5, 5]]), SPACE)
    for color in (BLUE, RED, GREEN):
        assert len(spots(picture[:, plane(picture) :], color)) > 30  # the legend
    assert len(spots(picture, BLUE, within=plane(picture))) > 100
    assert len(spots(picture, RED, within=plane(picture))) > 100
    assert not len(spots(picture, GREEN, within=plane(picture)))  # clouds have no place


def test_what_is_beside_the_plane_is_written():
    def panel(observation):
        return draw_observation(observation, SPACE)[:, 400:]

    still = panel(seen(Ant=[[0, 1, 1]]))
    np.testing.assert_array_equal(still, panel(seen(Ant=[[0, 5, 9]])))
    for other in (
        seen(Ant=[[0, 1, 1]] * 2),
        seen(time=1.0, Ant=[[0, 1, 1]]),
        seen(Ant=[[0, 1, 1]], Cloud=[[0.5, 2]]),
    ):
        assert (panel(other) != still).any()
    cloud = panel(seen(Cloud=[[0.5, 2]]))
    assert (cloud != panel(seen(Cloud=[[0.5, 1]]))).any()


def test_hidden_entities_are_hollow():
    observation = seen(Ant=[[0, 1, 1]])
    shown = draw_observation(observation, SPACE)
    hidden = draw_observation(seen(Ant=[[0, 1, 1]], visible={"Ant": [False]}), SPACE)
    count = [len(spots(picture, BLUE, within=400)) for picture in (shown, hidden)]
    assert 0 < count[1] < count[0] / 2
    # Both lie on the same spot.
    np.testing.assert_allclose(middle(shown, BLUE), middle(hidden, BLUE), atol=1)


def test_edges_say_whose_an_entity_is_and_the_panel_what_they_mean():
    def drawn(*features, owner=1):
        space = ObsSpace(entities={"Ant": Entity(["x", "y", *features])})
        ant = [[1, 1, *[owner] * len(features)]]
        picture = draw_observation(Observation(features={"Ant": ant}), space)
        return [len(spots(part, (220, 40, 40))) for part in np.split(picture, [400], axis=1)]

    dot, panel = drawn(Discrete("owner", 2))
    assert min(dot, panel) > 0
    assert drawn(Discrete("owner", 2), owner=0) == [0, panel]
    # Neither a feature of another name nor one with a value for each of many entities.
    assert drawn(Discrete("hp", 2)) == drawn(Discrete("owner", 50)) == drawn("owner") == [0, 0]


def test_a_legend_stands_below_in_lines_that_fit():
    picture = np.full((50, 300, 3), 7, np.uint8)
    signs = [
        Sign("worker", (33, 88, 190), letter="W"),
        Sign("base", (200, 45, 40), "square", "B"),
        Sign("now", (30, 200, 30), "line"),
        Sign("moves to", (214, 90, 30), "arrow"),
        Sign("job", (90, 20, 90), "box", "3"),
        Sign("machine", (38, 46, 60), "text", letter="M3"),
    ]
    whole = add_legend(picture, signs)
    np.testing.assert_array_equal(whole[:50], picture)
    for sign in signs:
        assert len(spots(whole[50:], sign.color)) > 10, sign
    # One line holds fewer, and a long meaning widens a narrow picture.
    assert add_legend(picture, signs[:2]).shape[0] < whole.shape[0]
    narrow = add_legend(picture[:, :40], [Sign("a meaning that is longer than the picture")])
    assert narrow.shape[1] > 150
    np.testing.assert_array_equal(narrow[:50, :40], picture[:, :40])
    assert (narrow[:50, 40:] == 255).all()
    assert add_legend(picture, []) is picture


def test_labels_tell_entities_apart():
    ant = [[0, 1, 1]]
    pictures = [
        draw_observation(seen(Ant=ant, ids=ids), SPACE)
        for ids in (None, {"Ant": [7]}, {"Ant": [("Ant", 8)]}, {"Ant": ["me"]}, {"Ant": ["ant7"]})
    ]
    a, seven, eight, me, long = pictures
    assert (a != seven).any()
    assert (seven != eight).any()
    assert (me != a).any()
    np.testing.assert_array_equal(seven, long)  # A7


def test_a_sequence_does_not_jump_once_all_of_it_is_known():
    near, far = seen(Ant=[[0, 1, 1]], Bee=[[0, 0]]), seen(Ant=[[0, 90, 40]], Bee=[[0, 0]])
    drawer = Drawer(SPACE)
    drawer.include(near)
    drawer.include(far)
    first, last = drawer.draw(near), drawer.draw(far)
    np.testing.assert_array_equal(middle(first, RED), middle(last, RED))
    # Without that the view grows, and never shrinks again.
    drawer = Drawer(SPACE)
    assert (middle(drawer.draw(near), BLUE) != middle(first, BLUE)).any()
    drawer.draw(far)
    np.testing.assert_array_equal(drawer.draw(near), first)


def test_little_steps_inside_round_numbers_move_nothing_else():
    drawer = Drawer(SPACE)
    before = drawer.draw(seen(Ant=[[0, 0, 0], [0, 9.9, 9.9]], Bee=[[5, 5]]))
    after = drawer.draw(seen(Ant=[[0, 0, 0], [0, 9.95, 9.99]], Bee=[[5, 5]]))
    np.testing.assert_array_equal(middle(before, RED), middle(after, RED))


@pytest.mark.parametrize(
    "observation",
    [
        seen(),
        seen(Ant=[[0, 3, 3]]),
        seen(Ant=[[0, 3, 3]] * 50),
        seen(Ant=[[0, 1e38, -1e38], [0, -1e38, 1e38]]),
        seen(Ant=[[0, 1e30, 1e30]]),
        seen(Ant=[[0, 1e-40, 0], [0, 0, 0]]),
        seen(Ant=[[0, 1e7, 1e7 + 1]], Bee=[[1e7, 1e7]]),
        seen(Cloud=[[1e38, 0]] * 500),
    ],
    ids=range(8),
)
def test_nothing_is_too_odd_to_be_drawn(observation):
    for size in (100, 401):
        assert draw_observation(observation, SPACE, size=size).shape[0] == size


def test_ten_thousand_entities_are_drawn():
    rng = np.random.default_rng(0)
    ants = rng.normal(size=(10_000, 3))
    picture = draw_observation(seen(Ant=ants), SPACE)
    assert len(spots(picture, BLUE, within=400)) > 1000
    # All in one place: the first six, and how many there are.
    assert len(spots(draw_observation(seen(Ant=ants * 0), SPACE), BLUE, within=400)) > 50


def test_without_any_place_the_picture_is_a_table():
    space = ObsSpace(entities={"Food": Entity(["w"]), "Rock": Entity([])})
    empty = draw_observation(Observation(), space)
    one = draw_observation(Observation(features={"Food": [[1.5]]}), space)
    two = draw_observation(Observation(features={"Food": [[1.5], [2]]}), space)
    assert empty.shape == one.shape == two.shape == (400, 580, 3)
    # Each entity adds a line below the lines that are there.
    lowest = [np.nonzero((p < 200).any(axis=2))[0].max() for p in (empty, one, two)]
    assert len(spots(one, BLUE)) > 30
    assert lowest == sorted(set(lowest))
    many = draw_observation(Observation(features={"Food": np.ones((300, 1))}), space)
    assert many.shape == two.shape
    # What does not fit below goes on beside it.
    assert (two[:, 200:] == 255).all()
    assert (many[:, 200:] < 200).any()


def test_wide_tables_show_what_fits():
    wide = ObsSpace(entities={"Wide": Entity([f"a long feature name {i}" for i in range(40)])})
    picture = draw_observation(Observation(features={"Wide": [[0.5] * 40]}), wide)
    assert (picture[:, -5:] == 255).all()


def test_an_environment_can_draw_itself_in_one_line():
    class Drawn(Farm):
        def __init__(self):
            super().__init__()
            self.drawer = Drawer(self.obs_space())

        def render(self, **kwargs):
            return self.drawer.draw(self._observe())

    env = Drawn()
    env.seed(0)
    env.reset()
    assert env.render().shape == (400, 580, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 99}, ("size of a picture", ">= 100", "99")),
        ({"size": 200.5}, ("size of a picture",)),
        ({"size": True}, ("size of a picture",)),
        *(
            ({"hints": ViewerHints(bounds=bounds)}, ("not a rectangle",))
            for bounds in ((0, 1, 2), (1, 0, 0, 2), (0, 1, 2, 0), (0, np.inf, 0, 1), "abcd", 3)
        ),
    ],
    ids=str,
)
def test_wrong_arguments_are_explained(arguments, words):
    with pytest.raises(errors.SettingError) as caught:
        draw_observation(seen(), SPACE, **arguments)
    for word in words:
        assert word in str(caught.value)


def test_a_wrong_observation_is_explained():
    with pytest.raises(errors.FeatureError, match="'Ant'"):
        draw_observation(seen(Ant=[[1, 2]]), SPACE)
    with pytest.raises(errors.FeatureError, match="not finite"):
        draw_observation(seen(Ant=[[0, float("nan"), 0]]), SPACE)
    with pytest.raises(errors.ObservationError, match="Observation"):
        draw_observation({"Ant": []}, SPACE)
    with pytest.raises(errors.ObservationError, match="not an observation space"):
        Drawer(["x"])


@pytest.fixture
def no_pillow(monkeypatch):
    from entity_env.drawing import canvas

    canvas._pillow.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL", None)
    yield
    monkeypatch.undo()
    canvas._pillow.cache_clear()


def test_without_pillow_an_error_says_what_to_install(no_pillow):
    with pytest.raises(errors.MissingPackageError, match="pip install pillow"):
        draw_observation(seen(), SPACE)


def test_without_pillow_a_check_leaves_pictures_out_and_says_so(no_pillow):
    (note,) = check_env(FloorIsLava).notes
    assert note == "render is not checked: pictures need Pillow, which is not installed"


# Where things lie, without any picture.


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        (["x", "y"], (0, 1)),
        (["y", "z", "x"], (2, 0)),
        (["v.x", "v.y", "x", "y"], (2, 3)),
        (["at.x", "v.x", "v.y", "at.y"], (0, 3)),
        ([Discrete("x", 3), Discrete("y", 3)], (0, 1)),
        (["x", "at.y"], None),
        (["x"], None),
        (["ax", "ay"], None),
        ([], None),
    ],
    ids=str,
)
def test_places_are_found_by_the_names_of_features(features, columns):
    x, y = find_place(Entity(features), EntityHints())
    row = np.arange(len(features))[None]
    assert (None if x is None else (*x(row), *y(row))) == columns


@pytest.mark.parametrize(
    ("length", "parts", "step"),
    [(10, 8, 2), (8, 8, 1), (7, 8, 1), (1, 8, 0.2), (30, 8, 5), (0.3, 8, 0.05), (64, 8, 10)],
)
def test_steps_are_round_numbers(length, parts, step):
    # The least of 1, 2, 5, 10, ... that is not below length / parts: 10 / 8 = 1.25 gives 2.
    assert nice_step(length, parts) == pytest.approx(step)


def test_an_extent_grows_out_to_round_numbers():
    points = np.array([[0.3, -2.2], [9.1, 4.0]])
    extent = Extent.of(*points.T)
    assert extent == Extent(0.3, 9.1, -2.2, 4.0)
    # 8.8 / 8 = 1.1 gives steps of 2.
    assert extent.rounded() == Extent(0, 10, -4, 4)
    assert extent.join(Extent(-1, 2, 3, 8)) == Extent(-1, 9.1, -2.2, 8)
    assert extent.join(None) == extent
    assert Extent.of(np.zeros(0), np.zeros(0)) is None
    assert check_bounds([0, 2, 1, 3]) == Extent(0.0, 2.0, 1.0, 3.0)


def test_the_ground_turns_y_over_and_has_lines_between_cells():
    points = np.array([0.0, 2.0])
    up, down = (Ground(Extent(-0.5, 2.5, -0.5, 2.5), turn, True, False) for turn in (-1.0, 1.0))
    unit = 3 / 22
    left, top = 2.2 * unit, 0.6 * unit  # margins for numbers
    np.testing.assert_allclose(up.x(points), [left + 0.5, left + 2.5])
    np.testing.assert_allclose(up.y(points), [top + 2.5, top + 0.5])
    np.testing.assert_allclose(down.y(points), [top + 0.5, top + 2.5])
    assert up.size == pytest.approx((3 + 2.8 * unit, 3 + 2.3 * unit))
    _, lines, columns, rows = up.shapes()
    # Two lines between three columns, and two between three rows; a number for each.
    np.testing.assert_allclose(lines.x, [left + 1, left + 2, left, left])
    assert (columns.text, rows.text) == (["0", "1", "2"], ["0", "1", "2"])
    # Without cells, lines are at round numbers.
    _, lines, columns, _ = Ground(Extent(-0.2, 2.2, 0, 1), -1.0, False, False).shapes()
    assert columns.text == ["0", "0.5", "1", "1.5", "2"]
    np.testing.assert_allclose(lines.x[:5], columns.x)


def test_dots_of_one_place_stand_around_it():
    points = np.array([[50.0, 50.0], [10.0, 10.0], [50.0, 50.0]] + [[90.0, 20.0]] * 8)
    spread = Spread.of(*points.T, 10.0)
    places = np.stack([spread.x, spread.y], axis=1)
    assert places[1].tolist() == [10, 10]
    assert spread.radius[1] == 10
    # Two stand left and right of their place, 0.72 radii away, and are 0.62 as large.
    np.testing.assert_allclose(places[[0, 2]], [[42.8, 50], [57.2, 50]])
    np.testing.assert_allclose(spread.radius[[0, 2]], 6.2)
    # Of eight, six are shown, a number says so, and no two of them are nearer than they are wide.
    assert spread.shown.tolist() == [True] * 9 + [False] * 2
    assert spread.crowds.tolist() == [[90, 20, 8]]
    ring = places[3:9]
    apart = np.linalg.norm(ring[:, None] - ring[None], axis=2)[~np.eye(6, dtype=bool)].min()
    assert apart >= 1.9 * spread.radius[3]
    np.testing.assert_allclose(ring.mean(axis=0), [90, 20])
