"""Photosynthesis: two to four players grow trees that take each other's light.

game = Photosynthesis(players=4)
seats = game.reset()
seats = game.act({"player 0": grow_greedily(seats["player 0"])})  # of photosynthesis_script

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import nearest, shorten
from entity_env.observation import EntityID, Observation, SelectEntityActionMask
from entity_env.seats.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .board_picture import Space, draw_spaces
from .checks import check_running, check_started, read_selection, reading_state, refuse_state
from .errors import EnvConfigError, check_whole
from .photosynthesis_rules import (
    DIRECTIONS,
    KINDS,
    MOST_LIGHT,
    PRICES,
    SOIL,
    SPACES,
    TOKENS,
    Choice,
    ForestGame,
    shares,
)

__all__ = ["ACTION_SPACE", "OBS_SPACE", "PLACES", "REWARDS", "Photosynthesis"]

REWARDS = ("rank", "first")
_ANGLES = range(len(DIRECTIONS))
_SHADED = [f"shaded{i}" for i in _ANGLES]
OBS_SPACE = ObsSpace(
    global_features=[
        "round",
        "rounds_left",
        "setup",
        "choosing_tree",
        *(f"sun{i}" for i in _ANGLES),
    ],
    entities={
        "Player": Entity(
            ["seat", "turn", "light", "points", "pieces"]
            + [f"available_{kind.lower()}" for kind in KINDS]
            + [f"left_{kind.lower()}" for kind in KINDS]
        ),
        "Kind": Entity([Discrete("kind", len(KINDS)), "available", "left", "price"]),
        "Pass": Entity([]),
        "Piece": Entity(
            ["x", "y", "soil", "own", "seat", Discrete("size", len(KINDS)), "activated", *_SHADED]
        ),
        "Space": Entity(["x", "y", "soil", "activated", "target", *_SHADED]),
        "Pile": Entity(["soil", "left", "next"]),
    },
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Choose": SelectEntityActionSpace()}
PLACES = [(q + r / 2, r * 3**0.5 / 2) for q, r in SPACES]
"""Where a space is on a plane, with neighbours at distance 1."""


class Photosynthesis(MultiPlayerEnvironment):
    """Players grow trees on a hexagonal board, and those in the light earn what more trees cost.

    The rules are in ``photosynthesis_rules``. A decision is one thing that a player does; whoever
    can do nothing but pass is not asked.

    Entities:
        ``Player`` [seat, turn, light, points, pieces, available_*, left_*], the one who looks
        first: ``seat`` is 0 for them and counts on in the order of turns, ``turn`` is how many
        players' turns come before theirs in the round to come; points are those of the tokens, and
        pieces those on the board. ``Kind`` [kind, available, left, price], the four kinds of one's
        own pieces, price 0 where none is left. ``Pass``. ``Piece`` [x, y, soil, own, seat, size,
        activated, shaded0, ...], the seeds and trees on the board: ``shaded0`` says whether it is
        shaded now, ``shaded1`` at the next angle of the sun, and so on; for a seed, whether a
        small tree would be. ``Space`` [x, y, soil, activated, target, shaded0, ...], the empty
        ones; ``target`` is 1 for the one that a seed has been chosen for. ``Pile`` [soil, left,
        next], the scoring tokens that are left of each soil, and what the next one is worth.
        Global features: the round from 0, -1 while players set up, how many follow, whether
        players set up, whether it is the tree that is to be chosen, and where the sun is.
    Actions:
        ``Choose``: the player who looks selects a ``Space`` to put a small tree at the start, or to
        plant a seed; a ``Piece`` to grow or, if it is a large tree, to collect; a ``Kind`` to buy;
        or ``Pass``. Where several trees could plant the seed, the next decision selects one.
    Reward:
        At the end. ``rank``: 1.0 for the first, -1.0 for the last, evenly between; those who are
        equal get the mean of their places. ``first``: a hundredth of the own score for the first,
        0.0 for the others; those who are first together share it.
    End:
        After the last round. The last observations have the metrics ``win``, the own part of the
        victory, and ``score``.
    Randomness:
        None. Seats are in the order of turns.
    Source:
        The game of H. Hach, 2017.

    Args:
        players: 2 to 4.
        rounds: 18, or 24 for the advanced game; at least 1.
        reward: ``rank`` or ``first``.

    Raises:
        EnvConfigError: A parameter of the wrong type or range.
    """

    def __init__(self, players: int = 4, rounds: int = 18, reward: str = "rank") -> None:
        self.players = check_whole("players", players, 2, 4)
        self.rounds = check_whole("rounds", rounds, 1, 1000)
        if reward not in REWARDS:
            raise EnvConfigError(
                f"there is no reward {shorten(reward)}",
                options=REWARDS,
                hint=nearest(reward, REWARDS),
            )
        self.reward = reward
        self.game = ForestGame(self.players, self.rounds)
        self.steps = -1
        self._seats = [f"player {i}" for i in range(self.players)]

    def obs_space(self) -> ObsSpace:
        """Players, kinds, passing, pieces, spaces, piles."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Choose``."""
        return ACTION_SPACE

    def seats(self) -> Sequence[str]:
        """The players, in the order of the first round."""
        return self._seats

    def reset(self) -> SeatObservations:
        """An empty board."""
        self.game = ForestGame(self.players, self.rounds)
        self.steps = 0
        return self._shown()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Do what the player whose turn it is does."""
        check_running(self.steps, self.game.is_over)
        choices = {_id_of(choice): choice for choice in self.game.legal()}
        own = actions.get(self._seats[self.game.player], {})
        self.game.play(choices[read_selection(own, "Choose", ("Player", 0), choices)])
        self.steps += 1
        return self._shown()

    def observe(self, player: int) -> Observation:
        """What a player sees now."""
        check_started(self.steps)
        game = self.game
        pieces = [i for i, size in enumerate(game.size) if size >= 0]
        spaces = [i for i, size in enumerate(game.size) if size < 0]
        order = [(player + i) % game.players for i in range(game.players)]
        seen = Observation(
            global_features=[
                game.round,
                game.rounds - 1 - game.round,
                game.round < 0,
                game.target is not None,
                *(angle == game.sun for angle in _ANGLES),
            ],
            features={
                "Player": [self._player(seat, other) for seat, other in enumerate(order)],
                "Kind": [
                    [
                        kind,
                        game.available[player][kind],
                        game.left[player][kind],
                        game.price(player, kind) or 0,
                    ]
                    for kind in range(len(KINDS))
                ],
                "Pass": [[]],
                "Piece": [self._piece(i, player) for i in pieces],
                "Space": [
                    [
                        *PLACES[i],
                        SOIL[i],
                        i in game.activated,
                        i == game.target,
                        *self._shades(i, 1),
                    ]
                    for i in spaces
                ],
                "Pile": [
                    [leaves + 1, len(pile) - taken, pile[taken] if taken < len(pile) else 0]
                    for leaves, (pile, taken) in enumerate(zip(TOKENS, game.taken, strict=True))
                ],
            },
            ids={
                "Player": [("Player", i) for i in range(game.players)],
                "Kind": [("Kind", kind) for kind in KINDS],
                "Pass": ["Pass"],
                "Piece": [("Piece", *SPACES[i]) for i in pieces],
                "Space": [("Space", *SPACES[i]) for i in spaces],
            },
            done=game.is_over,
        )
        if game.is_over:
            seen.reward = self._rewards()[player]
            seen.metrics = {
                "win": shares(game.standings())[player],
                "score": float(game.scores()[player]),
            }
        elif player == game.player:
            actees = [_id_of(choice) for choice in game.legal()]
            seen.actions = {
                "Choose": SelectEntityActionMask(actor_ids=[("Player", 0)], actee_ids=actees)
            }
        return seen

    def get_state(self) -> dict[str, Any]:
        """Everything about the game."""
        check_started(self.steps)
        game = self.game
        return {
            "size": list(game.size),
            "owner": list(game.owner),
            "activated": sorted(game.activated),
            "available": [list(own) for own in game.available],
            "left": [list(own) for own in game.left],
            "light": list(game.light),
            "points": list(game.points),
            "taken": list(game.taken),
            "round": game.round,
            "turn": game.turn,
            "target": game.target,
            "steps": self.steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go to a state of such a game; else StateError."""
        game = ForestGame(self.players, self.rounds)
        with reading_state("Photosynthesis", state):
            for name in ("size", "owner", "light", "points", "taken"):
                setattr(game, name, [whole(number) for number in state[name]])
            for name in ("available", "left"):
                setattr(game, name, [[whole(n) for n in own] for own in state[name]])
            game.activated = {whole(space) for space in state["activated"]}
            game.round, game.turn = whole(state["round"]), whole(state["turn"])
            game.target = None if state["target"] is None else whole(state["target"])
            steps = whole(state["steps"])
        refuse_state("Photosynthesis", state, _problems(game, steps))
        self.game, self.steps = game, steps
        return self._shown()

    def render_text(self) -> str:
        """The board row by row: whose piece and its size, the leaves of an empty space."""
        game = self.game
        lines = [f"round {game.round + 1} of {game.rounds}, light runs {DIRECTIONS[game.sun]}"]
        for r in range(3, -4, -1):
            row = [
                f"{'ABCD'[game.owner[i]]}{size}" if size >= 0 else f".{SOIL[i]}"
                for i, size in enumerate(game.size)
                if SPACES[i][1] == r
            ]
            lines.append("  " * abs(r) + "  ".join(row))
        lines += [
            f"{'ABCD'[i]}: light {game.light[i]}, points {game.points[i]}, "
            f"available {game.available[i]}, on the own board {game.left[i]}"
            for i in range(game.players)
        ]
        return "\n".join(lines)

    def render(self, cell: int = 48, **_: Any) -> npt.NDArray[np.uint8]:
        """The board, each piece with its size, empty spaces with their leaves; shape (H, W, 3)."""
        game = self.game
        spaces = [
            Space(q + r / 2, -r, game.owner[i], (size + 2) / 5, str(size if size >= 0 else SOIL[i]))
            for i, ((q, r), size) in enumerate(zip(SPACES, game.size, strict=True))
        ]
        points = ", ".join(f"{'ABCD'[i]} {game.points[i]}" for i in range(game.players))
        return draw_spaces(spaces, f"round {game.round + 1} of {game.rounds}: {points}", cell)

    def _shown(self) -> SeatObservations:
        if self.game.is_over:
            return {seat: self.observe(i) for i, seat in enumerate(self._seats)}
        return {self._seats[self.game.player]: self.observe(self.game.player)}

    def _player(self, seat: int, player: int) -> list[float]:
        game = self.game
        return [
            seat,
            (player - max(game.round, -1) - 1) % game.players,
            game.light[player],
            game.points[player],
            game.owner.count(player),
            *game.available[player],
            *game.left[player],
        ]

    def _piece(self, space: int, player: int) -> list[float]:
        game = self.game
        size, owner = game.size[space], game.owner[space]
        return [
            *PLACES[space],
            SOIL[space],
            owner == player,
            (owner - player) % game.players,
            size,
            space in game.activated,
            *self._shades(space, max(size, 1)),
        ]

    def _shades(self, space: int, size: int) -> list[bool]:
        """Whether a tree of this size is shaded there, now and at each angle to come."""
        game = self.game
        return [game.is_shaded(space, size, (game.sun + i) % len(_ANGLES)) for i in _ANGLES]

    def _rewards(self) -> list[float]:
        standings = self.game.standings()
        if self.reward == "first":
            won = zip(shares(standings), self.game.scores(), strict=True)
            return [share * score / 100 for share, score in won]
        # Who is better than k others, and equal to e, has the mean of places k to k + e.
        better = [sum(own > other for other in standings) for own in standings]
        places = [
            k + (standings.count(own) - 1) / 2 for k, own in zip(better, standings, strict=True)
        ]
        return [2 * place / (self.players - 1) - 1 for place in places]


