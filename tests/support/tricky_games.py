"""Games of several players that are easily got wrong, and what each seat gets in them, by hand.

Each is a script of what ``reset`` and ``act`` return. ``LIVES`` says for each seat its episodes in
one game: what it was paid before its first decision, and for each decision the card that it saw and
the reward until its next one, or until its end.
"""

from __future__ import annotations

from support.seat_games import Played, asked, told

__all__ = ["LIVES", "SCRIPTS", "Medley", "Tricky", "all_seats"]

SCRIPTS = {
    # b is out before it has had a turn.
    "over before a turn": [{"a": asked(1.0)}, {"a": told(1.0, True), "b": told(-1.0, True)}],
    # c is paid while it waits, is cut off, and comes back.
    "dies and comes back": [
        {"a": asked(1.0)},
        {"b": asked(2.0, reward=0.5), "a": told(-1.0)},
        {"c": asked(3.0), "a": told(2.0)},
        {"a": asked(4.0), "c": told(0.25)},
        {"c": told(1.0, True, True), "a": asked(5.0), "b": asked(6.0)},
        {"c": asked(7.0), "b": told(3.0, True)},
        {"c": told(0.0, True), "a": told(4.0, True)},
    ],
    # Two at once, then one while the other waits.
    "at once and in turn": [
        {"a": asked(1.0), "b": asked(2.0)},
        {"a": asked(3.0, reward=1.0), "b": told(0.5)},
        {"b": asked(4.0, reward=0.25), "a": told(-1.0)},
        {"a": told(2.0, True), "b": told(3.0, True)},
    ],
    # Nobody is asked for some steps, in which seats are paid.
    "nobody is asked": [
        {"a": asked(1.0)},
        {"a": told(1.0)},
        {},
        {"b": told(2.0), "a": told(0.5)},
        {"a": asked(2.0, reward=0.25), "b": asked(3.0)},
        {"a": told(-1.0, True), "b": told(4.0, True)},
    ],
    # b is out, comes back, and is out again without having been asked; then it is asked.
    "a life without a turn": [
        {"a": asked(1.0), "b": asked(2.0)},
        {"b": told(1.0, True), "a": asked(3.0)},
        {"b": told(0.5), "a": asked(4.0)},
        {"b": told(-2.0, True), "a": asked(5.0)},
        {"b": asked(6.0), "a": asked(7.0, reward=1.0)},
        {"a": told(1.0, True), "b": told(2.0, True)},
    ],
    # Team red, a and b, loses a first; b plays on against c and wins for both.
    "teams": [
        {"a": asked(1.0), "b": asked(2.0), "c": asked(3.0)},
        {"a": told(-1.0, True), "b": asked(4.0, reward=-1.0), "c": asked(5.0, reward=1.0)},
        {"c": asked(6.0), "b": told(0.25)},
        {"b": told(2.0, True), "c": told(-2.0, True)},
    ],
}

LIVES = {
    "over before a turn": {"a": [(0.0, [(1, 1.0)])], "b": [(-1.0, [])], "c": []},
    "dies and comes back": {
        # a: -1 and 2 before it is asked again with card 4, nothing for that one, 4 for the last.
        "a": [(0.0, [(1, 1.0), (4, 0.0), (5, 4.0)])],
        "b": [(0.5, [(2, 0.0), (6, 3.0)])],
        # c: 0.25 and 1 after its only decision; then another life.
        "c": [(0.0, [(3, 1.25)]), (0.0, [(7, 0.0)])],
    },
    "at once and in turn": {
        "a": [(0.0, [(1, 1.0), (3, 1.0)])],  # -1 + 2
        "b": [(0.0, [(2, 0.75), (4, 3.0)])],  # 0.5 + 0.25
        "c": [],
    },
    "nobody is asked": {
        "a": [(0.0, [(1, 1.75), (2, -1.0)])],  # 1 + 0.5 + 0.25
        "b": [(2.0, [(3, 4.0)])],
        "c": [],
    },
    "a life without a turn": {
        "a": [(0.0, [(1, 0.0), (3, 0.0), (4, 0.0), (5, 1.0), (7, 1.0)])],
        "b": [(0.0, [(2, 1.0)]), (-1.5, []), (0.0, [(6, 2.0)])],  # 0.5 - 2
        "c": [],
    },
    "teams": {
        "a": [(0.0, [(1, -1.0)])],
        "b": [(0.0, [(2, -1.0), (4, 2.25)])],  # 0.25 + 2
        "c": [(0.0, [(3, 1.0), (5, 0.0), (6, -2.0)])],
    },
}


class Tricky(Played):
    """One of the scripts."""

    def __init__(self, name):
        super().__init__(*SCRIPTS[name], teams={"red": ["a", "b"], "blue": ["c"]})


class Medley(Tricky):
    """All of the scripts, one after the other: each game is another one."""

    def __init__(self):
        super().__init__(next(iter(SCRIPTS)))
        self.games = 0

    def reset(self):
        self.script = list(SCRIPTS.values())[self.games % len(SCRIPTS)]
        self.games += 1
        return super().reset()


def all_seats():
    """The lives of each seat in one game of each script, in the order of the seats."""
    return [[life for lives in LIVES.values() for life in lives[seat]] for seat in "abc"]
