"""The choices that a search can make: those of one actor of one action."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.errors import SettingError, counted
from entity_env.spaces import ActionName

__all__ = ["ActorChoices", "choices_of"]


class ActorChoices(NamedTuple):
    """The choices of one actor.

    Args:
        indices: Indices of the choices of a categorical action, or of the entities of a selection
            in their frame. Shape: (C,).
        places: Place of each choice in the probabilities of the action. Shape: (C,).
    """

    indices: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    def prior(self, probs: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the probabilities of the choices, from those of the whole action. Shape: (C,)."""
        prior: npt.NDArray[np.float64] = probs[self.places].astype(np.float64)
        prior /= max(prior.sum(), 1e-12)
        return prior


def choices_of(obs: VecObs) -> tuple[ActionName, list[ActorChoices]]:
    """Return the name of the only action of all frames, and the choices of each frame's actor.

    Raises:
        SettingError: A frame does not have exactly one actor of the same action, or the action is
            continuous or a set.
    """
    names = [name for name, mask in obs.action_masks.items() if mask.actors.items()]
    if len(names) != 1 or not (obs.action_masks[names[0]].actors.size1() == 1).all():
        raise SettingError(
            "a search needs one choice at a time",
            expected="one actor of one action in each observation",
            received=", ".join(
                f"{n}: {counted(obs.action_masks[n].actors.items(), 'actor')}" for n in names
            ),
        )
    (name,) = names
    own: Any = obs.action_masks[name]
    if hasattr(own, "actees"):
        actees = own.actees.as_array()[:, 0]
        _, actee, allowed = own.pairs()
        cuts = np.cumsum(own.actees.size1())[:-1]
        found = []
        for indices, can in zip(
            np.split(actees[actee], cuts),
            [None] * obs.num_frames if allowed is None else np.split(allowed, cuts),
            strict=True,
        ):
            places = np.arange(len(indices)) if can is None else np.flatnonzero(can)
            found.append(ActorChoices(indices[places], places))
        return name, found
    if not hasattr(own, "mask"):
        raise SettingError("a search needs a finite number of choices", received=name)
    allowed = [np.flatnonzero(row) for row in own.mask.as_array()]
    return name, [ActorChoices(places, places) for places in allowed]
