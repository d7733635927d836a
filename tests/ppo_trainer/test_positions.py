"""Positions that a new run finds by the names of coordinates."""

from dataclasses import replace

import pytest
from support.trainer_runs import small_config

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
)
from entity_env.errors import SettingError
from ppo_trainer import recipe, resume, train
from ppo_trainer.machine.ranks import LONE
from ppo_trainer.training.positions import named_coordinates, with_positions
from ragged_net.position_config import RelativePosition, Translation


class Meadow(Environment):
    """Two sheep of each episode stand at 0 and ``size``, a dog between them."""

    size = 10.0

    def obs_space(self):
        return ObsSpace(entities={"Dog": Entity(["x", "y"]), "Sheep": Entity(["age", "y", "x"])})

    def action_space(self):
        return {"Bark": CategoricalActionSpace(["no", "yes"])}

    def reset(self):
        return Observation(
            features={
                "Dog": [[self.size / 2, 1.5 if self.size == 3 else 1.0]],
                "Sheep": [[90.0, 0.0, 0.0], [70.0, 0.0, self.size]],
            },
            ids={"Dog": [0]},
            actions={"Bark": CategoricalActionMask(actor_types=["Dog"])},
            reward=0.0,
            done=False,
        )

    def act(self, actions):
        seen = self.reset()
        seen.done = True
        return seen


class Field(Meadow):
    size = 320.0


class Declared(Field):
    def obs_space(self):
        sheep = Entity(["age", Position("y", "x")])
        return ObsSpace(entities={"Dog": Entity(["x", "y"]), "Sheep": sheep})


class Garden(Meadow):
    size = 3.0


def settings(**changes):
    return small_config(total_timesteps=20, **changes)


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ({"A": ["x", "y"], "B": ["hp", "y", "x"], "C": ["hp"]}, {"A": ("x", "y"), "B": ("x", "y")}),
        ({"A": ["x", "y", "z"], "B": ["x", "y", "z"]}, dict.fromkeys("AB", ("x", "y", "z"))),
        ({"A": ["x", "y", "z"], "B": ["x", "y"]}, dict.fromkeys("AB", ("x", "y"))),
        ({"A": ["row", "col"]}, {"A": ("row", "col")}),
        ({"A": [Continuous("x"), "y"]}, {"A": ("x", "y")}),
        ({"A": [Discrete("x", 3), "y"]}, {}),
        ({"A": ["x"], "B": ["to x", "to y"]}, {}),
        ({}, {}),
    ],
)
def test_coordinates_are_known_by_their_names(entities, expected):
    space = ObsSpace(entities={name: Entity(own) for name, own in entities.items()})
    assert named_coordinates(space) == expected


def test_cells_have_no_coordinates():
    assert named_coordinates(ObsSpace(entities={"Map": Grid((3, 3), ["x", "y"])})) == {}


@pytest.mark.parametrize(
    ("env", "unit", "extent"),
    # Whole numbers up to 10 and 320, and numbers with fractions up to 3: a 32nd of each range.
    [(Meadow, 1.0, 10.0), (Field, 10.0, 320.0), (Garden, 0.0938, 3.0)],
)
def test_a_new_run_uses_them_and_saves_that(tmp_path, capsys, env, unit, extent):
    done = train(settings(run_dir=str(tmp_path), find_positions=True), env)
    names = {"Dog": ("x", "y"), "Sheep": ("x", "y")}
    expected = RelativePosition(names, unit=unit, extent=extent, absolute=True)
    assert done.net.config.relative_position == expected
    assert "positions: x, y of Dog, Sheep" in capsys.readouterr().out
    again = resume(done.run, env, total_timesteps=40)
    assert again.net.config.relative_position == expected
    assert again.steps == 48


def test_coordinates_that_begin_elsewhere_have_the_range_of_their_axis():
    class Far(Meadow):
        def reset(self):
            seen = super().reset()
            seen.features["Dog"] = [[1005.0, 1.0]]
            seen.features["Sheep"] = [[90.0, 0.0, 1000.0], [70.0, 0.0, 1010.0]]
            return seen

    config = settings(find_positions=True)
    with ListEnv(Far, 2) as rows:
        found, _ = with_positions(config, rows, LONE)
    position = found.net.relative_position
    assert (position.unit, position.extent) == (1.0, 10.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"find_positions": False},
        {"net": {"dim": 8, "heads": 4}},  # two numbers for each head cannot all be rotated
        {"net": {"dim": 16, "relative_position": RelativePosition(kind="none")}},
        {"net": {"dim": 16, "translation": Translation("Dog", {"Dog": ["x", "y"]})}},
        {"net": {"dim": 16, "relations": [["Dog.x", "Sheep.age"]]}},
    ],
)
def test_other_settings_stay(tmp_path, changes):
    config = settings(run_dir=str(tmp_path), **{"find_positions": True, **changes})
    assert train(config, Meadow).net.config == config.net


def test_declared_positions_get_waves_of_the_right_lengths(tmp_path, capsys):
    done = train(settings(run_dir=str(tmp_path), find_positions=True), Declared)
    expected = RelativePosition({"Sheep": ("y", "x")}, unit=10.0, extent=320.0)
    assert done.net.config.relative_position == expected
    assert "positions:" not in capsys.readouterr().out


def test_rows_are_reset_once(tmp_path):
    class Counted(Meadow):
        resets = 0

        def reset(self):
            Counted.resets += 1
            return super().reset()

        def act(self, actions):
            return Meadow.act(self, actions)

    config = settings(run_dir=str(tmp_path), find_positions=True)
    counts = []
    for found in (True, False):
        Counted.resets = 0
        train(replace(config, find_positions=found), Counted)
        counts.append(Counted.resets)
    assert counts[0] == counts[1]


def test_positions_of_different_sizes_stay_an_error(tmp_path):
    class Mixed(Meadow):
        def obs_space(self):
            dog, sheep = Entity([Position("x", "y")]), Entity(["age", Position("y"), "x"])
            return ObsSpace(entities={"Dog": dog, "Sheep": sheep})

    with pytest.raises(SettingError, match="different numbers of coordinates"):
        train(settings(run_dir=str(tmp_path)), Mixed)


def test_only_runs_without_a_recipe_look_for_them():
    assert recipe("custom", "env._target_=my_pkg.MyEnv").find_positions
    assert not recipe("minesweeper").find_positions
