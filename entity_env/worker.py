"""The process behind ``ParallelEnv``: a ``ListEnv`` at the other end of a pipe.

Started with the numbers of two inherited file descriptors as arguments: the pipe, and the file in
which it notes its progress. It is not a fork: it shares no locks or threads with its parent, does
not import the parent's main module, and ends when the parent's end of the pipe closes, however
the parent ended.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import struct
import sys
from multiprocessing.connection import Connection
from typing import Any

from entity_env import errors
from entity_env.errors import EntityEnvError
from entity_env.list_env import ListEnv
from entity_env.transport import pack_obs, unpack_actions

__all__ = ["PROGRESS", "main", "revive"]

PROGRESS = struct.Struct("qq")
"""What the progress file holds: the row that runs, and its step."""


def main() -> None:
    """Answer requests until the pipe closes."""
    # Ctrl-C and a scheduler's SIGTERM are for the parent, which closes the pipe when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    progress = int(sys.argv[2])
    env: ListEnv | None = None
    try:
        while True:
            request, argument = connection.recv()
            try:
                if request == "start":
                    env = _start(argument, progress)
                _send(connection, request, _answer(env, request, argument))
            except EntityEnvError as error:
                kind = type(error)
                connection.send(("error", (kind.__module__, kind.__qualname__, error.fields())))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        if env is not None:
            env.close()


def revive(module: str, name: str, fields: dict[str, Any]) -> EntityEnvError:
    """The error that a worker sent, as its own class where this process can import it."""
    try:
        kind = getattr(importlib.import_module(module), name)
        revived: EntityEnvError = kind.from_fields(fields)
    except Exception:  # the class lives in a function, or its constructor wants other arguments
        return EntityEnvError.from_fields(fields)
    return revived


def _send(connection: Connection, request: str, answer: Any) -> None:
    try:
        message = pickle.dumps(("ok", answer))
    except Exception as error:  # a state may hold whatever its environment put into it
        raise errors.StateError(
            f"what {request} returned cannot be sent to the main process: {error}",
            expected="plain values: numbers, strings, lists and dicts",
        ) from error
    connection.send_bytes(message)


def _start(argument: dict[str, Any], progress: int) -> ListEnv:
    # The parent wrote this pickle a moment ago, in the same program: it is not foreign data.
    try:
        create_env = pickle.loads(argument.pop("create_env"))
    except Exception as error:
        raise errors.EnvironmentFailedError(
            f"create_env cannot be loaded in a worker: {type(error).__name__}: {error}",
            expected="a class or function that can be imported or pickled",
        ) from error

    def note(row: int, step: int) -> None:
        os.pwrite(progress, PROGRESS.pack(row, step), 0)

    return ListEnv(create_env, **argument, on_row=note)


def _answer(env: ListEnv | None, request: str, argument: Any) -> Any:
    assert env is not None, "the first request is 'start'"
    if request == "start":
        return {
            "obs_space": env.obs_space(),
            "action_space": env.action_space(),
            "has_state": env.has_state(),
        }
    if request == "reset":
        return pack_obs(env.reset(argument))
    if request == "act":
        return pack_obs(env.act(unpack_actions(argument)))
    if request == "set_state":
        return pack_obs(env.set_state(argument))
    if request == "get_state":
        return env.get_state()
    return env.render(**argument)
