"""The settings of a training as this process uses them, its game, and its rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from entity_env import VecEnv
from entity_env.errors import SettingError
from entity_env.registry import Factory
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import (
    Game,
    make_factory,
    make_vec_env,
    with_env,
    with_kept_files,
    with_whole_games,
)
from ppo_trainer.experience.row_history import RowHistory
from ppo_trainer.machine.device import choose_device, keep_freed_memory, use_threads
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import fit_game, with_network_settings
from ppo_trainer.runs.logger import check_wandb
from ppo_trainer.scale.clients import open_rows
from ppo_trainer.training.goals import check_metric_names
from ppo_trainer.training.positions import with_positions
from ppo_trainer.training.rehearsal import rehearse

__all__ = ["open_training_rows", "planned_settings", "prepared"]


def planned_settings(config: TrainConfig, env: Factory | None = None) -> TrainConfig:
    """Return the settings that ``train`` would use, such as positions that it finds.

    Nothing is trained or written; a few steps are played.
    """
    return prepared(with_env(config, env), env, LONE)[0]


def prepared(
    config: TrainConfig, env: Factory | None, ranks: Ranks
) -> tuple[TrainConfig, Game, torch.device]:
    """Return the settings as this process trains with them, the game and the device."""
    config = with_kept_files(config, env)
    if config.resume is None:
        config = with_network_settings(config)
    device = choose_device(config.device)
    use_threads(config, device)
    keep_freed_memory()
    game = make_factory(config, env)
    if (earlier := ranks.remembered_run()) is not None:
        config = replace(config, resume=earlier)
    if config.resume is not None:
        game, _ = fit_game(RunFolder.open(config.resume), game)
    config = with_whole_games(config, game)
    check_metric_names(config)
    if config.selfplay.ratings and not game.has_seats:
        raise SettingError(
            f"selfplay.ratings is set, and {game.name} is not a game for several players",
            expected="selfplay.ratings=false, or a game with seats",
        )
    rehearse(config, game)
    check_wandb(config)
    return with_positions(config, game, ranks), game, device


@contextmanager
def open_training_rows(config: TrainConfig, game: Game, ranks: Ranks) -> Iterator[VecEnv]:
    """Open the rows of a training; in a single process, a failed rollout can be undone."""
    with open_rows(config, game, ranks) as vec_env:
        if ranks.is_alone:
            silent = replace(config, rollout=replace(config.rollout, replays=None))
            make_rows = functools.partial(make_vec_env, silent, game, config.seed)
            vec_env = RowHistory(vec_env, make_rows)
        yield vec_env
