"""Pictures and films of games."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from entity_env.drawing import Drawer, add_caption, caption_columns, chosen_lines
from entity_env.drawing.canvas import Picture
from entity_env.drawing.table_text import fold
from entity_env.errors import RecordingError, shorten
from entity_env.hints import ViewerHints
from entity_env.spaces import ObsSpace
from entity_env.storage.files import new_file_by_path, write_file
from ppo_trainer.evaluation.steps import Step

__all__ = ["check_picture", "draw_steps", "write_video"]

_MARGIN = 12
"""Pixels under a table."""
_MOST_CHOICES = 3
"""Maximum number of lines of choices in a caption."""


def draw_steps(
    steps: Sequence[Step],
    obs_space: ObsSpace,
    *,
    captions: bool = True,
    hints: ViewerHints | None = None,
) -> list[Picture]:
    """Return pictures of one size: those of the steps, or of their observations if they have none.

    Args:
        steps: The steps.
        obs_space: The observation space.
        captions: True to write the progress of the episode and the choices under each picture.
        hints: Hints for drawing the observations.
    """
    drawer = Drawer(obs_space, hints=hints)
    for step in steps:  # before drawing, so that all pictures show the same part of the plane
        drawer.include(step.frame)
    is_table = not drawer.has_places and all(step.picture is None for step in steps)
    pictures = _one_size(
        [
            drawer.draw(step.frame, step.chosen)
            if step.picture is None
            else check_picture(step.picture)
            for step in steps
        ]
    )
    if is_table:
        pictures = _without_empty_lines(pictures)
    return _captioned(pictures, steps, obs_space) if captions else pictures


def _without_empty_lines(pictures: list[Picture]) -> list[Picture]:
    """Cut off the white lines of pixels under the longest table."""
    used = np.any([(picture < 255).any(axis=(1, 2)) for picture in pictures], axis=0)
    height = int(np.flatnonzero(used).max(initial=0)) + _MARGIN
    return [picture[:height] for picture in pictures]


def _one_size(pictures: list[Picture]) -> list[Picture]:
    """Pad pictures of different sizes with white to the greatest width and height."""
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) <= 1 or any(picture.ndim != 3 for picture in pictures):
        return pictures
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    return [
        np.pad(p, ((0, height - len(p)), (0, width - p.shape[1]), (0, 0)), constant_values=255)
        for p in pictures
    ]


def _captioned(
    pictures: list[Picture], steps: Sequence[Step], obs_space: ObsSpace
) -> list[Picture]:
    """Return the pictures with captions on the step and the choices."""
    width = caption_columns(pictures[0].shape[1])
    texts = []
    for step in steps:
        lines = [f"episode {step.episode}, step {step.step}, reward {step.total:.5g}"]
        if step.who:
            lines += fold("", step.who.split(", "), width)
        lines += [step.end] if step.done else []
        choices = chosen_lines(step.chosen, step.frame, obs_space, width)
        left_out = ["..."] if len(choices) > _MOST_CHOICES else []
        texts.append([*lines, *choices[: _MOST_CHOICES - len(left_out)], *left_out])
    most = max(map(len, texts))
    return [add_caption(p, lines, most) for p, lines in zip(pictures, texts, strict=True)]


def write_video(path: Path, pictures: Sequence[Any], fps: float) -> Path:
    """Write pictures, (H, W, 3) uint8 of one size, as ``.gif`` or ``.mp4``; return the path."""
    frames = [check_picture(picture) for picture in pictures]
    if not frames or any(frame.shape != frames[0].shape for frame in frames):
        raise RecordingError(
            "these pictures cannot be written as a video",
            expected="at least one picture, all of one size",
            received=sorted({frame.shape for frame in frames}),
        )
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise RecordingError(
            "unknown kind of video", received=path.suffix or str(path), options=(".gif", ".mp4")
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".gif":
            write_file(path, _gif(frames, fps))
        else:
            with new_file_by_path(path) as new:
                _write_mp4(new, frames, fps)
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be written: {error}") from error
    return path


def _gif(frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> bytes:
    images, file = [Image.fromarray(frame) for frame in frames], BytesIO()
    images[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=round(1000 / fps),
        loop=0,
    )
    return file.getvalue()


def _write_mp4(path: Path, frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> None:
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  (the encoder; imageio finds it by itself)
    except ImportError as error:
        raise RecordingError(
            "writing MP4 needs an encoder that is not installed",
            hint="pip install 'ragged-rl[video]', or write a .gif",
        ) from error
    # The codec needs even sizes: the last row or column is repeated if the size is odd.
    height, width = frames[0].shape[:2]
    pad = ((0, height % 2), (0, width % 2), (0, 0))
    imageio.mimwrite(
        path, [np.pad(frame, pad, mode="edge") for frame in frames], fps=fps, macro_block_size=1
    )


def check_picture(picture: Any) -> npt.NDArray[np.uint8]:
    """Return a picture as an array; raise RecordingError if it is not one."""
    frame = np.asarray(picture)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or frame.size == 0:
        raise RecordingError(
            "render() returned something that is not a picture",
            expected="shape (H, W, 3), dtype uint8",
            received=f"shape {frame.shape}, dtype {frame.dtype}: {shorten(picture, 60)}",
        )
    return frame
