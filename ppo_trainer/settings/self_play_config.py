"""The settings of self-play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from entity_env.arguments import FRACTION, at_least, checked, or_none
from entity_env.errors import SettingError
from ppo_trainer.settings.build import names_its_settings, path_field

__all__ = ["SelfPlayConfig"]


@names_its_settings
@dataclass(frozen=True)
class SelfPlayConfig:
    """The players of the seats that the current policy does not play.

    Args:
        mode: ``mirror``: the current policy plays every seat and learns from all of them. ``pool``:
            the same in most games; in the others the current policy plays against ``opponents`` and
            earlier versions of itself. ``stages``: it plays against one opponent at a time, first
            the ``opponents`` in their order, then frozen copies of itself. ``fixed``: it plays
            against one of the ``opponents`` in each game. ``population``: ``size`` policies play
            against each other and themselves, and each learns from its own rows. ``populations``:
            the same, where policy i modulo ``size`` always plays seat i, for worlds in which seats
            belong to populations, such as ``mmo``. ``mirror`` learns from every frame, but may
            cycle; ``pool`` and ``stages`` remember earlier versions, and learn from fewer frames.
        opponents: Names of opponents: ``random``, a run folder, or the dotted path of a function
            from Observation to actions, such as ``ragged_envs.multi_snake.crawl_to_food``.
            An empty list means ``random`` with ``stages`` and ``fixed``, and earlier versions only
            with ``pool``.
        past: Fraction of the games of ``pool`` that are not against the current policy. More of
            them prevent forgetting how to beat earlier versions, but leave fewer frames to learn
            from.
        choose: Distribution from which ``pool`` draws the opponent of each update. ``uniform``: all
            with the same probability, which prevents forgetting how to beat weak ones. ``recent``:
            each version with half the probability of the next one. ``quality``: strong opponents
            with a higher probability, from which there is more to learn.
        every: Number of updates between two versions that ``pool`` keeps. A smaller number fills a
            pool with versions that hardly differ.
        keep: Maximum number of versions that ``pool`` keeps. The oldest is removed first. More
            versions are more varied, and take disk space.
        until_win: Win rate over the last games at which a stage of ``stages`` ends; 0 for no such
            end. A higher rate masters each opponent more surely, and meets fewer of them.
        until_steps: Number of frames trained on at which a stage ends; 0 for no such end. Fewer
            frames meet more opponents, which differ less.
        size: Number of policies of ``population`` and ``populations``. More of them play more
            differently, but each learns from a smaller part of the rows.
        shared_embeddings: Share one embedding of entities between all policies of a population,
            which all of them train. It learns from all rows, but the policies can differ less.
        ratings: Start ``ppo_trainer.league <run> --follow`` beside the training, which rates each
            checkpoint. It uses an idle core, or takes time from the training if there is none.
        average: Use the average of the networks of all updates, weighted towards late ones, as the
            agent of the run in evaluations and files. In self-play a network may cycle around an
            equilibrium to which the average converges. The average lags behind the newest network,
            which keeps training.
        team_spirit: Fraction of a seat's reward that is replaced by the mean reward of its team, at
            the start of the run. A higher one teaches cooperation, but hides who earned a reward.
        team_spirit_end: The same fraction at the end of the run, with linear change between; null
            keeps ``team_spirit``. A rising fraction teaches the skills of each seat first, and
            cooperation later.
        zero_sum: Subtract the mean reward of the enemies from each reward. Seats then have no gain
            from what helps both sides, but also learn to harm the others.
        minutes_per_step: Length of a step of the game in minutes. A reward at minute t is
            multiplied by 0.6^(t / 10), so that early rewards of a long game count as much as its
            late, larger ones. 0 changes no reward.
    """

    mode: Literal["mirror", "pool", "stages", "fixed", "population", "populations"] = "mirror"
    opponents: Sequence[str] = path_field(())
    past: float = checked(FRACTION, 0.2)
    choose: Literal["uniform", "recent", "quality"] = "uniform"
    every: int = checked(at_least(1), 20)
    keep: int = checked(at_least(1), 8)
    until_win: float = checked(FRACTION, 0.8)
    until_steps: int = checked(at_least(0), 0)
    size: int = checked(at_least(2), 2)
    shared_embeddings: bool = False
    ratings: bool = False
    average: bool = False
    team_spirit: float = checked(FRACTION, 0.0)
    team_spirit_end: float | None = checked(or_none(FRACTION), None)
    zero_sum: bool = False
    minutes_per_step: float = checked(at_least(0), 0.0)

    def __post_init__(self) -> None:
        """Check the values against each other."""
        if self.plays_itself and self.opponents:
            raise SettingError(
                f"selfplay.opponents is set, but selfplay.mode={self.mode} has no opponents",
                expected="selfplay=pool, selfplay=stages or selfplay=fixed",
                received=list(self.opponents),
                hint="if a recipe sets the opponents, pass "
                f"selfplay={self.mode} or selfplay.opponents=[]",
            )
        if self.mode == "stages" and not (self.until_win or self.until_steps):
            raise SettingError(
                "no condition ends a stage of selfplay=stages",
                expected="selfplay.until_win or selfplay.until_steps",
            )

    @property
    def policies(self) -> int:
        """The number of networks that learn."""
        return self.size if self.mode in ("population", "populations") else 1

    @property
    def seats_have_policies(self) -> bool:
        """True if each policy always plays the same seats."""
        return self.mode == "populations"

    @property
    def plays_itself(self) -> bool:
        """True if the networks that learn play all seats of all games."""
        return self.mode in ("mirror", "population", "populations")

    @property
    def meets_equals(self) -> bool:
        """True if opponents include the current policy or versions of it."""
        return self.mode != "fixed"

    @property
    def shapes_rewards(self) -> bool:
        """True if the network learns from rewards other than those of the game."""
        spirit = self.team_spirit or self.team_spirit_end
        return bool(spirit or self.zero_sum or self.minutes_per_step)
