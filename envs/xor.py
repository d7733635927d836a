"""Xor: a player looks at two bits and says whether exactly one of them is set.

env = Xor()
observation = env.reset()
observation = env.act(output_xor(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.environment import Environment
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Discrete,
    Entity,
    ObsSpace,
)

from .checks import check_running, check_started, read_choices, reading_state, refuse_state

__all__ = ["OUTPUTS", "Xor", "output_xor"]

OUTPUTS = ("0", "1")

_OBS_SPACE = ObsSpace(entities={"Bit": Entity([Discrete("is_set", 2)]), "Player": Entity()})
_ACTION_SPACE: dict[ActionName, ActionSpace] = {"output": CategoricalActionSpace(OUTPUTS)}
_MASKS = {"output": CategoricalActionMask(actor_types=("Player",))}
_PLAYER = ("Player",)


class Xor(Environment):
    """A player looks at two bits and says whether exactly one of them is set.

    Neither bit says anything alone: whoever does not put both together is right half of the time.

    Entities:
        Two ``Bit`` [is_set] and a ``Player`` without features. The id of the player is "Player";
        the bits have none.
    Actions:
        ``output``: the player says 0 or 1.
    Reward:
        1.0 for the exclusive or of the bits, else 0.0.
    End:
        After one step. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        Both bits, as one number from 0 to 3.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym), in which the
        action is global.
    """

    def __init__(self) -> None:
        self.bits = [0, 0]
        self.output: int | None = None
        self.steps = -1  # before the first reset

    def obs_space(self) -> ObsSpace:
        """Bits and the player."""
        return _OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``output``, 0 or 1."""
        return _ACTION_SPACE

    def reset(self) -> Observation:
        """Draw the bits."""
        self.bits = list(divmod(int(self.rng.integers(4)), 2))
        self.output, self.steps = None, 0
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Take the output, which ends the episode."""
        check_running(self.steps, self.steps == 1)
        (self.output,) = read_choices(actions, "output", _PLAYER, OUTPUTS)
        self.steps = 1
        return self.observe()

    def observe(self) -> Observation:
        """Return the observation of the current state."""
        check_started(self.steps)
        done, won = self.steps == 1, self.output == self.bits[0] ^ self.bits[1]
        return Observation(
            features={"Bit": [[bit] for bit in self.bits], "Player": [()]},
            ids={"Player": _PLAYER},
            actions=dict(_MASKS),
            reward=float(won),
            done=done,
            metrics={"win": float(won)} if done else {},
        )

    def get_state(self) -> dict[str, Any]:
        """Return the bits, and the output or None."""
        check_started(self.steps)
        return {"bits": list(self.bits), "output": self.output}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go to a state of such a game and return its observation; else StateError."""
        with reading_state("Xor", state):
            bits = [whole(bit) for bit in state["bits"]]
            output = None if state["output"] is None else whole(state["output"])
        problems = {
            "another number of bits": len(bits) != 2,
            "a bit that is not 0 or 1": not set(bits) <= {0, 1},
            "an output that is not 0 or 1": output not in (None, 0, 1),
        }
        refuse_state("Xor", state, problems)
        self.bits, self.output, self.steps = bits, output, int(output is not None)
        return self.observe()

    def render_text(self) -> str:
        """Return the bits, and the output once it is given."""
        return f"{self.bits[0]} xor {self.bits[1]} = {'?' if self.output is None else self.output}"


def output_xor(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    (first,), (second,) = features["Bit"]
    return {"output": CategoricalAction(_PLAYER, np.array([int(first != second)]), OUTPUTS)}
