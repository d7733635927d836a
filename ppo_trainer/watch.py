"""Watch a run play: ``python -m ppo_trainer.watch <run> [--video game.gif]``.

It shows every step and its choices, in the terminal or as a GIF or MP4. If an environment has no
pictures of its own, ``entity_env.drawing`` draws them.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from csv import DictWriter
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from entity_env import Environment, MaskedEnvironment
from entity_env.agent import Agent
from entity_env.drawing.canvas import Picture
from entity_env.environment import hints_of
from entity_env.errors import SettingError
from entity_env.play import play
from entity_env.registry import Factory
from entity_env.rows.vec_env import check_count
from entity_env.storage.files import write_file
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.wrapper import Wrapper
from ppo_trainer.command_line.words import env_changes
from ppo_trainer.evaluation.steps import play_run
from ppo_trainer.evaluation.video import draw_steps, write_video
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.device import default_torch_state
from ppo_trainer.machine.screen import Screen, log
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import agent_of
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.runs.folder import newest_run
from ppo_trainer.runs.load_run import LoadedRun, load_policy

__all__ = ["film", "main", "watch"]

_MOST_FPS = 1000


@default_torch_state()
def watch(
    run: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    changes: Mapping[str, Any] | None = None,
    trust: bool = False,
    against: str | None = None,
    csv: str | Path | None = None,
) -> None:
    """Play episodes in the terminal.

    Args:
        run: Run folder.
        env: Class of the environment, needed if it cannot be imported.
        episodes: Number of episodes.
        greedy: True to take the most likely choices instead of drawing.
        seed: Seed of the episodes; None derives it from the seed of the run.
        fps: Steps per second in a terminal.
        changes: Values that replace those of the training, by the dotted names of settings, such as
            ``env.width``.
        trust: Consent to import the environment that the run of somebody else names.
        against: Opponent at the other seats in a game of several players: ``random``, a run folder,
            or the dotted path of a script; None stands for random play.
        csv: File for the schedules of all episodes, if the environment has ``schedule()``, which
            returns a list of dicts from columns to values.
    """
    loaded = load_policy(run, env, trust=trust, changes=changes)
    live = Screen(sys.stdout).isatty()
    game = _game(loaded, against, greedy)
    schedule: Any = getattr(game.unwrapped if isinstance(game, Wrapper) else game, "schedule", None)
    if csv is not None and schedule is None:
        raise SettingError(f"{loaded.game.name} has no schedule to write as CSV")
    lines: list[dict[str, Any]] = []
    for step in play_run(loaded, episodes=episodes, greedy=greedy, seed=seed, env=game):
        if live and step.step:
            time.sleep(1 / fps)
        end = f"   {step.end}" if step.done else ""
        log(f"\nepisode {step.episode}, step {step.step}, reward {step.total:g}{end}")
        if step.who and not step.step:
            log(step.who)
        rest = "".join(f"\n  {line}" for line in step.choices)
        log(step.text + rest, is_read=True)
        if csv is not None and step.done:
            lines += [{"episode": step.episode, **line} for line in schedule()]
    if csv is not None:
        _write_table(Path(csv), lines)


def _write_table(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    table = StringIO()
    writer = DictWriter(table, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    try:
        write_file(path, table.getvalue().encode())
    except OSError as error:
        raise SettingError(f"{str(path)!r} cannot be written: {error}") from error
    log(str(path))


@default_torch_state()
def film(
    run: str | Path,
    path: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    captions: bool = True,
    changes: Mapping[str, Any] | None = None,
    trust: bool = False,
    against: str | None = None,
    steps: int = 200,
) -> Path:
    """Write episodes as a video.

    A world that never ends, such as that of ``mmo``, is filmed as a whole, and the agent plays all
    of its seats.

    Args:
        run: See ``watch``.
        path: File to write, ending in .gif or .mp4.
        env: See ``watch``.
        episodes: See ``watch``.
        greedy: See ``watch``.
        seed: See ``watch``.
        fps: Steps per second.
        captions: True to write the progress of the episode and the choices under each picture.
        changes: See ``watch``.
        trust: See ``watch``.
        against: See ``watch``.
        steps: Number of steps of a world that never ends.
    """
    loaded = load_policy(run, env, trust=trust, changes=changes)
    if loaded.game.is_endless and not against:
        return write_video(Path(path), list(_world(loaded, steps, greedy, seed)), fps)
    obs_space = loaded.net.obs_space
    game = _game(loaded, against, greedy)
    with contextlib.closing(game) as played:
        hints = hints_of(played)
        found = play_run(loaded, episodes=episodes, greedy=greedy, seed=seed, draw=True, env=played)
        moments = list(found)
    pictures = draw_steps(moments, obs_space, captions=captions, hints=hints)
    # The end of an episode is shown for a second.
    times = [max(1, round(fps)) if step.done else 1 for step in moments]
    every = [picture for picture, n in zip(pictures, times, strict=True) for _ in range(n)]
    return write_video(Path(path), every, fps)


def _world(loaded: LoadedRun, steps: int, greedy: bool, seed: int | None) -> Iterator[Picture]:
    """Yield pictures of a world that never ends, in which the agent plays all seats."""
    if seed is None:
        seed = derived_seed(loaded.config.seed, "watch")
    game = loaded.game
    agent = agent_of(loaded.nets, game, loaded.config, seed=seed, greedy=greedy)
    count = check_count("number of steps", steps, error=SettingError)
    with game.rows(game.whole(1), seed) as rows:
        drawn: Any = getattr(rows, "env", rows)  # what shows a part of the game draws nothing
        for _ in islice(play(rows, agent.act_rows), count):
            yield drawn.draw_row(0)


def _game(loaded: LoadedRun, against: str | None, greedy: bool) -> Environment:
    """Return the run's game, of which the others play their seats if it has several players.

    Policies that have seats of their own play them, the first policy always the first seat.
    """
    game, net = loaded.game, loaded.net
    opponent: Agent
    if against:
        spaces, device = (net.obs_space, net.action_space), str(loaded.device)
        opponent = make_opponent(against, *spaces, device=device)
    elif loaded.others:
        opponent = agent_of(loaded.nets, game, loaded.config, seed=0, greedy=greedy)
    else:
        return game()
    masked = MaskedEnvironment(game.table(), opponent, shuffle_seats=not loaded.others)
    return masked if game.shown is None else FeatureFilter(masked, game.shown)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("watch", __doc__)
    parser.add_argument("run", nargs="?", help="run folder (default: newest run in runs/)")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="env.<setting>=<value>",
        help="settings of the environment that replace those of the training",
    )
    parser.add_argument("--video", metavar="FILE", help="write a .gif or .mp4 instead")
    parser.add_argument(
        "--csv", metavar="FILE", help="write schedules as a table, if the environment has them"
    )
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--greedy", action="store_true", help="take the most likely choices")
    parser.add_argument("--seed", type=int, default=None, help="seed of the episodes")
    parser.add_argument(
        "--against", metavar="PLAYER", help="player of the other seats: random, a run or a script"
    )
    parser.add_argument("--fps", type=float, default=4.0, help="steps per second")
    parser.add_argument(
        "--steps",
        type=int,
        default=200,
        help="steps in videos of a world that never ends, such as mmo",
    )
    parser.add_argument("--no-captions", action="store_true", help="videos without text")
    options = vars(parser.parse_intermixed_args(arguments))
    if not 0 < options["fps"] <= _MOST_FPS:
        parser.error(f"--fps must be more than 0 and at most {_MOST_FPS}, not {options['fps']:g}")
    options["run"] = options["run"] or newest_run()
    options["changes"] = env_changes(options.pop("settings"))
    names = ("video", "no_captions", "steps")
    video, plain, steps = (options.pop(name) for name in names)
    if video is None:
        watch(**options)
    elif options.pop("csv") is not None:
        parser.error("--csv and --video cannot be combined: run the command for each")
    else:
        log(str(film(path=video, captions=not plain, steps=steps, **options)))


if __name__ == "__main__":
    run_main(main)
