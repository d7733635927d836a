"""Watch a run play: ``python -m ppo_trainer.watch <run> [--video game.gif]``.

Shows every step in the terminal, or writes the episodes as a GIF or MP4. An environment without
pictures of its own is drawn by ``entity_env.drawing``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from entity_env import Environment
from entity_env.batch import batch_frames
from entity_env.command_line import version_text
from entity_env.drawing import Drawer, entity_table
from entity_env.environment import call_environment, seed_environment
from entity_env.errors import SettingError
from entity_env.frame import Frame, typed_actions
from entity_env.registry import Factory
from entity_env.validate import FrameReader
from entity_env.vec_env import check_count
from ppo_trainer.cli import add_trust, run_main
from ppo_trainer.evaluation import network_policy
from ppo_trainer.loading import LoadedRun, load_policy
from ppo_trainer.screen import Screen, say
from ppo_trainer.seeding import derived_seed
from ppo_trainer.video import write_video

__all__ = ["Step", "film", "main", "play", "watch"]

Picture = npt.NDArray[np.uint8]
T = TypeVar("T")

_MOST_FPS = 1000


@dataclass(frozen=True)
class Step:
    """One moment of an episode.

    Args:
        episode: Counts from 1.
        step: Steps taken in the episode; 0 is its start.
        reward: Reward of the step that led here.
        total: Reward of the episode so far.
        done: The episode is over.
        text: The state in lines of text.
        frame: The observation.
        picture: The environment's own picture of the state, (H, W, 3) uint8, where it was asked for
            and there is one.
    """

    episode: int
    step: int
    reward: float
    total: float
    done: bool
    text: str
    frame: Frame
    picture: Picture | None


def watch(
    run: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    trust: bool = False,
) -> None:
    """Play episodes in the terminal; ``env`` only where its class cannot be imported.

    ``trust`` is the consent to import the environment that somebody else's run names.
    """
    loaded = load_policy(run, env, trust=trust)
    live = Screen(sys.stdout).isatty()
    for step in play(loaded, episodes=episodes, greedy=greedy, seed=seed):
        if live and step.step:
            time.sleep(1 / fps)
        end = "   cut off by a limit" if step.frame.truncated else "   the end" if step.done else ""
        say(f"\nepisode {step.episode}, step {step.step}, reward {step.total:g}{end}")
        say(step.text, is_read=True)


def film(
    run: str | Path,
    path: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 3,
    greedy: bool = False,
    seed: int | None = None,
    fps: float = 4.0,
    trust: bool = False,
) -> Path:
    """Write episodes as a video; the ending of ``path``, .gif or .mp4, decides its kind."""
    loaded = load_policy(run, env, trust=trust)
    steps = list(play(loaded, episodes=episodes, greedy=greedy, seed=seed, draw=True))
    drawer = Drawer(loaded.net.obs_space)
    for step in steps:  # all of them first: the pictures then show one part of the plane
        drawer.include_frame(step.frame)
    pictures = []
    for step in steps:
        picture = drawer.draw_frame(step.frame) if step.picture is None else step.picture
        # The end of an episode stays on the screen for a moment.
        pictures += [picture] * (max(1, round(fps)) if step.done else 1)
    return write_video(Path(path), _one_size(pictures), fps)


def _one_size(pictures: list[Picture]) -> list[Picture]:
    """Boards that differ in size, on black ground of the greatest width and height."""
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) <= 1 or any(picture.ndim != 3 for picture in pictures):
        return pictures
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    return [np.pad(p, ((0, height - len(p)), (0, width - p.shape[1]), (0, 0))) for p in pictures]


def play(
    loaded: LoadedRun,
    *,
    episodes: int,
    greedy: bool,
    seed: int | None = None,
    draw: bool = False,
) -> Iterator[Step]:
    """Every moment of some fresh episodes, the last one of each included."""
    if seed is None:
        seed = derived_seed(loaded.config.seed, "watch")
    generator = torch.Generator(loaded.device).manual_seed(seed)
    policy = network_policy(loaded.net, loaded.config, generator, greedy=greedy)
    env = loaded.game()
    seed_environment(env, seed)
    reader = FrameReader(env.obs_space(), env.action_space())
    count = check_count("number of episodes", episodes, error=SettingError)
    try:
        for episode in range(1, count + 1):
            frame, total, step = reader.read(call_environment("reset", env.reset)), 0.0, 0
            yield _step(env, reader, frame, episode, step, total, draw)
            while not frame.done:
                actions = policy(batch_frames([frame], reader.obs_space, reader.action_space))
                chosen = {name: buffer.as_array()[:, 0] for name, buffer in actions.items()}
                typed = typed_actions(frame, chosen, reader.action_space)
                frame = reader.read(call_environment("act", env.act, typed))
                total, step = total + frame.reward, step + 1
                yield _step(env, reader, frame, episode, step, total, draw)
    finally:
        env.close()


def _step(
    env: Environment,
    reader: FrameReader,
    frame: Frame,
    episode: int,
    step: int,
    total: float,
    draw: bool,
) -> Step:
    picture = call_environment("render", _own, env.render) if draw else None
    text = call_environment("render_text", _own, env.render_text)
    if text is None:
        text = entity_table(frame, reader.obs_space)
    return Step(episode, step, frame.reward, total, frame.done, text, frame, picture)


def _own(draw: Callable[[], T]) -> T | None:
    """How the environment draws itself, if it does."""
    try:
        return draw()
    except NotImplementedError:
        return None


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ppo_trainer.watch", description=__doc__)
    parser.add_argument("--version", action="version", version=version_text())
    parser.add_argument("run", help="run folder")
    parser.add_argument("--video", metavar="FILE", help="write a .gif or .mp4 instead")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--greedy", action="store_true", help="always the likeliest choice")
    parser.add_argument("--seed", type=int, default=None, help="other episodes")
    parser.add_argument("--fps", type=float, default=4.0, help="steps per second")
    add_trust(parser)
    options = vars(parser.parse_args(arguments))
    if not 0 < options["fps"] <= _MOST_FPS:
        parser.error(f"--fps must be more than 0 and at most {_MOST_FPS}, not {options['fps']:g}")
    video = options.pop("video")
    if video is None:
        watch(**options)
    else:
        say(str(film(path=video, **options)))


if __name__ == "__main__":
    run_main(main)
