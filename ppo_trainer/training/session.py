"""A run in progress, new or resumed from a checkpoint."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from entity_env import VecEnv, VecObs
from entity_env.errors import (
    CheckpointError,
    DivergedError,
    EntityEnvError,
    NonFiniteError,
    SettingError,
    counted,
)
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.algorithms.group_baseline import GroupReturns
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import UNIMPORTABLE, Game, name_in_script
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.experience.row_history import RowHistory
from ppo_trainer.experience.row_memory import RowMemory
from ppo_trainer.learner.average import average_of
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.machine.commands import python_command
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.machine.screen import complain, say
from ppo_trainer.machine.seeding import derived_seed, make_generators
from ppo_trainer.players.game_rows import GameRows
from ppo_trainer.players.search import Search, make_search
from ppo_trainer.players.self_play import SelfPlay
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.settings_text import settings_summary, written
from ppo_trainer.reporting.shown_metrics import with_screen_names
from ppo_trainer.runs.best_network import BestNetwork
from ppo_trainer.runs.checkpoint import (
    Content,
    TrainState,
    latest_checkpoint,
    load_network,
    load_rows,
    load_state,
    network_of,
    remove_old_checkpoints,
    save_network,
    save_state,
    saved_at,
)
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_net
from ppo_trainer.runs.shared_rows import with_all_rows
from ppo_trainer.runs.trust import why_consent_will_be_needed
from ppo_trainer.training.goals import check_metrics, goals_reached
from ppo_trainer.training.population import (
    Learner,
    load_others,
    make_others,
    refuse_single_policy,
    save_others,
    write_settings,
)
from ragged_net import EntityBatch, RaggedNet, adopt

__all__ = ["Session", "open_session", "saved_on_error"]


@dataclass(frozen=True)
class Session:
    """The parts of a training, which callbacks get.

    Args:
        config: The settings.
        game: Game, for evaluations.
        vec_env: Rows to train on.
        device: Device of the network.
        state: Everything that the training changes.
        run: Run folder.
        recent: Means over the last episodes.
        buffer: Rollout buffer.
        best: Best network, if ``checkpoint.best`` is set.
        players: Self-play, if there is any.
        others: Policies of a population from 1 on; ``state`` is that of policy 0.
        ranks: Processes that train together; the first one writes the run folder.
        unfinished: The beginning of the update in progress.
    """

    config: TrainConfig
    game: Game
    vec_env: VecEnv
    device: torch.device
    state: TrainState
    run: RunFolder
    recent: RecentEpisodes
    buffer: RolloutBuffer
    best: BestNetwork | None = None
    players: SelfPlay | None = None
    others: tuple[Learner, ...] = ()
    search: Search | None = None
    ranks: Ranks = LONE
    unfinished: Unfinished = field(default_factory=lambda: Unfinished())

    @property
    def learners(self) -> tuple[Learner, ...]:
        """All networks that are trained: one, or those of a population."""
        return Learner(self.state, self.buffer, self.search), *self.others

    @property
    def others_at_seats(self) -> list[RaggedNet]:
        """The networks of the policies from 1 on that play, if each policy has its own seats."""
        others = self.others if self.config.selfplay.populations else ()
        return [own.state.acting for own in others]

    @property
    def net(self) -> RaggedNet:
        """The network that is trained."""
        return self.state.net

    @property
    def updates(self) -> int:
        """The number of updates done."""
        return self.state.update

    @property
    def steps(self) -> int:
        """The number of frames trained on."""
        return self.state.steps

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the last update, as in ``metrics.jsonl``."""
        return self.state.metrics

    @property
    def means(self) -> dict[str, float]:
        """Means over the last episodes, and those of the last evaluation as ``eval/<metric>``.

        Metrics that have another name on the screen have both names here.
        """
        return with_screen_names(self.recent.means | self.state.evaluated)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The players of the last evaluation."""
        return self.state.evaluations

    def goals_reached(self) -> str | None:
        """Return a text on the goals that end the training, or None."""
        return goals_reached(self.config, self.means, self.recent.is_full)

    def note(self, metrics: dict[str, float]) -> None:
        """Store the numbers of an update, and its network if it is the best.

        Raises:
            SettingError: The settings name an unknown metric.
        """
        self.state.metrics = metrics
        check_metrics(self.config, self.means, self.recent.is_full)
        if self.best is not None:
            self.best.compare(self.state, self.means, self.recent.is_full)

    def resume_command(self, change: str = "") -> str:
        """Return the command that resumes the run, with a changed setting if given."""
        path = str(self.run.path)
        if self.config.env["_target_"].startswith(UNIMPORTABLE):
            # A command cannot import a class that lives in a script or notebook.
            changed = f", {change.partition('.')[0]}=..." if change else ""
            env = name_in_script(self.config)
            return f"from ppo_trainer import resume; resume({path!r}, env={env}{changed})"
        return f"{python_command()} -m ppo_trainer resume={shlex.quote(path)} {change}".rstrip()

    def final_steps(self) -> int:
        """Return the steps of the whole run: ``total_timesteps``, rounded up to whole rollouts."""
        left = max(self.config.total_timesteps - self.state.steps, 0)
        return self.state.steps + math.ceil(left / self.config.frames_per_update) * (
            self.config.frames_per_update
        )

    def begin_update(self) -> None:
        """Keep a copy of the present state, which ``save`` writes until the update has ended."""
        if not self.ranks.is_first:
            return
        contents = tuple(content.copied() for content in self._contents())
        rows, own_states = self.vec_env, []
        while isinstance(rows, GameRows):
            own_states.append((rows, json.dumps(rows.own_state())))
            rows = rows.env
        history = rows if isinstance(rows, RowHistory) else None
        if history is not None:
            history.mark()
        self.unfinished.begun = Begun(contents, history, tuple(own_states))

    def end_update(self) -> None:
        """Drop the copy of ``begin_update``."""
        self.unfinished.begun = None

    def save(self) -> Path:
        """Write a checkpoint of the state between the last two updates, and return its folder.

        Of several processes only the first writes, and a resume starts fresh episodes (see
        ``save_together``).
        """
        if not self.ranks.is_first:
            return self.run.path
        begun = self.unfinished.begun
        contents = self._contents() if begun is None else list(begun.contents)
        if (folder := saved_at(self.run, contents[0].steps)) is not None:
            return folder
        envs = None
        if self.ranks.is_alone and begun is not None:
            envs = begun.envs()
        elif self.ranks.is_alone and self.vec_env.has_state():
            envs = self.vec_env.get_state()
        return self._write(contents, envs)

    def save_together(self) -> None:
        """Write a checkpoint with the rows of all processes; all must call this together."""
        if self.ranks.is_alone:
            self.save()
            return
        state, envs = with_all_rows(self.ranks, self.state, self.vec_env)
        if self.ranks.is_first and saved_at(self.run, self.steps) is None:
            self._write([Content.of(state)], envs)

    def _contents(self) -> list[Content]:
        """Return the contents of checkpoints of all networks that are trained."""
        if self.players is not None:
            self.state.players = self.players.get_state()
        for other in self.others:
            other.state.update, other.state.steps = self.state.update, self.state.steps
        return [Content.of(learner.state) for learner in self.learners]

    def _write(self, contents: Sequence[Content], envs: list[Any] | None) -> Path:
        if self.best is not None:
            self.best.write(self.run)
        keep = self.config.checkpoint.keep
        save_others(self.run, contents[1:], keep, goes_on=envs is not None)
        folder = save_state(self.run, contents[0], envs, keep)
        if self.players is not None:
            self.players.remove_unneeded(self.run)
        return folder


@dataclass(frozen=True)
class Begun:
    """The state at the beginning of an update.

    Args:
        contents: Contents of the checkpoints of all networks, which training does not change.
        history: Rows that restore their state; None if they cannot.
        own_states: Rows around these with additional states, as JSON; the outermost is the first.
    """

    contents: tuple[Content, ...]
    history: RowHistory | None
    own_states: tuple[tuple[GameRows, str], ...]

    def envs(self) -> list[Any] | None:
        """Return the state of the rows; None if it cannot be restored."""
        try:
            state = None if self.history is None else self.history.marked_state()
        except Exception as error:  # the environment may be the cause of the failure
            complain(f"the episodes cannot be restored: {type(error).__name__}: {error}")
            state = None
        for rows, own in reversed(self.own_states):
            state = None if state is None else rows.around(state, json.loads(own))
        return state


@dataclass
class Unfinished:
    """The beginning of the update in progress; None between two updates."""

    begun: Begun | None = None


@contextmanager
def saved_on_error(session: Session) -> Iterator[None]:
    """Save the state between the last two updates if an error occurs; name the resume command."""
    try:
        yield
    except BrokenPipeError:  # raised between two updates, by this package's own output
        session.save()
        raise EntityEnvError(
            "the training stops, because nobody reads its output; it is saved",
            hint=f"to resume: {session.resume_command()}; to need no reader, append > log.txt",
        ) from None
    except KeyboardInterrupt:
        with suppress(CheckpointError):  # there is no checkpoint to resume from
            folder = latest_checkpoint(session.run)
            say(f"\nnot saved: what came after {folder}; to resume: {session.resume_command()}")
        raise
    except Exception as error:
        if session.ranks.is_first and session.run.config_file.exists():
            hint = _after_error(session, error)
            if hasattr(error, "hint"):
                error.hint = f"{error.hint}; {hint}" if error.hint else hint
            else:
                error.add_note(hint)
        raise


def _after_error(session: Session, error: Exception) -> str:
    """Save a run that has failed, and return a text on how to resume it."""
    change = "optim.lr=..." if isinstance(error, NonFiniteError) else ""
    command = session.resume_command(change)
    if change:
        command += ", with smaller steps; also scale rewards that are far from 1 in the environment"
    if not isinstance(error, DivergedError):
        try:
            folder = session.save()
            return (
                f"nothing is lost: the state before it is saved in {folder}; to resume: {command}"
            )
        except Exception as failure:
            complain(f"the state before the error cannot be saved: {failure}")
    return f"to resume from the last checkpoint, {latest_checkpoint(session.run)}: {command}"


@contextmanager
def open_session(
    config: TrainConfig,
    game: Game,
    vec_env: VecEnv,
    device: torch.device,
    ranks: Ranks = LONE,
    begun: VecObs | None = None,
) -> Iterator[tuple[Session, VecObs]]:
    """Begin a run, or resume ``config.resume``; give the session and the first observation.

    Within the block no other process can train the run, except those of the same training.
    ``begun`` is the first observation of ``vec_env`` if it has been reset.
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
            players = SelfPlay.of(config, game, net, device)
            run = RunFolder(Path())  # the first process sends its path
            if ranks.is_first:
                run = RunFolder.draft(config)
                # Removes the draft if an error occurs before it is renamed.
                stack.callback(shutil.rmtree, run.path, ignore_errors=True)
                stack.enter_context(run.held())
        else:
            run = RunFolder.open(config.resume)
            if ranks.is_first:
                stack.enter_context(run.held())
            net = _network_of_run(config, run, vec_env).to(device)
            players = SelfPlay.of(config, game, net, device)
        for tensor in net.state_dict().values():
            tensor.copy_(ranks.of_first_tensor(tensor))
        generators = make_generators(config.seed, device, ranks.rank)
        state = TrainState(net, make_optimizers(net, config), generators)
        if players is not None:
            vec_env = players.around(vec_env)
        state.memory = RowMemory(net, len(vec_env))
        if config.cuda_graphs and config.algorithm != "search":
            state.use_graphs(len(vec_env), config.precision)
        state.average = average_of(net) if config.selfplay.average else None
        state.groups = _groups(config, vec_env, players)
        if config.ppo.clone_kl:
            state.clone = Clone(clone := average_of(net), RowMemory(clone, len(vec_env)))
        recent = RecentEpisodes(config.rollout.num_envs)
        best = None if config.checkpoint.best is None else BestNetwork(run, config.checkpoint)
        search = None
        if config.algorithm == "search":
            search = make_search(vec_env, net, config)
        buffer = RolloutBuffer(len(vec_env), config.rollout.steps)
        others = make_others(net, config, len(vec_env), device)
        session = Session(
            config,
            game,
            vec_env,
            device,
            state,
            run,
            recent,
            buffer,
            best,
            players,
            others,
            search,
            ranks,
        )
        # Players choose their seats when rows are reset through them.
        obs = begun if players is None else None
        yield _resume(session) if config.resume is not None else _begin(session, obs)


