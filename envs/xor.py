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
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import read_choices
from .small_game import OneStepGame, maybe

__all__ = ["OUTPUTS", "Xor", "output_xor"]

OUTPUTS = ("0", "1")

_MASKS = {"output": CategoricalActionMask(actor_types=("Player",))}
_PLAYER = ("Player",)


class Xor(OneStepGame):
    """A player looks at two bits and says whether exactly one of them is set.

    Neither bit is informative alone: a policy that does not combine them is right half of the time.

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

    _obs_space = ObsSpace(entities={"Bit": Entity([Discrete("is_set", 2)]), "Player": Entity()})
    _action_space = {"output": CategoricalActionSpace(OUTPUTS)}
    _saved = {"bits": [whole], "output": maybe(whole)}
    _answer = "output"

    def __init__(self) -> None:
        self.bits = [0, 0]
        self.output: int | None = None

    @property
    def won(self) -> bool:
        """True if the output is right."""
        return self.output == self.bits[0] ^ self.bits[1]

    def _begin(self) -> None:
        self.bits, self.output = list(divmod(int(self.rng.integers(4)), 2)), None

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        (self.output,) = read_choices(actions, "output", _PLAYER, OUTPUTS)

    def _show(self) -> Observation:
        return Observation(
            features={"Bit": [[bit] for bit in self.bits], "Player": [()]},
            ids={"Player": _PLAYER},
            actions=dict(_MASKS),
        )

    def _problems(self, bits: list[int], output: int | None) -> dict[str, bool]:
        return {
            "another number of bits": len(bits) != 2,
            "a bit that is not 0 or 1": not set(bits) <= {0, 1},
            "an output that is not 0 or 1": output not in (None, 0, 1),
        }

    def render_text(self) -> str:
        """Return the bits, and the output once it is given."""
        return f"{self.bits[0]} xor {self.bits[1]} = {'?' if self.output is None else self.output}"


def output_xor(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    (first,), (second,) = features["Bit"]
    return {"output": CategoricalAction(_PLAYER, np.array([int(first != second)]), OUTPUTS)}
