"""Sources of the viewer by their names: a recording, an environment, a run."""

from __future__ import annotations

import functools
import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from entity_env.agent import Proposer, RunningAgent, load_agent
from entity_env.command_line import game_from_words
from entity_env.environment import Environment, call_environment, check_seed
from entity_env.errors import EntityEnvError, SettingError
from entity_env.fitting import at_each_seat, fit_environment, named_seats
from entity_env.hints import YAxis
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.recording.parts import is_recording
from entity_env.registry import is_registered
from entity_env.seats.seat_agents import NamedAgent, make_agent
from entity_env.seats.table_rows import TableRows
from entity_env.viewer.live import LiveSource
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.replayed import open_replay
from entity_env.viewer.source import Source

__all__ = ["live_source", "open_source", "run_source"]


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
    """Return the source for a recording, a replay, an environment or a run.

    Args:
        what: A recording, a replay, the name or dotted path of an environment, or a run folder,
            whose newest agent plays.
        settings: Arguments of the environment's constructor, each ``name=value``.
        agent: Player of the environment: ``random``, a run folder, a script or its dotted path, or
            an agent.
        people: The seats that people play in the page, separated by commas; ``all``, or None for
            none. The only seat of an environment for one player is ``you``.
        seed: Seed of the games; None draws a seed.
        y_axis: Direction of greater y in a recording; None means up.
        trust: Consent to import code that an agent's folder names.

    Raises:
        EntityEnvError: The source does not exist, or is damaged.
    """
    is_parts = what.endswith(".episodes") or is_recording(what)
    if (is_parts or Path(what).is_file()) and agent != "random":
        raise SettingError(
            "an agent cannot play what is recorded", expected="an environment", received=what
        )
    if is_parts:
        return RecordedSource(what, y_axis or "up")
    if Path(what).is_file():
        return open_replay(what, trust=trust)
    if Path(what).is_dir() or (os.sep in what and not is_registered(what)):
        return run_source(what, people=people, seed=seed, trust=trust)
    make = game_from_words(what, settings)
    game = call_environment("its constructor", make)
    name = " ".join([what, *settings])
    return live_source(game, name, agent=agent, people=people, seed=seed, trust=trust)


def run_source(
    what: str,
    *,
    people: str | None = None,
    seed: int | None = None,
    trust: bool = False,
    make_game: Callable[[], Environment | MultiPlayerEnvironment] | None = None,
) -> LiveSource:
    """Return the game of a run, which its newest agent plays, also while it is trained.

    Args:
        what: The run folder.
        people: See ``open_source``.
        seed: See ``open_source``.
        trust: See ``open_source``.
        make_game: Function that makes the game; None for ``make_game`` of the agent.
    """
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    agent: Any = load_agent(what, seed, trust)
    if make_game is None and not hasattr(agent, "make_game"):
        raise SettingError(
            f"the agent {what!r} does not know its game",
            expected="a run folder",
            hint=f"name the game, too: python -m entity_env.viewer GAME --agent {what}",
        )
    newest: RunningAgent = agent
    games = itertools.count(1)

    def renew() -> RunningAgent | None:
        nonlocal newest
        number = next(games)
        try:
            if newest.is_newest():
                return None
            newest = load_agent(what, seed + number, trust)  # type: ignore[assignment]
        except EntityEnvError:  # it is being written, or has been removed: later
            return None
        return newest

    make = functools.partial(newest.make_game, trust) if make_game is None else make_game
    game = call_environment("its constructor", make)
    return live_source(game, what, agent=newest, people=people, seed=seed, trust=trust, renew=renew)


def live_source(
    game: Environment | MultiPlayerEnvironment,
    title: str,
    *,
    agent: NamedAgent = "random",
    people: str | None = None,
    seed: int | None = None,
    trust: bool = False,
    renew: Callable[[], Proposer | None] = lambda: None,
) -> LiveSource:
    """Return a game that is played while it is looked at; see ``open_source``.

    Args:
        game: The game.
        title: Title of the page.
        agent: See ``open_source``.
        people: See ``open_source``.
        seed: See ``open_source``.
        trust: See ``open_source``.
        renew: Called before each episode but the first; returns a newer agent, or None.
    """
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    spaces = (
        call_environment("obs_space", game.obs_space),
        call_environment("action_space", game.action_space),
    )
    made = make_agent(agent, *spaces, seed, trust)
    table = TableRows(fit_environment(game, made) if isinstance(game, Environment) else game, seed)

    def at_seats(player: Proposer) -> tuple[list[Proposer], str]:
        version = getattr(player, "version", None)
        name = agent if isinstance(agent, str) else str(version or type(player).__name__)
        if isinstance(game, Environment):
            return [player], name
        return at_each_seat(player, game, spaces, seed), name

    def renewed() -> tuple[list[Proposer], str] | None:
        newer = renew()
        return None if newer is None else at_seats(newer)

    playing = [] if people is None else named_seats(table.names, people)
    agents, who = at_seats(made)
    full = f"{title}, seed {seed}"
    return LiveSource(table, full, agents, playing, who, renewed)
