"""The settings of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from entity_env.arguments import ABOVE_0, FRACTION, at_least, check_number, checked, or_none
from entity_env.errors import SettingError, shorten
from ppo_trainer.settings.build import names_its_settings, path_field

__all__ = ["SearchConfig"]


def _mirror(where: str, value: object) -> Mapping[str, Mapping[str, float]]:
    """Return the places of a mirror by entity type and feature."""
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        raise SettingError(
            f"{where} names no coordinates of entity types",
            expected="such as {Column: {x: 0}}",
            received=shorten(value),
        )
    return {
        kind: {
            name: check_number(f"{where} of {kind}.{name}", place) for name, place in places.items()
        }
        for kind, places in value.items()
    }


@names_its_settings
@dataclass(frozen=True)
class SearchConfig:
    """A search for the choices of ``algorithm=search``, and of ``--search`` at play.

    Args:
        visits: Number of visits of the tree for each decision. Each visit plays one step in a copy
            of the game, and passes the network once. More visits find better choices, in
            proportionally more time.
        share: Fraction of the decisions of ``algorithm=search`` that are searched. In the others
            the network chooses, and only its value function learns. A smaller fraction collects
            more decisions in the same time, each with less to learn from.
        candidates: Maximum number of choices of a position among which to search; those of several
            actors are drawn together. More candidates miss fewer good ones, but need more visits.
        chance: ``drawn``: each visit draws its own random numbers, so that the search does not know
            the future. ``known``: it plays with the random numbers that the game will draw.
        play_on: Player that plays each visit on to the end of the game, whose result replaces the
            network's value: ``network``, ``random``, or the dotted path of a function from
            Observation to actions. Results are exact but take many steps; they pay off where a good
            rule is known. null uses the network's value.
        teacher: Network of the search in a training: null for the one that is trained, a run folder
            for a fixed one, or ``none`` for equal probabilities, which needs ``play_on``. A fixed
            teacher is as good from the start as it will ever be.
        unit: Difference of returns that is large. The search trusts smaller differences less than
            the network's probabilities. A smaller unit changes the policy faster, also because of
            errors of the values.
        epsilon: Fraction of the searched decisions of ``algorithm=search`` in which a random
            candidate is played instead of the best one; the search teaches as usual. Without it,
            all games of two good players become the same game.
        mirror: Coordinates of entity types and the place of the mirror, such as ``{Column: {x:
            0}}``, in a game that stays the same if all places are mirrored. ``algorithm=search``
            then learns from each decision twice, as it was and mirrored. Choices must be
            selections of entities, because one such as "left" would change its meaning.
    """

    visits: int = checked(at_least(1), 16)
    share: float = checked(FRACTION, 1.0)
    candidates: int = checked(at_least(2), 32)
    chance: Literal["drawn", "known"] = "drawn"
    play_on: str | None = path_field(None)
    teacher: str | None = path_field(None)
    unit: float = checked(ABOVE_0, 1.0)
    epsilon: float = checked(FRACTION, 0.0)
    mirror: Mapping[str, Mapping[str, float]] | None = checked(or_none(_mirror), None)
