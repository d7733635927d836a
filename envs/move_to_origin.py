"""MoveToOrigin: a spaceship with two thrusters flies to (0, 0) and stays there.

env = MoveToOrigin()
observation = env.reset()
observation = env.act(fly_and_brake(observation))

"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_whole
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Entity, ObsSpace

from .checks import as_number, read_choices
from .small_game import SmallGame

__all__ = ["ACCELERATIONS", "THRUSTERS", "MoveToOrigin", "fly_and_brake"]

ACCELERATIONS = (0.01, 0.001, 0.0, -0.001, -0.01)
"""The change of velocity along its axis by each setting of a thruster, in a step."""
THRUSTERS: dict[ActionName, tuple[str, ...]] = {
    "Horizontal Thruster": ("100% right", "10% right", "Off", "10% left", "100% left"),
    "Vertical Thruster": ("100% up", "10% up", "Off", "10% down", "100% down"),
}
"""The labels of each thruster's settings, x first, in the order of ``ACCELERATIONS``."""

_ACTION_SPACE = {name: CategoricalActionSpace(labels) for name, labels in THRUSTERS.items()}
_MASKS = {name: CategoricalActionMask(actor_types=("Spaceship",)) for name in THRUSTERS}
_SHIP = ("Spaceship",)


class MoveToOrigin(SmallGame):
    """A spaceship with two thrusters flies to (0, 0) and stays there.

    Entities:
        ``Spaceship`` [x, y, x_velocity, y_velocity], with the id "Spaceship".
    Actions:
        ``Horizontal Thruster`` and ``Vertical Thruster``: each has the settings 100%, 10%, off, and
        10% and 100% the other way. A setting adds 0.01, 0.001, 0, -0.001 or -0.01 to the velocity
        along its axis, and then the velocity is added to the position.
    Reward:
        The decrease of the distance to (0, 0) in this step. The return is 1 minus the distance at
        the end, so 1.0 is the most.
    End:
        ``max_steps`` steps truncate the flight; nothing else ends it.
    Randomness:
        Only the start: an angle. The ship stands still on the unit circle.
    Source:
        A task of the Entity Gym examples (github.com/entity-neural-network/enn-zoo).

    Args:
        max_steps: Steps until the flight is cut off, at most 10^9.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    _obs_space = ObsSpace(entities={"Spaceship": Entity(["x", "y", "x_velocity", "y_velocity"])})
    _action_space = _ACTION_SPACE
    _saved = {
        "position": (as_number, as_number),
        "velocity": (as_number, as_number),
        "steps": whole,
    }

    def __init__(self, max_steps: int = 32) -> None:
        self.max_steps = check_whole("max_steps", max_steps, 1, 1_000_000_000)
        self.position = (1.0, 0.0)
        self.velocity = (0.0, 0.0)

    @property
    def distance(self) -> float:
        """The distance of the ship from (0, 0)."""
        return math.hypot(*self.position)

    def _begin(self) -> None:
        angle = self.rng.uniform(0.0, 2.0 * math.pi)
        self.position, self.velocity = (math.cos(angle), math.sin(angle)), (0.0, 0.0)

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        thrust = [
            ACCELERATIONS[read_choices(actions, name, _SHIP, labels)[0]]
            for name, labels in THRUSTERS.items()
        ]
        before = self.distance
        (x, y), (x_velocity, y_velocity) = self.position, self.velocity
        x_velocity, y_velocity = x_velocity + thrust[0], y_velocity + thrust[1]
        self.position, self.velocity = (x + x_velocity, y + y_velocity), (x_velocity, y_velocity)
        return before - self.distance

    def _show(self) -> Observation:
        return Observation(
            features={"Spaceship": [self.position + self.velocity]},
            ids={"Spaceship": _SHIP},
            actions=dict(_MASKS),
        )

    def _problems(self, steps: int, **others: Any) -> dict[str, bool]:
        return {"a negative step": steps < 0}

    def render_text(self) -> str:
        """Return position, velocity and distance."""
        (x, y), (x_velocity, y_velocity) = self.position, self.velocity
        return (
            f"step {max(self.steps, 0)} of {self.max_steps}: at ({x:.3f}, {y:.3f}), "
            f"velocity ({x_velocity:.3f}, {y_velocity:.3f}), distance {self.distance:.3f}"
        )


def fly_and_brake(observation: Observation) -> dict[str, Action]:
    """Return a scripted player: each axis for itself takes the thrust that brakes to 0 in time.

    Of all settings it takes the one after which the velocity is nearest to the one from which full
    braking, 0.01 in each step, ends at 0.
    """
    features: Any = observation.features
    x, y, x_velocity, y_velocity = features["Spaceship"][0]
    axes = ((x, x_velocity), (y, y_velocity))
    return {
        name: CategoricalAction(_SHIP, np.array([_thrust(*axis)]), labels)
        for (name, labels), axis in zip(THRUSTERS.items(), axes, strict=True)
    }


def _thrust(position: float, velocity: float) -> int:
    """Return the index of the best setting along one axis."""

    def miss(setting: int) -> float:
        then = velocity + ACCELERATIONS[setting]
        left = position + then
        # Braking from v by a in each step takes v^2 / 2a - v / 2 more.
        wanted = -math.copysign(math.sqrt(0.02 * abs(left)), left)
        return abs(then - wanted)

    return min(range(len(ACCELERATIONS)), key=miss)
