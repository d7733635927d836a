"""Environments that come with the library, written against ``entity_env`` only.

Importing this package gives them their short names; their modules load when they are used.
"""

from entity_env.registry import register

__all__: list[str] = []

register("minesweeper", "envs.minesweeper_native.MineSweeperVec")
register("minesweeper_python", "envs.minesweeper.MineSweeper")
