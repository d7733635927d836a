"""The loop of a worker of ``AsyncEnv``, which reports each game after its step."""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.rows.list_env import ListEnv
from entity_env.seats.seat_rows import SeatRows
from entity_env.spaces import ActionName
from entity_env.workers.messages import read_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.shared_block import SharedBlock

__all__ = ["REPORT", "pack_games", "play_games"]

REPORT = struct.Struct("qqqqq")
"""A report: the number of the reset (to drop reports from before it), the game, the number of its
rows that must act, and the place of the observation. An environment is a game with one seat."""

Actions = dict[ActionName, ActionBuffer]


def pack_games(games: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return the message with which games continue.

    Args:
        games: The number of each game, of its rows that act, which may be 0, and their actions: a
            part of ``split_actions``.
    """
    numbers = [number for game, frames, part in games for number in (game, frames, len(part))]
    head = struct.pack(f"{1 + len(numbers)}q", len(games), *numbers)
    return head + b"".join(part for *_, part in games)


def play_games(
    connection: Connection[bytes, bytes],
    block: SharedBlock,
    reports: int,
    envs: Mapping[int, ListEnv | SeatRows],
) -> None:
    """Step one game after the other, in the order in which their actions arrive.

    Args:
        connection: Connection for actions.
        block: Shared memory for observations.
        reports: Descriptor of the pipe for reports.
        envs: Each game by its number: a ``ListEnv`` of one row, or a ``SeatRows`` of one game.
    """
    games = _Games(envs)
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
        place = block.write(game, obs_format.pack(obs))
        # Read while the report cannot be sent, because the parent may wait for this process.
        while connection.fileno() in dict(events.poll()):
            games.take(connection.recv_bytes())
        os.write(reports, REPORT.pack(number, game, obs.num_frames, *place))


class _Games:
    """The games to step, with their actions, or None for a reset."""

    def __init__(self, envs: Mapping[int, ListEnv | SeatRows]) -> None:
        self.waiting: deque[tuple[int, Actions | None]] = deque()
        self.round = 0
        self._envs = envs
        self._forms = answer_forms(next(iter(envs.values())).action_space())
        self._seeds: dict[int, list[int | None]] = {game: [] for game in envs}

    def take(self, message: bytes) -> None:
        """Read a message of the parent: actions of some games, or a reset of all."""
        kind, content = message[:1], message[1:]
        if kind == b"a":
            count = int.from_bytes(content[:8], sys.byteorder)
            start = 8 + 24 * count
            for game, frames, size in struct.iter_unpack("qqq", content[8:start]):
                actions = read_actions(content[start : start + size], self._forms, frames)
                self.waiting.append((game, actions))
                start += size
        else:
            self.round, seed = pickle.loads(content)
            self.waiting = deque((game, None) for game in self._envs)
            for seeds in self._seeds.values():
                seeds.append(seed)

    def reset(self, game: int) -> VecObs:
        """Reset a game as often as requested, so that its episodes do not depend on timing."""
        *earlier, last = self._seeds[game]
        self._seeds[game] = []
        for seed in earlier:
            self._envs[game].reset(seed)
        return self._envs[game].reset(last)
