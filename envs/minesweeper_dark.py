"""MineSweeper in the dark: mines are visible only while a robot is near.

env = MineSweeperDark(width=6, height=6, nmines=5, nrobots=2, sight=2)
observation = env.reset()

"""

from __future__ import annotations

from dataclasses import replace

from entity_env.arguments import check_whole
from entity_env.observation import Observation

from .minesweeper import MineSweeper
from .minesweeper_rules import MOST_TILES, Spanned

__all__ = ["MineSweeperDark"]


class MineSweeperDark(MineSweeper):
    """The game of ``MineSweeper``, in which robots see only the mines near one of them.

    Entities:
        As in ``MineSweeper``, without mines that are more than ``sight`` tiles away (Manhattan
        distance) from every robot. The others keep their ids.
    Actions:
        As in ``MineSweeper``. Cannons select among the mines that are seen and the robots.
    Reward:
        As in ``MineSweeper``.
    End:
        As in ``MineSweeper``.
    Randomness:
        As in ``MineSweeper``.
    Source:
        ``MineSweeper``.

    Args:
        width: See ``MineSweeper``, also for all others except the last.
        height: See there.
        nmines: See there.
        nrobots: See there.
        orbital_cannon: See there.
        cooldown_period: See there.
        max_steps: See there.
        sight: Tiles that a robot sees, at least 1.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    def __init__(
        self,
        width: Spanned = 6,
        height: Spanned = 6,
        nmines: Spanned = 5,
        nrobots: Spanned = 2,
        orbital_cannon: bool | int = False,
        cooldown_period: int = 5,
        max_steps: int = 100,
        sight: int = 2,
    ) -> None:
        super().__init__(width, height, nmines, nrobots, orbital_cannon, cooldown_period, max_steps)
        self.sight = check_whole("sight", sight, 1, 2 * MOST_TILES)

    def _show(self) -> Observation:
        whole, sight = super()._show(), self.sight
        seen = [
            i
            for i, (x, y) in enumerate(self.mines)
            if any(abs(x - a) + abs(y - b) <= sight for a, b in self.robots)
        ]
        features, ids = dict(whole.features or {}), dict(whole.ids or {})
        features["Mine"] = [self.mines[i] for i in seen]
        ids["Mine"] = [("Mine", i) for i in seen]
        return replace(whole, features=features, ids=ids)
