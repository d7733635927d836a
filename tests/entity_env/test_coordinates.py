"""Coordinates that are found by the names of features, or else by their numbers."""

import numpy as np
import pytest

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    Environment,
    Grid,
    ListEnv,
    Observation,
    ObsSpace,
    Position,
    batch_obs,
    check_env,
)
from entity_env.agent import random_policy
from entity_env.coordinates import find_coordinates, named_places

STEER = {"Move": CategoricalActionSpace(["left", "right"])}


def seen(entities, ranges=(), steps=1, seed=0):
    """The space of some types, and observations with random whole numbers, by default 0 to 9.

    Args:
        entities: Features of each type; the entities of the first one act.
        ranges: The least and the largest number of features, by type and feature.
    """
    rng, ranges = np.random.default_rng(seed), dict(ranges)
    space = ObsSpace(
        entities={
            name: own if isinstance(own, Entity) else Entity(own) for name, own in entities.items()
        }
    )

    def column(name, feature):
        low, high = ranges.get((name, feature), (0, 9))
        values = (
            rng.uniform(low, high, 20)
            if isinstance(low, float)
            else rng.integers(low, high + 1, 20)
        )
        return np.append(values, [low, high])

    def frame():
        features = {
            name: np.stack([column(name, feature) for feature in entity.names], 1)
            for name, entity in space.entities.items()
            if entity.names and not isinstance(entity, Grid)
        }
        ids = {name: [(name, k) for k in range(len(rows))] for name, rows in features.items()}
        first = list(features)[:1]
        actions = {"Move": CategoricalActionMask(actor_types=first)} if first else {}
        return Observation(features=features, ids=ids, actions=actions, reward=0.0, done=False)

    return space, [batch_obs([frame()], space, STEER) for _ in range(steps)]


def found(entities, ranges=()):
    return find_coordinates(*seen(entities, ranges)).names


@pytest.mark.parametrize(
    "names",
    [
        "x y",
        "x y z",
        "X Y",
        "pos_x pos_y",
        "posX posY",
        "PosX PosY",
        "xPos yPos",
        "XPos YPos",
        "x_pos y_pos",
        "xpos ypos",
        "posx posy",
        "px py",
        "rx ry",
        "x-coord y-coord",
        "xcoord ycoord zcoord",
        "position.x position.y position.z",
        "robot/x robot/y",
        "robot_0_x robot_0_y",
        "agents[0].x agents[0].y",
        "x1 y1",
        "x_m y_m",
        "centerX centerY",
        "my x|my y",
        "pos_x_norm pos_y_norm",
        "posXnorm posYnorm",
        "x z",
        "target_x target_y",
        "x_min y_min",
        "nest_x nest_y",
        "nestx nesty",
        "column row",
        "Col Row",
        "target_col target_row",
        "colIdx rowIdx",
        "colidx rowidx",
        "col_number row_number",
        "column line",
        "c r",
        "j i",
        "pos_j pos_i",
        "q r",
        "u v",
        "e n",
        "lon lat",
        "Longitude Latitude",
        "lng lat",
        "gps_lon gps_lat",
        "east north",
        "easting northing",
        "horizontal vertical",
        "hpos vpos",
        "across along",
        "cross_track along_track",
        "col_j row_i",
        "x_east y_north",
        "pos_a pos_b",
        "posA posB posC",
        "file rank",
        "p[0] p[1]",
        "pos_0 pos_1",
        "loc0 loc1 loc2",
        "position_1 position_2",
        "coord.0 coord.1",
    ],
)
def test_these_names_are_coordinates(names):
    axes = tuple(names.split("|") if "|" in names else names.split())
    mixed = [*reversed(axes), "battery"]
    ranges = [(("Robot", "battery"), (50, 99))]
    assert found({"Robot": mixed, "Crate": ["weight", *axes]}, ranges) == {
        "Robot": axes,
        "Crate": axes,
    }


