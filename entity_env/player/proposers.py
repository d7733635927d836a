"""Agents that propose actions to a person at the terminal, or play in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from entity_env.agent import Decision, ObservationAgent, Policy, Proposer, RandomAgent, load_agent
from entity_env.batching.unbatch import answers_in_frame
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import SeatError, SettingError, SpaceError, nearest, shorten
from entity_env.fitting import known_part
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.player.scripted_agent import ScriptedAgent, is_script, load_script
from entity_env.seats.seat_player import call_if_there, copied
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["NamedAgent", "at_each_seat", "decide_at", "make_proposer", "named_seats"]

NamedAgent: TypeAlias = str | Proposer | Policy
"""``random``, a run folder, the dotted path of a script; an agent; a script."""


def make_proposer(
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
    if not callable(given):
        raise SettingError(
            "the agent is not valid",
            expected="'random', a run folder, a script or its dotted path, or an agent",
            received=shorten(given),
        )
    return ScriptedAgent(given, obs_space, action_space)


def at_each_seat(
    made: Proposer, game: MultiPlayerEnvironment, spaces: tuple[Any, Any], seed: int
) -> list[Proposer]:
    """Return a copy of an agent for each seat, because each seat has its own memory.

    An agent that has a policy for each seat has ``of_seat(number)``.
    """
    if not known_part(made, *spaces).is_whole:
        raise SpaceError(
            "the agent does not know all entities and features of the game",
            expected=f"the entities {list(spaces[0].entities)} with all their features",
            received=f"an agent for {list(made.obs_space.entities)}",
        )
    of_seat = getattr(made, "of_seat", lambda _: copied(made))
    agents = [of_seat(number) for number, _ in enumerate(game.seats())]
    for seat, agent in enumerate(agents):
        call_if_there(agent, "seed", seed + seat)
    return agents


def named_seats(names: Sequence[str], text: str) -> list[str]:
    """Return the seats given by ``all``, or by their names separated by commas.

    Raises:
        SeatError: A seat does not exist.
    """
    if text == "all":
        return list(names)
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in names:
            raise SeatError(
                f"there is no seat {shorten(name)}",
                options=[*names, "all"],
                hint=nearest(name, names),
            )
    return wanted


def decide_at(table: TableRows, seat: int, agent: Proposer) -> Decision:
    """Return the decision of an agent for a seat that must act.

    Agents for single observations get the observation of the game, with its ids and masks.
    """
    frame, action_space = table.asked[seat], table.action_space()
    if isinstance(agent, ObservationAgent):
        return Decision(answers_in_frame(agent.act(table.seen[seat]), frame, action_space))
    return agent.decide(batch_frames([frame], table.obs_space(), action_space))
