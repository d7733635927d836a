"""The start of a training: a new run, or one that is resumed from a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path

import torch

from entity_env import VecEnv, VecObs
from entity_env.errors import CheckpointError, SettingError, counted
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.algorithms.search import mirror_places
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.learner.optimizers import frozen_copy
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.machine.screen import log
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.self_play import SelfPlay
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.settings_text import settings_summary, written
from ppo_trainer.runs.checkpoint import (
    latest_checkpoint,
    load_network,
    load_rows,
    load_state,
    network_of,
    remove_old_checkpoints,
    save_network,
)
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_net
from ppo_trainer.runs.trust import why_consent_will_be_needed
from ppo_trainer.training.goals import BestNetwork
from ppo_trainer.training.population import (
    load_others,
    make_learners,
    refuse_single_policy,
    write_settings,
)
from ppo_trainer.training.session import Session
from ragged_net import EntityBatch, RaggedNet, adopt

__all__ = ["open_session"]


@contextmanager
def open_session(
    config: TrainConfig, game: Game, vec_env: VecEnv, device: torch.device, ranks: Ranks = LONE
) -> Iterator[tuple[Session, VecObs]]:
    """Begin a run, or resume ``config.resume``; give the session and the first observation.

    Within the block no other process can train the run, except those of the same training.
    """
    if not ranks.is_alone or config.scale.mode != "local":
        _check_alone(config, ranks)
    torch.manual_seed(derived_seed(config.seed, "network"))
    with ExitStack() as stack:
        if config.resume is None:
            spaces = vec_env.obs_space(), vec_env.action_space()
            net = RaggedNet(*spaces, config.net, config.value_config).to(device)
            if config.init is not None:
                _take_over(net, config.init)
            run = RunFolder(Path())  # the first process sends its path
            if ranks.is_first:
                run = RunFolder.new(config)
                # Removes the folder if an error occurs before it gets its name.
                stack.callback(shutil.rmtree, run.path, ignore_errors=True)
                stack.enter_context(run.held())
        else:
            run = RunFolder.open(config.resume)
            if ranks.is_first:
                stack.enter_context(run.held())
            net = _network_of_run(config, run).to(device)
        for tensor in net.state_dict().values():
            tensor.copy_(ranks.of_first_tensor(tensor))
        if (players := SelfPlay.of(config, game, net, device)) is not None:
            vec_env = players.around(vec_env)
        learners = make_learners(net, config, vec_env, device, ranks.rank)
        state = learners[0].state
        if config.ppo.clone_kl:
            state.clone = Clone(clone := frozen_copy(net), RowMemory(clone, len(vec_env)))
        recent = RecentEpisodes(config.rollout.num_envs)
        best = None if config.checkpoint.best is None else BestNetwork(run, config.checkpoint)
        if config.search.mirror is not None:
            mirror_places(net, config.search.mirror)  # a wrong one is an error before the training
        session = Session(
            config, game, vec_env, device, learners, run, recent, best, players, ranks
        )
        yield _resume(session) if config.resume is not None else _begin(session)


def _check_alone(config: TrainConfig, ranks: Ranks) -> None:
    """Raise SettingError for settings that several processes of one training do not support."""
    if config.scale.mode != "local" and config.rollout.processes:
        raise SettingError(
            f"scale.mode={config.scale.mode} has processes of its own",
            expected="rollout.processes=0",
        )
    for name, value, expected in (
        ("selfplay.mode", config.selfplay.mode, "mirror"),
        ("selfplay.average", config.selfplay.average, False),
        ("ppo.baseline", config.ppo.baseline, "value"),
    ):
        if value != expected:
            raise SettingError(
                f"{name}={value} trains in one process only",
                expected=f"{name}={expected}, or no torchrun",
            )


def _begin(session: Session) -> tuple[Session, VecObs]:
    """Begin a run: save its first checkpoint, and give its folder its name."""
    obs = session.vec_env.reset()
    # Features in the thousands would saturate the network in the first rollouts.
    for learner in session.learners:
        batch = EntityBatch.from_obs(obs, session.device)
        learner.state.net.update_statistics(batch, session.ranks.gathered)
    if not session.ranks.is_first:
        session.save_together()
        run = RunFolder(Path(session.ranks.of_first(None)))
        return replace(session, run=run), obs
    spaces = session.vec_env.obs_space(), session.vec_env.action_space()
    session.run.write_spaces(*spaces)
    write_settings(session.run, session.config, spaces)
    if session.state.clone is not None:
        save_network(session.run.clone, session.state.clone.net.state_dict(), {})
    session.save_together()
    run = session.run.publish(session.config)
    session.ranks.of_first(str(run.path))
    session.ranks.remember_run(str(run.path.absolute()))
    log(settings_summary(session.config))
    log(f"run folder: {run.path}")
    if reason := why_consent_will_be_needed(session.config, session.game.factory):
        log(f"opening this run will need --trust, because it is not signed: {reason}")
    return replace(session, run=run), obs


def _take_over(net: RaggedNet, path: str) -> None:
    """Copy the weights of a run's network into a new one; print which parts that network lacks."""
    adopted = adopt(net, load_net(path, "cpu").net)
    log(f"beginning with the network of {path}")
    if adopted.new or adopted.left:
        log(str(adopted))