@pytest.mark.parametrize(
    "names",
    [
        "x",
        "x row",
        "y col",
        "vx vy",
        "velX velY",
        "x_velocity y_velocity",
        "speed_x speed_y",
        "dx dy",
        "delta_row delta_col",
        "drow dcol",
        "x_dir y_dir",
        "direction.x direction.y",
        "facing_x facing_y",
        "wind_u wind_v",
        "wind_x wind_y",
        "windspeed_x windspeed_y",
        "relposx relposy",
        "dpos_x dpos_y",
        "quat_x quat_y quat_z",
        "qx qy qz qw",
        "num_x num_y",
        "force[0] force[1]",
        "fx fy",
        "ax ay",
        "accel_x accel_y",
        "rel_x rel_y",
        "offset_x offset_y",
        "size_x size_y",
        "max_x max_y",
        "x_max y_max",
        "row_count col_count",
        "n_rows n_cols",
        "rows columns",
        "width height",
        "step_x step_y",
        "price_low price_high",
        "index_0 index_1",
        "item_1 item_2",
        "kind_0 kind_1 kind_2",
        "pos_0 pos_1 pos_2 pos_3",
        "pos_a pos_b pos_c pos_d",
        "team_a team_b",
        "col_i row_j_x",
        "y_v x_v",
        "suit rank",
        "north east south west",
        "wall_n wall_e wall_s wall_w",
        "max may",
        "hp mp",
        "lat latency",
        "sin_x sin_y",
        "is_x is_y",
        "distance_x distance_y",
        "rank file_size",
        "level layer",
        "first second",
    ],
)
def test_these_names_are_none(names):
    ranges = [(("Robot", "max"), (0, 90)), (("Robot", "may"), (5, 8))]
    if names != "max may":  # no name says what they are
        assert found({"Robot": [*names.split(), "battery"]}, ranges) == {}


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (["target_x", "target_y", "x", "y"], ("x", "y")),
        (["to x", "to y", "at x", "at y"], ("at x", "at y")),
        (["vx", "vy", "pos_x", "pos_y"], ("pos_x", "pos_y")),
        (["h_x", "h_y", "x", "y"], ("x", "y")),
        (["v.x", "v.y", "x", "y"], ("x", "y")),
        (["u", "v", "x", "y"], ("x", "y")),
        (["goal_row", "goal_col", "row", "col"], ("col", "row")),
        (["nest_x", "nest_y", "robot_x", "robot_y"], ("robot_x", "robot_y")),
        (["x1", "y1", "x2", "y2"], ("x1", "y1")),
        (["pos_x", "pos_y", "pos_z", "v_x", "v_y", "v_z"], ("pos_x", "pos_y", "pos_z")),
        ([Continuous("x"), "y"], ("x", "y")),
    ],
)
def test_an_entitys_own_place_comes_first(features, expected):
    assert found({"Robot": features}) == {"Robot": expected}


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ({"A": ["x", "y", "z"], "B": ["x", "y"]}, {"A": ("x", "y"), "B": ("x", "y")}),
        ({"A": ["posX", "posY"], "B": ["y", "x"]}, {"A": ("posX", "posY"), "B": ("x", "y")}),
        ({"A": ["x", "y"], "B": ["row", "col"]}, {"A": ("x", "y"), "B": ("col", "row")}),
        (
            {"A": ["x", "y"], "B": ["goal_x", "goal_y"]},
            {"A": ("x", "y"), "B": ("goal_x", "goal_y")},
        ),
        ({"A": ["x", "y"], "B": ["dx", "dy"]}, {"A": ("x", "y")}),
        ({"A": ["x", "y"], "Wind": ["x", "y"]}, {"A": ("x", "y"), "Wind": ("x", "y")}),
        ({"A": [Discrete("x", 10), "y"]}, {}),
        ({"A": Grid((3, 3), ["x", "y"])}, {}),
        ({}, {}),
    ],
)
def test_places_of_several_types_are_one_frame_of_reference(entities, expected):
    assert found(entities) == expected


@pytest.mark.parametrize("ranges", [(-1.0, 1.0), (100, 200)])
def test_numbers_of_other_ranges_are_no_places_of_it(ranges):
    world = [(("A", axis), (0, 99)) for axis in "xy"]
    for name, axes in (("Wind", "xy"), ("B", ("lon", "lat")), ("B", ("nest_x", "nest_y"))):
        other = [((name, axis), ranges) for axis in axes]
        assert found({"A": ["x", "y"], name: [*axes]}, [*world, *other]) == {"A": ("x", "y")}


def test_letters_for_other_things_have_other_ranges():
    for names in (["h", "v"], ["c", "r"], ["i", "j"], ["e", "n"]):
        ranges = [(("A", names[0]), (0, 1000)), (("A", names[1]), (0, 5))]
        assert found({"A": names}, ranges) == {}
    flags = [(("A", "east"), (0, 1)), (("A", "north"), (0, 1))]
    assert found({"A": ["east", "north"]}, flags) == {}


def test_declared_positions_are_the_only_ones():
    space, game = seen({"A": Entity([Position("u", "y")]), "B": ["x", "y"]})
    own = find_coordinates(space, game)
    assert own.names == {"A": ("u", "y")}
    assert str(own) == "positions: u, y of A, as declared"


