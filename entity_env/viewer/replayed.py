"""Sources of replays for the viewer, which are played again and stored."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.environment import hints_of
from entity_env.recording.records import per_frame
from entity_env.recording.replays import Moment, Replay, RowChoices
from entity_env.registry import alone, resolve, seated
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName
from entity_env.viewer.frames import frame_of
from entity_env.viewer.live import TableSource
from entity_env.viewer.source import Episode, Line, Source
from entity_env.workers.obs_format import ObsFormat

__all__ = ["open_replay"]

_WHO = "those who played"


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
        return _ReplayedTable(replay, rows, title)
    return _ReplayedRows(replay, rows, title)


class _ReplayedTable(TableSource):
    """Games that were played at the terminal."""

    def __init__(self, replay: Replay, table: TableRows, title: str) -> None:
        self._replay = replay
        about = {"kind": "replay", "title": title}
        super().__init__(table, about, feed=replay.play(table))

    def _add(self, item: Moment) -> None:
        if not self._episodes or self._episodes[-1].done:
            self._begin(_WHO)
        choices = _choices(self._replay, item)
        self._note({seat: _decision(given, self._forms) for seat, given in choices.items()})


class _ReplayedRows(Source):
    """Games of rows, each with its seats; a game is over when all of them are."""

    def __init__(self, replay: Replay, rows: VecEnv, title: str) -> None:
        factory: Any = resolve(replay.env)
        make: Any = seated(factory)
        game: Any = (make or alone(factory))(**replay.settings)
        seats = [] if make is None else [str(seat) for seat in game.seats()]
        self._replay, self._rows, self._seats = replay, rows, max(len(seats), 1)
        self._format = ObsFormat(rows.obs_space(), rows.action_space())
        self._moments: list[tuple[bytes, Mapping[int, RowChoices]]] = []
        self._games: dict[int, Episode] = {}  # that are not over, by their numbers
        self._waiting = np.zeros(len(rows))  # the rewards since the last frame of each row
        super().__init__(
            {"kind": "replay", "title": title, "seats": seats},
            rows.obs_space(),
            rows.action_space(),
            hints_of(game),
            replay.play(rows),
        )

    def close(self) -> None:
        """Close the rows."""
        self._rows.close()

    def _add(self, item: Moment) -> None:
        obs = item.obs
        for game in self._games.values():
            game.length += 1
        self._waiting += obs.reward
        for row in np.flatnonzero(obs.done).tolist():
            self._end(row, {name: float(column[row]) for name, column in obs.metrics.items()})
        packed = zlib.compress(self._format.pack(per_frame(obs)), 1)
        self._moments.append((packed, _choices(self._replay, item)))
        for place, row in enumerate(obs.rows.tolist()):
            number, seat = divmod(row, self._seats)
            if number not in self._games:
                self._games[number] = Episode([Line() for _ in range(self._seats)], _WHO, length=1)
                self._episodes.append(self._games[number])
            game = self._games[number]
            line, reward = game.lines[seat], float(self._waiting[row])
            line.add(game.length - 1, (len(self._moments) - 1, place, row), reward)
            self._waiting[row] = 0.0

    def _end(self, row: int, metrics: Mapping[str, float]) -> None:
        """End the episode of a row, and its game if it was the last one."""
        number, seat = divmod(row, self._seats)
        game, reward = self._games.get(number), float(self._waiting[row])
        self._waiting[row] = 0.0
        if game is None or not game.lines[seat].steps:
            return
        game.lines[seat].end(game.length - 1, reward)
        if seat == 0:
            game.metrics = {name: value for name, value in metrics.items() if value == value}
        if not any(line.acts[-1] for line in game.lines if line.acts):
            game.done = True
            del self._games[number]

    def _load(self, stored: Any) -> tuple[Frame, Decision | None]:
        moment, place, row = stored
        packed, choices = self._moments[moment]
        frame = frame_of(self._format.join([(zlib.decompress(packed), 0)]), place)
        return frame, _decision(choices[row], self._forms) if row in choices else None


def _choices(replay: Replay, moment: Moment) -> Mapping[int, RowChoices]:
    """Return the choices in the frames of a moment, which are those of the next step."""
    following = moment.step + 1
    return replay.steps[following].choices if following < len(replay.steps) else {}


def _decision(choices: RowChoices, forms: Mapping[ActionName, AnswerForm]) -> Decision:
    """Return the choices of a row as a decision."""
    return Decision({n: form.answers(np.array(choices.get(n, []))) for n, form in forms.items()})
