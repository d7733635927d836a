"""Small worlds for tests."""

from __future__ import annotations

import numpy as np
from ragged_envs.mmo.body import COLUMNS, LEVEL, XP
from ragged_envs.mmo.observation import MOVES
from ragged_envs.mmo.world import MmoRows, _put_on_tiles
from support.broken import ragged

from entity_env.rows.game_kernel import SHOW
from entity_env.rows.jit import interpreted

LETTERS = "_~.,f#"  # lava, water, grass, scrub, forest, stone
COLUMN_OF = {name: i for i, name in enumerate(COLUMNS)}
COLUMN_OF |= {"level": slice(LEVEL, XP), "xp": slice(XP, len(COLUMNS))}


_HILLS = (".f.#~.", "ff..f.", ".~f..f", "....f#")
SMALL_WORLD = {
    "tiles": np.pad([[LETTERS.index(letter) for letter in line] for line in _HILLS], 4).tolist(),
    "spawns": [(4, 4), (5, 7), (7, 5), (7, 6)],
    **{"radius": 3, "agents": 6, "populations": 2, "immunity": 3, "regrowth": 0.1},
}
"""Settings of a world in which much happens soon."""


class World:
    """One world that Python runs, with the same seats for newcomers as ``spawns`` has cells.

    Args:
        text: The map by its letters; rings of lava are added.
        spawns: Where newcomers come in, as places in the text.
        settings: Others.
    """

    def __init__(self, *text, spawns=((0, 0),), radius=3, **settings):
        self.edge = radius + 1
        tiles = np.array([[LETTERS.index(letter) for letter in line] for line in text])
        self.rows = MmoRows(
            tiles=np.pad(tiles, self.edge),
            spawns=[(y + self.edge, x + self.edge) for y, x in spawns],
            radius=radius,
            **{"populations": 1, "agents": 4, **settings},
        )
        self.rows.interpret()
        self.obs = self.rows.reset()

    def __getattr__(self, name):
        """Return a field of the world, or a column of its agents."""
        fields = self.rows._fields
        return fields[name][0] if name in fields else fields["agents"][0, :, COLUMN_OF[name]]

    def put(self, seat, **values):
        """Change columns of a seat, and show it."""
        for name, value in values.items():
            is_place = name in ("row", "column")
            self.agents[seat, COLUMN_OF[name]] = value + self.edge if is_place else value
        order = self.order[: self.alive]
        self.first[:] = -1
        interpreted(_put_on_tiles)(self.agents, order, self.first)
        self.obs = self.rows._last = self.rows._first(SHOW)

    def grow(self, agents):
        """Let ticks pass in which nobody moves, until so many live."""
        while self.obs.num_frames < agents:
            self.act()
        return self

    def act(self, attacks=None, **moves):
        """Play a tick; others stay, and attack nobody.

        Args:
            attacks: By seats the style and the target's seat.
            moves: By "s" and the number of a seat the name of a move.
        """
        chosen, strikes, asked = [], [], []
        for frame, seat in enumerate(self.obs.rows.tolist()):
            chosen.append(MOVES.index(moves.get(f"s{seat}", "Stay")))
            mine = np.asarray(self.obs.features["Strike"][frame].as_array())
            asked.append(min(len(mine), 1))
            if len(mine):
                others = len(self.obs.features["Agent"][frame].as_array())
                one = (attacks or {}).get(seat)
                strikes.append(0 if one is None else 1 + others + self.strike(seat, *one))
        answers = {"Move": ragged(chosen, [1] * len(chosen)), "Attack": ragged(strikes, asked)}
        if "Attack" not in self.obs.action_masks:
            del answers["Attack"]
        self.obs = self.rows.act(answers)
        return self.obs

    def strike(self, seat, style, target):
        """Return the number of a strike among those of a seat."""
        frame = self.obs.rows.tolist().index(seat)
        rows = np.asarray(self.obs.features["Strike"][frame].as_array())
        middle = self.rows.settings.radius
        place = (
            self.row[target] - self.row[seat] + middle,
            self.column[target] - self.column[seat] + middle,
        )
        found = [i for i, own in enumerate(rows) if (*own[:2], own[2]) == (*place, style)]
        return found[0]
