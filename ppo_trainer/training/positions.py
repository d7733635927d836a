"""Positions that a space does not declare, found by the names of coordinates, such as x and y."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from entity_env import ObsSpace, VecEnv, VecObs
from entity_env.spaces import Grid, feature_name, num_values
from ppo_trainer.config import TrainConfig
from ppo_trainer.machine.ranks import Ranks
from ppo_trainer.machine.screen import log
from ppo_trainer.runs.folder import RunFolder
from ragged_net import NetConfig
from ragged_net.position_config import RelativePosition

__all__ = ["named_coordinates", "with_positions"]

_NAMES: tuple[tuple[str, ...], ...] = (
    ("x", "y", "z"),
    ("x", "y"),
    ("row", "column"),
    ("row", "col"),
)
_UNITS = 32
"""Range of coordinates in units, if they are not whole numbers of a smaller range."""


def with_positions(
    config: TrainConfig, rows: VecEnv, ranks: Ranks
) -> tuple[TrainConfig, VecObs | None]:
    """Return settings with the relative positions of the coordinates that a new run finds.

    A network that has to compute offsets from coordinates learns more slowly, and one with waves
    of other lengths than the offsets learns nothing from them. A network whose settings use
    positions or relations otherwise keeps them, and a resumed run keeps what it has found.

    Args:
        config: The settings.
        rows: The rows of the training.
        ranks: The processes of the training, all of which get the same settings.

    Returns:
        The settings, and the first observation of the rows if they have been reset.
    """
    if config.resume is not None:
        saved = RunFolder.open(config.resume).read_config()
        found = saved.net.relative_position if saved.find_positions else None
        return _with(config, found), None
    if not config.find_positions or config.init is not None or not _is_open(config.net):
        return config, None
    space = rows.obs_space()
    declared = {name: positions.names for name, positions in config.net.positions(space).items()}
    names = declared or named_coordinates(space)
    if not names:
        return config, None
    obs = rows.reset()
    unit, extent = ranks.of_first(_sizes(_coordinates(space, obs, names)))
    if not declared:
        axes = ", ".join(next(iter(names.values())))
        log(f"positions: {axes} of {', '.join(names)} (find_positions=false ignores them)")
    found = RelativePosition(names, unit=unit, extent=extent, absolute=not declared)
    return _with(config, found), obs


def named_coordinates(obs_space: ObsSpace) -> dict[str, tuple[str, ...]]:
    """Return the names of the coordinates of each entity type that has some of the usual names.

    All types have the same coordinates: x and y, if some have x, y and z, and others only x and y.
    """
    numbers = {
        name: {feature_name(feature) for feature in entity.features if num_values(feature) is None}
        for name, entity in obs_space.entities.items()
        if not isinstance(entity, Grid)
    }
    having = {
        names: [entity for entity in numbers if numbers[entity].issuperset(names)]
        for names in _NAMES
    }
    # The first of the names that most types have.
    best = max(_NAMES, key=lambda names: len(having[names]))
    return dict.fromkeys(having[best], best)


def _is_open(net: NetConfig) -> bool:
    """Return True if the settings of a network leave open, and allow, how positions are used."""
    used = net.relative_position, net.translation, net.relations
    return all(setting is None for setting in used) and net.dim // net.heads % 4 == 0


def _with(config: TrainConfig, found: RelativePosition | None) -> TrainConfig:
    """Return the settings with ``found``, unless the network has settings of its own."""
    if not _is_open(config.net):
        return config
    return replace(config, net=replace(config.net, relative_position=found))


def _coordinates(
    space: ObsSpace, obs: VecObs, names: Mapping[str, tuple[str, ...]]
) -> npt.NDArray[np.float32]:
    """Return the coordinates of all entities. Shape: (N, K)."""
    values = []
    for name, axes in names.items():
        columns = [space.entities[name].names.index(axis) for axis in axes]
        values.append(obs.features[name].as_array()[:, columns])
    return np.concatenate(values)


def _sizes(values: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Return the unit and the extent of positions like these coordinates."""
    usual = RelativePosition()
    extent = float(np.ptp(values, axis=0).max()) if len(values) else 0.0
    if not 0 < extent < np.inf:
        return usual.unit, usual.extent
    unit = extent / _UNITS
    if (values == np.round(values)).all():
        unit, extent = max(1.0, unit), max(1.0, extent)
    return float(f"{unit:.3g}"), float(f"{extent:.3g}")
