"""Agents that propose actions to a person at the terminal, or play in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from entity_env.agent import (
    Decision,
    ObservationAgent,
    Policy,
    Proposer,
    RandomAgent,
    load_agent,
)
from entity_env.batching.unbatch import answers_in_frame
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import SettingError, SpaceError, shorten
from entity_env.fitting import known_part
from entity_env.player.scripted_agent import ScriptedAgent, is_script, load_script
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.seat_player import call_if_there, copied
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["NamedAgent", "at_each_seat", "decide_at", "make_proposer"]

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


def at_each_seat(
    made: Proposer, game: MultiPlayerEnvironment, spaces: tuple[Any, Any], seed: int
) -> list[Proposer]:
    """Return copies of an agent: it may remember what it has seen, which belongs to a seat.

    An agent whose seats have policies of their own has ``of_seat(number)``.
    """
    if not known_part(made, *spaces).is_whole:
        raise SpaceError(
            "the agent knows less than the game shows",
            expected=f"the entities {list(spaces[0].entities)} with all their features",
            received=f"an agent for {list(made.obs_space.entities)}",
        )
    of_seat = getattr(made, "of_seat", lambda _: copied(made))
    agents = [of_seat(number) for number, _ in enumerate(game.seats())]
    for seat, own in enumerate(agents):
        call_if_there(own, "seed", seed + seat)
    return agents


def decide_at(table: TableRows, seat: int, agent: Proposer) -> Decision:
    """Return the decision of an agent at a seat that is asked.

    Agents that play single observations see the game's own, with its ids and all of its masks.
    """
    frame, action_space = table.asked[seat], table.action_space()
    if isinstance(agent, ObservationAgent):
        return Decision(answers_in_frame(agent.act(table.seen[seat]), frame, action_space))
    return agent.decide(batch_frames([frame], table.obs_space(), action_space))