def _check_alone(config: TrainConfig, ranks: Ranks) -> None:
    """Raise SettingError for settings that several processes of one training do not support."""
    if config.scale.mode != "local" and config.rollout.processes:
        raise SettingError(
            f"scale.mode={config.scale.mode} has processes of its own",
            expected="rollout.processes=0",
        )
    if config.scale.mode == "rapid" and not ranks.is_alone:
        raise SettingError(
            "scale.mode=rapid has one process that learns",
            expected="scale.mode=ascend, or no torchrun",
        )
    for name, own, expected in (
        ("selfplay.mode", config.selfplay.mode, "mirror"),
        ("selfplay.average", config.selfplay.average, False),
        ("ppo.baseline", config.ppo.baseline, "value"),
    ):
        if own != expected:
            raise SettingError(
                f"{name}={own} trains in one process only",
                expected=f"{name}={expected}, or no torchrun",
            )


def _groups(config: TrainConfig, vec_env: VecEnv, players: SelfPlay | None) -> GroupReturns | None:
    if config.ppo.baseline != "value" and players is not None:
        raise SettingError(
            f"ppo.baseline={config.ppo.baseline} is not supported in self-play",
            expected="ppo.baseline=value, because the seats of a game have different returns",
        )
    return GroupReturns.of(config.ppo, len(vec_env), config.env.get("copies", 1))


