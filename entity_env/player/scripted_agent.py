"""A function from an observation to actions as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.agent import SpacedAgent
from entity_env.batching.action_checks import check_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.unbatch import observations_of
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import ActorError, SettingError, UnknownActionError, nearest, shorten
from entity_env.kinds.table import answer_forms
from entity_env.observation import Observation
from entity_env.player.episodes import Policy
from entity_env.spaces import GLOBAL_ACTIONS, ActionName, ActionSpace, ObsSpace

__all__ = ["ObservationAgent", "ScriptedAgent"]


class ObservationAgent(SpacedAgent):
    """An agent that plays one observation at a time; a subclass writes ``act``.

    In rows it is asked for one frame after the other. The ids that it sees there are those of
    ``observations_of``: the type of an entity, and its place among those of its type.
    """

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """What to do in one observation."""
        raise NotImplementedError

    def act_rows(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """What to do in each frame.

        Raises:
            EntityEnvError: An action is missing, or cannot be taken.
        """
        forms = answer_forms(self.action_space)
        parts: dict[ActionName, list[npt.NDArray[Any]]] = {name: [] for name in forms}
        shown = observations_of(obs, self.obs_space, self.action_space)
        for observation in shown:
            indices = observation.id_to_index(self.obs_space)
            actions = self.act(observation)
            for name, form in forms.items():
                if name in observation.actions:  # type: ignore[operator]
                    own = _answers(actions, name, observation, indices, self.action_space[name])
                    parts[name].append(np.asarray(own, form.dtype).reshape(-1, form.width))
        chosen = {
            name: form.buffer(
                np.concatenate(parts[name]) if parts[name] else np.zeros((0, form.width)),
                obs.action_masks[name].actors.size1(),
            )
            for name, form in forms.items()
        }
        return check_actions(chosen, obs, self.action_space)


class ScriptedAgent(ObservationAgent):
    """Plays by a function from an observation to actions.

    Args:
        policy: The function. What it remembers is its own.
        obs_space: What it sees.
        action_space: What it can do.

    Raises:
        SettingError: It cannot be called.
    """

    def __init__(
        self, policy: Policy, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
    ) -> None:
        super().__init__(obs_space, action_space)
        if not callable(policy):
            raise SettingError(
                "a script cannot be called",
                expected="a function from an observation to actions",
                received=shorten(policy),
            )
        self.policy = policy

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """What the function says."""
        return self.policy(observation)


def _answers(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    observation: Observation,
    indices: Mapping[Any, int],
    space: ActionSpace,
) -> Any:
    """What one action of a frame holds, as numbers, in the order of the mask's actors."""
    action: Any = actions.get(name)
    mask: Any = (observation.actions or {})[name]
    if action is None:
        raise UnknownActionError(
            f"a script left out action {name!r}",
            expected=f"{name!r}, which somebody can take now",
            received=shorten(list(actions)),
            hint=nearest(name, list(actions)),
        )
    if isinstance(space, GLOBAL_ACTIONS):
        return action.index if hasattr(action, "index") else action.values
    if hasattr(action, "actees"):
        values = [_index(actee, indices, name) for actee in action.actees]
    else:
        values = action.indices if hasattr(action, "indices") else action.values
    given = [_index(actor, indices, name) for actor in action.actors]
    place = {actor: i for i, actor in enumerate(given)}
    wanted = [indices[actor] for actor in mask.actor_ids]
    if sorted(place) != sorted(wanted) or len(place) != len(given):
        raise ActorError(
            f"a script let others act than those who can: action {name!r}",
            expected=shorten(mask.actor_ids),
            received=shorten(list(action.actors)),
        )
    return np.asarray(values)[[place[actor] for actor in wanted]]


def _index(entity: Any, indices: Mapping[Any, int], name: ActionName) -> int:
    try:
        return indices[entity]
    except (KeyError, TypeError):
        raise ActorError(
            f"a script named an entity that is not in the frame: action {name!r}",
            options=[shorten(own) for own in list(indices)[:12]],
            received=shorten(entity),
        ) from None
