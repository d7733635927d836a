"""Choices of an actor in one frame, as text to show and to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from entity_env.batching.frame import Frame
from entity_env.drawing.table_text import entity_name, id_text, terminal_width
from entity_env.errors import ActionIndexError, MaskedActionError, nearest, shorten
from entity_env.kinds.continuous import bounds_of, numbers_error, range_text
from entity_env.kinds.select_entity import FrameSelectActors
from entity_env.observation import EntityID
from entity_env.spaces import (
    CONTINUOUS_ACTIONS,
    ActionName,
    ActionSpace,
    ContinuousActionSpace,
    GlobalContinuousActionSpace,
    ObsSpace,
)

__all__ = [
    "Choice",
    "Question",
    "percent",
    "pick",
    "pick_several",
    "questions",
    "read_numbers",
    "write_choices",
]

_MOST_SHOWN = 60
_MOST_OPTIONS = 12


@dataclass(frozen=True)
class Choice:
    """A choice of an actor.

    Args:
        index: The value of the choice: a place among the labels, or an entity index.
        number: The number to type; empty if the names are numbers themselves.
        names: Names of the choice; the first one is shown.
        allowed: True if the mask allows it.
    """

    index: int
    number: str
    names: Sequence[str]
    allowed: bool = True

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
        choices: All choices, allowed or not, in the order of their probabilities.
        others: Entities of the frame that cannot be selected.
        numbers: The space of a continuous action, which has no choices; else None.
        at_most: Largest number of choices of a set; 0 for a single choice.
    """

    action: ActionName
    row: int
    actor: str
    choices: Sequence[Choice]
    others: Sequence[Choice] = ()
    numbers: ContinuousActionSpace | GlobalContinuousActionSpace | None = None
    at_most: int = 0


def questions(
    frame: Frame, obs_space: ObsSpace, name: ActionName, space: ActionSpace
) -> list[Question]:
    """Return the decisions of the actors of one action in a frame."""
    actors = frame.actions.get(name)
    if actors is None:
        return []
    if isinstance(space, CONTINUOUS_ACTIONS):
        return [
            Question(name, row, entity_name(frame, obs_space, actor), (), numbers=space)
            for row, actor in enumerate(actors.actors.tolist())
        ]
    others, at_most = list[Choice](), getattr(space, "at_most", 0)
    if isinstance(actors, FrameSelectActors):
        choices, others = _actees(frame, obs_space, actors)
    else:
        choices = _labels(space, actors.mask)  # type: ignore[attr-defined]
    return [
        Question(name, row, entity_name(frame, obs_space, actor), own, others, None, at_most)
        for row, (actor, own) in enumerate(zip(actors.actors.tolist(), choices, strict=True))
    ]


def pick(text: str, question: Question) -> Choice:
    """Return the choice with this number, this name, or a name that begins with the text.

    Raises:
        ActionIndexError: No choice has this name, or several names begin with the text.
        MaskedActionError: The mask forbids the choice.
    """
    given = _plain(text)
    every = [*question.choices, *question.others]
    for matches in (
        [choice for choice in every if text.strip() == choice.number],
        [choice for choice in every if given in map(_plain, choice.names)],
        [choice for choice in question.choices if choice.allowed and _begins(choice, given)],
        [choice for choice in every if _begins(choice, given)],
    ):
        if len(matches) == 1:
            if matches[0].allowed:
                return matches[0]
            raise MaskedActionError(
                f"{matches[0].names[0]!r} is not allowed for {question.actor} now",
                options=_options(question),
            )
        if matches:
            raise ActionIndexError(
                f"{text.strip()!r} can mean several choices",
                received=", ".join(choice.text for choice in matches[:_MOST_OPTIONS]),
                hint="type its number" if matches[0].number else "type more letters",
            )
    names = [name for choice in question.choices for name in choice.names]
    raise ActionIndexError(
        f"there is no choice {shorten(text.strip(), 60)}",
        options=_options(question),
        hint=nearest(text.strip(), names),
    )


