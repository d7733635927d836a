"""Sources of replays for the viewer, which are played again and stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from entity_env.agent import Decision
from entity_env.environment import hints_of, y_axis_of
from entity_env.kinds.table import answer_forms
from entity_env.recording import Moment, RecordedCommand, RecordedStep, Replay
from entity_env.recording.outline import Outline
from entity_env.recording.replays import actions_of
from entity_env.registry import alone, resolve, seated
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.table_rows import TableRows
from entity_env.viewer.live import LiveSource
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.source import Source
from entity_env.workers.obs_format import ObsFormat

__all__ = ["PlayedSteps", "ReplayedSource", "open_replay"]

_TOGETHER = 64
"""Number of steps in an outline."""


def open_replay(path: str, *, trust: bool = False) -> Source:
    """Return the games of a replay.

    Args:
        path: Path of the file.
        trust: Consent to import an environment that is not registered.

    Raises:
        EntityEnvError: The file cannot be read, or the game differs from the recorded one.
    """
    replay = Replay.read(path)
    rows, title = replay.make_rows(trust=trust), Path(path).name
    if isinstance(rows, TableRows):
        return ReplayedSource(replay, rows, title)
    factory: Any = resolve(replay.env)
    make: Any = seated(factory)
    game: Any = (make or alone(factory))(**replay.settings)
    seats = [] if make is None else [str(seat) for seat in game.seats()]
    return RecordedSource(
        PlayedSteps(replay, rows),
        title,
        "replay",
        y_axis=y_axis_of(game),
        hints=hints_of(game),
        seats=seats,
    )


class ReplayedSource(LiveSource):
    """Games that were played at the terminal, and are played again when the source is opened.

    Args:
        replay: The replay.
        table: The game.
        title: Title of the page.
    """

    is_live = False

    def __init__(self, replay: Replay, table: TableRows, title: str) -> None:
        self._left = iter([*(commands for commands, _ in replay.steps), ()])
        self._moments = replay.play_in(table)
        super().__init__(table, title, [], who="those who played")
        was_over = table.is_over
        for _ in self._moments:
            if was_over:
                self._begin()
            else:
                self._note()
            was_over = table.is_over

    def about(self) -> dict[str, Any]:
        """Return the game, its spaces and its seats."""
        return {**super().about(), "kind": "replay"}

    def restart(self) -> dict[str, Any]:
        """Begin the first game."""
        next(self._moments)
        self._begin()
        return self.episode(-1)

    def _decide(self) -> dict[int, Decision]:
        """Return the recorded decisions."""
        return {own.row: Decision(_arrays(own, self._forms)) for own in next(self._left)}


class PlayedSteps:
    """The steps of a replay, stored while they are played.

    Args:
        replay: The replay.
        rows: Its rows.
    """

    def __init__(self, replay: Replay, rows: VecEnv) -> None:
        self.obs_space, self.action_space = rows.obs_space(), rows.action_space()
        self._form = ObsFormat(self.obs_space, self.action_space)
        self._forms = answer_forms(self.action_space)
        self._replay, self._rows = replay, rows
        self._kept: list[bytes] = []  # the packed observation before each step

    def step(self, number: int) -> RecordedStep:
        """Return a step that has been played already."""
        obs, next_obs = (
            self._form.join([(zlib.decompress(self._kept[place]), 0)])
            for place in (number, number + 1)
        )
        commands = self._replay.steps[number][0]
        actions = actions_of(commands, obs, self._forms, number)
        return RecordedStep(obs, actions, None, None, next_obs)

    def outlines(self) -> Iterator[Outline]:
        """Play, and yield the outcomes of the steps."""
        with self._rows as rows:
            moments: list[Moment] = []
            for moment in self._replay.play_in(rows):
                self._kept.append(zlib.compress(self._form.pack(moment.obs), 1))
                if moment.step >= 0:
                    moments.append(moment)
                if len(moments) == _TOGETHER:
                    yield _outline(moments)
                    moments = []
            if moments:
                yield _outline(moments)


def _outline(moments: list[Moment]) -> Outline:
    """Return the outcomes of the steps before some moments."""
    results = [moment.obs for moment in moments]
    first = moments[0].step
    asked = np.zeros((len(moments), len(results[0])), np.bool_)
    for line, moment in zip(asked, moments, strict=True):
        line[[command.row for command in moment.commands]] = True
    return Outline(
        first=first,
        continues=first > 0,
        after_reset=first == 0,
        reward=np.stack([obs.reward for obs in results]),
        done=np.stack([obs.done for obs in results]),
        truncated=np.stack([obs.truncated for obs in results]),
        asked=asked,
        metrics={step: obs.metrics for step, obs in enumerate(results) if obs.done.any()},
    )


def _arrays(command: RecordedCommand, forms: Any) -> dict[str, Any]:
    """Return the choices of a command in the format of ``Decision``."""
    chosen = {}
    for name, form in forms.items():
        values = np.array(command.actions.get(name, []), form.dtype).reshape(-1, form.width)
        chosen[name] = values if form.is_real or form.width != 1 else values[:, 0]
    return chosen
