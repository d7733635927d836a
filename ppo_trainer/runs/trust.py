"""What a run folder names is imported only if that is the user's will.

Weights, metrics and spaces are data, whoever made them. The environment and the scripted player of
a run are names of code, and importing them runs it. They are taken without a question if an
installed package registers them, or if this user made the run on this machine (``signature.py``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib.machinery import PathFinder
from types import MappingProxyType
from typing import Any, NoReturn

from entity_env.errors import shorten
from entity_env.registry import Factory, is_registered, path_of, registered_packages, resolve
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import UNIMPORTABLE
from ppo_trainer.errors import ConfigError, UntrustedRunError
from ppo_trainer.players.self_play_config import is_script
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
) -> None:
    """Refuse to import what only a stranger has named.

    Args:
        run: The run folder.
        saved: Its settings as they stand in the folder.
        trust: The user's consent to all that the folder names.
        env: What the user passes as the environment, where it is not the folder that names it.
        named: What the user names in place of settings of the folder, such as ``env._target_``.
        scripted: Whether the scripted player is wanted, too, and scripts that are opponents.

    Raises:
        UntrustedRunError: Something needs consent: what would be imported, and from where.
        UnknownEnvironmentError: What the user names is no environment.
    """
    if not isinstance(trust, bool):
        raise ConfigError("trust is not True or False", received=shorten(trust))
    if trust:
        return
    refusal = _Refusal(run, saved)
    if refusal.reason is None:
        return
    if env is None:
        env = _named_env(saved.env["_target_"], named, refusal)
    # Some environments import what their settings name.
    for setting in getattr(env, "code_settings", ()):
        for group, within in (("env", saved.env), ("eval.env", saved.eval.env)):
            if setting in within and f"env.{setting}" not in named:
                refusal.of(f"{group}.{setting}", str(within[setting]))
    if "selfplay.opponents" not in named:
        for opponent in saved.selfplay.opponents if scripted else ():
            if is_script(opponent) and opponent.partition(".")[0] not in registered_packages():
                refusal.of("selfplay.opponents", opponent)
    player = None if "eval.scripted" in named else saved.eval.scripted
    if scripted and player is not None and player.partition(".")[0] not in registered_packages():
        refusal.of("eval.scripted", player)


def _named_env(target: str, named: Mapping[str, Any], refusal: _Refusal) -> Factory | None:
    """The environment that the user names or else the run, if it may be imported."""
    if "env._target_" in named:
        return resolve(named["env._target_"])
    if target.startswith(UNIMPORTABLE):
        return None  # nothing can be imported, which ``make_factory`` explains
    if not is_registered(target):
        refusal.of("env._target_", path_of(target))
    return resolve(target)


def why_consent_will_be_needed(config: TrainConfig) -> str | None:
    """Why whoever opens a run with these settings later will be asked, if there is a reason.

    Args:
        config: The settings of a run that this user makes.
    """
    target = config.env["_target_"]
    try:
        sign(config)
    except KeyUnavailableError as error:
        is_own = not target.startswith(UNIMPORTABLE) and not is_registered(target)
        return error.what if is_own else None
    return None


class _Refusal:
    """Why a run is not trusted, if it is not, and what to do about it."""

    def __init__(self, run: RunFolder, saved: TrainConfig) -> None:
        self._run = run
        self.reason = _why_untrusted(run, saved)

    def of(self, setting: str, path: str) -> NoReturn:
        """Refuse what the path in a setting leads to."""
        raise UntrustedRunError(
            f"the run {str(self._run.path)!r} names code that only runs with your consent: "
            f"{setting}={shorten(path)} would import {_module(path)}",
            expected="an environment that an installed package registers, or a run that you made "
            "on this machine",
            received=self.reason,
            hint="if you trust whoever made it: --trust, with resume= trust=true, in Python "
            "trust=True; or name the environment yourself: env=MyEnv in Python, env._target_=... "
            "with resume=; load_agent of ppo_trainer.agent opens the network alone",
        )


def _why_untrusted(run: RunFolder, saved: TrainConfig) -> str | None:
    """None for a run that this user made on this machine."""
    signature = run.read_signature()
    try:
        if verify(saved, signature or ""):
            return None
    except KeyUnavailableError as error:
        return f"a run that may be your own or not, which cannot be told: {error.what}"
    if signature is None:
        return f"a run without {run.signature_file.name}, made by somebody else or long ago"
    return (
        "a run that was signed by another user or on another machine, or whose env or "
        "eval.scripted has changed since"
    )


def _module(path: str) -> str:
    """The module in a dotted path and its file, which is found without importing anything."""
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
    return f"{shorten(name)}, {where}"
