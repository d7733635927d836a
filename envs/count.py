"""Count: a player says how many beans there are.

env = Count(masked_choices=2)
observation = env.reset()
observation = env.act(count_beans(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.environment import Environment
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, ActionSpace, CategoricalActionSpace, Entity, ObsSpace

from .checks import check_running, check_started, read_choices, reading_state, refuse_state
from .errors import check_whole

__all__ = ["NUMBERS", "Count", "count_beans"]

NUMBERS = tuple(str(number) for number in range(10))

_OBS_SPACE = ObsSpace(entities={"Bean": Entity(), "Player": Entity()})
_ACTION_SPACE: dict[ActionName, ActionSpace] = {"count": CategoricalActionSpace(NUMBERS)}
_PLAYER = ("Player",)


class Count(Environment):
    """A player says how many beans there are.

    Beans have no features: nothing but their number can be seen. A network that attends to them
    sees an average, in which many beans weigh more against the player itself than few.

    Entities:
        0 to 9 ``Bean`` and a ``Player``, all without features. The id of the player is "Player";
        the beans have none.
    Actions:
        ``count``: the player says a number from 0 to 9. The mask allows the right one and
        ``masked_choices - 1`` wrong ones.
    Reward:
        1.0 for the right number, else 0.0.
    End:
        After one step. The last observation has the metric ``win``, 1.0 or 0.0.
    Randomness:
        The number of beans, each as likely as any other. Unless all or one choice is allowed also a
        permutation of the 9 wrong numbers, of which the first are allowed.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).

    Args:
        masked_choices: The number of choices that the mask leaves, 1 to 10; 10 masks nothing.

    Raises:
        EnvConfigError: A parameter of the wrong type or range.
    """

    def __init__(self, masked_choices: int = 10) -> None:
        self.masked_choices = check_whole("masked_choices", masked_choices, 1, len(NUMBERS))
        self.beans = 0
        self.allowed = [True] * len(NUMBERS)
        self.answer: int | None = None
        self.steps = -1  # before the first reset

    def obs_space(self) -> ObsSpace:
        """Beans and the player."""
        return _OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``count``, 0 to 9."""
        return _ACTION_SPACE

    def reset(self) -> Observation:
        """Draw the number of beans and which choices are allowed."""
        self.beans = int(self.rng.integers(len(NUMBERS)))
        if self.masked_choices < len(NUMBERS):
            self.allowed = [False] * len(NUMBERS)
            for number in (self.beans, *self._draw_wrong()):
                self.allowed[number] = True
        self.answer, self.steps = None, 0
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Take the answer, which ends the episode."""
        check_running(self.steps, self.steps == 1)
        (self.answer,) = read_choices(actions, "count", _PLAYER, NUMBERS, [self.allowed])
        self.steps = 1
        return self.observe()

    def observe(self) -> Observation:
        """Return the observation of the current state."""
        check_started(self.steps)
        done, won = self.steps == 1, self.answer == self.beans
        mask = None if self.masked_choices == len(NUMBERS) else [self.allowed[:]]
        return Observation(
            features={"Bean": [()] * self.beans, "Player": [()]},
            ids={"Player": _PLAYER},
            actions={"count": CategoricalActionMask(actor_types=["Player"], mask=mask)},
            reward=float(won),
            done=done,
            metrics={"win": float(won)} if done else {},
        )

    def get_state(self) -> dict[str, Any]:
        """Return the number of beans, the numbers that are allowed, and the answer or None."""
        check_started(self.steps)
        allowed = [number for number, ok in enumerate(self.allowed) if ok]
        return {"beans": self.beans, "allowed": allowed, "answer": self.answer}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go to a state of such a game and return its observation; else StateError."""
        with reading_state("Count", state):
            beans = whole(state["beans"])
            allowed = [whole(number) for number in state["allowed"]]
            answer = None if state["answer"] is None else whole(state["answer"])
        problems = {
            "an allowed number that is not 0 to 9": not set(allowed) <= set(range(len(NUMBERS))),
            "another number of allowed choices": len(set(allowed)) != self.masked_choices
            or len(allowed) != self.masked_choices,
            "a right answer that is not allowed": beans not in allowed,
            "an answer that is not allowed": answer is not None and answer not in allowed,
        }
        refuse_state("Count", state, problems)
        self.beans, self.answer, self.steps = beans, answer, int(answer is not None)
        self.allowed = [number in allowed for number in range(len(NUMBERS))]
        return self.observe()

    def render_text(self) -> str:
        """Return a sign for each bean, and the answer once it is given."""
        return f"{'o' * self.beans} {'?' if self.answer is None else self.answer}".strip()

    def _draw_wrong(self) -> list[int]:
        """Return the wrong numbers that are allowed; draws nothing where there are none."""
        if self.masked_choices == 1:
            return []
        drawn = self.rng.permutation(len(NUMBERS) - 1)[: self.masked_choices - 1].tolist()
        return [number + (number >= self.beans) for number in drawn]


def count_beans(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    return {"count": CategoricalAction(_PLAYER, np.array([len(features["Bean"])]), NUMBERS)}
