"""Sources of the viewer by their names: a recording, an environment."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from entity_env.command_line import game_from_words
from entity_env.environment import Environment, YAxis, call_environment, check_seed
from entity_env.fitting import fit_environment
from entity_env.player.proposers import NamedAgent, at_each_seat, make_proposer
from entity_env.player.terminal_game import named_seats
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.table_rows import TableRows
from entity_env.viewer.live import LiveSource
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.source import Source

__all__ = ["live_source", "open_source"]


def open_source(
    what: str,
    settings: Sequence[str] = (),
    *,
    agent: NamedAgent = "random",
    people: str | None = None,
    seed: int | None = None,
    y_axis: YAxis | None = None,
    trust: bool = False,
) -> Source:
    """Return what is to be shown.

    Args:
        what: A recording, or the name or dotted path of an environment.
        settings: Arguments of the environment's constructor, each ``name=value``.
        agent: Who plays the environment: ``random``, a run folder, a script or its dotted path, or
            an agent.
        people: The seats that are played in the page, with commas in between; ``all``, or None for
            none of them. The only seat of an environment for one player is called ``you``.
        seed: Of the games; None takes a new one.
        y_axis: Where greater values of y are in a recording, which does not know; else up.
        trust: The consent to import code that an agent's folder names.

    Raises:
        EntityEnvError: There is no such thing, or it is damaged.
    """
    if what.endswith(".episodes") or Path(what).is_file():
        return RecordedSource(what, y_axis or "up")
    make = game_from_words(what, settings)
    game = call_environment("its constructor", make)
    name = " ".join([what, *settings])
    return live_source(game, name, agent=agent, people=people, seed=seed, trust=trust)


def live_source(
    game: Environment | MultiPlayerEnvironment,
    title: str,
    *,
    agent: NamedAgent = "random",
    people: str | None = None,
    seed: int | None = None,
    trust: bool = False,
) -> LiveSource:
    """Return a game that is played while it is looked at; see ``open_source``."""
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    spaces = (
        call_environment("obs_space", game.obs_space),
        call_environment("action_space", game.action_space),
    )
    made = make_proposer(agent, *spaces, seed, trust)
    if isinstance(game, Environment):
        table, agents = TableRows(fit_environment(game, made), seed), [made]
    else:
        table, agents = TableRows(game, seed), at_each_seat(made, game, spaces, seed)
    playing = [] if people is None else named_seats(table.names, people)
    who = agent if isinstance(agent, str) else type(agent).__name__
    return LiveSource(table, f"{title}, seed {seed}", agents, playing, who)
