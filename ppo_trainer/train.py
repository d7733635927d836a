"""Training: collect, update, log, save, and at the end evaluate.

``python -m ppo_trainer env=minesweeper``, or from Python ``train(TrainConfig(...), env=MyEnv)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from entity_env import Environment, VecEnv, VecObs
from ppo_trainer.advantage import explained_variance
from ppo_trainer.checkpoint import TrainState, latest_checkpoint, load_state, save_state
from ppo_trainer.collect import Collected, collect
from ppo_trainer.config import TrainConfig
from ppo_trainer.curve import draw_curve
from ppo_trainer.device import choose_device
from ppo_trainer.environments import CreateEnv, make_factory, make_vec_env, with_env
from ppo_trainer.errors import NonFiniteError
from ppo_trainer.evaluate import Evaluation, evaluate, evaluate_all, table, write_evaluation
from ppo_trainer.interrupt import Interrupt
from ppo_trainer.logger import RunLogger
from ppo_trainer.progress import RunProgress
from ppo_trainer.run_folder import RunFolder
from ppo_trainer.seeding import derived_seed, make_generators
from ppo_trainer.stopwatch import Stopwatch
from ppo_trainer.tensors import to_batch
from ppo_trainer.update import make_optimizers, update
from ragged_net import RaggedNet

__all__ = ["TrainResult", "train"]


@dataclass(frozen=True)
class TrainResult:
    """What a run left behind.

    Args:
        run: The run folder.
        steps: Frames trained on.
        interrupted: Whether it was stopped before its end.
        net: The trained network.
        evaluations: The players of the final evaluation; empty without one.
    """

    run: Path
    steps: int
    interrupted: bool
    net: RaggedNet
    evaluations: list[Evaluation] = field(default_factory=list)


def train(
    config: TrainConfig | None = None,
    env: Callable[..., Environment] | None = None,
    stop: Callable[[int], bool] | None = None,
) -> TrainResult:
    """Train, or with ``config.resume`` go on training.

    Args:
        config: All settings; when resuming, those to go on with.
        env: The environment's class, or a function that makes one; else ``config.env`` names it.
        stop: Called with the number of updates done; True ends the run as Ctrl-C would.
    """
    config = with_env(config or TrainConfig(), env)
    device = choose_device(config.device)
    if config.threads:
        torch.set_num_threads(config.threads)
    create_env = make_factory(config, env)
    with Interrupt() as interrupt, make_vec_env(config, create_env, config.seed) as vec_env:
        state = _fresh_state(config, vec_env, device)
        run, obs = _start(config, state, vec_env, device)
        with (
            RunLogger(run, config, state.update) as log,
            RunProgress(state.steps, config.updates * config.frames_per_update) as progress,
        ):
            clock = Stopwatch()
            while state.update < config.updates:
                if interrupt.requested or (stop is not None and stop(state.update)):
                    break
                collected = collect(
                    state.net, vec_env, obs, config, state.generators.actions, clock
                )
                metrics = _improve(run, state, vec_env, collected, config, clock)
                state.net.update_statistics(collected.rollout.batch)
                obs = collected.next_obs
                state.update += 1
                state.steps += config.frames_per_update
                if config.eval.every and state.update % config.eval.every == 0:
                    metrics |= _evaluate_now(state, create_env, config, device)
                log.write(state.update, state.steps, metrics | clock.take())
                progress.show(state.steps, metrics)
                if state.update % config.checkpoint.every == 0:
                    _save(run, state, vec_env, config)
            _save(run, state, vec_env, config)
    return _finish(run, state, config, create_env, device)


def _fresh_state(config: TrainConfig, vec_env: VecEnv, device: torch.device) -> TrainState:
    torch.manual_seed(derived_seed(config.seed, "network"))
    net = RaggedNet(vec_env.obs_space(), vec_env.action_space(), config.net, config.value_net)
    net.to(device)
    return TrainState(net, make_optimizers(net, config), make_generators(config.seed, device))


def _start(
    config: TrainConfig, state: TrainState, vec_env: VecEnv, device: torch.device
) -> tuple[RunFolder, VecObs]:
    """A new run and its first observation, or an old one with ``state`` filled from it."""
    if config.resume is None:
        obs = vec_env.reset()
        # Unscaled features of 1,000 would drown the first rollouts.
        state.net.update_statistics(to_batch(obs, device))
        run = RunFolder.create(config)
        print(f"run folder: {run.path}")
        return run, obs
    run = RunFolder.open(config.resume)
    folder = latest_checkpoint(run)
    saved = load_state(folder, state)
    run.write_config(replace(config, resume=None))
    print(f"resuming {run.path} at step {state.steps:,}")
    if saved is not None and vec_env.has_state() and len(saved) == len(vec_env):
        return run, vec_env.set_state(saved)
    why = (
        f"it was saved with {len(saved)} environments"
        if saved is not None and vec_env.has_state()
        else "its environment does not save its state (get_state and set_state)"
    )
    print(f"starting fresh episodes: {why}; from here on the run differs from an unbroken one")
    return run, vec_env.reset(derived_seed(config.seed, "resumed episodes", state.update))


def _improve(
    run: RunFolder,
    state: TrainState,
    vec_env: VecEnv,
    collected: Collected,
    config: TrainConfig,
    clock: Stopwatch,
) -> dict[str, float]:
    """One update and all numbers about it."""
    rollout = collected.rollout
    try:
        metrics = update(
            state.net,
            state.optimizers,
            rollout,
            config,
            state.update / config.updates,
            state.generators.minibatches,
            clock,
        )
    except NonFiniteError as error:
        folder = _save(run, state, vec_env, config, name=f"before_nonfinite_{state.steps:012d}")
        error.hint = f"the state before it is in {folder}; try a smaller optim.lr"
        raise
    episodes = {name: metric.mean for name, metric in collected.metrics.items() if metric.count}
    return {
        **metrics,
        **episodes,
        "episodes": float(collected.metrics["episodic_length"].count) if episodes else 0.0,
        "value/explained_variance": explained_variance(rollout.values, rollout.returns),
        "entities_per_frame": rollout.batch.num_entities / len(rollout),
    }


def _evaluate_now(
    state: TrainState, create_env: CreateEnv, config: TrainConfig, device: torch.device
) -> dict[str, float]:
    result = evaluate(
        state.net,
        create_env,
        config,
        device,
        config.eval.every_episodes,
        greedy=True,
        number=state.update,
    )
    return {f"eval/{name}": result.mean(name) for name in result.metrics}


def _save(
    run: RunFolder,
    state: TrainState,
    vec_env: VecEnv,
    config: TrainConfig,
    name: str | None = None,
) -> Path:
    envs = vec_env.get_state() if vec_env.has_state() else None
    return save_state(run, state, envs, config.checkpoint.keep, name)


def _finish(
    run: RunFolder,
    state: TrainState,
    config: TrainConfig,
    create_env: CreateEnv,
    device: torch.device,
) -> TrainResult:
    curve = draw_curve(run)
    if state.update < config.updates:
        print(f"stopped at step {state.steps:,}, saved; to go on:")
        print(f"  python -m ppo_trainer resume={run.path}")
        return TrainResult(run.path, state.steps, True, state.net)
    results: list[Evaluation] = []
    if config.eval.episodes:
        results = evaluate_all(state.net, create_env, config, device, config.eval.episodes)
        write_evaluation(run, state.steps, results)
        print(f"\nafter {state.steps:,} steps, {config.eval.episodes:,} fresh episodes each:")
        print(table(results))
    print(f"\ncheckpoint      {latest_checkpoint(run)}")
    if curve is not None:
        print(f"learning curve  {curve}")
    more = 2 * config.total_timesteps
    print("\nWhat next:")
    print(f"  watch it play       python -m ppo_trainer.watch {run.path}")
    print(f"  train it further    python -m ppo_trainer resume={run.path} total_timesteps={more}")
    print("  your own game       python -m ppo_trainer env._target_=my_pkg.my_env.MyEnv")
    return TrainResult(run.path, state.steps, False, state.net, results)
