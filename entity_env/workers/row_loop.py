"""The loop of a worker of ``AsyncEnv``, which reports each game after its step."""

from __future__ import annotations

import os
import pickle
import select
import struct
from collections import deque
from collections.abc import Mapping
from multiprocessing.connection import Connection

import numpy as np

from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.rows.list_env import ListEnv
from entity_env.seats.seat_rows import SeatRows
from entity_env.spaces import ActionName
from entity_env.workers.action_format import read_dealt_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.shared_block import SharedBlock

__all__ = ["GO_ON", "REPORT", "play_rows"]

REPORT = struct.Struct("qqqqq")
"""A report: the number of the reset (to drop reports from before it), the game, the number of its
rows that must act, and the place of the observation. An environment is a game with one seat."""
GO_ON = struct.Struct("q")
"""The message to continue a game in which no row must act: the number of the game."""

Actions = dict[ActionName, ActionBuffer]


def play_rows(
    connection: Connection[bytes, bytes],
    block: SharedBlock,
    reports: int,
    envs: Mapping[int, ListEnv | SeatRows],
    seats: int,
) -> None:
    """Step one game after the other, in the order in which their actions arrive.

    Args:
        connection: Connection for actions.
        block: Shared memory for observations.
        reports: Descriptor of the pipe for reports.
        envs: Each game by its number: a ``ListEnv`` of one row, or a ``SeatRows`` of one game.
        seats: Number of rows of a game.
    """
    games = _Games(envs, seats)
    first = next(iter(envs.values()))
    obs_format = ObsFormat(first.obs_space(), first.action_space())
    events = select.poll()
    events.register(connection.fileno(), select.POLLIN)
    events.register(reports, select.POLLOUT)
    while True:
        while not games.waiting:
            games.take(connection.recv_bytes())
        number = games.round
        game, actions = games.waiting.popleft()
        # The parent has made the checks of ``act`` for the same observation.
        obs = games.reset(game) if actions is None else envs[game]._act(actions)
        games.asked[game] = obs.num_frames
        place = block.write(game, obs_format.pack(obs))
        # Read while the report cannot be sent, because the parent may wait for this process.
        while connection.fileno() in dict(events.poll()):
            games.take(connection.recv_bytes())
        os.write(reports, REPORT.pack(number, game, obs.num_frames, *place))


class _Games:
    """The games to step, with their actions, or None for a reset."""

    def __init__(self, envs: Mapping[int, ListEnv | SeatRows], seats: int) -> None:
        self.waiting: deque[tuple[int, Actions | None]] = deque()
        self.round = 0
        self.asked = dict.fromkeys(envs, 1)  # the number of its rows that must act
        self._envs, self._seats = envs, seats
        self._forms = answer_forms(next(iter(envs.values())).action_space())
        self._seeds: dict[int, list[int | None]] = {game: [] for game in envs}
        self._answers: dict[int, dict[int, Actions]] = {game: {} for game in envs}

    def take(self, message: bytes) -> None:
        """Read a message of the parent."""
        kind, content = message[:1], message[1:]
        if kind == b"a":
            for row, actions in read_dealt_actions(content, self._forms):
                self._answer(row, actions)
        elif kind == b"g":
            self.waiting.append((GO_ON.unpack(content)[0], self._joined([])))
        else:
            self.round, seed = pickle.loads(content)
            self.waiting = deque((game, None) for game in self._envs)
            for seeds in self._seeds.values():
                seeds.append(seed)
            for answers in self._answers.values():
                answers.clear()

    def reset(self, game: int) -> VecObs:
        """Reset a game as often as requested, so that its episodes do not depend on timing."""
        *earlier, last = self._seeds[game]
        self._seeds[game] = []
        for seed in earlier:
            self._envs[game].reset(seed)
        return self._envs[game].reset(last)

    def _answer(self, row: int, actions: Actions) -> None:
        """Store the actions of a row; the game is stepped when all rows that must act have some."""
        if self._seats == 1:
            self.waiting.append((row, actions))
            return
        game = row // self._seats
        answers = self._answers[game]
        answers[row] = actions
        if len(answers) == self.asked[game]:
            self.waiting.append((game, self._joined([answers[row] for row in sorted(answers)])))
            answers.clear()

    def _joined(self, frames: list[Actions]) -> Actions:
        """Return the actions of some frames, in order."""
        joined: Actions = {}
        for name, form in self._forms.items():
            parts = [np.zeros((0, form.width), form.dtype)]
            parts += [frame[name].as_array().reshape(-1, form.width) for frame in frames]
            lengths = np.array([len(part) for part in parts[1:]], np.int64)
            joined[name] = form.buffer(np.concatenate(parts), lengths)
        return joined