class Walk(Environment):
    """A walker among stones, whose features have names that tell nothing."""

    walker, stone, scale = ("foo", "bar", "energy"), ("foo", "bar", "weight"), 1.0

    def obs_space(self):
        return ObsSpace(entities={"Walker": Entity(self.walker), "Stone": Entity(self.stone)})

    def action_space(self):
        return {"Move": CategoricalActionSpace(["left", "right", "up", "down"])}

    def reset(self):
        self.at, self.energy, self.time = self.rng.integers(0, 10, (3, 2)), np.full(3, 9.0), 0
        self.stones = np.column_stack([self.rng.integers(0, 10, (12, 2)), np.arange(12) % 4])
        return self.observe()

    def act(self, actions):
        self.time += 1
        steps = np.array([(-1, 0), (1, 0), (0, 1), (0, -1)])
        self.at = np.clip(self.at + steps[actions["Move"].indices], 0, 9)
        self.energy = self.energy - 0.25
        return self.observe()

    def observe(self):
        stones = self.stones * [self.scale, self.scale, 1]
        return Observation(
            features={
                "Walker": np.column_stack([self.at * self.scale, self.energy]),
                "Stone": stones,
            },
            ids={"Walker": [0, 1, 2]},
            actions={"Move": CategoricalActionMask(actor_types=["Walker"])},
            reward=0.0,
            done=self.time == 30,
        )


class OtherNames(Walk):
    stone = ("this", "that", "weight")


class Fractions(Walk):
    scale = 0.05


class Alone(Walk):
    """Nothing else has places: an energy that rises and falls would look the same."""

    stone = ("this", "that", "weight")

    def observe(self):
        own = super().observe()
        own.features["Stone"] = own.features["Stone"] * [100, 100, 1]
        return own


class Standing(Walk):
    def act(self, actions):
        at = self.at
        super().act(actions)
        self.at = at
        return self.observe()


def line(env):
    policy = random_policy(0)
    with ListEnv(env, 4) as rows:
        game = [rows.reset()]
        for _ in range(50):
            game.append(rows.act(policy(game[-1])))
        return str(find_coordinates(rows.obs_space(), game))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (Walk, "foo, bar of Walker, Stone, by their numbers"),
        (Fractions, "foo, bar of Walker, Stone, by their numbers"),
        (OtherNames, "foo, bar of Walker; this, that of Stone, by their numbers"),
        (
            Alone,
            "none found; candidates: foo, bar of Walker; if they are places, "
            'declare them as continuous features: Entity([Position("foo", "bar"), ...])',
        ),
        (Standing, 'none found; if entities have places, declare them: Entity([Position("x", "y")'),
    ],
)
def test_numbers_tell_where_names_do_not(env, expected):
    assert line(env).startswith(f"positions: {expected}")


def test_discrete_features_are_candidates():
    space, game = seen({"A": [Discrete("col", 10), Discrete("row", 10)]})
    assert find_coordinates(space, game).candidates == {"A": ("col", "row")}


def test_a_check_names_them():
    assert check_env(Walk).positions.names == {"Walker": ("foo", "bar"), "Stone": ("foo", "bar")}


def test_a_pair_differs_in_its_axis_only():
    assert named_places("A", ["pos_x", "at_y"]) == []
    assert [own.axes for own in named_places("A", ["b_x", "c_y", "c_x"])] == [{0: "c_x", 1: "c_y"}]


class Riders(Walk):
    """The second column of the walkers is a count: several board or leave at a time."""

    stone = ("this", "that", "weight")

    def act(self, actions):
        at = self.at[:, 1].copy()
        seen = super().act(actions)
        several = self.rng.integers(-4, 5, 3)
        self.at[:, 1] = np.clip(at + several, 0, 9)
        return self.observe() if seen.done is False else seen


def test_counts_are_no_coordinates():
    assert line(Riders).startswith("positions: none found; if entities")


@pytest.mark.parametrize(("least", "wraps"), [(-179.0, True), (100.0, False)])
def test_longitudes_of_the_whole_earth_wrap(least, wraps):
    ranges = [(("Ship", "lon"), (least, 179.0)), (("Ship", "lat"), (-60.0, 60.0))]
    own = find_coordinates(*seen({"Ship": ["lon", "lat"]}, ranges))
    assert own.names == {"Ship": ("lon", "lat")}
    assert ("wrap at 180" in str(own)) == wraps