def _begin(session: Session, begun: VecObs | None) -> tuple[Session, VecObs]:
    """Begin a run: save its first checkpoint, and give its folder its name."""
    obs = session.vec_env.reset() if begun is None else begun
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
    say(settings_summary(session.config))
    say(f"run folder: {run.path}")
    if reason := why_consent_will_be_needed(session.config, session.game.factory):
        say(f"opening this run will need --trust, because it is not signed: {reason}")
    return replace(session, run=run), obs


def _take_over(net: RaggedNet, path: str) -> None:
    """Copy the weights of a run's network into a new one; print which parts that network lacks."""
    adopted = adopt(net, load_net(path, "cpu").net)
    say(f"beginning with the network of {path}")
    if adopted.new or adopted.left:
        say(str(adopted))


def _network_of_run(config: TrainConfig, run: RunFolder, vec_env: VecEnv) -> RaggedNet:
    """Return a network for the checkpoint of a resumed run."""
    _check_same_network(config, run)
    _check_same_population(config, run)
    # The optimizers number their tensors in the order of the run's spaces.
    spaces = run.read_spaces() or (vec_env.obs_space(), vec_env.action_space())
    return network_of(latest_checkpoint(run), *spaces, config)


def _check_same_network(config: TrainConfig, run: RunFolder) -> None:
    """Raise CheckpointError for changed settings of the network, even if all shapes fit."""
    saved = run.read_config()
    # The kind of attention changes the computation only.
    now, then = replace(config.net, attention=saved.net.attention), saved.net
    if (now, config.value_net) != (then, saved.value_net):
        changed = [
            own.name for own in fields(now) if getattr(now, own.name) != getattr(then, own.name)
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
            + (f" selfplay.size={saved.size}" if saved.mode == "population" else ""),
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
        load_others(run, session.others, state.steps, goes_on=True)
    else:
        seed = derived_seed(config.seed, "resumed episodes", state.update)
        if not session.ranks.is_first:
            seed = derived_seed(seed, "rows", session.ranks.rank)
        obs = vec_env.reset(seed)
        load_others(run, session.others, state.steps, goes_on=False)
        notes.append(
            "starting fresh episodes: its opponents cannot continue where they were"
            if not same_players
            else f"starting fresh episodes: it was saved with {counted(len(envs), 'environment')}"
            if envs is not None and vec_env.has_state()
            else "starting fresh episodes: they could not be restored when it was saved"
            if vec_env.has_state()
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
    say(f"resuming {run.path} at step {state.steps:,}")
    if state.steps >= config.total_timesteps:
        notes = []
        say(f"all {config.total_timesteps:,} steps are done; set total_timesteps to train further")
    else:
        # Only now, so that settings that do not fit the checkpoint do not stay in the folder.
        run.write_config(replace(config, resume=None))
        write_settings(run, config, (state.net.obs_space, state.net.action_space))
    for note in notes:
        say(f"{note}; from here on the run differs from an unbroken one")
    return session, obs
