"""Gymnasium action spaces as actions of the player as a whole, and back.

=================  ================================================================================
``Discrete``       one action; its labels are the values that the environment gets
``MultiDiscrete``  an action for each number: ``action[0]``, ``action[0,1]``
``MultiBinary``    the same, with the labels 0 and 1
``Box``            one continuous action for all its numbers; see ``action_parts.py``
``Dict``           its parts, named after their keys: ``move``, ``arm/grip[0]``
``Tuple``          its parts, named after their places: ``action/0``
=================  ================================================================================

Masks are read as the ``sample`` of these spaces reads them, or with all choices one after the
other, as ``sb3_contrib`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from entity_env.actions import Action, GlobalCategoricalAction, GlobalContinuousAction
from entity_env.errors import SpaceError, UnknownActionError, shorten
from entity_env.interop.translated.action_parts import Array, part_of
from entity_env.observation import (
    ActionMask,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
)
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["ChoiceWriter"]


class ChoiceWriter:
    """Choices and numbers as actions of a Gymnasium space.

    Args:
        space: The space.

    Raises:
        SpaceError: A part of the space that is neither a list of choices nor numbers, with its
            name.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._root = part_of(space, "", "action")
        self.action_space: dict[ActionName, ActionSpace] = dict(self._root.actions())
        if not self.action_space:
            raise SpaceError("the action space holds nothing to choose", received=shorten(space))
        self._everything: dict[ActionName, ActionMask] = {
            name: self._mask(name, None) for name in self.action_space
        }
        self._unasked: set[ActionName] = set()

    def write(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action of the space; where the last mask left nothing, the first value."""
        return self._root.write({name: self._answer(name, actions) for name in self.action_space})

    def read(self, value: Any) -> dict[ActionName, Any]:
        """Return what is chosen in each action where somebody else's action is ``value``."""
        return self._root.read(value)

    def masks(self, mask: Any) -> dict[ActionName, ActionMask]:
        """Return the mask of each action; None allows everything.

        A part whose choices are all forbidden, while another one has some, has nothing to decide:
        its action is left out, and its value is the first, as in Gymnasium's ``sample``.

        Raises:
            MaskShapeError: A mask that does not fit the space.
            MaskTypeError: A mask of a ``MultiBinary`` space that is neither 0, 1 nor 2.
        """
        if mask is None:
            self._unasked = set()
            return dict(self._everything)
        parts = self._root.split(mask)
        counts = self._root.counts
        empty = {name for name, part in parts.items() if counts[name] and _is_empty(part)}
        self._unasked = empty if len(empty) < len(parts) else set()
        return {
            name: self._mask(name, part)
            for name, part in parts.items()
            if name not in self._unasked
        }

    def _mask(self, name: ActionName, part: Array | None) -> ActionMask:
        if not self._root.counts[name]:
            return GlobalContinuousActionMask()
        return GlobalCategoricalActionMask(part)

    def _answer(self, name: ActionName, actions: Mapping[ActionName, Action]) -> Any:
        action = actions.get(name)
        is_continuous = not self._root.counts[name]
        if isinstance(action, GlobalContinuousAction) and is_continuous:
            return action.values
        if isinstance(action, GlobalCategoricalAction) and not is_continuous:
            return action.index
        if action is None and name in self._unasked:
            return 0
        raise UnknownActionError(
            f"action {name!r} is missing",
            expected=f"a Global{'Continuous' if is_continuous else 'Categorical'}Action",
            received=shorten(action),
        )


def _is_empty(part: Array | None) -> bool:
    return part is not None and part.dtype.kind in "biuf" and not part.any()
