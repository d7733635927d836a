"""The settings that recipes, files and words such as ``seed=3`` describe together.

Hydra's grammar defines values, on the command line and in files alike. Nothing global is used or
changed, so that programs with Hydra configurations of their own, and threads, can read recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from entity_env.errors import SettingError, shorten
from ppo_trainer.config import TrainConfig, config_to_dict

__all__ = [
    "CONF",
    "GROUPS",
    "RECIPES",
    "Setting",
    "composed",
    "put",
    "read_recipe",
    "read_settings",
]

CONF = Path(__file__).parents[1] / "conf"
RECIPES = CONF / "experiment"
GROUPS = {
    folder.name: sorted(file.stem for file in folder.glob("[!_]*.yaml"))
    for folder in sorted(CONF.iterdir())
    if folder.is_dir()
}
"""The names of the files of settings, by group."""
_TAGS = {f"tag:yaml.org,2002:{n}" for n in ("str", "int", "float", "bool", "null", "timestamp")}


@dataclass(frozen=True)
class Setting:
    """A word of a command line.

    Args:
        name: Dotted name of a setting, or name of a group of files.
        value: Its value, or the name of a file.
        removed: True for a word such as ``~experiment``, which removes the setting.
    """

    name: str
    value: Any = None
    removed: bool = False


def composed(settings: Sequence[Setting]) -> dict[str, Any]:
    """Return all settings of a command line.

    The environment comes first, then its recipe, then other groups, then single settings. A recipe
    with the name of the environment is taken unless ``~experiment`` leaves it out.

    Raises:
        SettingError: A setting refers to something unknown, or cannot be removed.
    """
    chosen = {setting.name: setting.value for setting in settings if setting.name in GROUPS}
    env = chosen.pop("env", "minesweeper")
    recipe = chosen.pop("experiment", env if env in GROUPS["experiment"] else None)
    values = {**config_to_dict(TrainConfig()), "env": read_recipe(CONF / "env" / f"{env}.yaml")}
    if recipe is not None:
        values = _merged(values, read_recipe(RECIPES / f"{recipe}.yaml"))
    for group, option in chosen.items():
        if option is not None:
            values = _merged(values, {group: read_recipe(CONF / group / f"{option}.yaml")})
    for setting in settings:
        if setting.name in GROUPS:
            continue
        if setting.removed:
            _remove(values, setting.name)
        else:
            put(values, setting.name.split("."), setting.value)
    try:
        resolved: Any = OmegaConf.to_container(OmegaConf.create(values), resolve=True)
    except OmegaConfBaseException as error:
        raise SettingError(
            f"a setting refers to something unknown: {str(error).splitlines()[0]}",
            expected="${name} with the name of another setting, such as ${seed}",
        ) from error
    return dict(resolved)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML file, whose values mean the same as on the command line.

    Raises:
        SettingError: The file cannot be read, or does not contain settings.
    """
    try:
        values = _value(yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict | None):
        raise SettingError(
            f"{path} does not contain settings",
            expected="lines such as name: value, as in ppo_trainer/conf/experiment",
            received=shorten(values),
        )
    return values or {}


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the settings in a file of ``conf``, with those of the files that it includes."""
    values = read_settings(path)
    found: dict[str, Any] = {}
    for name in values.pop("defaults", ()):
        if name != "_self_":
            found = _merged(found, read_recipe(path.with_name(f"{name}.yaml")))
    return _merged(found, values)


def put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set one value within nested dicts; a dict is merged with the present one."""
    name, *rest = path
    if rest or isinstance(value, dict):
        inner = values[name] = values[name] if isinstance(values.get(name), dict) else {}
        for key, part in {".".join(rest): value}.items() if rest else value.items():
            put(inner, key.split(".") if rest else [key], part)
    else:
        values[name] = value


def _value(node: yaml.Node | None) -> Any:
    """Return the value of a YAML node, with plain scalars in Hydra's grammar."""
    if isinstance(node, yaml.MappingNode):
        return {str(_text(key)): _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(part) for part in node.value]
    if not isinstance(node, yaml.ScalarNode):
        return None
    text = _text(node)
    if node.style is not None:  # in quotes
        return text
    return None if text in ("", "~") else _grammar_value(text)


def _grammar_value(text: str) -> Any:
    """Return the value of a text in Hydra's grammar, or the text itself."""
    try:
        override = OverridesParser.create().parse_override(f"x={text}")
    except HydraException:
        return text
    return text if override.is_sweep_override() else override.value()


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag not in _TAGS:
        raise ValueError("it has names or tags that are no settings")
    return str(node.value)


def _remove(values: dict[str, Any], path: str) -> None:
    *groups, name = path.split(".")
    within: Any = values
    for group in groups:
        within = within.get(group) if isinstance(within, dict) else None
    if not isinstance(within, dict) or name not in within:
        raise SettingError(f"~{path}: {path!r} does not exist")
    del within[name]


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for name, value in above.items():
        inner = result.get(name)
        merges = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[name] = _merged(inner, value) if merges and inner is not None else value
    return result
