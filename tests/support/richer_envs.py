"""An environment that shows more than another; without torch, for quick workers."""

from dataclasses import replace
from typing import Any

from support.trainer_envs import SavedForaging

from entity_env import Discrete, Entity, Observation, ObsSpace


class Richer(SavedForaging):
    """The same game, which shows more: rocks, the weight of food, the time; in another order."""

    def obs_space(self) -> ObsSpace:
        return ObsSpace(
            global_features=["time"],
            entities={
                "Food": Entity([Discrete("weight", 3), "x"]),
                "Rock": Entity(["x"]),
                "Robot": Entity(["step", "x"]),
            },
        )

    def action_space(self) -> dict[str, Any]:
        return dict(reversed(super().action_space().items()))

    def _observe(self, reward: float) -> Observation:
        observation = super()._observe(reward)
        features: Any = observation.features
        more = {
            "Food": [[2, x] for (x,) in features["Food"]],
            "Rock": [[1.0]] * (self.step % 3),
            "Robot": [[step, x] for x, step in features["Robot"]],
        }
        return replace(observation, features=more, global_features=[float(self.step)])
