"""Small, fast environments for the tests of the trainer; without torch, for quick workers."""

from collections.abc import Mapping
from typing import Any

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)


class Foraging(Environment):
    """Robots walk a line and pick food; frames without robots, food or anything at all occur.

    Every frame draws 0 to 2 robots and 0 to 2 pieces of food, so that actors come and go; with
    ``scale`` the features grow with every step, which moves the input statistics.
    """

    def __init__(self, length: int = 5, scale: float = 1.0, most: int = 2) -> None:
        self.length, self.scale, self.most = length, scale, most
        self.step, self.counts = 0, [1, 1]
        self.places: list[float] = []

    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Robot": Entity(["x", "step"]), "Food": Entity(["x"])})

    def action_space(self) -> dict[str, Any]:
        return {
            "Move": CategoricalActionSpace(["left", "stay", "right"]),
            "Pick": SelectEntityActionSpace(),
        }

    def reset(self) -> Observation:
        self.step = 0
        self._draw()
        return self._observe(0.0)

    def act(self, actions: Mapping[str, Any]) -> Observation:
        moves = actions["Move"].indices
        reward = float(sum(int(index) - 1 for index in moves)) + 0.5 * len(actions["Pick"].actees)
        self.step += 1
        self._draw()
        return self._observe(reward)

    def _draw(self) -> None:
        self.counts = self.rng.integers(0, self.most + 1, 2).tolist()
        self.places = self.rng.normal(size=sum(self.counts)).tolist()

    def _observe(self, reward: float) -> Observation:
        robots, food = self.counts
        grown = self.scale**self.step
        done = self.step >= self.length
        return Observation(
            features={
                "Robot": [[x * grown, self.step * grown] for x in self.places[:robots]],
                "Food": [[x * grown] for x in self.places[robots:]],
            },
            actions={
                "Move": CategoricalActionMask(actor_types=["Robot"]),
                "Pick": SelectEntityActionMask(actor_types=["Robot"], actee_types=["Food"]),
            },
            reward=reward,
            done=done,
            truncated=done and food == 1,
            metrics={"win": float(robots > 0)} if done else {},
        )


class SavedForaging(Foraging):
    """Foraging that saves its state."""

    def get_state(self) -> dict[str, Any]:
        return {"step": self.step, "counts": self.counts, "places": self.places}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        self.step, self.counts = state["step"], list(state["counts"])
        self.places = list(state["places"])
        return self._observe(0.0)


class Truncated(Environment):
    """One robot whose only feature is the step; after ``limit`` steps a limit ends the episode.

    The reward of step t of an episode is t, 1 for the first; whatever the actions are.
    """

    def __init__(self, limit: int = 3, truncated: bool = True) -> None:
        self.limit, self.truncated, self.step = limit, truncated, 0

    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Robot": Entity(["step"])})

    def action_space(self) -> dict[str, Any]:
        return {"Move": CategoricalActionSpace(["left", "right"])}

    def reset(self) -> Observation:
        self.step = 0
        return self.observe(0)

    def act(self, actions: Mapping[str, Any]) -> Observation:
        self.step += 1
        return self.observe(self.step)

    def observe(self, step: int) -> Observation:
        done = step >= self.limit
        return Observation(
            features={"Robot": [[float(step)]]},
            actions={"Move": CategoricalActionMask()},
            reward=float(step),
            done=done,
            truncated=done and self.truncated,
        )


class Broken(SavedForaging):
    """Foraging whose ``what`` (feature or reward) is NaN in step ``at`` of each episode."""

    def __init__(self, what: str = "feature", at: int = 3) -> None:
        super().__init__(most=1)
        self.what, self.at = what, at

    def _draw(self) -> None:
        super()._draw()
        self.counts, self.places = [1, 1], [0.1, 0.2]

    def _observe(self, reward: float) -> Observation:
        if self.step == self.at and self.what == "reward":
            reward = float("nan")
        if self.step == self.at and self.what == "feature":
            self.places[0] = float("nan")
        return super()._observe(reward)
