"""NotHotdog: a player says whether the other entity is a hotdog.

env = NotHotdog()
observation = env.reset()
observation = env.act(spot_hotdog(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import read_choices
from .small_game import OneStepGame, as_it_is

__all__ = ["ANSWERS", "THINGS", "NotHotdog", "spot_hotdog"]

ANSWERS = ("hotdog", "not_hotdog")
THINGS = ("object", "hotdog object", "hotdog")
"""Kinds of the other entity: an ``Object`` that is none, one that is a hotdog, a ``Hotdog``."""

_MASKS = {
    "classify": CategoricalActionMask(actor_types=("Player",)),
    "unused_action": CategoricalActionMask(actor_types=()),
}
_PLAYER = ("Player",)


class NotHotdog(OneStepGame):
    """A player says whether the other entity is a hotdog.

    Entity types and their features differ from frame to frame, and one of the declared actions
    never has an actor.

    Entities:
        A ``Player`` without features, and either an ``Object`` [is_hotdog] or a ``Hotdog`` without
        features. The id of the player is "Player"; the others have none.
    Actions:
        ``classify``: the player says hotdog or not_hotdog. ``unused_action`` never has an actor.
    Reward:
        1.0 for the right answer, else 0.0.
    End:
        After one step. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        A number from 0 to 3: 0 and 1 are an ``Object`` that is no hotdog, 2 is one that is a
        hotdog, 3 is a ``Hotdog``.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).
    """

    _obs_space = ObsSpace(
        entities={
            "Player": Entity(),
            "Object": Entity([Discrete("is_hotdog", 2)]),
            "Hotdog": Entity(),
        }
    )
    _action_space = {
        "classify": CategoricalActionSpace(ANSWERS),
        "unused_action": CategoricalActionSpace(("0", "1")),
    }
    _saved = {"thing": as_it_is, "answer": as_it_is}

    def __init__(self) -> None:
        self.thing = THINGS[0]
        self.answer: str | None = None

    @property
    def won(self) -> bool:
        """True if the answer is right."""
        return (self.answer == ANSWERS[0]) == (self.thing != THINGS[0])

    def _begin(self) -> None:
        self.thing, self.answer = THINGS[max(0, int(self.rng.integers(4)) - 1)], None

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        self.answer = ANSWERS[read_choices(actions, "classify", _PLAYER, ANSWERS)[0]]

    def _show(self) -> Observation:
        is_object = self.thing != "hotdog"
        return Observation(
            features={
                "Player": [()],
                "Object": [[int(self.thing != THINGS[0])]] if is_object else [],
                "Hotdog": [] if is_object else [()],
            },
            ids={"Player": _PLAYER},
            actions=dict(_MASKS),
        )

    def _problems(self, thing: Any, answer: Any) -> dict[str, bool]:
        return {
            f"a thing that is none of {THINGS}": thing not in THINGS,
            f"an answer that is none of {ANSWERS}": answer not in (None, *ANSWERS),
        }

    def render_text(self) -> str:
        """Return the objects, and the answer once it is given."""
        return f"{self.thing}: {'?' if self.answer is None else self.answer}"


def spot_hotdog(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    is_hotdog = len(features["Hotdog"]) > 0 or bool(features["Object"][0][0])
    index = ANSWERS.index("hotdog" if is_hotdog else "not_hotdog")
    return {
        "classify": CategoricalAction(_PLAYER, np.array([index]), ANSWERS),
        "unused_action": CategoricalAction([], np.array([], np.int64), ("0", "1")),
    }
