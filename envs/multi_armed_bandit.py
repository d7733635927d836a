"""MultiArmedBandit: one of five arms, always the same, gives a reward.

env = MultiArmedBandit()
observation = env.reset()
observation = env.act(pull_a(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole

from entity_env.actions import Action, GlobalCategoricalAction
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import ActionName, GlobalCategoricalActionSpace, ObsSpace

from .checks import read_global_choice
from .small_game import SmallGame

__all__ = ["ARMS", "PULLS", "MultiArmedBandit", "pull_a"]

ARMS = ("A", "B", "C", "D", "E")
PULLS = 32

_MASKS = {"pull": GlobalCategoricalActionMask()}


class MultiArmedBandit(SmallGame):
    """A game with five arms, of which always the same one gives a reward.

    There are no entities: the only input of the network is the number of the step.

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

    _obs_space = ObsSpace(global_features=["step"])
    _action_space = {"pull": GlobalCategoricalActionSpace(ARMS)}
    _saved = {"steps": whole}

    @property
    def over(self) -> bool:
        """True after all pulls."""
        return self.steps == PULLS

    def _begin(self) -> None:
        pass

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        return (read_global_choice(actions, "pull", ARMS) == ARMS.index("A")) / PULLS

    def _show(self) -> Observation:
        return Observation(global_features=[self.steps], actions=dict(_MASKS))

    def _problems(self, steps: int) -> dict[str, bool]:
        return {f"a number of pulls that is not 0 to {PULLS}": not 0 <= steps <= PULLS}

    def render_text(self) -> str:
        """Return the number of pulls."""
        return f"{max(self.steps, 0)} of {PULLS} pulls"


def pull_a(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    return {"pull": GlobalCategoricalAction(ARMS.index("A"), "A")}
