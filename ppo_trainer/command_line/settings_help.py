"""The descriptions of all settings, for ``--help`` and for the Settings page."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from entity_env.errors import EntityEnvError, SettingError, nearest
from ppo_trainer.command_line.composition import GROUPS, RECIPES, read_recipe
from ppo_trainer.config import TrainConfig
from ppo_trainer.reporting.settings_text import written
from ppo_trainer.settings.build import KINDS

__all__ = ["RECIPES", "SettingHelp", "all_settings", "general_help", "settings_help"]

_HELP = """\
Train a network on lists of entities with PPO.

  python -m ppo_trainer env=minesweeper                train
  python -m ppo_trainer env.width=8 env.nmines=10      with other settings
  python -m ppo_trainer env._target_=my_pkg.MyEnv      on your own environment
  python -m ppo_trainer resume=runs/<run>              go on with a run
  python -m ppo_trainer -m seed=1,2,3                  one run for each seed
  python -m ppo_trainer.watch runs/<run>               watch it play
  python -m ppo_trainer.evaluate runs/<run>            measure it

A setting is name=value. A recipe is a file of settings for a game (experiment=option); a game with
a recipe of its name takes it, and your own environment takes the defaults.

--show       prints all settings that a command would train with, and starts nothing:
             python -m ppo_trainer env._target_=my_pkg.MyEnv --show
--help ppo   explains the settings of a group, --help ppo.gamma one of them.
-m           trains one run for each combination of values.

Environments, recipes and other files of settings (group=option):
"""


@dataclass(frozen=True)
class SettingHelp:
    """The description of a setting.

    Args:
        name: Dotted name, such as ``ppo.gamma``.
        default: Default value as written on the command line; None if the setting has none.
        values: Valid values, in words.
        meaning: One or more sentences from the docstring of its dataclass.
        recipes: Names of the recipes that set another value, by that value.
    """

    name: str
    default: str | None
    values: str
    meaning: str
    recipes: Mapping[str, tuple[str, ...]]

    def text(self, *, recipes: bool) -> str:
        """Return the description for the terminal, with or without the recipes that change it."""
        lines = [
            self.name if self.default is None else f"{self.name}={self.default}",
            f"    {self.meaning} Values: {self.values}.",
        ]
        if recipes:
            lines += [f"    {value} in {', '.join(names)}" for value, names in self.recipes.items()]
        return "\n".join(lines)


def general_help() -> str:
    """Return how to start, and the names of all environments and recipes."""
    groups = (
        textwrap.fill(f"{name}: {', '.join(files)}", 100, subsequent_indent="    ")
        for name, files in GROUPS.items()
    )
    return "\n".join([_HELP, *groups])


def settings_help(name: str) -> str:
    """Return the settings of a group such as ``ppo``, or one setting with its recipes.

    Raises:
        SettingError: No setting or group has this name.
    """
    known = all_settings()
    found = [
        setting for setting in known if setting.name == name or setting.name.startswith(f"{name}.")
    ]
    if not found:
        names = [setting.name for setting in known]
        groups = sorted({name.rpartition(".")[0] for name in names} - {""})
        group = name.rpartition(".")[0]
        options = [name for name in names if name.rpartition(".")[0] == group] if group else groups
        raise SettingError(
            f"--help {name}: unknown setting",
            options=options or groups,
            hint=nearest(name, [*groups, *names]),
        )
    return "\n".join(setting.text(recipes=setting.name == name) for setting in found)


def all_settings() -> list[SettingHelp]:
    """Return the description of every setting, in the order of the dataclasses."""
    recipes = {
        path.stem: dict(_every(read_recipe(path))) for path in sorted(RECIPES.glob("[!_]*.yaml"))
    }
    return list(_described(TrainConfig, "", recipes))


def _described(
    kind: Any, above: str, recipes: Mapping[str, Mapping[str, Any]]
) -> Iterator[SettingHelp]:
    """Yield the description of each setting within a dataclass."""
    docs = "\n".join(inspect.getdoc(base) or "" for base in kind.__mro__[:-1])
    texts = dict(re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", docs, re.MULTILINE))
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        path = above + field.name
        group = next(filter(dataclasses.is_dataclass, _kinds(hints[field.name])), None)
        if group is not None:
            yield from _described(group, f"{path}.", recipes)
            continue
        default = None
        if field.default_factory is not dataclasses.MISSING:
            default = written(field.default_factory())
        elif field.default is not dataclasses.MISSING:
            default = written(field.default)
        changed: dict[str, tuple[str, ...]] = {}
        for recipe, values in recipes.items():
            value = written(values[path]) if path in values else default
            if value is not None and value != default:
                changed[value] = (*changed.get(value, ()), recipe)
        meaning = " ".join(texts.get(field.name, "").split()).replace("``", "`")
        allowed = _allowed(hints[field.name], field.metadata)
        yield SettingHelp(path, default, allowed, meaning, changed)


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union without None, or the type itself."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(kind for kind in kinds if kind is not NoneType)


def _allowed(hint: Any, metadata: Mapping[str, Any]) -> str:
    """Return the valid values of a setting in words, as its error message has them."""
    (kind,) = _kinds(hint)
    words = KINDS.get(get_origin(kind) or kind, "a list")
    if get_origin(kind) is Literal:
        words = ", ".join(get_args(kind))
    elif "check" in metadata:
        try:
            metadata["check"]("", "?")
        except EntityEnvError as error:
            said = re.findall(r"^ *(?:expected|valid): *(.*)", str(error), re.MULTILINE)
            words = said[-1].replace("'", "").removesuffix(", or None")
    return words if kind is hint else f"{words}, or null"


def _every(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield single settings and groups with their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _every(value, f"{above}{name}.")
        yield f"{above}{name}", value
