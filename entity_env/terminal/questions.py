"""Questions to a person: the choices of an actor as a list, and the answer from a typed line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.batching.kinds.continuous import bounds_of, numbers_error, range_text
from entity_env.batching.kinds.table import kind_of
from entity_env.drawing.table_text import entity_name, id_text, terminal_width
from entity_env.errors import ActionError, nearest, shorten
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Choice", "Question", "percent", "questions", "read_answer", "write_choices"]

_MOST_SHOWN, _MOST_NAMED = 60, 12
"""Largest numbers of choices in a list, and in an error."""


@dataclass(frozen=True)
class Choice:
    """An allowed choice of an actor.

    Args:
        index: The value of the choice: a place among the labels, or an entity index.
        number: The number to type; empty if the names are numbers themselves.
        names: Names of the choice; the first one is shown.
        place: The place of its probability.
    """

    index: int
    number: str
    names: Sequence[str]
    place: int

    @property
    def text(self) -> str:
        """The number and the name."""
        return f"{self.number} {self.names[0]}".strip()


@dataclass(frozen=True)
class Question:
    """The decision of one actor.

    Args:
        action: The action.
        row: The actor's place among the actors of the action.
        actor: Name of the actor.
        choices: The allowed choices.
        numbers: The space of a continuous action, which has no choices; else None.
        at_most: Largest number of choices of a set; 0 for a single choice.
    """

    action: ActionName
    row: int
    actor: str
    choices: Sequence[Choice]
    numbers: Any = None
    at_most: int = 0


def questions(
    frame: Frame, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
) -> list[Question]:
    """Return the decisions of all actors of a frame."""
    found = []
    for name, space in action_space.items():
        who = frame.actions.get(name)
        for row, actor in enumerate([] if who is None else who.actors.tolist()):
            named = name, row, entity_name(frame, obs_space, actor)
            if kind_of(space).form(space).is_real:
                found.append(Question(*named, (), space))
            else:
                choices = _choices(frame, obs_space, space, who, row)
                found.append(Question(*named, choices, None, getattr(space, "at_most", 0)))
    return found


def read_answer(text: str, question: Question) -> list[Any]:
    """Return the indices of typed choices, or typed numbers.

    A choice is given by its number, its name, or the beginning of one name. Choices of a set are
    separated by commas, and a minus sign is the empty set; numbers by commas or spaces.

    Raises:
        ActionError: The text is not a valid answer.
    """
    if question.numbers is not None:
        return _numbers(text, question)
    words = text.split(",") if question.at_most else [text]
    chosen = [] if question.at_most and text.strip() == "-" else [_pick(w, question) for w in words]
    if len(set(chosen)) < len(chosen) or len(chosen) > max(question.at_most, 1):
        raise ActionError(
            f"these choices are not valid for {question.action!r}",
            expected=f"at most {question.at_most}, each once, with commas in between; - for none",
            received=shorten(text.strip(), 60),
        )
    return chosen


def write_choices(
    question: Question, probs: npt.NDArray[np.float32] | None = None, width: int | None = None
) -> str:
    """Return the choices with their numbers, and the probabilities (C,) if given.

    Lines have at most ``width`` characters, unless a single choice is longer; None is the width of
    the terminal.
    """
    width = terminal_width() if width is None else width
    cells = [
        choice.text if probs is None else f"{choice.text} {percent(probs[choice.place])}"
        for choice in question.choices[:_MOST_SHOWN]
    ]
    if len(question.choices) > _MOST_SHOWN:
        cells.append(f"... and {len(question.choices) - _MOST_SHOWN:,} more")
    lines = [""]
    for cell in cells:
        if lines[-1] and len(lines[-1]) + 3 + len(cell) > width:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "  ") + cell
    return "\n".join(lines)


def percent(prob: float) -> str:
    """Return a probability as a short text; only 0 and 1 are written as 0% and 100%."""
    if 0 < prob < 0.01:
        return "<1%"
    return ">99%" if 0.99 < prob < 1 else f"{100 * prob:.0f}%"


def _choices(
    frame: Frame, obs_space: ObsSpace, space: ActionSpace, who: Any, row: int
) -> list[Choice]:
    """Return the allowed choices of an actor: labels, or entities."""
    mask = getattr(who, "mask", None)
    if space.selects:
        every = []
        for place, index in enumerate(who.actees.tolist()):
            names = dict.fromkeys([entity_name(frame, obs_space, index), id_text(frame.ids[index])])
            names.pop("-", None)  # without an id
            every.append(Choice(index, str(index), tuple(names), place))
    else:
        labels: Sequence[str] = getattr(space, "index_to_label", ())
        # Numbers could be confused with labels that are numbers.
        numbered = not any(label.strip().isdecimal() for label in labels)
        every = [Choice(i, str(i) * numbered, (label,), i) for i, label in enumerate(labels)]
    return [choice for choice in every if mask is None or mask[row, choice.place]]


def _pick(text: str, question: Question) -> int:
    """Return the index of the choice with this number or name."""
    given, choices = _plain(text), question.choices
    for matches in (
        [choice for choice in choices if text.strip() == choice.number],
        [choice for choice in choices if given in map(_plain, choice.names)],
        [c for c in choices if given and any(_plain(n).startswith(given) for n in c.names)],
    ):
        if len(matches) == 1:
            return matches[0].index
        if matches:
            raise ActionError(
                f"{text.strip()!r} can mean several choices",
                received=", ".join(choice.text for choice in matches[:_MOST_NAMED]),
                hint="type its number" if matches[0].number else "type more letters",
            )
    options = [choice.text for choice in choices[:_MOST_NAMED]]
    if len(choices) > _MOST_NAMED:
        options.append(f"... and {len(choices) - _MOST_NAMED:,} more")
    raise ActionError(
        f"there is no choice {shorten(text.strip(), 60)} for {question.actor} now",
        options=options,
        hint=nearest(text.strip(), [name for choice in choices for name in choice.names]),
    )


def _numbers(text: str, question: Question) -> list[float]:
    """Return typed numbers within the bounds of the action."""
    space = question.numbers
    try:
        numbers = np.array([float(word) for word in text.replace(",", " ").split()], np.float32)
    except ValueError:
        numbers = np.zeros(0, np.float32)
    if len(numbers) != len(space):
        raise ActionError(
            f"the numbers are not valid for {question.action!r}",
            expected=range_text(space),
            received=shorten(text.strip(), 60),
        )
    low, high = bounds_of(space)
    if not ((numbers >= low) & (numbers <= high) & np.isfinite(numbers)).all():
        raise numbers_error(question.action, numbers, low, high)
    return numbers.tolist()  # type: ignore[no-any-return]


def _plain(text: str) -> str:
    """Return a name for comparisons, equal for ``build_worker`` and ``Build Worker``."""
    return re.sub(r"[\s_]+", "", text).casefold()
