"""Pictures of the steps of episodes, with captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from entity_env.drawing import Drawer, add_caption, caption_columns, chosen_lines
from entity_env.drawing.canvas import Picture
from entity_env.drawing.table_text import fold
from entity_env.hints import ViewerHints
from entity_env.spaces import ObsSpace
from ppo_trainer.evaluation.steps import Step
from ppo_trainer.evaluation.video import check_picture

__all__ = ["draw_steps"]

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
