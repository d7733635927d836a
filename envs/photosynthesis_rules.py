"""The rules of Photosynthesis: sun and shade, seeds and trees, and what a player may do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = [
    "AVAILABLE",
    "BEFORE",
    "COLLECT_PRICE",
    "DIRECTIONS",
    "KINDS",
    "MOST_LIGHT",
    "PRICES",
    "SOIL",
    "SPACES",
    "TOKENS",
    "Choice",
    "ForestGame",
    "distance",
    "shares",
    "space_at",
]

KINDS = ("Seed", "Small", "Medium", "Large")
SEED, SMALL, MEDIUM, LARGE = range(4)
EMPTY = -1
PRICES = ((1, 1, 2, 2), (2, 2, 3, 3), (3, 3, 4), (4, 5))
"""Of each kind on a player's board, from the slot that is emptied first."""
AVAILABLE = (2, 4, 1, 0)
COLLECT_PRICE = 4
MOST_LIGHT = 20
TOKENS = (
    (14, 14, 13, 13, 13, 12, 12, 12, 12),
    (17, 16, 16, 14, 14, 13, 13),
    (19, 18, 18, 17, 17),
    (22, 21, 20),
)
"""What the scoring tokens of each soil are worth, from one leaf to four, the top one first."""

DIRECTIONS = ((1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1), (0, 1))
"""Where the light runs in hexagonal coordinates (q, r), for each angle of the sun."""
_RADIUS = 3


def _length(q: int, r: int) -> int:
    return max(abs(q), abs(r), abs(q + r))


SPACES = tuple(
    (q, r)
    for q in range(-_RADIUS, _RADIUS + 1)
    for r in range(-_RADIUS, _RADIUS + 1)
    if _length(q, r) <= _RADIUS
)
"""The 37 spaces (q, r); their numbers are places in this tuple."""
SOIL = tuple(4 - _length(q, r) for q, r in SPACES)
"""The leaves of each space: one for the outermost, four for the centre."""
_NUMBER = {space: i for i, space in enumerate(SPACES)}
_DISTANCES = tuple(tuple(_length(q - a, r - b) for a, b in SPACES) for q, r in SPACES)
BEFORE = tuple(
    tuple(
        tuple(
            (_NUMBER[q - k * dq, r - k * dr], k)
            for k in range(1, 4)
            if (q - k * dq, r - k * dr) in _NUMBER
        )
        for q, r in SPACES
    )
    for dq, dr in DIRECTIONS
)
"""For each angle and space the spaces that the light passes before, and how far away they are."""

Choice: TypeAlias = tuple[str, int]
"""What a player does: ``start`` and ``plant`` with the space for a piece, ``from`` with the tree
that plants it, ``grow`` and ``collect`` with the piece's space, ``buy`` with the kind, ``pass``."""


def space_at(q: int, r: int) -> int:
    """The number of a space."""
    return _NUMBER[q, r]


def distance(one: int, other: int) -> int:
    """How many steps lie between two spaces."""
    return _DISTANCES[one][other]


