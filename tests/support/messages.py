"""Answers to the page of the viewer, read as the page reads them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def from_message(message: bytes) -> Any:
    """Return the answer that ``to_message`` was given; its arrays have the types that are sent."""
    first = 4 + int.from_bytes(message[:4], "little")

    def find(given: dict[str, Any]) -> Any:
        if not isinstance(given.get("$array"), str):
            return given
        count, start = int(np.prod(given["shape"])), first + given["at"]
        return np.frombuffer(message, f"<{given['$array']}", count, start).reshape(given["shape"])

    return json.loads(message[4:first], object_hook=find)
