"""``ratings.jsonl``: the ratings of the versions of a run and of reference players."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from entity_env.errors import DAMAGES, RunFolderError
from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import read_file, write_file
from ppo_trainer.runs.folder import RunFolder, reading, writing

__all__ = ["RatedPlayer", "read_ratings", "write_ratings"]

_MOST_BYTES, _MOST_VALUES = 1 << 26, 100_000


@dataclass(frozen=True)
class RatedPlayer:
    """One line of the file.

    Args:
        player: Name of a version, or of a reference player.
        steps: Number of frames that the version was trained on; None for a reference player.
        rating: Rating of the player.
        deviation: Standard deviation of the rating.
        games: Numbers of games won, drawn and lost, by the names of opponents that were rated
            before.
    """

    player: str
    steps: int | None
    rating: float
    deviation: float
    games: Mapping[str, tuple[int, int, int]]


def write_ratings(run: RunFolder, players: Iterable[RatedPlayer]) -> None:
    """Replace the file in one step."""
    lines = "".join(f"{json.dumps(asdict(player))}\n" for player in players)
    file = run.ratings_file
    with writing(file):
        write_file(file, lines.encode())


def read_ratings(run: RunFolder) -> list[RatedPlayer]:
    """Return all players, in the order of their first ratings; none if there is no file.

    Raises:
        RunFolderError: The file cannot be read, or is damaged.
    """
    if not run.ratings_file.is_file():
        return []
    with reading(run.ratings_file):
        lines = read_file(run.ratings_file, _MOST_BYTES).splitlines()
    try:
        return [_player(parse_json(line, _MOST_VALUES)) for line in lines]
    except DAMAGES as error:
        raise RunFolderError(f"{run.ratings_file} is damaged: {error}") from error


def _player(values: Any) -> RatedPlayer:
    return RatedPlayer(
        player=str(values["player"]),
        steps=None if values["steps"] is None else int(values["steps"]),
        rating=float(values["rating"]),
        deviation=float(values["deviation"]),
        games={str(name): _counts(counts) for name, counts in values["games"].items()},
    )


def _counts(counts: Any) -> tuple[int, int, int]:
    won, drawn, lost = counts
    return int(won), int(drawn), int(lost)
