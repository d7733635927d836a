"""Sources of replays for the viewer, which are played again and stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entity_env.agent import Decision
from entity_env.environment import hints_of, y_axis_of
from entity_env.kinds.answers import AnswerForm
from entity_env.recording import RecordedBatch, Replay
from entity_env.recording.decision_log import DecisionLog
from entity_env.recording.records import Outcomes, select_frames
from entity_env.recording.replays import RowChoices
from entity_env.registry import alone, resolve, seated
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName
from entity_env.viewer.live import LiveSource
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.source import Source
from entity_env.workers.obs_format import ObsFormat

__all__ = ["PlayedFrames", "ReplayedSource", "open_replay"]

_TOGETHER = 64
"""Number of steps whose frames are stored together."""


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
        PlayedFrames(replay, rows),
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
        self._left = iter([*(step.choices for step in replay.steps), {}])
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
        choices = next(self._left)
        return {row: Decision(_arrays(own, self._forms)) for row, own in choices.items()}


class PlayedFrames:
    """The frames of a replay, stored while they are played.

    Args:
        replay: The replay.
        rows: Its rows.
    """

    def __init__(self, replay: Replay, rows: VecEnv) -> None:
        self.obs_space, self.action_space = rows.obs_space(), rows.action_space()
        self._format = ObsFormat(self.obs_space, self.action_space)
        self._replay, self._rows = replay, rows
        self._kept: list[tuple[bytes, RecordedBatch]] = []  # packed frames, and their choices

    def frames(self, number: int) -> RecordedBatch:
        """Return the frames of a part that has been played already."""
        packed, batch = self._kept[number]
        return replace(batch, obs=self._format.join([(zlib.decompress(packed), 0)]))

    def outcomes(self) -> Iterator[Outcomes]:
        """Play, and yield the outcomes of the decisions."""
        log = DecisionLog(self.obs_space, self.action_space)
        with self._rows as rows:
            for moment in self._replay.play_in(rows):
                if moment.step < 0:
                    log.begin(moment.obs, after_reset=self._replay.state is None)
                    continue
                choices = {n: own.as_array().flatten() for n, own in moment.actions.items()}
                log.add({"choices": choices}, moment.obs)
                if (moment.step + 1) % _TOGETHER == 0:
                    yield from self._keep(log, is_end=False)
        yield from self._keep(log, is_end=True)

    def _keep(self, log: DecisionLog, *, is_end: bool) -> Iterator[Outcomes]:
        taken = log.take(is_end=is_end)
        if taken is not None:
            batch, outcomes = taken
            packed = zlib.compress(self._format.pack(batch.obs), 1)
            nothing = select_frames(batch.obs, np.zeros(0, np.int64))
            self._kept.append((packed, replace(batch, obs=nothing)))
            yield outcomes


def _arrays(choices: RowChoices, forms: Mapping[ActionName, AnswerForm]) -> dict[str, Any]:
    """Return the choices of a row in the format of ``Decision``."""
    chosen = {}
    for name, form in forms.items():
        values = np.array(choices.get(name, []), form.dtype).reshape(-1, form.width)
        chosen[name] = values if form.is_real or form.width != 1 else values[:, 0]
    return chosen
