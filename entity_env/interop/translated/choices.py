"""Conversion between Gymnasium action spaces and global actions.

=================  ================================================================================
``Discrete``       one action; its labels are the values passed to the environment
``MultiDiscrete``  an action for each number: ``action[0]``, ``action[0,1]``
``MultiBinary``    the same, with the labels 0 and 1
``Box``            one continuous action for all its numbers; see ``action_parts.py``
``Dict``           its parts, named after their keys: ``move``, ``arm/grip[0]``
``Tuple``          its parts, named after their places: ``action/0``
=================  ================================================================================

Masks have the format of ``sample`` of these spaces, or all choices one after the other, as in
``sb3_contrib``.
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
    """Conversion of choices and numbers to actions of a Gymnasium space, and back.

    Args:
        space: The space.

    Raises:
        SpaceError: A part of the space is neither a list of choices nor numbers.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._root = part_of(space, "", "action")
        self.action_space: dict[ActionName, ActionSpace] = dict(self._root.actions())
        if not self.action_space:
            raise SpaceError("the action space has no choices", received=shorten(space))
        self._everything: dict[ActionName, ActionMask] = {
            name: self._mask(name, None) for name in self.action_space
        }
        self._unasked: set[ActionName] = set()

    def write(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action of the space, with the first value where the last mask allowed none."""
        return self._root.write({name: self._answer(name, actions) for name in self.action_space})

    def read(self, value: Any) -> dict[ActionName, Any]:
        """Return the index or the numbers of each action for an action of the space."""
        return self._root.read(value)

    def masks(self, mask: Any) -> dict[ActionName, ActionMask]:
        """Return the mask of each action; None allows everything.

        If all choices of a part are forbidden, but not those of another part, its action is left
        out, and it gets its first value, as in Gymnasium's ``sample``.

        Raises:
            MaskShapeError: The mask does not fit the space.
            MaskTypeError: A number in the mask of a ``MultiBinary`` space is not 0, 1 or 2.
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
