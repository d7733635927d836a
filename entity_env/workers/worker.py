"""The worker process of ``ParallelEnv`` and ``AsyncEnv``.

Its arguments are the numbers of two inherited file descriptors: the socket, and the shared memory
for observations. It is not a fork: it shares no locks or threads with its parent, and does not
import the parent's main module. It ends when the parent's end of the socket closes, even if the
parent was killed or an environment is running.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import socket
import sys
import threading
import time
from typing import Any

from entity_env import errors
from entity_env.errors import EntityEnvError
from entity_env.kinds.table import answer_forms
from entity_env.rows.list_env import ListEnv
from entity_env.seats.seat_rows import SeatRows
from entity_env.spaces import check_same_spaces
from entity_env.workers.action_format import read_actions
from entity_env.workers.channel import Channel
from entity_env.workers.interpreter import leave_signals_to_parent
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.pickles import loaded, pickled
from entity_env.workers.row_loop import play_rows
from entity_env.workers.row_share import share_of
from entity_env.workers.shared_block import SharedBlock

__all__ = ["main", "revive"]

SECONDS_TO_CLOSE = 5.0
"""The time for environments to close after the end of the parent, in seconds."""


def main() -> None:
    """Answer requests until the parent closes its end."""
    leave_signals_to_parent()  # the parent closes its end of the socket
    for descriptor in map(
        int, sys.argv[1:]
    ):  # so that programs started by an environment do not inherit it
        os.set_inheritable(descriptor, False)
    connected = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, args=(connected.fileno(),), daemon=True).start()
    channel = Channel(connected)
    block = SharedBlock(int(sys.argv[2]))
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),
        contextlib.closing(channel),  # do not wait for threads of an environment
        contextlib.ExitStack() as at_end,
    ):
        try:
            _serve(channel, block, at_end)
        except EntityEnvError as error:
            kind = type(error)
            fields = (kind.__module__, kind.__qualname__, error.fields())
            channel.send(b"e", pickle.dumps(fields))


def revive(module: str, name: str, fields: dict[str, Any]) -> EntityEnvError:
    """Return the error that a worker sent, in its own class if this process can import it."""
    try:
        kind = getattr(importlib.import_module(module), name)
        revived: EntityEnvError = kind.from_fields(fields)
    except Exception:  # a local class, or a constructor with other arguments
        return EntityEnvError.from_fields(fields)
    return revived


def _end_with_parent(descriptor: int) -> None:
    """Wait for the end of the parent, then end this process even if an environment is running."""
    hang_up = select.poll()
    hang_up.register(descriptor, 0)
    hang_up.poll()
    time.sleep(SECONDS_TO_CLOSE)
    os._exit(1)


def _serve(channel: Channel, block: SharedBlock, at_end: contextlib.ExitStack) -> None:
    """Make the environments that the first message asks for, and play them."""
    # These pickles can be trusted: they were written by the parent.
    start = pickle.loads(channel.receive()[1])
    parts = share_of(loaded("create_env", start["create_env"]), start)
    first, count = parts.first_row, parts.num_rows
    cuts = range(first, first + count, parts.seats) if start["apart"] else [first]
    envs: list[ListEnv | SeatRows] = []
    for row in cuts:
        env = parts.rows(row, parts.seats if start["apart"] else count, block.note)
        at_end.callback(env.close)
        envs.append(env)
    spaces = [{"obs_space": env.obs_space(), "action_space": env.action_space()} for env in envs]
    check_same_spaces(spaces, lambda i: f"{parts.place(cuts[i])}, step 0")
    answer = {
        **spaces[0],  # those of the first row, in whose order all rows are packed
        "has_state": all(env.has_state() for env in envs),
        "first_row": first,
        "num_rows": count,
        "seats": parts.seats,
    }
    channel.send(b"p", pickled("the spaces", answer))  # labels may be of classes of a script
    if start["apart"]:
        games = [row // parts.seats for row in cuts]
        play_rows(channel, block, dict(zip(games, envs, strict=True)), parts.seats)
    else:
        _play_together(channel, block, envs[0])


def _play_together(channel: Channel, block: SharedBlock, env: ListEnv | SeatRows) -> None:
    """Answer requests with the observation of all rows, or with another result."""
    obs_format = ObsFormat(env.obs_space(), env.action_space())
    forms = answer_forms(env.action_space())
    frames = 0
    while True:
        kind, content = channel.receive()
        if kind == b"a":
            # Past the checks of ``act``: the parent has made them, for the same observation.
            obs = env._act(read_actions(content, forms, frames))
        else:
            request, argument = pickle.loads(content)
            if request == "reset":
                obs = env.reset(argument)
            elif request == "set_state":
                obs = env.set_state(argument)
            else:
                answer = _answer(env, request, argument)
                channel.send(b"p", _pickled(request, answer))
                continue
        frames = obs.num_frames
        channel.send(b"o", block.write(0, obs_format.pack(obs)))


def _answer(env: ListEnv | SeatRows, request: str, argument: Any) -> Any:
    """Return the answer to a request that does not return an observation."""
    if request == "get_state":
        return env.get_state()
    if request == "has_state":
        return env.has_state()
    if request == "render":
        return env.render(**argument)
    assert request == "wrap_each", request
    env.wrap_each(loaded("the wrapper", argument))
    return env.has_state()


def _pickled(request: str, answer: Any) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:  # a state may hold any objects
        raise errors.StateError(
            f"the result of {request} cannot be sent to the main process: {error}",
            expected="plain values: numbers, strings, lists and dicts",
        ) from error
