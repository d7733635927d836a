"""Names of devices in general, and of this machine's."""

from __future__ import annotations

import re

import torch

from entity_env.errors import EntityEnvError, SettingError, nearest, shorten

__all__ = ["check_device_name", "devices_here"]

NAMES = ("auto", "cpu", "cuda")
_ALIASES = {"gpu": "did you mean 'cuda'?"}
"""Hints for names that are not misspelt."""


def check_device_name(
    name: object,
    kind: type[EntityEnvError] = SettingError,
    what: str = "device does not know this value",
) -> None:
    """Raise an error of this ``kind`` unless ``name`` is in ``NAMES`` or is like ``cuda:1``.

    This machine need not have the device, because settings are also written for other machines.
    """
    if isinstance(name, str) and (name in NAMES or re.fullmatch(r"cuda:\d{1,3}", name)):
        return
    raise kind(
        what,
        expected=f"auto, a GPU such as cuda:0, or one of those here: {devices_here()}",
        received=shorten(name),
        options=NAMES,
        hint=_ALIASES.get(str(name)) or nearest(str(name), ("auto", "cuda")),
    )


def devices_here() -> str:
    """Return the devices of this machine, in words."""
    if not torch.cuda.is_available():
        return "cpu (torch finds no GPU)"
    names = (torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return ", ".join(["cpu", *(f"cuda:{i} ({name})" for i, name in enumerate(names))])
