"""Watch a run play: ``python -m ppo_trainer.watch <run> [--video game.gif]``.

Shows every step and what is chosen in it, in the terminal or as a GIF or MP4. An environment
without pictures of its own is drawn by ``entity_env.drawing``.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from csv import DictWriter
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from entity_env import Environment, MaskedEnvironment
from entity_env.drawing import Caption, Drawer, check_labels, chosen_lines, label_lines
from entity_env.drawing.canvas import Picture
from entity_env.environment import YAxis, y_axis_of
from entity_env.registry import Factory
from entity_env.spaces import ObsSpace
from entity_env.storage.files import write_file
from entity_env.wrappers.feature_filter import FeatureFilter
from entity_env.wrappers.wrapper import Wrapper
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.screen import Screen, say
from ppo_trainer.machine.torch_state import usual_torch
from ppo_trainer.play.playing import Step, play
from ppo_trainer.play.video import check_picture, write_video
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.runs.folder import newest_run
from ppo_trainer.runs.load_run import LoadedRun, load_policy
from ppo_trainer.settings.changes import env_changes

__all__ = ["film", "main", "watch"]

_MOST_FPS = 1000
_MOST_LINES = 4
"""Lines of a caption, the first one included."""


@usual_torch()
def watch(
    run: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    label: str | Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    trust: bool = False,
    against: str | None = None,
    csv: str | Path | None = None,
) -> None:
    """Play episodes in the terminal.

    Args:
        run: The run folder.
        env: The environment's class, where it cannot be imported.
        episodes: The number of episodes.
        greedy: Take the likeliest choices instead of drawing.
        seed: The seed of the episodes; None derives one from that of the run.
        fps: Steps per second, in a terminal.
        label: Features whose values are written under each state.
        changes: Values by the dotted names of settings, such as ``env.width``, in the place of
            those that the run was trained with.
        trust: The consent to import the environment that somebody else's run names.
        against: The opponent at the other seats of a game of several players: ``random``, a run
            folder, or the dotted path of a script; None: players at random.
        csv: A file for the schedules of all episodes, of an environment that has ``schedule()``: a
            list of dicts from columns to values.
    """
    loaded = load_policy(run, env, trust=trust, changes=changes)
    labels = check_labels(loaded.net.obs_space, label)
    live = Screen(sys.stdout).isatty()
    game = _against(loaded, against) if against else loaded.game()
    schedule: Any = getattr(game.unwrapped if isinstance(game, Wrapper) else game, "schedule", None)
    if csv is not None and schedule is None:
        raise ConfigError(f"{loaded.game.name} has no schedule to be written as CSV")
    lines: list[dict[str, Any]] = []
    for step in play(loaded, episodes=episodes, greedy=greedy, seed=seed, env=game):
        if live and step.step:
            time.sleep(1 / fps)
        end = f"   {step.end}" if step.done else ""
        say(f"\nepisode {step.episode}, step {step.step}, reward {step.total:g}{end}")
        if step.who and not step.step:
            say(step.who)
        labelled = label_lines(step.frame, loaded.net.obs_space, labels)
        rest = "".join(f"\n  {line}" for line in [*labelled, *step.choices])
        say(step.text + rest, is_read=True)
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
        raise ConfigError(f"{str(path)!r} cannot be written: {error}") from error
    say(str(path))


@usual_torch()
def film(
    run: str | Path,
    path: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    label: str | Sequence[str] = (),
    y_axis: YAxis | None = None,
    captions: bool = True,
    changes: Mapping[str, Any] | None = None,
    trust: bool = False,
    against: str | None = None,
) -> Path:
    """Write episodes as a video.

    Args:
        run: See ``watch``.
        path: The file; its ending, .gif or .mp4, decides the kind of video.
        env: See ``watch``.
        episodes: See ``watch``.
        greedy: See ``watch``.
        seed: See ``watch``.
        fps: Steps per second.
        label: Features whose values stand beside each entity. Where entities have places, the
            pictures are then those of ``entity_env.drawing``, even if the environment has its own.
        y_axis: The direction of greater values of y; None takes that of the environment.
        captions: Write under each picture how far the episode is and what is chosen.
        changes: See ``watch``.
        trust: See ``watch``.
        against: See ``watch``.
    """
    loaded = load_policy(run, env, trust=trust, changes=changes)
    obs_space = loaded.net.obs_space
    labels = check_labels(obs_space, label)
    game = _against(loaded, against) if against else loaded.game()
    with contextlib.closing(game) as played:
        drawer = Drawer(obs_space, y_axis=y_axis or y_axis_of(played), labels=labels)
        moments = play(loaded, episodes=episodes, greedy=greedy, seed=seed, draw=True, env=played)
        steps = list(moments)
    for step in steps:  # before drawing: all pictures show the same part of the plane
        drawer.include_frame(step.frame)
    is_labelled = bool(labels) and drawer.has_places
    pictures = _one_size(
        [
            drawer.draw_frame(step.frame, step.chosen)
            if step.picture is None or is_labelled
            else check_picture(step.picture)
            for step in steps
        ]
    )
    if captions:
        pictures = _captioned(pictures, steps, obs_space)
    # The end of an episode stays on the screen for a moment.
    times = [max(1, round(fps)) if step.done else 1 for step in steps]
    every = [picture for picture, n in zip(pictures, times, strict=True) for _ in range(n)]
    return write_video(Path(path), every, fps)


def _against(loaded: LoadedRun, against: str) -> Environment:
    """Return one seat of the run's game, whose other seats an opponent plays."""
    game, net = loaded.game, loaded.net
    device = str(loaded.device)
    opponent = make_opponent(against, net.obs_space, net.action_space, device=device)
    masked = MaskedEnvironment(game.table(), opponent)
    return masked if game.shown is None else FeatureFilter(masked, game.shown)


