"""``Curriculum``, which lets a script play the first steps of episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from entity_env.actions import Action
from entity_env.arguments import check_number, named_arguments
from entity_env.environment import MOST_RESETS, Environment, never_begins
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Curriculum"]


@named_arguments(SettingError)
class Curriculum(Wrapper):
    """A wrapper in which a script plays the first k steps of each episode.

    k is drawn uniformly from 0 to ``most``, and ``most`` is multiplied by ``factor`` after each
    episode. At first, games therefore begin in many situations that are easier; later they are
    played from their start. Rewards of the script's steps are dropped. If an episode ends before
    the learner's turn, another one begins.

    Args:
        env: The environment, or one seat of a game (``MaskedEnvironment``).
        script: Function from an observation to actions.
        most: Initial value of the largest number of steps that the script plays.
        factor: Factor, from 0 to 1, that ``most`` is multiplied by after each episode.

    Raises:
        SettingError: The script cannot be called, or a number is out of range.

    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games", section 4.2.2.
    """

    def __init__(
        self,
        env: Environment,
        script: Callable[[Observation], Mapping[ActionName, Action]],
        most: int = 20,
        factor: float = 0.99,
    ) -> None:
        super().__init__(env)
        if not callable(script):
            raise SettingError(
                "the script of a Curriculum cannot be called",
                expected="a function from an observation to actions",
                received=shorten(script),
            )
        self._script = script
        self._factor = check_number("factor of Curriculum", factor, 0, 1)
        self._most = float(check_count("most of Curriculum", most, error=SettingError))

    @property
    def most(self) -> float:
        """The largest number of steps that the script plays in the next episode, not rounded."""
        return self._most

    def reset(self) -> Observation:
        """Begin an episode, and let the script play its beginning."""
        for _ in range(MOST_RESETS):
            observation = self.env.reset()
            steps = int(self.rng.integers(int(self._most) + 1))
            self._most *= self._factor
            for _ in range(steps):
                if observation.done:
                    break
                observation = self.env.act(self._script(observation))
            if not observation.done:
                observation.reward = 0.0
                return observation
        raise never_begins()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        return self.env.act(actions)

    def _wrapper_state(self) -> dict[str, Any]:
        return {"most": self._most}

    def _set_wrapper_state(self, own: Mapping[str, Any]) -> None:
        self._most = float(own["most"])
