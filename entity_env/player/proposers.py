"""Agents that propose actions to a person at the terminal, or play in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from entity_env.agent import Policy, Proposer, RandomAgent, load_agent
from entity_env.errors import SettingError, shorten
from entity_env.player.scripted_agent import ScriptedAgent, is_script, load_script
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["NamedAgent", "make_proposer"]

NamedAgent: TypeAlias = str | Proposer | Policy
"""``random``, a run folder, the dotted path of a script; an agent; a script."""


def make_proposer(
    given: NamedAgent,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    seed: int,
    trust: bool = False,
) -> Proposer:
    """Return the agent that is meant.

    Args:
        given: Its name, the agent itself, or a script.
        obs_space: What the game shows.
        action_space: Its actions.
        seed: Seeds what it draws, where it is made here.
        trust: The consent to import code that a run folder names.

    Raises:
        EntityEnvError: There is no such agent, or it cannot be loaded.
    """
    if isinstance(given, str):
        if given == "random":
            return RandomAgent(obs_space, action_space, seed)
        if not is_script(given):
            return load_agent(given, seed, trust)
        given = load_script(given, "the agent")
    if callable(getattr(given, "decide", None)):
        return given  # type: ignore[return-value]
    if not callable(given):
        raise SettingError(
            "the agent cannot play",
            expected="'random', a run folder, a script or its dotted path, or an agent",
            received=shorten(given),
        )
    return ScriptedAgent(given, obs_space, action_space)
