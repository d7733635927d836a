"""Choices of an actor in one frame: shown as text, and read when typed."""

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
    """One thing that an actor can choose.

    Args:
        index: What the action receives: a place among the labels, or an entity index.
        number: The number to type; empty where the names are numbers themselves.
        names: What it is called; the first one is shown.
        allowed: Whether the mask allows it.
    """

    index: int
    number: str
    names: Sequence[str]
    allowed: bool = True

    @property
    def text(self) -> str:
        """Number and name."""
        return f"{self.number} {self.names[0]}".strip()


@dataclass(frozen=True)
class Question:
    """The decision that one actor has to take.

    Args:
        action: The action.
        row: The actor's place among the actors of the action.
        actor: What the actor is called.
        choices: What there is, forbidden choices too, in the order of its probabilities.
        others: Entities of the frame that cannot be selected.
        numbers: Of a continuous action its space: there are no choices then.
        at_most: How many choices are taken, where it is not just one; else 0.
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
    """Return the decisions that the actors of one action have to take in a frame."""
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
    """Return the choice that somebody means by its number, its name, or the beginning of its name.

    Raises:
        ActionIndexError: No choice of the question is called that, or several begin like that.
        MaskedActionError: The mask forbids it.
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
                hint="type its number" if matches[0].number else "type more of it",
            )
    names = [name for choice in question.choices for name in choice.names]
    raise ActionIndexError(
        f"there is no choice {shorten(text.strip(), 60)}",
        options=_options(question),
        hint=nearest(text.strip(), names),
    )


def pick_several(text: str, question: Question) -> list[Choice]:
    """Return the choices that somebody means, with commas in between; none of them is a minus sign.

    Raises:
        ActionIndexError: As for ``pick``; too many, or one twice.
        MaskedActionError: The mask forbids one.
    """
    words = [] if text.strip() == "-" else text.split(",")
    chosen = [pick(word, question) for word in words]
    if len({own.index for own in chosen}) < len(words) or len(words) > question.at_most:
        raise ActionIndexError(
            f"these are no choices for {question.action!r}",
            expected=f"at most {question.at_most}, each once, with commas in between; - for none",
            received=shorten(text.strip(), 60),
        )
    return chosen


def read_numbers(text: str, question: Question) -> npt.NDArray[np.float32]:
    """Return the numbers (K,) that somebody types, with spaces or commas in between.

    Raises:
        ActionIndexError: Not as many numbers, or one that is out of bounds.
    """
    space = question.numbers
    assert space is not None
    try:
        numbers = np.array([float(word) for word in text.replace(",", " ").split()], np.float32)
    except ValueError:
        numbers = np.zeros(0, np.float32)
    if len(numbers) != len(space):
        raise ActionIndexError(
            f"{question.action!r} takes other numbers",
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
    """Return the allowed choices with their numbers, and the probabilities (C,) if there are any.

    Lines are at most ``width`` characters long, unless a choice alone is longer; None: those of the
    terminal.
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
    """Return a probability in few characters; only what is certain is written 0% or 100%."""
    if 0 < prob < 0.01:
        return "<1%"
    return ">99%" if 0.99 < prob < 1 else f"{100 * prob:.0f}%"


def _labels(space: ActionSpace, mask: npt.NDArray[np.bool_]) -> list[list[Choice]]:
    """Return for each actor the labels of a categorical or global action."""
    labels: Sequence[str] = getattr(space, "index_to_label", ())
    # A number 3 beside a label "3" that stands somewhere else would be a trap.
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
    """Return what is compared of a name: ``build_worker`` means ``Build Worker``."""
    return re.sub(r"[\s_]+", "", text).casefold()


def _options(question: Question) -> list[str]:
    options = [choice.text for choice in question.choices if choice.allowed]
    if len(options) > _MOST_OPTIONS:
        options[_MOST_OPTIONS:] = [f"... and {len(options) - _MOST_OPTIONS:,} more"]
    return options
