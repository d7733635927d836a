"""PickMatchingBalls: a player picks balls of one colour, of which there should be many.

env = PickMatchingBalls(num_balls=32)
observation = env.reset()
observation = env.act(pick_matching(observation))

"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import index as whole
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, SelectEntityAction
from entity_env.arguments import check_whole
from entity_env.observation import EntityID, Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, Discrete, Entity, ObsSpace, SelectEntityActionSpace

from .board_picture import Space, draw_spaces
from .checks import read_selection
from .small_game import SmallGame

__all__ = ["COLORS", "MOST_BALLS", "PickMatchingBalls", "pick_matching"]

COLORS = 6
MOST_BALLS = 10_000


class PickMatchingBalls(SmallGame):
    """A player picks balls of one colour, of which there should be many.

    The first pick decides what the episode can pay: it should be of the colour of most balls.

    Entities:
        ``Ball`` [color, selected] and a ``Player`` without features. A ball that has been picked
        stays, marked as selected. The id of the player is "Player", that of a ball ("Ball", i)
        with i from 0.
    Actions:
        ``Pick Ball``: the player selects a ball; the mask forbids those that are picked.
    Reward:
        1 / n for each ball of the colour picked first, where n is the largest number of balls of
        one colour: the return is their share. 0.0 for a ball of another colour.
    End:
        After a ball of another colour, which must be picked when none of the first colour is left,
        or when all balls are picked.
    Randomness:
        The colour of each ball, each as likely as any other.
    Source:
        After an Entity Gym example (github.com/entity-neural-network/entity-gym), which pays at the
        end.

    Args:
        num_balls: Balls, at most 10,000.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    _obs_space = ObsSpace(
        entities={
            "Ball": Entity([Discrete("color", COLORS), Discrete("selected", 2)]),
            "Player": Entity(),
        }
    )
    _action_space = {"Pick Ball": SelectEntityActionSpace()}
    _saved = {"colors": [whole], "picked": [whole]}

    def __init__(self, num_balls: int = 32) -> None:
        self.num_balls = check_whole("num_balls", num_balls, 1, MOST_BALLS)
        self.colors: list[int] = []
        self.picked: list[int] = []
        self._ids: list[EntityID] = [("Ball", i) for i in range(self.num_balls)]
        self._rows: list[tuple[int, int]] = []  # of features
        self._left: list[EntityID] = []
        self._allowed = np.ones((1, self.num_balls), np.bool_)
        self._most = 1

    @property
    def over(self) -> bool:
        """True if a ball of another colour has been picked, or all balls."""
        return len(self.picked) == self.num_balls or not self._matches()

    def _begin(self) -> None:
        self._place(self.rng.integers(COLORS, size=self.num_balls).tolist(), [])

    def _play(self, actions: Mapping[ActionName, Action]) -> float:
        selected: Any = read_selection(actions, "Pick Ball", "Player", self._left)
        self._pick(selected[1])
        return 1.0 / self._most if self._matches() else 0.0

    def _problems(self, colors: list[int], picked: list[int]) -> dict[str, bool]:
        known = range(len(colors))
        before_last = {colors[ball] for ball in picked[:-1] if ball in known}
        return {
            "another number of balls": len(colors) != self.num_balls,
            "an unknown colour": not set(colors) <= set(range(COLORS)),
            "an unknown ball": not set(picked) <= set(known),
            "a ball that is picked twice": len(set(picked)) < len(picked),
            "a pick after one of another colour": len(before_last) > 1,
        }

    def _restore(self, **saved: Any) -> None:
        self._place(**saved)
        self.steps = len(self.picked)

    def render_text(self) -> str:
        """Return the colours of the balls that are picked, in order, and of those that are left."""
        picked = [self.colors[i] for i in self.picked]
        left = [color for color, selected in self._rows if not selected]
        return f"picked: {_text(picked)}, left: {_text(sorted(left))}"

    def render(self, cell: int = 48, **_: Any) -> npt.NDArray[np.uint8]:
        """Return the balls with their numbers; those that are picked leave an empty space."""
        columns = max(6, math.isqrt(2 * self.num_balls))
        spaces = [
            Space(i % columns, i // columns, -1 if selected else color, text=str(i))
            for i, (color, selected) in enumerate(self._rows)
        ]
        return draw_spaces(spaces, f"picked: {len(self.picked)}", cell)

    def _place(self, colors: list[int], picked: list[int]) -> None:
        self.colors, self.picked = colors, []
        self._most = max(map(colors.count, range(COLORS)))
        self._rows = [(color, 0) for color in colors]
        self._left = self._ids[:]
        self._allowed[:] = True
        for ball in picked:
            self._pick(ball)

    def _pick(self, ball: int) -> None:
        self.picked.append(ball)
        self._rows[ball] = (self.colors[ball], 1)
        self._left.remove(self._ids[ball])
        self._allowed[0, ball] = False

    def _matches(self) -> bool:
        """Return True if the last ball has the colour of the first."""
        return not self.picked or self.colors[self.picked[-1]] == self.colors[self.picked[0]]

    def _show(self) -> Observation:
        mask = SelectEntityActionMask(
            actor_types=["Player"], actee_types=["Ball"], mask=self._allowed.copy()
        )
        return Observation(
            features={"Ball": self._rows[:], "Player": [()]},
            ids={"Ball": self._ids[:], "Player": ["Player"]},
            # In the end there may be no ball that can be picked.
            actions={} if self.done else {"Pick Ball": mask},
        )


def pick_matching(observation: Observation) -> dict[str, Action]:
    """Return the perfect player, which begins with the colour of most balls: it gets 1.0."""
    features: Any = observation.features
    ids: Any = observation.ids
    colors = [int(color) for color, _ in features["Ball"]]
    is_left = [not selected for _, selected in features["Ball"]]
    chosen = [color for color, left in zip(colors, is_left, strict=True) if not left]
    wanted = chosen[0] if chosen else max(range(COLORS), key=colors.count)
    # Without any left of that colour any ball ends the episode.
    order = sorted(range(len(colors)), key=lambda i: (not is_left[i], colors[i] != wanted))
    return {"Pick Ball": SelectEntityAction(["Player"], [ids["Ball"][order[0]]])}


def _text(colors: list[int]) -> str:
    return " ".join(map(str, colors)) or "none"
