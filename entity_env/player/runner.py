"""Play any environment in the terminal, alone or beside an agent.

python -m entity_env.runner minesweeper width=4 nmines=3
python -m entity_env.runner my_pkg.my_env.MyEnv --agent runs/my_run
python -m entity_env.runner minesweeper --agent runs/my_run --auto --episodes 10
python -m entity_env.runner tic_tac_toe --seats all
python -m entity_env.runner tic_tac_toe --seats X --agent runs/my_run
python -m entity_env.runner tic_tac_toe --seats X --agent my_pkg.my_script.my_player

"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from entity_env.agent import fit_environment
from entity_env.batching.frame import RESERVED_METRICS, Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.command_line import (
    environment_from_words,
    game_from_words,
    parse_setting,
    version_text,
)
from entity_env.drawing import entity_table
from entity_env.environment import (
    Environment,
    begin_episode,
    call_environment,
    check_seed,
    seed_environment,
)
from entity_env.errors import (
    EntityEnvError,
    ObservationError,
    SeatError,
    SettingError,
    shorten,
)
from entity_env.kinds.table import kind_of, typed_actions
from entity_env.metrics import EpisodeTracker
from entity_env.player.proposers import NamedAgent, make_proposer
from entity_env.player.seat_runner import SeatGame, named_seats
from entity_env.player.terminal import Asker, QuitError, ask
from entity_env.recording.replays import RecordFrames, RecordSeats
from entity_env.rows.vec_env import check_count
from entity_env.seats.masked import who_is_who
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.seat_rows import game_seed

__all__ = ["main", "play_in_terminal", "play_seats_in_terminal"]


def play_in_terminal(
    create_env: Callable[[], Environment],
    agent: NamedAgent = "random",
    *,
    seed: int | None = None,
    episodes: int | None = None,
    auto: bool = False,
    trust: bool = False,
    replay: tuple[str, str, Mapping[str, Any]] | None = None,
) -> None:
    """Play episodes with whoever types, until they have had enough.

    Args:
        create_env: Makes the environment.
        agent: What it does is proposed, and shown with its probabilities, where it has some: a run
            folder, ``random``, a script or its dotted path, or an agent.
        seed: Seeds the environment and the agent; None takes a new one and says which.
        episodes: Ends after so many; None asks after each, or with ``auto`` plays one.
        auto: Take every proposal without asking.
        trust: The consent to import code that the agent's folder names, if it needs any.
        replay: The file that gets a replay, and the name and the settings by which the environment
            is found again; None: none is written.

    Raises:
        EntityEnvError: The environment made a mistake, or the agent does not fit it.
    """
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    if episodes is not None:
        check_count("number of episodes", episodes, error=SettingError)
    env = call_environment("its constructor", create_env)
    if not isinstance(env, Environment):
        raise ObservationError(
            "this makes no environment",
            expected="an instance of a subclass of entity_env.Environment",
            received=shorten(env),
        )
    game = None
    try:
        game = _Game(env, agent, seed, auto, trust)
        if replay is not None:
            game.write_replay(*replay, seed)
        game.introduce(seed)
        game.play(1 if auto and episodes is None else episodes)
    except (QuitError, KeyboardInterrupt):
        print("\nThank you for playing.")
    finally:
        if game is not None and game.replay is not None:
            game.replay.close()
        env.close()


def play_seats_in_terminal(
    create_game: Callable[[], MultiPlayerEnvironment],
    seats: str = "all",
    agent: NamedAgent = "random",
    *,
    seed: int | None = None,
    episodes: int | None = None,
    auto: bool = False,
    trust: bool = False,
    replay: tuple[str, str, Mapping[str, Any]] | None = None,
) -> None:
    """Play a game of several players with whoever types, until they have had enough.

    Args:
        create_game: Makes the game.
        seats: The seats of those who type, with commas in between, or ``all``.
        agent: Plays the other seats, and proposes; as in ``play_in_terminal``.
        seed: As in ``play_in_terminal``.
        episodes: Ends after so many games; None asks after each, or with ``auto`` plays one.
        auto: Take every proposal without asking.
        trust: As in ``play_in_terminal``.
        replay: As in ``play_in_terminal``.

    Raises:
        EntityEnvError: The game made a mistake, or there is no such seat.
    """
    seed = secrets.randbelow(10**6) if seed is None else check_seed(seed)
    if episodes is not None:
        check_count("number of episodes", episodes, error=SettingError)
    game = call_environment("its constructor", create_game)
    if not isinstance(game, MultiPlayerEnvironment):
        raise SeatError(
            "this makes no game of several players",
            expected="an instance of a subclass of entity_env.MultiPlayerEnvironment",
            received=shorten(game),
            hint="only such games have seats to choose",
        )
    episodes = 1 if auto and episodes is None else episodes
    table = None
    try:
        game.seed(game_seed(seed, 0))
        table = SeatGame(game, agent, named_seats(game, seats), seed, auto=auto, trust=trust)
        if replay is not None:
            table.replay = RecordSeats(*replay, seed, len(table.names))
        print(f"{type(game).__name__}, seed {seed}\n  {table.who_is_who()}")
        for name, space in table.reader.action_space.items():
            print(f"  {name}: {kind_of(space).task(space)}")
        while True:
            table.play()
            if len(table.returns) == episodes:
                break
            if episodes is None and ask("\nagain? [Y/n] ").casefold() in ("n", "no"):
                break
        if len(table.returns) > 1:
            print(f"\n{table.summary()}")
    except (QuitError, KeyboardInterrupt):
        print("\nThank you for playing.")
    finally:
        if table is not None and table.replay is not None:
            table.replay.close()
        game.close()


class _Game:
    """An environment, what proposes actions, and who takes them."""

    def __init__(
        self, env: Environment, agent: NamedAgent, seed: int, auto: bool, trust: bool
    ) -> None:
        self.name = type(getattr(env, "unwrapped", env)).__name__
        seed_environment(env, seed)
        spaces = (
            call_environment("obs_space", env.obs_space),
            call_environment("action_space", env.action_space),
        )
        self.agent = make_proposer(agent, *spaces, seed, trust)
        self.env = env = fit_environment(env, self.agent)
        self.reader = FrameReader(env.obs_space(), spaces[1])
        self.asker = Asker(self.reader.obs_space, self.reader.action_space, auto=auto)
        self.returns: list[float] = []
        self.replay: RecordFrames | None = None

    def write_replay(self, path: str, name: str, settings: Mapping[str, Any], seed: int) -> None:
        """Write a replay of all that is played from now on."""
        self.replay = RecordFrames(path, name, settings, seed, self.reader.action_space)

    def introduce(self, seed: int) -> None:
        """Print what the game is about and how to play it."""
        print(f"{self.name}, seed {seed}")
        for name, space in self.reader.action_space.items():
            print(f"  {name}: {kind_of(space).task(space)}")
        if not self.asker.auto:
            print("? for help, q to quit")

    def play(self, episodes: int | None) -> None:
        """So many episodes, or as many as somebody likes."""
        while True:
            self.returns.append(self._episode(len(self.returns) + 1))
            if len(self.returns) == episodes:
                break
            if episodes is None and ask("\nagain? [Y/n] ").casefold() in ("n", "no"):
                break
        if len(self.returns) > 1:
            print(f"\n{len(self.returns)} episodes, mean return {np.mean(self.returns):g}")

    def _episode(self, number: int) -> float:
        """One episode; returns its return."""
        tracker = EpisodeTracker()
        frame = self._frame("reset", begin_episode, self.env.reset)
        if callable(reset := getattr(self.agent, "reset", None)):
            reset()  # an agent that remembers
        tracker.begin(frame.metrics)
        if self.replay is not None:
            self.replay.begin(self._batch(frame))
        while True:
            head = f"episode {number}, step {tracker.length}"
            if tracker.length:
                head += f": reward {frame.reward:g}, return {tracker.reward:g}"
            print(f"\n--- {head}")
            if not tracker.length and (who := who_is_who(self.env)):
                print(who)
            print(self._state(frame))
            if frame.done:
                break
            decision = self.agent.decide(self._batch(frame))
            chosen = self.asker.choose(frame, decision)
            actions = typed_actions(frame, chosen, self.reader.action_space)
            frame = self._frame("act", self.env.act, actions)
            if self.replay is not None:
                self.replay.act(chosen, self._batch(frame))
            tracker.add(frame.reward, frame.metrics)
        how = "cut off by a limit" if frame.truncated else "over"
        print(f"\nepisode {number} is {how} after {_plural(tracker.length, 'step')}")
        print(_summary(tracker.summary()))
        return tracker.reward

    def _batch(self, frame: Frame) -> VecObs:
        return batch_frames([frame], self.reader.obs_space, self.reader.action_space)

    def _state(self, frame: Frame) -> str:
        """Return the environment's own text, if it has one, and the entities."""
        table = entity_table(frame, self.reader.obs_space)
        text = call_environment("render_text", _own_text, self.env)
        return table if text is None else f"{text}\n\n{table}"

    def _frame(self, what: str, function: Callable[..., Any], *args: Any) -> Frame:
        try:
            return self.reader.read(call_environment(what, function, *args))
        except EntityEnvError as error:
            raise error.located(what) from error.__cause__


