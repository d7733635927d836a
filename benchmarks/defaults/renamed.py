"""Environments of the set whose features have names without meaning."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env import Entity, Environment, ObsSpace
from entity_env.spaces import Feature, feature_name
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["Renamed", "create"]


def create(target: str, arguments: dict[str, Any]) -> Environment:
    """Return an environment of the set, such as ``create("lifts.Lifts", {"floors": 5})``."""
    module, name = target.split(".")
    env: Environment = getattr(importlib.import_module(f"benchmarks.defaults.{module}"), name)(
        **arguments
    )
    return env


class Renamed(Wrapper):
    """The same game, whose features are called ``f0``, ``f1`` and so on, in a shuffled order.

    Features with equal names keep equal names, so that only the meaning of the names is lost.

    Args:
        target: Module and class of the environment, such as ``"sweepers.Sweepers"``.
        arguments: Arguments of the environment.
    """

    def __init__(self, target: str, **arguments: Any) -> None:
        super().__init__(create(target, arguments))

    def obs_space(self) -> ObsSpace:
        """Return the space of the environment with other names of features."""
        space = self.env.obs_space()
        lists = [space.global_features, *(entity.features for entity in space.entities.values())]
        names = sorted({feature_name(feature) for features in lists for feature in features})
        order = np.random.default_rng(0).permutation(len(names))
        new = {name: f"f{number}" for name, number in zip(names, order, strict=True)}

        def renamed(feature: Feature) -> Feature:
            name = new[feature_name(feature)]
            return name if isinstance(feature, str) else replace(feature, name=name)

        return ObsSpace(
            global_features=[renamed(feature) for feature in space.global_features],
            entities={
                kind: Entity([renamed(feature) for feature in entity.features])
                for kind, entity in space.entities.items()
            },
        )
