"""Training: collect, update, log, save, and at the end evaluate.

``python -m ppo_trainer env=minesweeper``, or from Python ``train(TrainConfig(...), env=MyEnv)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from entity_env import VecObs
from entity_env.errors import SettingError, shorten
from entity_env.registry import Factory
from entity_env.rows.slow_calls import SLOW_CALL, naming_slow_calls
from ppo_trainer.algorithms import make_algorithm
from ppo_trainer.algorithms.clone import clone_weight
from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.environments import with_env
from ppo_trainer.learner.optimizers import follow
from ppo_trainer.learner.step_metrics import of_policies
from ppo_trainer.learner.update import update
from ppo_trainer.machine.device import compiling, default_torch_state
from ppo_trainer.machine.interrupt import Interrupt
from ppo_trainer.machine.ranks import Ranks, open_ranks
from ppo_trainer.machine.screen import warn
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.preparation import open_training_rows, prepared
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.checkpoint import saved_at
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.trust import require_trust
from ppo_trainer.scale.fleet import Gather, collect_here, open_gather
from ppo_trainer.training.callbacks import CallbackLike, Callbacks
from ppo_trainer.training.experience_metrics import (
    about_rollout,
    importance,
    of_all,
    staleness,
    with_episodes,
)
from ppo_trainer.training.output import open_output
from ppo_trainer.training.report import conclude
from ppo_trainer.training.session import Session, saved_on_error
from ppo_trainer.training.start import open_session
from ragged_net import RaggedNet

Learn: TypeAlias = Callable[[Session, VecObs, Stopwatch], tuple[VecObs, dict[str, float]]]

__all__ = ["Learn", "TrainResult", "resume", "train", "train_once"]


@dataclass(frozen=True)
class TrainResult:
    """The results of a run.

    Args:
        run: Run folder.
        steps: Number of frames trained on.
        interrupted: True if the run was stopped before its end.
        net: The trained network.
        evaluations: Players of the final evaluation; empty without one.
        means: Means of all metrics over the last episodes.
        signalled: True if Ctrl-C or another signal has stopped it.
    """

    run: Path
    steps: int
    interrupted: bool
    net: RaggedNet = field(repr=False)
    evaluations: list[Evaluation] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)
    signalled: bool = False


@default_torch_state()
def train(
    config: TrainConfig | None = None,
    env: Factory | None = None,
    stop: Callable[[int], bool] | None = None,
    callbacks: Iterable[CallbackLike] | CallbackLike | None = None,
    *,
    learn: Learn | None = None,
) -> TrainResult:
    """Train, or resume a run with ``config.resume``.

    Args:
        config: All settings. With ``config.resume`` they replace those of the resumed run; the
            function ``resume`` keeps them.
        env: Class of the environment, a function that makes one, or a ``VecEnv`` class that makes
            all rows; None takes the one that ``config.env`` names.
        stop: Function of the number of updates done, called after each; returning True ends the run
            as Ctrl-C would.
        callbacks: ``Callback`` objects, or functions that are called with the session after each
            update. If one returns False, the run ends as after its last step.
        learn: Function that replaces playing and training in an update, as in ``imitate``; it is
            called with the session, the last observation and a stopwatch.
    """
    config = with_env(TrainConfig() if config is None else config, env)
    # A learner that waits for its workers is not lost.
    ranks = open_ranks(config.scale.timeout * (3 if config.scale.mode == "rapid" else 1))
    with ranks.sharing_errors(), nullcontext() if ranks.is_first else redirect_stdout(None):
        return _train(config, env, stop, callbacks, ranks, learn)


def _train(
    config: TrainConfig,
    env: Factory | None,
    stop: Callable[[int], bool] | None,
    callbacks: Iterable[CallbackLike] | CallbackLike | None,
    ranks: Ranks,
    learn: Learn | None = None,
) -> TrainResult:
    """Train as one of the processes ``ranks``."""
    if learn is not None and not ranks.is_alone:
        raise SettingError("imitation runs in one process only", expected="no torchrun")
    if stop is not None and not callable(stop):
        raise SettingError(
            "stop cannot be called", expected="stop(updates) -> bool", received=shorten(stop)
        )
    hooks = Callbacks(callbacks if ranks.is_first else None)
    config, game, device = prepared(config, env, ranks)
    with (
        naming_slow_calls(SLOW_CALL, warn),
        Interrupt() as interrupt,
        open_training_rows(config, game, ranks) as vec_env,
        compiling(config, vec_env, device),
        open_session(config, game, vec_env, device, ranks) as (session, obs),
        open_gather(session) as gather,
        saved_on_error(session),  # before processes of Ray end, because Ray may end this one, too
        open_output(
            session, hooks, interrupt, clock := Stopwatch(), plays=learn is None
        ) as write_output,
    ):
        state, interrupted, broken = session.state, False, False
        improve = learn or functools.partial(train_once, gather=gather)
        hooks.call("on_start", session)
        while state.steps < config.total_timesteps and not ranks.any(
            hooks.ended or session.goals_reached() is not None
        ):
            asked = interrupt.requested or bool(stop is not None and stop(state.update))
            interrupted = ranks.any(asked)
            if interrupted:
                break
            before = state.update, state.steps
            session.begin_update()
            trained = interrupt.finish(improve, session, obs, clock)
            if broken := trained is None:
                session.save()
                state.update, state.steps = before
                break
            obs, metrics = trained
            write_output(metrics)
            if state.update % config.checkpoint.every == 0:
                _save(session, hooks)
        if ranks.is_alone or not broken:  # otherwise processes may be at different places
            _save(session, hooks)
    signalled = interrupt.requested
    if ranks.is_first:
        with saved_on_error(session):
            signalled |= conclude(session, hooks, interrupted or signalled, played=learn is None)
    return TrainResult(
        run=session.run.path,
        steps=state.steps,
        interrupted=interrupted or signalled,
        net=state.acting,
        evaluations=state.evaluations,
        means=session.recent.means if ranks.is_first else {},
        signalled=signalled,
    )


def resume(
    run: str | Path,
    env: Factory | None = None,
    stop: Callable[[int], bool] | None = None,
    callbacks: Iterable[CallbackLike] | CallbackLike | None = None,
    *,
    trust: bool = False,
    **changes: object,
) -> TrainResult:
    """Resume a run with its own settings, except for ``changes`` of top-level ones.

    For example ``resume("runs/orchard", total_timesteps=200_000)``.

    Args:
        run: Run folder.
        env: Class of the environment, as for ``train``; needed if that of the run cannot be
            imported or is to be replaced.
        stop: See ``train``.
        callbacks: See ``train``.
        trust: Consent to everything that the run of somebody else names.
        **changes: Changed settings.

    Raises:
        UntrustedRunError: The run names code or places outside of it, and was made by somebody
            else.
    """
    folder = RunFolder.open(run)
    saved = folder.read_config()
    require_trust(folder, saved, trust=trust, env=env, named=changes, scripted=True, trains=True)
    values = {**config_to_dict(saved), **changes, "resume": str(run)}
    return train(config_from_dict(values), env, stop, callbacks)


def _save(session: Session, hooks: Callbacks) -> None:
    """Write a checkpoint, unless this state has been saved already."""
    is_new = session.ranks.is_first and saved_at(session.run, session.steps) is None
    session.save_together()
    if is_new:
        hooks.call("on_checkpoint", session)


def train_once(
    session: Session, obs: VecObs, clock: Stopwatch, gather: Gather = collect_here
) -> tuple[VecObs, dict[str, float]]:
    """Collect from ``obs`` on, and update the networks; return the next observation and metrics."""
    config, state, players = session.config, session.state, session.players
    progress = state.steps / config.total_timesteps
    if not clone_weight(config.ppo, progress):
        state.clone = None  # its memory of the rows ends; a longer run begins it again
    algorithm = make_algorithm(config, state.clone)
    if players is not None:
        players.before_update(progress)
    collected = gather(session, obs, clock)
    measured, rollouts, ranks = [], [], session.ranks
    for learner, collection in zip(session.learners, collected, strict=True):
        learner.state.pending = collection.pending
        with clock("advantage"):
            rollouts.append(algorithm.estimate(collection.trajectories, learner.state.net))
        numbers = update(
            algorithm, learner.state.net, learner.state.optimizers, rollouts[-1], config,
            progress, learner.state.generators.minibatches, clock, learner.state.step_graphs, ranks,
        )  # fmt: skip
        numbers |= about_rollout(ranks, rollouts[-1]) | staleness(ranks, collection.trajectories)
        numbers |= importance(ranks, rollouts[-1], config.vtrace.rho_clip)
        measured.append(numbers)
    with clock("statistics"):
        for learner, rollout in zip(session.learners, rollouts, strict=True):
            learner.state.net.update_statistics(rollout.batch, ranks.gathered)
    state.update += 1
    for learner in session.learners:
        if learner.state.average is not None:
            follow(learner.state.average, learner.state.net, state.update)
    frames, episodes, truncated = of_all(ranks, collected)
    state.steps += frames
    metrics = with_episodes(of_policies(measured), episodes, truncated)
    metrics |= collected[0].numbers
    if players is not None:
        metrics |= players.after_update(session.run, state.update, state.steps)
    return collected[0].next_obs, metrics
