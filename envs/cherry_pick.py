"""CherryPick: a player picks half of the cherries, one at a time, and should pick the best.

env = CherryPick(num_cherries=32, num_picks=16)
observation = env.reset()
observation = env.act(pick_best(observation))

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.arguments import check_whole
from entity_env.observation import Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, Entity, ObsSpace, SelectEntityActionSpace

from .checks import as_number, read_selection
from .small_game import SmallGame

__all__ = ["MOST_CHERRIES", "CherryPick", "pick_best"]

MOST_CHERRIES = 10_000

_MASKS = {"Pick Cherry": SelectEntityActionMask(actor_types=("Player",), actee_types=("Cherry",))}


class CherryPick(SmallGame):
    """A player picks half of the cherries, one at a time, and should pick the best.

    Entities:
        ``Cherry`` [quality], those that are left, and a ``Player`` without features. The id of
        the player is "Player", that of a cherry ("Cherry", i) with i from 0, for the whole episode.
    Actions:
        ``Pick Cherry``: the player selects a cherry, which is then gone.
    Reward:
        The quality of the cherry. The best that an episode can pay is 1.0.
    End:
        After ``num_picks`` picks.
    Randomness:
        A standard normal number for each cherry. The same is then added to all of them, such that
        the best ``num_picks`` sum to 1.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym).

    Args:
        num_cherries: Cherries at the start, at most 10,000.
        num_picks: Number of cherries to pick.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    _obs_space = ObsSpace(entities={"Cherry": Entity(["quality"]), "Player": Entity()})
    _action_space = {"Pick Cherry": SelectEntityActionSpace()}
    _saved = {"cherries": [(whole, as_number)], "steps": whole}

    def __init__(self, num_cherries: int = 32, num_picks: int = 16) -> None:
        self.num_cherries = check_whole("num_cherries", num_cherries, 1, MOST_CHERRIES)
        self.num_picks = check_whole("num_picks", num_picks, 1, self.num_cherries)
        self.cherries: dict[int, float] = {}

    @property
    def over(self) -> bool:
        """True after all picks."""
        return self.steps == self.num_picks

    def _begin(self) -> None:
        drawn = self.rng.standard_normal(self.num_cherries).tolist()
        best = sum(sorted(drawn)[-self.num_picks :])
        shift = (1.0 - best) / self.num_picks
        self.cherries = {i: quality + shift for i, quality in enumerate(drawn)}

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        picked: Any = read_selection(actions, "Pick Cherry", "Player", self._ids())
        return self.cherries.pop(picked[1])

    def _show(self) -> Observation:
        return Observation(
            features={"Cherry": [(quality,) for quality in self.cherries.values()], "Player": [()]},
            ids={"Cherry": self._ids(), "Player": ["Player"]},
            actions=dict(_MASKS),
        )

    def get_state(self) -> dict[str, Any]:
        """Return the cherries that are left as [i, quality], and the number of picks."""
        return {**super().get_state(), "cherries": [list(item) for item in self.cherries.items()]}

    def _problems(self, cherries: list[tuple[int, float]], steps: int) -> dict[str, bool]:
        return {
            f"a number of picks that is not 0 to {self.num_picks}": not 0
            <= steps
            <= self.num_picks,
            "another number of cherries": len(cherries) != self.num_cherries - steps,
            "a cherry that is there twice": len({i for i, _ in cherries}) < len(cherries),
            "an unknown cherry": any(not 0 <= i < self.num_cherries for i, _ in cherries),
        }

    def _restore(self, **saved: Any) -> None:
        self.cherries, self.steps = dict(saved["cherries"]), saved["steps"]

    def render_text(self) -> str:
        """Return the picks so far, and the qualities of what is left, the best first."""
        left = " ".join(f"{quality:.2f}" for quality in sorted(self.cherries.values())[::-1])
        return f"{max(self.steps, 0)} of {self.num_picks} picks, left: {left}"

    def _ids(self) -> list[tuple[str, int]]:
        return [("Cherry", i) for i in self.cherries]


def pick_best(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: it gets 1.0."""
    features: Any = observation.features
    ids: Any = observation.ids
    qualities = [quality for (quality,) in features["Cherry"]]
    best = ids["Cherry"][qualities.index(max(qualities))]
    return {"Pick Cherry": SelectEntityAction(["Player"], [best])}