def _id_of(choice: Choice) -> EntityID:
    """The entity that stands for a choice."""
    what, where = choice
    if what == "pass":
        return "Pass"
    if what == "buy":
        return ("Kind", KINDS[where])
    return ("Space" if what in ("start", "plant") else "Piece", *SPACES[where])


def _problems(game: ForestGame, steps: int) -> dict[str, bool]:
    """What is wrong with a state."""
    players, spaces = range(game.players), range(len(SPACES))
    each: list[Any] = [game.available, game.left, game.light, game.points]
    lists_fit = (
        len(game.size) == len(game.owner) == len(SPACES)
        and all(len(own) == game.players for own in each)
        and all(len(own) == len(KINDS) for own in (*game.available, *game.left))
        and len(game.taken) == len(TOKENS)
    )
    if not lists_fit:
        return {"lists of another length": True}
    fits = {
        "a negative step": steps < 0,
        "a round or turn that there is not": not -1 <= game.round <= game.rounds
        or not 0 <= game.turn < (2 if game.round < 0 else 1) * game.players,
        "pieces that there are not": any(not -1 <= size < len(KINDS) for size in game.size),
        "a piece of nobody": any(
            (size < 0) != (owner == -1) or owner not in (-1, *players)
            for size, owner in zip(game.size, game.owner, strict=True)
        ),
        "spaces that there are not": not game.activated <= set(spaces)
        or game.target not in (None, *spaces),
        "light that nobody can have": any(not 0 <= light <= MOST_LIGHT for light in game.light),
        "other stocks than a player can have": any(
            not 0 <= count <= len(slots)
            for own in game.left
            for count, slots in zip(own, PRICES, strict=True)
        )
        or any(not 0 <= count <= 8 for own in game.available for count in own),
        "more tokens taken than there are": any(
            not 0 <= taken <= len(pile) for taken, pile in zip(game.taken, TOKENS, strict=True)
        ),
        "negative points": min(game.points) < 0,
    }
    if not any(fits.values()) and game.target is not None:
        fits["a seed that no tree can plant"] = not game.origins(game.target)
    return fits
