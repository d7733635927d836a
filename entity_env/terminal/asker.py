"""A person at the terminal who decides: questions for the choices of the actors of a frame."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.continuous import numbers_text, range_text
from entity_env.errors import EntityEnvError
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.terminal.questions import Question, questions, read_answer, write_choices

__all__ = ["QuitError", "ask", "ask_choices"]

_HELP = """
  a number or a name   that choice; the beginning of a name is enough if it is unique
  Enter                the proposal in brackets; without an agent, a random allowed choice
  .                    the proposals for all remaining choices of this step
  q                    quit
  Numbers that an action sets, and choices of a set, are separated by commas; - is the empty set.
"""


class QuitError(Exception):
    """An exception raised when the person at the terminal quits."""


def ask(prompt: str) -> str:
    """Return a typed line without surrounding spaces.

    Raises:
        QuitError: The line is q, or the input has ended.
    """
    try:
        text = input(prompt).strip()
    except EOFError:
        raise QuitError from None
    if not sys.stdin.isatty():  # a terminal shows what is typed, a pipe does not
        print(text)
    if text.casefold() in ("q", "quit"):
        raise QuitError
    return text


def ask_choices(
    frame: Frame,
    decision: Decision,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    *,
    auto: bool,
) -> dict[ActionName, npt.NDArray[Any]]:
    """Ask a person for the choices of the actors of a frame.

    Args:
        frame: The frame.
        decision: The choices that an agent proposes.
        obs_space: The space of the frame.
        action_space: The actions to decide on.
        auto: True to take every proposal without asking.

    Returns:
        For each action the choices as in ``Decision``.
    """
    chosen = {name: indices.copy() for name, indices in decision.chosen.items()}
    if decision.value is not None:
        print(f"\nthe agent expects a return of {decision.value:.3g} from this step on")
    to_decide = questions(frame, obs_space, action_space)
    if not to_decide and not auto:
        ask("\nnobody can act in this step [Enter to continue] ")
    asks = not auto
    for question in to_decide:
        row = chosen[question.action][question.row : question.row + 1].ravel()
        is_known = _introduce(question, decision, asks)
        if asks:
            proposal = _answer_text(question, row) if is_known else "random"
            limits = "" if question.numbers is None else f"{range_text(question.numbers)} "
            typed, asks = _typed(f"{limits}[{proposal}]", question)
            if typed is not None:
                row[:] = typed + [-1] * (len(row) - len(typed))
        print(f"  -> {_answer_text(question, row)}")
    return chosen


def _introduce(question: Question, decision: Decision, asks: bool) -> bool:
    """Print the choices of an actor; return True if an agent knows their probabilities."""
    print(f"\n{question.action}, {question.actor}:")
    normal, probs = (part.get(question.action) for part in (decision.normal, decision.probs))
    if question.numbers is not None:
        if normal is not None:
            mean, std = (numbers_text(part[question.row]) for part in normal)
            print(f"  drawn around {mean}, deviation {std}")
        return normal is not None
    if asks or probs is not None:
        print(write_choices(question, None if probs is None else probs[question.row]))
    return probs is not None


def _answer_text(question: Question, row: npt.NDArray[Any]) -> str:
    """Return an actor's choices, or its numbers, as text."""
    if question.numbers is not None:
        return numbers_text(row.tolist())
    names = {choice.index: choice.names[0] for choice in question.choices}
    return ", ".join(names[index] for index in row.tolist() if index != -1) or "-"


def _typed(prompt: str, question: Question) -> tuple[list[Any] | None, bool]:
    """Ask until the answer can be read.

    Returns:
        The answer, or None for the proposal; and True to continue asking.
    """
    while True:
        text = ask(f"  {prompt} > ")
        if text in ("", "."):
            return None, text == ""
        if text == "?":
            print(_HELP)
            continue
        try:
            return read_answer(text, question), True
        except EntityEnvError as error:
            print(textwrap.indent(str(error), "  "))