def _network_of_run(config: TrainConfig, run: RunFolder) -> RaggedNet:
    """Return a network for the checkpoint of a resumed run."""
    _check_same_network(config, run)
    _check_same_population(config, run)
    # The optimizers number their tensors in the order of the run's spaces.
    return network_of(latest_checkpoint(run), *run.read_spaces(), config)


def _check_same_network(config: TrainConfig, run: RunFolder) -> None:
    """Raise CheckpointError for changed settings of the network, even if all shapes fit."""
    saved = run.read_config()
    # The kind of attention changes the computation only.
    now, then = replace(config.net, attention=saved.net.attention), saved.net
    if (now, config.value_net) != (then, saved.value_net):
        changed = [
            part.name for part in fields(now) if getattr(now, part.name) != getattr(then, part.name)
        ]
        raise CheckpointError(
            "net and value_net describe another network than that of the run",
            expected=_as_words(saved, changed),
            received=_as_words(config, changed),
            hint="a run keeps its network; begin a new run for another one",
        )


def _as_words(config: TrainConfig, names: Sequence[str]) -> str:
    """Return some settings of the network as on the command line."""
    words = [f"net.{name}={written(getattr(config.net, name))}" for name in names]
    return " ".join([*words, f"value_net={written(config.value_net)}"])


def _check_same_population(config: TrainConfig, run: RunFolder) -> None:
    """Raise CheckpointError if the population differs from that of the run."""
    saved = run.read_config().selfplay
    if saved.policies != config.selfplay.policies:
        raise CheckpointError(
            "a run keeps its population",
            expected=f"selfplay.mode={saved.mode}"
            + (f" selfplay.size={saved.size}" if saved.policies > 1 else ""),
            received=f"selfplay.mode={config.selfplay.mode} selfplay.size={config.selfplay.size}",
            hint="begin a new run for another population",
        )


def _resume(session: Session) -> tuple[Session, VecObs]:
    run, state, vec_env, config = session.run, session.state, session.vec_env, session.config
    folder = latest_checkpoint(run)
    restored = load_state(folder, state, session.ranks.rank)
    envs, notes = restored.envs, []
    rows = 0, len(vec_env)
    if vec_env.has_state() and not session.ranks.is_alone:
        rows = session.ranks.share.cut(config.rollout.num_envs, session.game.whole(1))
    total = sum(session.ranks.gathered_json(rows[1]))
    refuse_single_policy(run)
    if state.clone is not None:
        load_network(run.clone, state.clone.net)
    same_players = (session.players is None) == (restored.players is None)
    if session.players is not None:
        same_players = session.players.set_state(
            restored.players, run, draws_on=not restored.other_device
        )
    if same_players and envs is not None and vec_env.has_state() and len(envs) == total:
        obs = vec_env.set_state(envs[rows[0] : rows[0] + rows[1]])
        load_rows(folder, state, total, None if session.ranks.is_alone else rows)
        load_others(run, session.learners[1:], state.steps, goes_on=True)
    else:
        seed = derived_seed(config.seed, "resumed episodes", state.update)
        if not session.ranks.is_first:
            seed = derived_seed(seed, "rows", session.ranks.rank)
        obs = vec_env.reset(seed)
        load_others(run, session.learners[1:], state.steps, goes_on=False)
        notes.append(
            "starting fresh episodes: its opponents cannot continue where they were"
            if not same_players
            else f"starting fresh episodes: it was saved with {counted(len(envs), 'environment')}"
            if envs is not None and vec_env.has_state()
            else "starting fresh episodes: they could not be restored when it was saved"
            if vec_env.has_state()
            else "starting fresh episodes: processes of Ray play them"
            if config.scale.mode != "local"
            else "starting fresh episodes: its environment does not save its state "
            "(get_state and set_state)"
        )
    if not session.ranks.is_first:
        return session, obs
    session.ranks.remember_run(str(run.path.absolute()))
    # A process may have been killed between writing a checkpoint and removing old ones.
    remove_old_checkpoints(run, config.checkpoint.keep)
    if session.players is not None:
        session.players.remove_unneeded(run)
    if restored.other_device:
        notes.append("drawing fresh random numbers: it was saved on another kind of device")
    log(f"resuming {run.path} at step {state.steps:,}")
    if state.steps >= config.total_timesteps:
        notes = []
        log(f"all {config.total_timesteps:,} steps are done; set total_timesteps to train further")
    else:
        # Only now, so that settings that do not fit the checkpoint do not stay in the folder.
        run.write_config(replace(config, resume=None))
        write_settings(run, config, (state.net.obs_space, state.net.action_space))
    for note in notes:
        log(f"{note}; from here on the run differs from an unbroken one")
    return session, obs