def _one_size(pictures: list[Picture]) -> list[Picture]:
    """Pad pictures of different sizes with black to the greatest width and height."""
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) <= 1 or any(picture.ndim != 3 for picture in pictures):
        return pictures
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    return [np.pad(p, ((0, height - len(p)), (0, width - p.shape[1]), (0, 0))) for p in pictures]


def _captioned(
    pictures: list[Picture], steps: Sequence[Step], obs_space: ObsSpace
) -> list[Picture]:
    """Return the pictures with lines that tell the step and the choices."""
    caption = Caption(*pictures[0].shape[:2])
    texts = []
    for step in steps:
        lines = [f"episode {step.episode}, step {step.step}, reward {step.total:.5g}"]
        lines += [step.who] if step.who else []
        lines += [step.end] if step.done else []
        lines += chosen_lines(
            step.chosen,
            step.frame,
            obs_space,
            width=caption.room,
            measure=caption.measure,
            most=_MOST_LINES - 1,
        )
        texts.append(lines)
    most = max(map(len, texts))
    return [caption.add(p, lines, most) for p, lines in zip(pictures, texts, strict=True)]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("watch", __doc__)
    parser.add_argument("run", nargs="?", help="run folder; else the newest run in runs/")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="env.<setting>=<value>",
        help="play with other settings of the environment than it was trained with",
    )
    parser.add_argument("--video", metavar="FILE", help="write a .gif or .mp4 instead")
    parser.add_argument(
        "--csv", metavar="FILE", help="write schedules as a table, of environments that have them"
    )
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--greedy", action="store_true", help="always the likeliest choice")
    parser.add_argument("--seed", type=int, default=None, help="other episodes")
    parser.add_argument(
        "--against", metavar="PLAYER", help="who plays the other seats: random, a run, a script"
    )
    parser.add_argument("--fps", type=float, default=4.0, help="steps per second")
    parser.add_argument(
        "--label",
        metavar="FEATURE",
        action="append",
        default=[],
        help="write a feature beside each entity; may be given several times",
    )
    parser.add_argument(
        "--y-axis", choices=("up", "down"), help="of videos; else as the environment says"
    )
    parser.add_argument("--no-captions", action="store_true", help="videos without any text")
    options = vars(parser.parse_intermixed_args(arguments))
    if not 0 < options["fps"] <= _MOST_FPS:
        parser.error(f"--fps must be more than 0 and at most {_MOST_FPS}, not {options['fps']:g}")
    options["run"] = options["run"] or newest_run()
    options["changes"] = env_changes(options.pop("settings"))
    video, y_axis, plain = (options.pop(name) for name in ("video", "y_axis", "no_captions"))
    if video is None:
        watch(**options)
    elif options.pop("csv") is not None:
        parser.error("--csv and --video do not go together: write one after the other")
    else:
        say(str(film(path=video, y_axis=y_axis, captions=not plain, **options)))


if __name__ == "__main__":
    run_main(main)
