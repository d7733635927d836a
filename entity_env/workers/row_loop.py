"""What a worker of ``AsyncEnv`` does: it plays each row for itself and reports it at once."""

from __future__ import annotations

import pickle
import select
import struct
from collections import deque
from collections.abc import Mapping

from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.kinds.table import answer_forms
from entity_env.rows.list_env import ListEnv
from entity_env.spaces import ActionName
from entity_env.workers.action_format import read_dealt_actions
from entity_env.workers.channel import Channel
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.shared_block import SharedBlock

__all__ = ["ROUND", "play_rows"]

ROUND = struct.Struct("qq")
"""How a report begins: the round, so that those from before a reset can be told, and the row."""


def play_rows(channel: Channel, block: SharedBlock, envs: Mapping[int, ListEnv]) -> None:
    """Step one row after the other, in the order in which their actions arrive.

    Args:
        channel: Where actions come from and reports go to.
        block: Where observations go to.
        envs: Each row, as a ``ListEnv`` of one.
    """
    rows = _Rows(channel, envs)
    first = next(iter(envs.values()))
    obs_format = ObsFormat(first.obs_space(), first.action_space())
    events = select.poll()
    events.register(channel.fileno(), select.POLLIN | select.POLLOUT)
    while True:
        while not rows.waiting:
            rows.take()
        number = rows.round
        row, actions = rows.waiting.popleft()
        # Past the checks of ``act``: the parent has made them, for the same observation.
        obs = rows.reset(row) if actions is None else envs[row]._act(actions)
        place = block.write(row, obs_format.pack(obs))
        # Never wait for the parent to read while the parent waits for this process to read.
        while events.poll()[0][1] != select.POLLOUT:
            rows.take()
        channel.send(b"o", ROUND.pack(number, row) + place)


class _Rows:
    """The rows that have something to do, and what: their actions, or None for a reset."""

    def __init__(self, channel: Channel, envs: Mapping[int, ListEnv]) -> None:
        self.waiting: deque[tuple[int, dict[ActionName, ActionBuffer] | None]] = deque()
        self.round = 0
        self._channel = channel
        self._envs = envs
        self._forms = answer_forms(next(iter(envs.values())).action_space())
        self._seeds: dict[int, list[int | None]] = {row: [] for row in envs}

    def take(self) -> None:
        """Read what the parent has sent; waits for it."""
        for kind, content in self._channel.take():
            if kind == b"a":
                self.waiting += read_dealt_actions(content, self._forms)
            else:
                self.round, seed = pickle.loads(content)
                self.waiting = deque((row, None) for row in self._envs)
                for seeds in self._seeds.values():
                    seeds.append(seed)

    def reset(self, row: int) -> VecObs:
        """Begin as often as was asked for: what comes next must not depend on who was quicker."""
        *earlier, last = self._seeds[row]
        self._seeds[row] = []
        for seed in earlier:
            self._envs[row].reset(seed)
        return self._envs[row].reset(last)
