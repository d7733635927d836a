"""Count: a player says how many beans there are.

env = Count(masked_choices=2)
observation = env.reset()
observation = env.act(count_beans(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any, ClassVar

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_whole
from entity_env.drawing import Sign
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Entity, ObsSpace

from .board_picture import PLAYERS, Tiled
from .checks import read_choices
from .grid import Board
from .small_game import OneStepGame, maybe

__all__ = ["NUMBERS", "Count", "count_beans"]

NUMBERS = tuple(str(number) for number in range(10))

_PLAYER = ("Player",)


class Count(Tiled, OneStepGame):
    """A player says how many beans there are.

    Beans have no features: only their number can be observed. Attention computes an average over
    beans and the player, in which the weight of the beans grows with their number.

    Entities:
        0 to 9 ``Bean`` and a ``Player``, all without features. The id of the player is "Player";
        the beans have none.
    Actions:
        ``count``: the player says a number from 0 to 9. The mask allows the right one and
        ``masked_choices - 1`` wrong ones.
    Reward:
        1.0 for the right number, else 0.0.
    End:
        After one step. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        The number of beans, uniformly distributed. Unless all choices or one are allowed, also a
        permutation of the 9 wrong numbers, the first of which are allowed.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).

    Args:
        masked_choices: The number of choices that the mask leaves, 1 to 10; 10 masks nothing.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    looks: ClassVar = {"o": Sign("bean", PLAYERS[3])}

    _obs_space = ObsSpace(entities={"Bean": Entity(), "Player": Entity()})
    _action_space = {"count": CategoricalActionSpace(NUMBERS)}
    _saved = {"beans": whole, "allowed": [whole], "answer": maybe(whole)}

    def __init__(self, masked_choices: int = 10) -> None:
        self.masked_choices = check_whole("masked_choices", masked_choices, 1, len(NUMBERS))
        self.beans = 0
        self.allowed = [*range(len(NUMBERS))]
        self.answer: int | None = None

    @property
    def won(self) -> bool:
        """True if the answer is right."""
        return self.answer == self.beans

    def _begin(self) -> None:
        self.beans = int(self.rng.integers(len(NUMBERS)))
        if self.masked_choices < len(NUMBERS):
            self.allowed = sorted([self.beans, *self._draw_wrong()])
        self.answer = None

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        (self.answer,) = read_choices(actions, "count", _PLAYER, NUMBERS, self._mask())

    def _show(self) -> Observation:
        return Observation(
            features={"Bean": [()] * self.beans, "Player": [()]},
            ids={"Player": _PLAYER},
            actions={"count": CategoricalActionMask(actor_types=["Player"], mask=self._mask())},
        )

    def _mask(self) -> list[list[bool]] | None:
        if self.masked_choices == len(NUMBERS):
            return None
        return [[number in self.allowed for number in range(len(NUMBERS))]]

    def _problems(self, beans: int, allowed: list[int], answer: int | None) -> dict[str, bool]:
        return {
            "an allowed number that is not 0 to 9": not set(allowed) <= set(range(len(NUMBERS))),
            "another number of allowed choices": len(set(allowed)) != self.masked_choices
            or len(allowed) != self.masked_choices,
            "a right answer that is not allowed": beans not in allowed,
            "an answer that is not allowed": answer is not None and answer not in allowed,
        }

    def board(self) -> Board:
        """Return a row with the beans, and above it the answer once it is given."""
        head = "How many?" if self.answer is None else NUMBERS[self.answer]
        return Board(head, {(i, 0): "o" for i in range(self.beans)}, range(9), [0])

    def _draw_wrong(self) -> list[int]:
        """Return the wrong numbers that are allowed; draws nothing where there are none."""
        if self.masked_choices == 1:
            return []
        drawn = self.rng.permutation(len(NUMBERS) - 1)[: self.masked_choices - 1].tolist()
        return [number + (number >= self.beans) for number in drawn]


def count_beans(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    return {"count": CategoricalAction(_PLAYER, np.array([len(features["Bean"])]), NUMBERS)}
