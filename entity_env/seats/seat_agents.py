"""Agents at the seats of games: made by their names, and asked for one decision at a time."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeAlias

from entity_env.agent import (
    Agent,
    Decision,
    ObservationAgent,
    Policy,
    Proposer,
    RandomAgent,
    load_agent,
)
from entity_env.batching.action_checks import check_actions
from entity_env.batching.frame import Frame
from entity_env.batching.unbatch import answers_in_frame
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.scripted_agent import ScriptedAgent, is_script, load_script
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["NamedAgent", "call_if_there", "copied", "decide", "make_agent"]

NamedAgent: TypeAlias = str | Agent | Proposer | Policy
"""``random``, a run folder, the dotted path of a script; an agent; a script."""


def make_agent(
    given: NamedAgent,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    seed: int,
    trust: bool = False,
) -> Proposer:
    """Return the agent for a name, a script or an agent.

    Args:
        given: The name of an agent, an agent, or a script.
        obs_space: The observation space.
        action_space: The action space.
        seed: Seed of an agent that is made here.
        trust: Consent to import code that a run folder names.

    Raises:
        EntityEnvError: The agent does not exist, or cannot be loaded.
    """
    if isinstance(given, str):
        if given == "random":
            return RandomAgent(obs_space, action_space, seed)
        if not is_script(given):
            return load_agent(given, seed, trust)
        given = load_script(given, "the agent")
    if callable(getattr(given, "decide", None)):
        return given  # type: ignore[return-value]
    if not callable(given) and not callable(getattr(given, "act", None)):
        raise SettingError(
            "the agent is not valid",
            expected="'random', a run folder, a script or its dotted path, or an agent",
            received=shorten(given),
        )
    return ScriptedAgent(given, obs_space, action_space)  # type: ignore[arg-type]


def decide(
    agent: Proposer,
    observation: Observation,
    frame: Frame,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
) -> Decision:
    """Return the checked decision of an agent in a frame.

    Agents for single observations get the observation of the game, with its ids and masks.

    Raises:
        EntityEnvError: A choice is missing, or not allowed.
    """
    obs = batch_frames([frame], obs_space, action_space)
    if isinstance(agent, ObservationAgent):
        decision = Decision(answers_in_frame(agent.act(observation), frame, action_space))
    else:
        decision = agent.decide(obs)
    check_actions(obs.ragged_actions(decision.chosen), obs, action_space)
    return decision


def call_if_there(agent: Any, name: str, *arguments: Any) -> None:
    """Call a method of an agent if the agent has it."""
    if callable(method := getattr(agent, name, None)):
        method(*arguments)


def copied(agent: Any) -> Any:
    """Return a copy of an agent; functions are not copied."""
    try:
        return copy.deepcopy(agent)
    except Exception as error:  # an agent's own __deepcopy__ may raise anything
        raise SettingError(
            f"an agent cannot be copied: {type(error).__name__}: {error}",
            expected="an agent that copy.deepcopy can copy, because each seat has its own memory",
            received=shorten(agent),
        ) from error
