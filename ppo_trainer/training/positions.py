"""Positions that a space does not declare, which a new run finds in a few random games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from entity_env import ObsSpace, VecObs
from entity_env.agent import RandomAgent
from entity_env.coordinates import Coordinates, find_coordinates
from entity_env.play import play
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.machine.screen import log
from ppo_trainer.runs.folder import RunFolder
from ragged_net import NetConfig
from ragged_net.position_config import RelativePosition

__all__ = ["with_positions"]

_UNITS = 32
"""Range of coordinates in units, if they are not whole numbers of a smaller range."""
_ROWS, _STEPS = 4, 64


def with_positions(config: TrainConfig, game: Game, ranks: Ranks) -> TrainConfig:
    """Return settings with the relative positions of the coordinates that a new run finds.

    A network that has to compute offsets from coordinates learns more slowly, and one with waves
    of other lengths than the offsets learns nothing from them. A network whose settings use
    positions or relations otherwise keeps them, and a resumed run keeps what it has found.

    Args:
        config: The settings.
        game: The game, of which some steps are played at random.
        ranks: The processes of the training, all of which get the same settings.
    """
    if config.resume is not None:
        saved = RunFolder.open(config.resume).read_config()
        return _with(config, saved.net.relative_position if saved.find_positions else None)
    if not config.find_positions or config.init is not None or not _is_open(config.net):
        return config
    found = ranks.made_by_first(lambda: _found(config, game))
    return config if found is None else _with(config, RelativePosition(**found))


def _found(config: TrainConfig, game: Game) -> dict[str, Any] | None:
    """Return the arguments of RelativePosition for a game; None if it has no coordinates."""
    count = config.rollout.num_envs if game.is_native else game.whole(_ROWS)
    with replace(game, replays=None, staggered=False).rows(count, seed=0) as rows:
        space = rows.obs_space()
        policy = RandomAgent(space, rows.action_space(), seed=0).act_rows
        seen = list(islice(play(rows, policy), _STEPS))
    declared = bool(config.net.positions(space))  # raises an error if they differ in size
    found = find_coordinates(space, seen)
    ignored = " (find_positions=false ignores them)" if found.names and not declared else ""
    log(f"{found}{ignored}")
    if not found.names:
        return None
    unit, extent = _sizes(space, seen, found)
    return {"features": found.names, "unit": unit, "extent": extent, "absolute": not declared}


def _is_open(net: NetConfig) -> bool:
    """Return True if the settings of a network leave open, and allow, how positions are used."""
    used = net.relative_position, net.translation, net.relations
    return all(setting is None for setting in used) and net.dim // net.heads % 4 == 0


def _with(config: TrainConfig, found: RelativePosition | None) -> TrainConfig:
    """Return the settings with ``found``, unless the network has settings of its own."""
    if not _is_open(config.net):
        return config
    return replace(config, net=replace(config.net, relative_position=found))


def _sizes(space: ObsSpace, game: Sequence[VecObs], found: Coordinates) -> tuple[float, float]:
    """Return the unit and the extent of positions like those of a game."""
    values = np.concatenate(
        [
            obs.features[name].as_array()[
                :, [space.entities[name].names.index(axis) for axis in axes]
            ]
            for obs in game
            for name, axes in found.names.items()
        ]
    )
    usual = RelativePosition()
    extent = float(np.ptp(values, axis=0).max()) if len(values) else 0.0
    if not 0 < extent < np.inf:
        return usual.unit, usual.extent
    unit = extent / _UNITS
    if (values == np.round(values)).all():
        unit, extent = max(1.0, unit), max(1.0, extent)
    return float(f"{unit:.3g}"), float(f"{extent:.3g}")
