"""Signatures of the settings of a run, with a key that only this user can read.

A signature proves that this user has written the settings. It stays valid when the folder is moved,
and is invalid for other users and machines.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from functools import reduce
from operator import getitem
from pathlib import Path

from entity_env.errors import EntityEnvError
from ppo_trainer.config import TrainConfig, config_to_dict

__all__ = ["KeyUnavailableError", "key_file", "sign", "verify"]

_KEY_BYTES = 32
_SIGNED = (
    "env", "eval.scripted", "eval.env", "selfplay.opponents", "search.play_on", "search.teacher",
    "rollout.replays", "wandb", "scale.address",
)  # fmt: skip
"""All settings for which ``trust`` may need consent."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class KeyUnavailableError(EntityEnvError):
    """Raised if the user's key cannot be stored, or may be known to others."""


def sign(config: TrainConfig) -> str:
    """Return the signature of the settings that need consent, in hexadecimal digits.

    Raises:
        KeyUnavailableError: No key can be stored for this user, for example without a home folder.
    """
    return _digest(_key(), config)


def verify(config: TrainConfig, signature: str) -> bool:
    """Return True if this user has signed these settings on this machine.

    Raises:
        KeyUnavailableError: No key can be stored for this user.
    """
    return hmac.compare_digest(_digest(_key(), config).encode(), signature.encode())


def key_file() -> Path:
    """Return the path of the user's key, in ``$XDG_STATE_HOME`` or ``~/.local/state``.

    Raises:
        KeyUnavailableError: The user has no home folder.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        # The XDG specification says that relative paths must be ignored.
        folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise KeyUnavailableError(f"no folder for the key of this user: {error}") from error
    return folder / "ragged-rl" / "run_key"


def _digest(key: bytes, config: TrainConfig) -> str:
    values = config_to_dict(config)
    names = {name: reduce(getitem, name.split("."), values) for name in _SIGNED}
    return hmac.new(key, json.dumps(names).encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """Return the user's key, and make one if there is none."""
    path = key_file()
    try:
        if not path.exists():
            _make_key(path)
        return _read_key(path)
    except OSError as error:
        raise KeyUnavailableError(f"the user's key, {path}, is not available: {error}") from error


def _make_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    whole = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # another run has just made the key
            os.link(whole, path)
    finally:
        whole.unlink()


def _read_key(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | _NO_LINKS), "rb") as file:
        found = os.fstat(file.fileno())
        key = file.read(_KEY_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    if len(key) != _KEY_BYTES:
        raise KeyUnavailableError(f"{path} is not a key: delete it, and a new one will be made")
    if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
        raise KeyUnavailableError(
            f"the user's key, {path}, may be known to others: delete it, and a new one will be made"
        )
    return key
