"""Positions that a new run finds by the names of coordinates."""

import pytest
from support.trainer_runs import small_config

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    Position,
)
from entity_env.errors import SettingError
from ppo_trainer import recipe, resume, train
from ppo_trainer.preparation import planned_settings
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
    return small_config(total_timesteps=20, **{"find_positions": True, **changes})


@pytest.mark.parametrize(
    ("env", "unit", "extent"),
    # Whole numbers up to 10 and 320, and numbers with fractions up to 3: a 32nd of each range.
    [(Meadow, 1.0, 10.0), (Field, 10.0, 320.0), (Garden, 0.0938, 3.0)],
)
def test_a_new_run_uses_them_and_saves_that(tmp_path, capsys, env, unit, extent):
    done = train(settings(run_dir=str(tmp_path)), env)
    names = {"Dog": ("x", "y"), "Sheep": ("x", "y")}
    expected = RelativePosition(names, unit=unit, extent=extent, absolute=True)
    assert done.net.config.relative_position == expected
    assert "positions: x, y of Dog, Sheep, by their names" in capsys.readouterr().out
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

    position = planned_settings(settings(), Far).net.relative_position
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
    config = settings(run_dir=str(tmp_path), **changes)
    assert train(config, Meadow).net.config == config.net


def test_declared_positions_get_waves_of_the_right_lengths(tmp_path, capsys):
    done = train(settings(run_dir=str(tmp_path)), Declared)
    expected = RelativePosition({"Sheep": ("y", "x")}, unit=10.0, extent=320.0)
    assert done.net.config.relative_position == expected
    assert "positions: y, x of Sheep, as declared" in capsys.readouterr().out


def test_a_run_without_positions_says_so(tmp_path, capsys):
    class Cards(Meadow):
        def obs_space(self):
            sheep = Entity(["age", "suit", "rank"])
            return ObsSpace(entities={"Dog": Entity(["hand", "pile"]), "Sheep": sheep})

    done = train(settings(run_dir=str(tmp_path)), Cards)
    assert done.net.config.relative_position is None
    assert "positions: none found; if entities have places" in capsys.readouterr().out


def test_a_run_learns_alike_whatever_its_features_are_called(tmp_path):
    runs = []
    for number, names in enumerate([("x", "y"), ("posX", "posY"), ("Col", "Row")]):

        class Renamed(Meadow):
            def obs_space(self, names=names):
                own = {"x": names[0], "y": names[1]}
                space = super().obs_space().entities
                return ObsSpace(
                    entities={
                        name: Entity([own.get(feature, feature) for feature in entity.names])
                        for name, entity in space.items()
                    }
                )

        done = train(settings(run_dir=str(tmp_path / str(number))), Renamed)
        runs.append([weight.tolist() for weight in done.net.parameters()])
    assert runs[0] == runs[1] == runs[2]


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