def _own_text(env: Environment) -> str | None:
    """Return the environment's own text, or None."""
    try:
        return env.render_text()
    except NotImplementedError:
        return None


def _summary(metrics: Mapping[str, float]) -> str:
    """Return and own metrics, one a line; of one given at several steps also its mean and range."""
    lines = {"return": f"{metrics['episodic_reward']:g}"}
    several = [name for name in metrics if f"{name}.count" in metrics]
    parts = {
        f"{name}.{part}" for name in several for part in ("mean", "min", "max", "sum", "count")
    }
    for name, value in metrics.items():
        if name not in parts and name not in RESERVED_METRICS:
            lines[name] = f"{value:g}"
    for name in several:
        mean, low, high = (metrics[f"{name}.{part}"] for part in ("mean", "min", "max"))
        lines[name] += f"  (mean {mean:g}, from {low:g} to {high:g})"
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m entity_env.runner", description="Play an environment in the terminal."
    )
    parser.add_argument("env", help="a name such as minesweeper, or my_pkg.my_env.MyEnv")
    parser.add_argument(
        "settings",
        nargs="*",
        default=[],  # else argparse calls them required
        metavar="name=value",
        help="arguments of its constructor",
    )
    parser.add_argument(
        "--agent",
        default="random",
        metavar="NAME",
        help="a run folder, a script such as my_module.my_player, or random (the default)",
    )
    parser.add_argument(
        "--seats",
        metavar="A,B",
        help="of a game of several players: the seats of those who type, or all; without it, "
        "another one in each game",
    )
    parser.add_argument("--seed", type=int, default=None, help="the same games again")
    parser.add_argument("--episodes", type=int, default=None, help="end after so many")
    parser.add_argument(
        "--replay", metavar="FILE", help="write a replay, for python -m entity_env.replay"
    )
    parser.add_argument("--auto", action="store_true", help="let the agent play, ask nothing")
    parser.add_argument(
        "--trust", action="store_true", help="import code that an old run names, whoever made it"
    )
    parser.add_argument("--version", action="version", version=version_text())
    given = parser.parse_intermixed_args(arguments)
    try:
        how: dict[str, Any] = {
            name: getattr(given, name) for name in ("seed", "episodes", "auto", "trust")
        }
        how["replay"] = given.replay and (
            given.replay,
            given.env,
            dict(map(parse_setting, given.settings)),
        )
        if given.seats is None:
            create_env = environment_from_words(given.env, given.settings)
            play_in_terminal(create_env, given.agent, **how)
        else:
            create_game: Any = game_from_words(given.env, given.settings)
            play_seats_in_terminal(create_game, given.seats, given.agent, **how)
    except EntityEnvError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        sys.stderr.close()
    return 0
