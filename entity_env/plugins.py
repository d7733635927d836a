"""Plug-ins of installed packages, which register environments or load agents.

A package declares them as entry points:

[project.entry-points."entity_env.environments"]
my_games = "my_package.games"  # a module that calls entity_env.register when it is imported

[project.entry-points."entity_env.agents"]
my_agents = "my_package.agents:load"  # load(path, seed) -> entity_env.agent.Agent

"""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points
from typing import Any

__all__ = ["AGENTS", "ENVIRONMENTS", "load_plugins"]

ENVIRONMENTS = "entity_env.environments"
AGENTS = "entity_env.agents"


def load_plugins(group: str) -> list[Any]:
    """Import the plug-ins of a group of all packages; warn of those that cannot be imported."""
    loaded = (_load(point) for point in sorted(entry_points(group=group)))
    return [plugin for plugin in loaded if plugin is not None]


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # a plug-in may raise anything
        warnings.warn(
            f"plug-in {point.name!r} of {point.group} cannot be loaded from {point.value!r}: "
            f"{type(error).__name__}: {error}",
            stacklevel=3,
        )
        return None
