"""The settings of self-play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ppo_trainer.errors import ConfigError
from ppo_trainer.settings.build import names_its_settings
from ppo_trainer.settings.ranges import at_least, fraction

__all__ = ["SelfPlayConfig"]


@names_its_settings
@dataclass(frozen=True)
class SelfPlayConfig:
    """The players of the seats that the current policy does not play.

    Args:
        mode: ``mirror``: the current policy plays every seat and learns in all of them. ``pool``:
            it does so in most games, and in the others meets ``opponents`` and earlier versions of
            itself. ``stages``: it meets one opponent after the other, first ``opponents``, then
            each time a frozen copy of itself. ``fixed``: it meets ``opponents`` only, one of them
            in each game. ``population``: ``size`` policies play each other and themselves, and each
            learns from its own rows.
        opponents: By name: ``random``, a run folder, or the dotted path of a function from
            Observation to actions, such as ``ragged_envs.multi_snake_script.crawl_to_food``. None
            means nobody with ``pool``, and ``random`` with ``stages`` and ``fixed``.
        past: Of ``pool``, the part of the games that are not against the current policy.
        choose: Of ``pool``, how an opponent is drawn: ``uniform``, ``recent`` (each earlier version
            half as often as the next later one), or ``quality``: more often the harder they are.
        every: The updates between two versions that a ``pool`` keeps, or ``ratings`` rate.
        keep: Of ``pool``, how many versions are kept, at most; the oldest one leaves first.
        at_once: Of ``pool``, how many opponents begin games in one update, each drawn as ``choose``
            says. Each network that plays costs a pass of its own in every step, however few its
            rows are.
        quality_step: How much a win takes from the quality score of whom it is against.
        until_win: Of ``stages``, the win rate over the last games at which a stage ends; 0 for no
            such end.
        until_steps: The frames trained on in a stage at which it ends; 0 for no such end.
        until_episodes: The games against its opponent at which it ends; 0 for no such end.
        size: Of ``population``, the number of policies.
        populations: So many policies learn, as with ``population``, and seat i is always played by
            policy i modulo this number, for worlds in which seats have many lives and belong to
            populations of their own, such as ``mmo``; 0: no seat has a policy of its own.
        shared_embeddings: Of ``population``, whether all policies read entities by one embedding,
            which all of them train; else nothing is shared.
        ratings: Whether a process of its own, at the lowest priority, rates a version every
            ``every`` updates against random play, the scripted player and the versions before.
        rating_games: Games of a version against each of them.
        average: Whether the agent of the run, in evaluations and files, is the average of the
            networks of all updates, late ones counting most. Against itself a network may circle
            around an equilibrium to which its average converges.
        team_spirit: The part of a seat's reward that is the mean of its team's, at the beginning.
        team_spirit_end: The same at the end, towards which it changes evenly; null keeps it.
        zero_sum: Whether the mean reward of the enemies is taken from each reward.
        minutes_per_step: The length of a step of the game in minutes. Then a reward at minute t
            counts 0.6^(t / 10); 0 counts all alike.
    """

    mode: Literal["mirror", "pool", "stages", "fixed", "population"] = "mirror"
    opponents: Sequence[str] = ()
    past: float = fraction(default=0.2)
    choose: Literal["uniform", "recent", "quality"] = "uniform"
    every: int = at_least(1, default=20)
    keep: int = at_least(1, default=8)
    at_once: int = at_least(1, default=1)
    quality_step: float = at_least(0, default=0.01)
    until_win: float = fraction(default=0.8)
    until_steps: int = at_least(0, default=0)
    until_episodes: int = at_least(0, default=0)
    size: int = at_least(2, default=2)
    populations: int = at_least(0, default=0)
    shared_embeddings: bool = False
    ratings: bool = False
    rating_games: int = at_least(2, default=20)
    average: bool = False
    team_spirit: float = fraction(default=0.0)
    team_spirit_end: float | None = fraction(default=None)
    zero_sum: bool = False
    minutes_per_step: float = at_least(0, default=0.0)

    def __post_init__(self) -> None:
        """Check the values against each other."""
        if self.populations:
            self._become_populations()
        if self.plays_itself and self.opponents:
            raise ConfigError(
                f"selfplay.opponents is set, and selfplay.mode={self.mode} has no opponents",
                expected="selfplay=pool, selfplay=stages or selfplay=fixed",
                received=list(self.opponents),
                hint=f"if a recipe names them: selfplay={self.mode} or selfplay.opponents=[]",
            )
        if self.mode == "stages" and not (
            self.until_win or self.until_steps or self.until_episodes
        ):
            raise ConfigError(
                "a stage of selfplay=stages has no end",
                expected="selfplay.until_win, selfplay.until_steps or selfplay.until_episodes",
            )

    def _become_populations(self) -> None:
        wanted = {"mode": ("mirror", "population"), "size": (2, self.populations)}
        for name, allowed in wanted.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"selfplay.populations={self.populations} and selfplay.{name} do not go "
                    "together",
                    expected=f"{name}={allowed[1]}, or nothing",
                    received=f"selfplay.{name}={getattr(self, name)}",
                )
            object.__setattr__(self, name, allowed[1])
        if self.populations < 2:
            raise ConfigError(
                "selfplay.populations is out of range",
                expected="2 policies or more; 0: one policy plays all seats",
                received=self.populations,
            )

    @property
    def policies(self) -> int:
        """The number of networks that learn."""
        return self.size if self.mode == "population" else 1

    @property
    def plays_itself(self) -> bool:
        """True if the learning networks play all seats of all games."""
        return self.mode in ("mirror", "population")

    @property
    def meets_equals(self) -> bool:
        """True if it plays itself, or versions of itself."""
        return self.mode != "fixed"

    @property
    def shapes_rewards(self) -> bool:
        """True if the rewards differ from those of the game."""
        spirit = self.team_spirit or self.team_spirit_end
        return bool(spirit or self.zero_sum or self.minutes_per_step)
