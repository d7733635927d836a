"""RockPaperScissors: a throw against an opponent that only the value function sees.

env = RockPaperScissors(cheat=True)
observation = env.reset()
observation = env.act(throw_best(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.arguments import check_flag
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import read_choices
from .small_game import OneStepGame, maybe

__all__ = ["THROWS", "RockPaperScissors", "throw_best"]

THROWS = ("rock", "paper", "scissors")
"""Each beats the one before it, and rock beats scissors."""
_ENDS = (0.5, 0.8)
"""The opponent throws rock for numbers up to the first, and paper for those up to the second."""

_MASKS = {"throw": CategoricalActionMask(actor_types=("Player",))}
_PLAYER = ("Player",)


class RockPaperScissors(OneStepGame):
    """A throw against an opponent that only the value function sees.

    Without seeing the opponent, the best throw is paper, which wins half of the games. The value
    function sees the opponent, and can predict the reward of this player exactly.

    Entities:
        An ``Opponent`` [throw], 0 for rock, 1 for paper and 2 for scissors, which the policy does
        not see unless ``cheat`` is set; a ``Player`` without features. The id of the player is
        "Player"; the opponent has none.
    Actions:
        ``throw``: the player throws rock, paper or scissors.
    Reward:
        2.0 for a win, 0.0 for a draw or a defeat.
    End:
        After one step. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        The opponent's throw: rock with probability 0.5, paper 0.3, scissors 0.2, by one uniform
        number.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).

    Args:
        cheat: True if the policy sees the opponent's throw, too.

    Raises:
        SettingError: A parameter of the wrong type.
    """

    _obs_space = ObsSpace(
        entities={"Opponent": Entity([Discrete("throw", 3, names=THROWS)]), "Player": Entity()}
    )
    _action_space = {"throw": CategoricalActionSpace(THROWS)}
    _saved = {"opponent": whole, "throw": maybe(whole)}
    _answer = "throw"
    _prize = 2.0

    def __init__(self, cheat: bool = False) -> None:
        self.cheat = check_flag("cheat", cheat)
        self.opponent = 0
        self.throw: int | None = None

    @property
    def won(self) -> bool:
        """True if the player's throw beats the opponent's."""
        return self.throw == (self.opponent + 1) % 3

    def _begin(self) -> None:
        drawn = self.rng.random()
        self.opponent = int(drawn >= _ENDS[0]) + int(drawn >= _ENDS[1])
        self.throw = None

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        (self.throw,) = read_choices(actions, "throw", _PLAYER, THROWS)

    def _show(self) -> Observation:
        return Observation(
            features={"Opponent": [[self.opponent]], "Player": [()]},
            ids={"Player": _PLAYER},
            actions=dict(_MASKS),
            visible={} if self.cheat else {"Opponent": [False]},
        )

    def _problems(self, opponent: int, throw: int | None) -> dict[str, bool]:
        known = range(len(THROWS))
        return {
            "an opponent's throw that is not 0, 1 or 2": opponent not in known,
            "a throw that is not 0, 1 or 2": throw is not None and throw not in known,
        }

    def render_text(self) -> str:
        """Return the player's throw, once it is there, and the opponent's."""
        return (
            f"{'?' if self.throw is None else THROWS[self.throw]} against {THROWS[self.opponent]}"
        )


def throw_best(observation: Observation) -> dict[str, Action]:
    """Return the best player: 1.0 on average with paper, 2.0 where it sees the opponent's throw."""
    features: Any = observation.features
    is_hidden = "Opponent" in (observation.visible or {})
    seen = THROWS.index("rock") if is_hidden else int(features["Opponent"][0][0])
    return {"throw": CategoricalAction(_PLAYER, np.array([(seen + 1) % 3]), THROWS)}
