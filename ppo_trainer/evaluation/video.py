"""Pictures as a GIF, or as an MP4 with the extra ``video``."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from entity_env.errors import RecordingError, shorten
from entity_env.storage.files import new_file_by_path, write_file

__all__ = ["check_picture", "write_video"]


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
