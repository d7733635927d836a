"""MultiArmedBandit: of five arms one pays, always the same.

env = MultiArmedBandit()
observation = env.reset()
observation = env.act(pull_a(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any

from entity_env.actions import Action, GlobalCategoricalAction
from entity_env.environment import Environment
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import ActionName, ActionSpace, GlobalCategoricalActionSpace, ObsSpace

from .checks import (
    check_running,
    check_started,
    read_global_choice,
    reading_state,
    refuse_state,
)

__all__ = ["ARMS", "PULLS", "MultiArmedBandit", "pull_a"]

ARMS = ("A", "B", "C", "D", "E")
PULLS = 32

_OBS_SPACE = ObsSpace(global_features=["step"])
_ACTION_SPACE: dict[ActionName, ActionSpace] = {"pull": GlobalCategoricalActionSpace(ARMS)}
_MASKS = {"pull": GlobalCategoricalActionMask()}


class MultiArmedBandit(Environment):
    """Of five arms one pays, always the same.

    There are no entities: the network has nothing to go by but the step.

    Entities:
        None. The global feature ``step`` counts pulls, from 0.
    Actions:
        ``pull``, a global action: A, B, C, D or E.
    Reward:
        1/32 for A, 0.0 for the others.
    End:
        After 32 steps.
    Randomness:
        None.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).
    """

    def __init__(self) -> None:
        self.steps = -1  # before the first reset

    def obs_space(self) -> ObsSpace:
        """``step``."""
        return _OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``pull``, A to E."""
        return _ACTION_SPACE

    def reset(self) -> Observation:
        """Start counting."""
        self.steps = 0
        return self._observe(0.0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Pull an arm."""
        check_running(self.steps, self.steps == PULLS)
        pays = read_global_choice(actions, "pull", ARMS) == ARMS.index("A")
        self.steps += 1
        return self._observe(pays / PULLS)

    def get_state(self) -> dict[str, Any]:
        """Return the number of pulls."""
        check_started(self.steps)
        return {"steps": self.steps}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go to a state of such a game and return its observation; else StateError."""
        with reading_state("MultiArmedBandit", state):
            steps = whole(state["steps"])
        problem = f"a number of pulls that is not 0 to {PULLS}"
        refuse_state("MultiArmedBandit", state, {problem: not 0 <= steps <= PULLS})
        self.steps = steps
        return self._observe(0.0)

    def render_text(self) -> str:
        """Return the number of pulls."""
        return f"{max(self.steps, 0)} of {PULLS} pulls"

    def _observe(self, reward: float) -> Observation:
        return Observation(
            global_features=[self.steps],
            actions=dict(_MASKS),
            reward=reward,
            done=self.steps == PULLS,
        )


def pull_a(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    return {"pull": GlobalCategoricalAction(ARMS.index("A"), "A")}