class ForestGame:
    """One game: a board, its players, and whose turn it is.

    Args:
        players: How many, 2 to 4.
        rounds: How many, 18 for three revolutions of the sun.

    Attributes:
        size: The piece on each space, 0 for a seed to 3 for a large tree; -1 for an empty one.
        owner: Whose it is; -1 for nobody's.
        activated: The spaces that the player has used in this turn.
        available: The pieces of each kind that each player can place.
        left: Those that lie on each player's board, to be bought.
        light: The light points of each player.
        points: Those of each player's scoring tokens.
        taken: How many tokens of each soil are gone, from one leaf to four.
        round: From 0; -1 while players set up.
        turn: How many players have had their turn in this round, or set a tree up.
        target: The space that the player has chosen for a seed, while the tree is open; else None.
    """

    def __init__(self, players: int, rounds: int = 18) -> None:
        self.players, self.rounds = players, rounds
        self.size = [EMPTY] * len(SPACES)
        self.owner = [-1] * len(SPACES)
        self.activated: set[int] = set()
        self.available = [list(AVAILABLE) for _ in range(players)]
        self.left = [[len(slots) for slots in PRICES] for _ in range(players)]
        self.light = [0] * players
        self.points = [0] * players
        self.taken = [0, 0, 0, len(TOKENS[3]) if players == 2 else 0]
        self.round, self.turn = -1, 0
        self.target: int | None = None

    @property
    def is_over(self) -> bool:
        """All rounds have been played."""
        return self.round == self.rounds

    @property
    def sun(self) -> int:
        """The angle of the sun, an index of ``DIRECTIONS``."""
        return max(self.round, 0) % len(DIRECTIONS)

    @property
    def player(self) -> int:
        """Whose turn it is; the start player moves on one seat each round."""
        return (max(self.round, 0) + self.turn) % self.players

    def is_shaded(self, space: int, size: int, angle: int) -> bool:
        """Whether a tree of this size would be shaded there: by one as tall that reaches it."""
        return any(self.size[other] >= max(k, size) for other, k in BEFORE[angle][space])

    def price(self, player: int, kind: int) -> int | None:
        """What the next piece of a kind costs; None where none is left."""
        left = self.left[player][kind]
        return PRICES[kind][len(PRICES[kind]) - left] if left else None

    def origins(self, target: int) -> list[int]:
        """The trees that the player whose turn it is could plant a seed there from."""
        return [
            space
            for space, size in enumerate(self.size)
            if size >= max(distance(space, target), 1)
            and self.owner[space] == self.player
            and space not in self.activated
        ]

    def legal(self) -> list[Choice]:
        """All that the player whose turn it is may do."""
        if self.round < 0:
            return [
                ("start", i) for i, size in enumerate(self.size) if SOIL[i] == 1 and size == EMPTY
            ]
        if self.target is not None:
            return [("from", space) for space in self.origins(self.target)]
        player, light = self.player, self.light[self.player]
        available = self.available[player]
        choices: list[Choice] = []
        for kind in range(len(KINDS)):
            price = self.price(player, kind)
            if price is not None and price <= light:
                choices.append(("buy", kind))
        own = [
            space
            for space, owner in enumerate(self.owner)
            if owner == player and space not in self.activated
        ]
        for space in own:
            size = self.size[space]
            if size == LARGE:
                if light >= COLLECT_PRICE:
                    choices.append(("collect", space))
            elif light >= size + 1 and available[size + 1]:
                choices.append(("grow", space))
        if light >= 1 and available[SEED]:
            trees = [space for space in own if self.size[space] >= SMALL]
            for target, size in enumerate(self.size):
                if size != EMPTY or target in self.activated:
                    continue
                if any(distance(tree, target) <= self.size[tree] for tree in trees):
                    choices.append(("plant", target))
        return [*choices, ("pass", 0)]

    def play(self, choice: Choice) -> None:
        """Do one thing, a legal one; whoever can do nothing but pass then does so."""
        what, where = choice
        if what == "plant":
            self.target = where
            origins = self.origins(where)
            if len(origins) > 1:
                return
            what, where = "from", origins[0]
        getattr(self, f"_{what}")(where)
        while not self.is_over and self.target is None and self.legal() == [("pass", 0)]:
            self._pass()

    def scores(self) -> list[int]:
        """Tokens, and a point for every three light points that are left."""
        return [points + light // 3 for points, light in zip(self.points, self.light, strict=True)]

    def standings(self) -> list[tuple[int, int]]:
        """What players are ranked by: the score, then how many pieces they have on the board."""
        return [(score, self.owner.count(i)) for i, score in enumerate(self.scores())]

    def _put(self, space: int, size: int, player: int) -> None:
        self.size[space], self.owner[space] = size, player

    def _start(self, space: int) -> None:
        player = self.player
        self.available[player][SMALL] -= 1
        self._put(space, SMALL, player)
        self.turn += 1
        if self.turn == 2 * self.players:
            self._begin_round()

    def _begin_round(self) -> None:
        """Move the sun on, which the first round does not, and pay for the trees in the light."""
        self.round, self.turn = self.round + 1, 0
        self.activated.clear()
        if self.is_over:
            return
        for space, size in enumerate(self.size):
            if size >= SMALL and not self.is_shaded(space, size, self.sun):
                owner = self.owner[space]
                self.light[owner] = min(self.light[owner] + size, MOST_LIGHT)

    def _pass(self, _: int = 0) -> None:
        self.activated.clear()
        self.turn += 1
        if self.turn == self.players:
            self._begin_round()

    def _buy(self, kind: int) -> None:
        player = self.player
        price = self.price(player, kind)
        assert price is not None  # it is legal
        self.light[player] -= price
        self.left[player][kind] -= 1
        self.available[player][kind] += 1

    def _from(self, tree: int) -> None:
        player, target = self.player, self.target
        assert target is not None
        self.light[player] -= 1
        self.available[player][SEED] -= 1
        self._put(target, SEED, player)
        self.activated |= {tree, target}
        self.target = None

    def _grow(self, space: int) -> None:
        player, size = self.player, self.size[space]
        self.light[player] -= size + 1
        self.available[player][size + 1] -= 1
        self._return(player, size)
        self._put(space, size + 1, player)
        self.activated.add(space)

    def _collect(self, space: int) -> None:
        player = self.player
        self.light[player] -= COLLECT_PRICE
        self._return(player, LARGE)
        self._put(space, EMPTY, -1)
        self.activated.add(space)
        for pile in reversed(range(SOIL[space])):
            if self.taken[pile] < len(TOKENS[pile]):
                self.points[player] += TOKENS[pile][self.taken[pile]]
                self.taken[pile] += 1
                return

    def _return(self, player: int, kind: int) -> None:
        """Back to the most expensive slot that is free; without one the piece leaves the game.

        Pieces are bought from the cheapest slot up, so that those that are left always fill the
        most expensive ones: how many there are says which.
        """
        self.left[player][kind] = min(self.left[player][kind] + 1, len(PRICES[kind]))


def shares(standings: Sequence[tuple[int, int]]) -> list[float]:
    """What part of the victory each player has: 1.0 for a sole winner, shared by equals."""
    best = max(standings)
    return [(own == best) / standings.count(best) for own in standings]
