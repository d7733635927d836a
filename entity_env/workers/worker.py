"""The worker process of ``ParallelEnv`` and ``AsyncEnv``.

Its arguments are the numbers of three inherited file descriptors: the connection to its parent, the
shared memory for observations, and the pipe for reports. It is not a fork: it shares no locks or
threads with its parent, and does not import the parent's main module. It ends when the parent's end
of the connection closes, even if the parent was killed or an environment is running.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import socket
import struct
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from entity_env import errors
from entity_env.batching.kinds.table import answer_forms
from entity_env.errors import EntityEnvError, SettingError, counted
from entity_env.rows.list_env import ListEnv
from entity_env.seats.seat_rows import SeatRows
from entity_env.seats.table import Peeked
from entity_env.spaces import check_same_spaces
from entity_env.workers.interpreter import close_in_forks, leave_signals_to_parent
from entity_env.workers.messages import loaded, pickled, read_actions
from entity_env.workers.obs_format import ObsFormat
from entity_env.workers.row_loop import play_games
from entity_env.workers.shared_block import SharedBlock

__all__ = ["cut_rows", "main", "revive"]

PLACE = struct.Struct("qq")
"""The first byte of an observation in the shared memory, and its size."""
SECONDS_TO_CLOSE = 5.0
"""The time for environments to close after the end of the parent, in seconds."""


def main() -> None:
    """Answer requests until the parent closes its end."""
    leave_signals_to_parent()  # the parent closes its end of the connection
    descriptors = list(map(int, sys.argv[1:]))
    for descriptor in descriptors:  # programs that an environment starts do not inherit them
        os.set_inheritable(descriptor, False)
    connection: Connection[bytes, bytes] = Connection(descriptors[0])
    close_in_forks(connection)
    threading.Thread(target=_end_with_parent, args=(descriptors[0],), daemon=True).start()
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),
        contextlib.ExitStack() as at_end,
    ):
        at_end.callback(_hang_up, connection)  # do not wait for threads of an environment
        try:
            _serve(connection, SharedBlock(descriptors[1]), descriptors[2], at_end)
        except EntityEnvError as error:
            kind = type(error)
            fields = (kind.__module__, kind.__qualname__, error.fields())
            connection.send_bytes(b"e" + pickle.dumps(fields))


def cut_rows(num_envs: int, num_processes: int, seats: int) -> list[tuple[int, int]]:
    """Return the first row of each process and its number of rows, which are whole games.

    Raises:
        SettingError: The rows are not whole games, or there are more workers than games.
    """
    if num_envs % seats:
        raise SettingError(
            f"{counted(num_envs, 'row')} cannot be shared by games of {seats} seats",
            expected=f"a multiple of {seats}, such as {num_envs + seats - num_envs % seats}",
            received=num_envs,
        )
    games = num_envs // seats
    if num_processes > games:
        raise SettingError(
            "invalid number of processes",
            expected=f"a whole number >= 1 and <= {games}, the number of games of {seats} seats",
            received=num_processes,
        )
    parts = np.array_split(np.arange(games), num_processes)
    return [(int(part[0]) * seats, len(part) * seats) for part in parts]


def revive(module: str, name: str, fields: dict[str, Any]) -> EntityEnvError:
    """Return the error that a worker sent, in its own class if this process can import it."""
    try:
        kind = getattr(importlib.import_module(module), name)
        revived: EntityEnvError = kind.from_fields(fields)
    except Exception:  # a local class, or a constructor with other arguments
        return EntityEnvError.from_fields(fields)
    return revived


def _hang_up(connection: Connection[bytes, bytes]) -> None:
    """End the connection at once; closing it would wait for the thread that waits for its end."""
    with (
        contextlib.suppress(OSError),  # the parent has ended it
        socket.socket(fileno=os.dup(connection.fileno())) as other,
    ):
        other.shutdown(socket.SHUT_RDWR)


def _end_with_parent(descriptor: int) -> None:
    """Wait for the end of the parent, then end this process even if an environment is running."""
    hang_up = select.poll()
    hang_up.register(descriptor, 0)
    hang_up.poll()
    time.sleep(SECONDS_TO_CLOSE)
    os._exit(1)


def _serve(
    connection: Connection[bytes, bytes],
    block: SharedBlock,
    reports: int,
    at_end: contextlib.ExitStack,
) -> None:
    """Make the environments that the first message asks for, and play them."""
    # These pickles can be trusted: they were written by the parent.
    start = pickle.loads(connection.recv_bytes()[1:])
    # The first call shows whether ``create_env`` makes games, and their number of seats.
    create_env = Peeked(loaded("create_env", start["create_env"]))
    seats = create_env.seats
    first, count = cut_rows(start["num_envs"], start["num_processes"], seats)[start["index"]]
    size = seats if start["apart"] else count
    envs: dict[int, ListEnv | SeatRows] = {}  # by their first row
    for row in range(first, first + count, size):
        kind: Any = SeatRows if create_env.is_game else ListEnv
        envs[row] = kind(create_env, size, start["seed"], first_row=row, on_row=block.note)
        at_end.callback(envs[row].close)
    cuts, made = list(envs), list(envs.values())
    spaces = [{"obs_space": env.obs_space(), "action_space": env.action_space()} for env in made]
    name = "game" if create_env.is_game else "environment"
    check_same_spaces(spaces, lambda i: f"{name} {cuts[i] // seats}, step 0")
    answer = {
        **spaces[0],  # those of the first row, in whose order all rows are packed
        "has_state": all(env.has_state() for env in made),
        "first_row": first,
        "num_rows": count,
        "seats": seats,
    }
    # Labels may be of classes of a script.
    connection.send_bytes(b"p" + pickled("the spaces", answer))
    if start["apart"]:
        games = {row // seats: env for row, env in envs.items()}
        play_games(connection, block, reports, games)
    else:
        _play_together(connection, block, made[0])


def _play_together(
    connection: Connection[bytes, bytes], block: SharedBlock, env: ListEnv | SeatRows
) -> None:
    """Answer requests with the observation of all rows, or with another result."""
    obs_format = ObsFormat(env.obs_space(), env.action_space())
    forms = answer_forms(env.action_space())
    frames = 0
    while True:
        message = connection.recv_bytes()
        kind, content = message[:1], message[1:]
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
                connection.send_bytes(b"p" + _pickled(request, answer))
                continue
        frames = obs.num_frames
        connection.send_bytes(b"o" + PLACE.pack(*block.write(0, obs_format.pack(obs))))


def _answer(env: ListEnv | SeatRows, request: str, argument: Any) -> Any:
    """Return the answer to a request that does not return an observation."""
    if request == "get_state":
        return env.get_state()
    if request == "has_state":
        return env.has_state()
    if request == "render":
        return env.render(**argument)
    if request == "share_draws":
        return env._share_draws(argument)  # groups may lie in several workers
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
