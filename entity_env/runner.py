"""Play any environment in the terminal, yourself or with an agent.

python -m entity_env.runner minesweeper width=4 nmines=3
python -m entity_env.runner my_pkg.my_env.MyEnv --agent runs/my_run
python -m entity_env.runner minesweeper --agent runs/my_run --auto --episodes 10
python -m entity_env.runner tic_tac_toe --seats all
python -m entity_env.runner tic_tac_toe --seats X --agent runs/my_run
python -m entity_env.runner tic_tac_toe --seats X --agent my_pkg.my_script.my_player

"""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any

from entity_env.command_line import (
    environment_from_words,
    environment_parser,
    game_from_words,
    parse_setting,
    run_program,
)
from entity_env.environment import Environment, call_environment, check_seed
from entity_env.errors import ObservationError, SeatError, SettingError, shorten
from entity_env.fitting import at_each_seat, fit_environment, named_seats
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.recording.replays import RecordReplay
from entity_env.rows.vec_env import check_count
from entity_env.seats.seat_agents import NamedAgent, make_agent
from entity_env.seats.table_rows import TableRows
from entity_env.terminal.asker import QuitError
from entity_env.terminal.game import TerminalGame

__all__ = ["main", "play_in_terminal"]


def play_in_terminal(
    create_env: Callable[[], Environment | MultiPlayerEnvironment],
    agent: NamedAgent = "random",
    *,
    seats: str | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    auto: bool = False,
    trust: bool = False,
    replay: tuple[str, str, Mapping[str, Any]] | None = None,
) -> None:
    """Play episodes with a person at the terminal, until the person quits.

    Args:
        create_env: Function that makes the environment, or the game of several players.
        agent: Agent whose choices are proposed, with their probabilities if known: a run folder,
            ``random``, a script or its dotted path, or an agent. In a game of several players,
            copies of it also play the other seats.
        seats: Seats of the people in a game of several players, separated by commas; ``all`` or
            None for all seats.
        seed: Seed of the environment and the agent; None draws a seed and prints it.
        episodes: Number of episodes; None asks after each, or with ``auto`` plays one.
        auto: True to take every proposal without asking.
        trust: Consent to import code that the agent's folder names.
        replay: The file for a replay, and the name and the settings of the environment; None
            writes no replay.

    Raises:
        EntityEnvError: The environment made a mistake, the agent does not fit it or cannot be
            copied, or a seat does not exist.
    """
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    if episodes is not None:
        check_count("number of episodes", episodes, error=SettingError)
    env = call_environment("its constructor", create_env)
    if not isinstance(env, Environment | MultiPlayerEnvironment):
        raise ObservationError(
            "the function did not return an environment",
            expected="an instance of a subclass of Environment or MultiPlayerEnvironment",
            received=shorten(env),
        )
    if seats is not None and isinstance(env, Environment):
        raise SeatError(
            "the function did not return a game of several players",
            expected="an instance of a subclass of entity_env.MultiPlayerEnvironment",
            received=shorten(env),
            hint="only such games have seats to choose",
        )
    with contextlib.ExitStack() as stack:
        stack.callback(env.close)
        spaces = (
            call_environment("obs_space", env.obs_space),
            call_environment("action_space", env.action_space),
        )
        made, shown = make_agent(agent, *spaces, seed, trust), None
        if isinstance(env, Environment):
            fitted = fit_environment(env, made)
            shown = None if fitted is env else fitted.obs_space()
            table, agents, people = TableRows(fitted, seed), [made], ["you"]
        else:
            table, agents = TableRows(env, seed), at_each_seat(made, env, spaces, seed)
            people = named_seats(table.names, "all" if seats is None else seats)
        game = TerminalGame(table, agents, people, auto=auto)
        if replay is not None:
            game.rows = stack.enter_context(RecordReplay(table, *replay, seed, shown))
        try:
            game.introduce(seed, agent if isinstance(agent, str) else type(agent).__name__)
            game.play(1 if auto and episodes is None else episodes)
        except QuitError:
            print("\nThank you for playing.")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = environment_parser("entity_env.runner", "Play an environment in the terminal.")
    parser.add_argument(
        "--agent",
        default="random",
        metavar="NAME",
        help="a run folder, a script such as my_module.my_player, or random (the default)",
    )
    parser.add_argument(
        "--seats",
        metavar="A,B",
        help="the seats of people in a game of several players, or all; without it, "
        "another seat in each game",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the games")
    parser.add_argument("--episodes", type=int, default=None, help="number of episodes")
    parser.add_argument(
        "--replay", metavar="FILE", help="write a replay, for python -m entity_env.replay"
    )
    parser.add_argument("--auto", action="store_true", help="let the agent play, ask nothing")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="import code that a run names, even if someone else made the run",
    )
    given = parser.parse_intermixed_args(arguments)

    def play() -> None:
        how: dict[str, Any] = {
            name: getattr(given, name) for name in ("seed", "episodes", "auto", "trust")
        }
        how["replay"] = given.replay and (
            given.replay,
            given.env,
            dict(map(parse_setting, given.settings)),
        )
        if given.seats is None:
            create_env: Any = environment_from_words(given.env, given.settings)
        else:
            create_env, how["seats"] = game_from_words(given.env, given.settings), given.seats
        play_in_terminal(create_env, given.agent, **how)

    return run_program(play)


if __name__ == "__main__":
    sys.exit(main())
