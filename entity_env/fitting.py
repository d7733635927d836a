"""Environments reduced to the entities and features of an agent."""

from __future__ import annotations

from collections.abc import Mapping

from entity_env.agent import Proposer
from entity_env.environment import Environment
from entity_env.errors import SpaceError
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.selection import Selection, check_same_actions

__all__ = ["fit_environment", "known_part"]


def fit_environment(env: Environment, agent: Proposer) -> Environment:
    """Return the environment without types and features that the agent does not know.

    Raises:
        SpaceError: See ``known_part``.
    """
    selection = known_part(agent, env.obs_space(), env.action_space())
    return env if selection.is_whole else FeatureFilter(env, agent.obs_space)


def known_part(
    agent: Proposer, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
) -> Selection:
    """Return the types and features that an agent knows, as a selection of an environment's space.

    Raises:
        SpaceError: A type or feature of the agent is missing in the environment or is of another
            kind, or the actions differ.
    """
    try:
        selection = Selection.of(obs_space, agent.obs_space)
        check_same_actions(agent.action_space, action_space)
    except SpaceError as error:
        what = f"the agent was trained on another environment: {error.what}"
        raise SpaceError.from_fields({**error.fields(), "what": what}) from error
    return selection
