"""Loading of a run's network, alone or with the environment that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from entity_env import ObsSpace
from entity_env.errors import CheckpointError, SpaceError
from entity_env.registry import Factory
from entity_env.wrappers.selection import Selection, check_same_actions
from ppo_trainer.config import TrainConfig, with_changes
from ppo_trainer.environments import Game, evaluated, make_factory
from ppo_trainer.machine.device import choose_device
from ppo_trainer.machine.screen import log
from ppo_trainer.runs.checkpoint import load_network, locate_checkpoint, network_of
from ppo_trainer.runs.folder import RunFolder, is_one_policy
from ppo_trainer.runs.trust import require_trust
from ragged_net import RaggedNet

__all__ = [
    "LoadedNet",
    "LoadedRun",
    "fit_game",
    "game_of",
    "load_net",
    "load_policy",
    "network_of_run",
    "with_network_settings",
]


@dataclass(frozen=True)
class LoadedNet:
    """A run's network on its device, and the folder of the ``checkpoint`` that it is from.

    If each policy of the run has its own seats, ``others`` are the networks of the policies from 1
    on. A path such as ``<run>:1`` loads one policy only, which plays all seats.
    """

    run: RunFolder
    config: TrainConfig
    net: RaggedNet
    device: torch.device
    checkpoint: Path
    others: tuple[RaggedNet, ...] = field(default=(), kw_only=True)

    @property
    def nets(self) -> tuple[RaggedNet, ...]:
        """The networks that play together, in the order of their populations."""
        return self.net, *self.others


@dataclass(frozen=True)
class LoadedRun(LoadedNet):
    """A run's network, and its game with the observations that the network was trained on.

    Args:
        game: Game that shows what the network was trained on.
        whole: Observation space of the game itself.
    """

    game: Game
    whole: ObsSpace

    def writing_replays(self, folder: str | Path | None) -> LoadedRun:
        """Return the same run, with rows that write replays into a folder, if one is given."""
        if folder is None:
            return self
        return replace(self, game=replace(self.game, replays=Path(folder).expanduser()))


def load_policy(
    path: str | Path,
    env: Factory | None = None,
    device: str = "auto",
    *,
    trust: bool = False,
    scripted: bool = False,
    changes: Mapping[str, Any] | None = None,
) -> LoadedRun:
    """Load the newest checkpoint of a run, or its best one.

    Args:
        path: Run folder, or ``<run>/best`` for its best network.
        env: Class of its environment, needed if that cannot be imported or is another one.
        device: Device of the network.
        trust: Consent to import the code that the run names.
        scripted: True if its scripted player will be imported, too.
        changes: Values that replace those of the training, by the dotted names of settings, such as
            ``env.width``.

    Raises:
        UntrustedRunError: The run names code, and was made by somebody else.
    """
    run, folder = locate_checkpoint(path)
    config = run.read_config()
    # ``changes`` apply to the settings of evaluations, too.
    named = dict(changes or {})
    named |= {f"eval.{name}": value for name, value in named.items() if name.startswith("env.")}
    require_trust(run, config, trust=trust, env=env, named=named, scripted=scripted)
    config = with_changes(evaluated(config), changes or {})
    game, whole = fit_game(run, make_factory(config, env))
    net = network_of(folder, *run.read_spaces(), config)
    ready, others = _ready(folder, net, device), _others(path, run, folder, config, device)
    return LoadedRun(run, config, *ready, game, whole, others=others)


def load_net(path: str | Path, device: str = "auto") -> LoadedNet:
    """Load the network of a run's newest, or best, checkpoint; safe with runs of other people.

    Args:
        path: Run folder, or ``<run>/best`` for its best network.
        device: ``auto``, or the name of a device, which need not be that of the training.

    Raises:
        RunFolderError: The folder is not a run.
        CheckpointError: There is no checkpoint, or it is damaged.
    """
    run, folder = locate_checkpoint(path)
    config = run.read_config()
    net = network_of(folder, *run.read_spaces(), config)
    others = _others(path, run, folder, config, device)
    return LoadedNet(run, config, *_ready(folder, net, device), others=others)


def with_network_settings(config: TrainConfig) -> TrainConfig:
    """Return the settings with those of the network of ``init``, if a run begins with one."""
    if config.init is None:
        return config
    saved = locate_checkpoint(config.init)[0].read_config()
    return replace(config, net=saved.net, value_net=saved.value_net)


def network_of_run(path: str | Path, device: str = "auto") -> RaggedNet:
    """Return the network of ``load_net``; ``RaggedNet.from_run`` finds this as a plug-in."""
    return load_net(path, device).net


def game_of(loaded: LoadedNet, *, trust: bool = False) -> Game:
    """Return the game of a network as in evaluations, with the observations it was trained on.

    Args:
        loaded: The network.
        trust: Consent to import the code that the run names.

    Raises:
        UntrustedRunError: The run names code, and was made by somebody else.
    """
    require_trust(loaded.run, loaded.config, trust=trust)
    return fit_game(loaded.run, make_factory(evaluated(loaded.config)))[0]


def _ready(folder: Path, net: RaggedNet, device: str) -> tuple[RaggedNet, torch.device, Path]:
    chosen = choose_device(device)
    load_network(folder, net)
    return net.to(chosen), chosen, folder


def _others(
    path: str | Path, run: RunFolder, folder: Path, config: TrainConfig, device: str
) -> tuple[RaggedNet, ...]:
    """Load the policies from 1 on of a run in which each has seats of its own."""
    if (
        not config.selfplay.seats_have_policies
        or folder.parent != run.checkpoints
        or is_one_policy(path)
    ):
        return ()
    numbers = range(1, config.selfplay.policies)
    return tuple(load_net(f"{run.path}:{number}", device).net for number in numbers)


def fit_game(run: RunFolder, game: Game) -> tuple[Game, ObsSpace]:
    """Reduce a game to the spaces of the network of ``run``, and print what is left out.

    Returns:
        Game that shows what the network was trained on, and the observation space of the game
        itself.

    Raises:
        CheckpointError: The game lacks a part of the network's spaces, has it with another type, or
            has an action that the network lacks.
    """
    obs_space, action_space = run.read_spaces()
    with game.rows(game.whole(1), seed=0) as example:
        whole, actions = example.obs_space(), example.action_space()
    try:
        check_same_actions(action_space, actions)
        selection = Selection.of(whole, obs_space)
    except SpaceError as error:
        what = f"the network of run {str(run.path)!r} does not fit the environment: {error.what}"
        raise CheckpointError.from_fields({**error.fields(), "what": what}) from error
    if selection.is_whole:
        return game, whole
    if left_out := selection.left_out():
        log(f"not seen, as the network does not know it: {', '.join(left_out)}")
    return replace(game, shown=obs_space), whole
