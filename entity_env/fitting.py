"""Games and agents that fit each other: known entities and features, and an agent for each seat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entity_env.agent import Proposer
from entity_env.environment import Environment
from entity_env.errors import SeatError, SpaceError, nearest, shorten
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.seats.seat_agents import call_if_there, copied
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.selection import Selection, check_same_actions

__all__ = ["at_each_seat", "fit_environment", "known_part", "named_seats"]


def fit_environment(env: Environment, agent: Proposer) -> Environment:
    """Return the environment without types and features that the agent does not know.

    Raises:
        SpaceError: See ``known_part``.
    """
    selection = known_part(agent, env.obs_space(), env.action_space())
    return env if selection.is_whole else FeatureFilter(env, agent.obs_space)


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
