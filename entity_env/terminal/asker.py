"""A person at the terminal who decides: questions for the choices of the actors of a frame."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from entity_env.actions import Action
from entity_env.agent import Decision, ObservationAgent, RandomAgent
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import batch_frames
from entity_env.drawing import entity_table
from entity_env.errors import EntityEnvError
from entity_env.kinds.continuous import numbers_text, range_text
from entity_env.kinds.table import typed_actions
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.terminal.questions import Question, questions, read_answer, write_choices

__all__ = ["Asker", "HumanAgent", "QuitError", "ask"]

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
        to_decide = questions(frame, self.obs_space, self.action_space)
        if not to_decide and not self.auto:
            ask("\nnobody can act in this step [Enter to continue] ")
        asks = not self.auto
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


class HumanAgent(ObservationAgent):
    """An agent that shows observations in the terminal and asks for actions.

    Enter takes a random allowed choice, ``q`` raises ``QuitError``.

    Args:
        obs_space: The observation space.
        action_space: The action space.
        seed: Seed of the random choices.
    """

    def __init__(
        self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], seed: int = 0
    ) -> None:
        super().__init__(obs_space, action_space)
        self._frames = FrameReader(obs_space, action_space)
        self._asker = Asker(obs_space, self._frames.action_space, auto=False)
        self._random = RandomAgent(obs_space, action_space, seed)

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Return the typed actions."""
        frame = self._frames.read(observation)
        print(f"\n{entity_table(frame, self.obs_space)}")
        obs = batch_frames([frame], self.obs_space, self.action_space)
        chosen = self._asker.choose(frame, self._random.decide(obs))
        return typed_actions(frame, chosen, self.action_space)


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
