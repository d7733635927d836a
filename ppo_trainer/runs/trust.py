"""Consent to imports, files and connections that the settings of a run folder name.

Weights, metrics and spaces are data, and safe to read. The environment and the scripted player of a
run are names of code, and importing them runs it; other settings name files outside of the folder,
or W&B. They are accepted without consent if an installed package registers them, or if this user
made the run on this machine. If the user passes a setting, that setting is accepted, too.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from entity_env.errors import SettingError, UntrustedRunError, shorten
from entity_env.registry import (
    Factory,
    is_registered,
    needing_consent,
    path_of,
    registered_packages,
    resolve,
)
from entity_env.scripted_agent import is_script
from ppo_trainer.config import TrainConfig, WandbConfig
from ppo_trainer.environments import UNIMPORTABLE
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.signature import KeyUnavailableError, sign, verify

__all__ = ["require_trust", "why_consent_will_be_needed"]


def require_trust(
    run: RunFolder,
    saved: TrainConfig,
    *,
    trust: bool,
    env: Factory | None = None,
    named: Mapping[str, Any] = MappingProxyType({}),
    scripted: bool = False,
    trains: bool = False,
) -> None:
    """Raise UntrustedRunError for settings that need consent and do not have it.

    Args:
        run: Run folder.
        saved: Settings in the folder.
        trust: Consent to everything that the folder names.
        env: Environment that the user passes; None if the folder names it.
        named: Settings or groups that the user passes in place of the folder's, by dotted name.
        scripted: True if the scripted player will be imported, too.
        trains: True if the run will be trained, with its opponents, replays and W&B.

    Raises:
        UntrustedRunError: A setting needs consent; the message names it and its effect.
        UnknownEnvironmentError: The name that the user passes is not that of an environment.
    """
    if not isinstance(trust, bool):
        raise SettingError("trust is not True or False", received=shorten(trust))
    if trust:
        return
    refusal = _Refusal(run, saved)
    if refusal.reason is None:
        return
    if env is None:
        env = _named_env(saved.env["_target_"], named, refusal)
    for setting, value, what in _needing_consent(saved, env, named, scripted, trains):
        if not any(f"{setting}.".startswith(f"{given}.") for given in named):
            refusal.of(setting, value, what)


def _named_env(target: str, named: Mapping[str, Any], refusal: _Refusal) -> Factory | None:
    """Return the environment that the user passes, or that of the run if it is trusted."""
    if "env._target_" in named:
        return resolve(named["env._target_"])
    if target.startswith(UNIMPORTABLE):
        return None  # it cannot be imported, which ``make_factory`` reports
    if not is_registered(target):
        refusal.of("env._target_", path_of(target), _import_of(path_of(target)))
    return resolve(target)


def _needing_consent(
    saved: TrainConfig, env: Factory | None, named: Mapping[str, Any], scripted: bool, trains: bool
) -> Iterator[tuple[str, object, str]]:
    """Yield the settings that name code or act outside of the folder, and their effects."""
    for group, within in (("env", saved.env), ("eval.env", saved.eval.env)):
        settings = {name: value for name, value in within.items() if name != "_target_"}
        for name, value in () if env is None else needing_consent(env, settings):
            yield f"{group}.{name}", value, "may import code or read files outside of the folder"
    if trains:
        players = [("selfplay.opponents", opponent) for opponent in saved.selfplay.opponents]
        if saved.search.play_on not in (None, "network"):
            players.append(("search.play_on", str(saved.search.play_on)))
        if saved.search.teacher not in (None, "none"):
            players.append(("search.teacher", str(saved.search.teacher)))
        for setting, name in players:
            if is_script(name) and not _is_of_registered_package(name):
                yield setting, name, _import_of(name)
            elif not is_script(name) and name != "random":
                where = Path(name).expanduser().absolute()
                yield setting, name, f"would read {str(where)!r}"
        if saved.rollout.replays is not None:
            where = Path(saved.rollout.replays).absolute()
            yield "rollout.replays", saved.rollout.replays, f"would write to {str(where)!r}"
        mode = named.get("scale.mode", saved.scale.mode)
        if mode != "local" and saved.scale.address is not None:
            address = shorten(saved.scale.address)
            yield "scale.address", saved.scale.address, f"would join the Ray cluster at {address}"
        mode = named.get("wandb.mode", saved.wandb.mode)
        for name, value in dataclasses.asdict(saved.wandb).items() if mode != "disabled" else ():
            if value != getattr(WandbConfig, name):
                yield f"wandb.{name}", value, "would send the run's numbers to W&B"
    player = saved.eval.scripted
    if scripted and player is not None and not _is_of_registered_package(player):
        yield "eval.scripted", player, _import_of(player)


def _is_of_registered_package(script: str) -> bool:
    return script.partition(".")[0] in registered_packages()


def why_consent_will_be_needed(config: TrainConfig, env: Factory) -> str | None:
    """Return the reason why opening a run with these settings will need consent, or None.

    Args:
        config: Settings of a run that this user makes.
        env: Class or function of its environment.
    """
    target = config.env["_target_"]
    try:
        sign(config)
    except KeyUnavailableError as error:
        is_asked = not target.startswith(UNIMPORTABLE) and not is_registered(target)
        is_asked = is_asked or any(_needing_consent(config, env, {}, scripted=True, trains=True))
        return error.what if is_asked else None
    return None


class _Refusal:
    """The reason to refuse a run, and the remedies."""

    def __init__(self, run: RunFolder, saved: TrainConfig) -> None:
        self._run = run
        self.reason = _why_untrusted(run, saved)

    def of(self, setting: str, value: object, what: str) -> NoReturn:
        """Raise UntrustedRunError for a setting of the folder, with its effect ``what``."""
        raise UntrustedRunError(
            f"the run {str(self._run.path)!r} needs your consent: "
            f"{setting}={shorten(value)} {what}",
            expected="an environment that an installed package registers, or a run that you made "
            "on this machine",
            received=self.reason,
            hint="if you trust its author: --trust, trust=true with resume=, or trust=True in "
            f"Python; or give the setting yourself: {setting}=... with resume=, or env=MyEnv in "
            "Python; load_agent of ppo_trainer.agent opens the network without the environment",
        )


def _why_untrusted(run: RunFolder, saved: TrainConfig) -> str | None:
    """Return why a run is not trusted, or None if this user made it on this machine."""
    signature = run.read_signature()
    try:
        if verify(saved, signature or ""):
            return None
    except KeyUnavailableError as error:
        return f"a run whose author cannot be determined: {error.what}"
    if signature is None:
        return "a run without config.signature, made by somebody else or long ago"
    return (
        "a run that was signed by another user or on another machine, or whose settings that "
        "need consent have changed since"
    )


def _import_of(path: str) -> str:
    """Describe what a dotted path would import and from which file, without importing it."""
    name = path.rpartition(".")[0] or path
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for part in rest:  # asked for a submodule, ``find_spec`` would import the packages around
            if spec is not None:
                within = spec.submodule_search_locations or []
                spec = PathFinder.find_spec(f"{spec.name}.{part}", within)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        where = "which is not found here"
    elif not spec.has_location:
        where = "a part of Python" if spec.origin else "a folder"
    else:
        where = f"from {spec.origin}"
    return f"would import {shorten(name)}, {where}"
