"""All settings of a run, and the most important ones, as text."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ppo_trainer.config import TrainConfig
from ppo_trainer.settings.build import leaves

__all__ = ["settings_summary", "settings_text", "written"]

_SUMMARY = {
    "rollout": ("num_envs", "steps", "processes"),
    "ppo": ("epochs", "minibatch_size", "gamma", "gae_lambda", "entropy_coef"),
    "optim": ("lr", "schedule"),
    "net": ("dim", "layers", "heads", "memory", "value_norm", "relative_position"),
}


def settings_text(config: TrainConfig) -> str:
    """Return a line for each setting, as on the command line; a star marks changed defaults."""
    usual = dict(leaves(dataclasses.asdict(TrainConfig())))
    lines = []
    for name, value in leaves(dataclasses.asdict(config)):
        is_changed = name not in usual or usual[name] != value
        lines.append(f"{'*' if is_changed else ' '} {name}={written(value)}")
    return "\n".join(["Settings (* differs from the default):", *lines])


def settings_summary(config: TrainConfig) -> str:
    """Return the most important settings, and all whose defaults are changed, in few lines."""
    usual = dict(leaves(dataclasses.asdict(TrainConfig())))
    lines = {"env": [config.env["_target_"]], "": [f"total_timesteps={config.total_timesteps}"]}
    for name, value in leaves(dataclasses.asdict(config)):
        group, _, last = name.rpartition(".")
        group, last = (group.partition(".")[0], name.partition(".")[2]) if group else ("", name)
        is_changed = name not in usual or usual[name] != value
        is_shown = last in _SUMMARY.get(group, ()) and value not in (None, 0, "none")
        if (is_changed or is_shown) and name not in ("env._target_", "total_timesteps"):
            lines.setdefault(group, []).append(f"{last}={written(value)}")
    rows = [f"  {group or 'run':<10}  {' '.join(own)}" for group, own in lines.items()]
    return "\n".join(["settings (all: --show):", *rows])


def written(value: Any) -> str:
    """Return a value as it is written on the command line."""
    return json.dumps(value, default=str, ensure_ascii=False).replace('"', "")