def pick_several(text: str, question: Question) -> list[Choice]:
    """Return several choices, separated by commas; a minus sign is the empty set.

    Raises:
        ActionIndexError: A choice is not valid (see ``pick``), or there are too many or repeated
            choices.
        MaskedActionError: The mask forbids a choice.
    """
    words = [] if text.strip() == "-" else text.split(",")
    chosen = [pick(word, question) for word in words]
    if len({own.index for own in chosen}) < len(words) or len(words) > question.at_most:
        raise ActionIndexError(
            f"these choices are not valid for {question.action!r}",
            expected=f"at most {question.at_most}, each once, with commas in between; - for none",
            received=shorten(text.strip(), 60),
        )
    return chosen


def read_numbers(text: str, question: Question) -> npt.NDArray[np.float32]:
    """Return typed numbers (K,), separated by spaces or commas.

    Raises:
        ActionIndexError: The number of numbers is wrong, or a number is out of bounds.
    """
    space = question.numbers
    assert space is not None
    try:
        numbers = np.array([float(word) for word in text.replace(",", " ").split()], np.float32)
    except ValueError:
        numbers = np.zeros(0, np.float32)
    if len(numbers) != len(space):
        raise ActionIndexError(
            f"the numbers are not valid for {question.action!r}",
            expected=range_text(space),
            received=shorten(text.strip(), 60),
        )
    low, high = bounds_of(space)
    if not ((numbers >= low) & (numbers <= high) & np.isfinite(numbers)).all():
        raise numbers_error(question.action, numbers, low, high)
    return numbers


def write_choices(
    question: Question, probs: npt.NDArray[np.float32] | None = None, width: int | None = None
) -> str:
    """Return the allowed choices with their numbers, and the probabilities (C,) if given.

    Lines have at most ``width`` characters, unless a single choice is longer; None is the width of
    the terminal.
    """
    width = terminal_width() if width is None else width
    shown = [(i, choice) for i, choice in enumerate(question.choices) if choice.allowed]
    cells = [
        choice.text if probs is None else f"{choice.text} {percent(probs[i])}"
        for i, choice in shown[:_MOST_SHOWN]
    ]
    if len(shown) > _MOST_SHOWN:
        cells.append(f"... and {len(shown) - _MOST_SHOWN:,} more")
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


def _labels(space: ActionSpace, mask: npt.NDArray[np.bool_]) -> list[list[Choice]]:
    """Return for each actor the labels of a categorical or global action."""
    labels: Sequence[str] = getattr(space, "index_to_label", ())
    # Numbers could be confused with labels that are numbers.
    numbered = not any(label.strip().isdecimal() for label in labels)
    return [
        [
            Choice(i, str(i) if numbered else "", (label,), allowed)
            for i, (label, allowed) in enumerate(zip(labels, row, strict=True))
        ]
        for row in mask.tolist()
    ]


def _actees(
    frame: Frame, obs_space: ObsSpace, actors: FrameSelectActors
) -> tuple[list[list[Choice]], list[Choice]]:
    """Return the actees as choices of each actor, and the entities that nobody can select."""
    entities = [
        Choice(i, str(i), _called(entity_name(frame, obs_space, i), own), allowed=False)
        for i, own in enumerate(frame.ids)
    ]
    actees = actors.actees.tolist()
    mask = actors.mask
    if mask is None:
        mask = np.ones((len(actors.actors), len(actees)), np.bool_)
    choices = [
        [replace(entities[i], allowed=ok) for i, ok in zip(actees, row, strict=True)]
        for row in mask.tolist()
    ]
    selectable = set(actees)
    return choices, [choice for choice in entities if choice.index not in selectable]


def _called(name: str, entity_id: EntityID) -> tuple[str, ...]:
    """Return the names of an entity: its full name, and its id alone."""
    return (name,) if entity_id is None else tuple(dict.fromkeys((name, id_text(entity_id))))


def _begins(choice: Choice, given: str) -> bool:
    return bool(given) and any(_plain(name).startswith(given) for name in choice.names)


def _plain(text: str) -> str:
    """Return a name for comparisons, equal for ``build_worker`` and ``Build Worker``."""
    return re.sub(r"[\s_]+", "", text).casefold()


def _options(question: Question) -> list[str]:
    options = [choice.text for choice in question.choices if choice.allowed]
    if len(options) > _MOST_OPTIONS:
        options[_MOST_OPTIONS:] = [f"... and {len(options) - _MOST_OPTIONS:,} more"]
    return options
