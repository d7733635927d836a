"""Questions to a person at the terminal for the choices of the actors of a frame."""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.errors import EntityEnvError
from entity_env.kinds.continuous import numbers_text, range_text
from entity_env.player.choices import (
    Choice,
    Question,
    pick,
    pick_several,
    questions,
    read_numbers,
    write_choices,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Asker", "QuitError", "ask"]

T = TypeVar("T")

_HELP = """
  a number or a name   that choice; the beginning of a name is enough if it is unique
  Enter                the proposal in brackets; without an agent, a random allowed choice
  .                    the proposals for all remaining choices of this step
  q                    quit
  For actions that set numbers, separate them by spaces or commas: 0.5 -1
  For sets, separate choices by commas: 3, 5; type - for the empty set.
  Entities are selected by their number in the table, by their type, or by their id.
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


class Asker:
    """A person's decisions frame by frame, with the proposals of an agent.

    Args:
        obs_space: The space of the frames.
        action_space: The actions to decide on.
        auto: True to take every proposal without asking.
    """

    def __init__(
        self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], *, auto: bool
    ) -> None:
        self.obs_space = obs_space
        self.action_space = action_space
        self.auto = auto

    def choose(self, frame: Frame, decision: Decision) -> dict[ActionName, npt.NDArray[Any]]:
        """Return the choices of each actor, for each action as in ``Decision``."""
        chosen = {name: indices.copy() for name, indices in decision.chosen.items()}
        if decision.value is not None:
            print(f"\nthe agent expects a return of {decision.value:.3g} from this step on")
        to_decide = [
            question
            for name, space in self.action_space.items()
            for question in questions(frame, self.obs_space, name, space)
        ]
        if not to_decide and not self.auto:
            ask("\nnobody can act in this step [Enter to continue] ")
        asks = not self.auto
        for question in to_decide:
            indices, probs = chosen[question.action], decision.probs.get(question.action)
            own = None if probs is None else probs[question.row]
            print(f"\n{question.action}, {question.actor}:")
            if question.numbers is not None:
                asks = self._set_numbers(question, indices[question.row], decision, asks)
                continue
            if asks or own is not None:
                print(write_choices(question, own))
            row = indices[question.row : question.row + 1].ravel()  # of a set, several
            choices = [_choice(question, index) for index in row.tolist() if index != -1]
            if asks:
                prompt = f"[{_names(choices) if own is not None else 'random'}]"
                typed, asks = _typed(prompt, functools.partial(_picked, question))
                choices = choices if typed is None else typed
            row[:] = [choice.index for choice in choices] + [-1] * (len(row) - len(choices))
            print(f"  -> {_names(choices)}")
        return chosen

    @staticmethod
    def _set_numbers(question: Question, values: Any, decision: Decision, asks: bool) -> bool:
        """Write the numbers of an actor into ``values`` (K,); return True to continue asking."""
        known = decision.normal.get(question.action)
        if known is not None:
            mean, std = (part[question.row] for part in known)
            print(f"  drawn around {numbers_text(mean)}, deviation {numbers_text(std)}")
        if asks:
            proposed = numbers_text(values) if known is not None else "random"
            prompt = f"{range_text(question.numbers)} [{proposed}]"  # type: ignore[arg-type]
            typed, asks = _typed(prompt, lambda text: read_numbers(text, question))
            values[:] = values if typed is None else typed
        print(f"  -> {numbers_text(values)}")
        return asks


def _names(choices: Sequence[Choice]) -> str:
    return ", ".join(choice.names[0] for choice in choices) or "-"


def _typed(prompt: str, read: Callable[[str], T]) -> tuple[T | None, bool]:
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
            return read(text), True
        except EntityEnvError as error:
            print(textwrap.indent(str(error), "  "))


def _picked(question: Question, text: str) -> list[Choice]:
    return pick_several(text, question) if question.at_most else [pick(text, question)]


def _choice(question: Question, index: int) -> Choice:
    return next(choice for choice in question.choices if choice.index == index)
