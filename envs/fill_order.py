"""FillOrder: a picker takes one item of each colour that is ordered, all in one step.

env = FillOrder(items=8)
observation = env.reset()
observation = env.act(fill_order(observation))

"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from operator import index as whole
from typing import Any, ClassVar

from entity_env.actions import Action, SelectEntitiesAction
from entity_env.arguments import check_whole
from entity_env.drawing import Sign
from entity_env.observation import EntityID, Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, Discrete, Entity, ObsSpace, SelectEntitiesActionSpace

from .board_picture import PLAYERS, Tiled
from .checks import read_set
from .grid import Board
from .small_game import SmallGame

__all__ = ["COLORS", "MOST_ITEMS", "MOST_ORDERED", "FillOrder", "fill_order"]

COLORS = 4
MOST_ORDERED = 3
MOST_ITEMS = 1_000


class FillOrder(Tiled, SmallGame):
    """A picker takes one item of each colour that is ordered, all in one step.

    Items of one colour have equal features. A policy that decides on each item independently would
    take both or neither of two such items: each pick must depend on the picks before.

    Entities:
        ``Item`` [color], one ``Order`` [color] for each colour that is ordered, and a ``Picker``
        without features. The id of the picker is "Picker", that of an item ("Item", i) with i from
        0; orders have none.
    Actions:
        ``Pick``: the picker selects at most 3 items.
    Reward:
        The number of orders that are filled, divided by the number of orders or of picked items,
        whichever is larger: 1 for one item of each colour ordered and nothing else.
    End:
        After one step.
    Randomness:
        From 1 to 3 different colours are ordered; there is at least one item of each of these, and
        the other items have any colour.
    Source:
        Our own.

    Args:
        items: Items, from 3 to 1,000.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    looks: ClassVar = {str(i): Sign(f"colour {i}", PLAYERS[i]) for i in range(COLORS)}

    _obs_space = ObsSpace(
        entities={
            "Item": Entity([Discrete("color", COLORS)]),
            "Order": Entity([Discrete("color", COLORS)]),
            "Picker": Entity(),
        }
    )
    _action_space = {"Pick": SelectEntitiesActionSpace(MOST_ORDERED)}
    _saved = {"colors": [whole], "orders": [whole], "steps": whole}

    def __init__(self, items: int = 8) -> None:
        self.items = check_whole("items", items, MOST_ORDERED, MOST_ITEMS)
        self.colors: list[int] = []
        self.orders: list[int] = []
        self._ids: list[EntityID] = [("Item", i) for i in range(self.items)]

    @property
    def over(self) -> bool:
        """True after one step."""
        return self.steps > 0

    def _begin(self) -> None:
        count = int(self.rng.integers(1, MOST_ORDERED + 1))
        self.orders = self.rng.choice(COLORS, count, replace=False).tolist()
        others = self.rng.integers(COLORS, size=self.items - count).tolist()
        self.colors = self.rng.permutation(self.orders + others).tolist()

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        picked: Any = read_set(actions, "Pick", "Picker", self._ids, MOST_ORDERED)
        colors = Counter(self.colors[item[1]] for item in picked)
        filled = sum((colors & Counter(self.orders)).values())
        return filled / max(len(self.orders), len(picked))

    def _show(self) -> Observation:
        mask = SelectEntityActionMask(actor_types=["Picker"], actee_types=["Item"])
        return Observation(
            features={
                "Item": [(color,) for color in self.colors],
                "Order": [(color,) for color in self.orders],
                "Picker": [()],
            },
            ids={"Item": self._ids[:], "Picker": ["Picker"]},
            actions={} if self.done else {"Pick": mask},
        )

    def _problems(self, colors: list[int], orders: list[int], steps: int) -> dict[str, bool]:
        return {
            "another number of items": len(colors) != self.items,
            "an unknown colour": not {*colors, *orders} <= set(range(COLORS)),
            "another number of orders": not 1 <= len(orders) <= MOST_ORDERED,
            "a colour that is ordered twice": len(set(orders)) < len(orders),
            "an order that cannot be filled": not set(orders) <= set(colors),
            "another number of steps": steps not in (0, 1),
        }

    def board(self) -> Board:
        """Return the colours of the orders, and below them those of the items."""
        columns = max(8, math.isqrt(2 * self.items))
        signs = {(i, 1): str(color) for i, color in enumerate(self.orders)}
        signs |= {
            (i % columns, -1 - i // columns): str(color) for i, color in enumerate(self.colors)
        }
        rows = range(-1 - (self.items - 1) // columns, 2)
        return Board("orders, and items to pick", signs, range(columns), rows)


def fill_order(observation: Observation) -> dict[str, Action]:
    """Return the perfect player: the first item of each colour that is ordered."""
    features: Any = observation.features
    ids: Any = observation.ids
    colors = [color for (color,) in features["Item"]]
    picked = [ids["Item"][colors.index(color)] for (color,) in features["Order"]]
    return {"Pick": SelectEntitiesAction(["Picker"], [picked])}
