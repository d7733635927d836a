"""All settings of a run and what makes them valid. ``conf/`` holds what differs by environment."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from entity_env.errors import shorten
from ppo_trainer.errors import ConfigError
from ppo_trainer.settings.build import build, fitted, names_its_settings, plain
from ppo_trainer.settings.device_names import check_device_name
from ppo_trainer.settings.ranges import above_0, at_least, check_ranges, fraction, within
from ppo_trainer.settings.self_play_config import SelfPlayConfig
from ragged_net import NetConfig

__all__ = [
    "CheckpointConfig",
    "EvalConfig",
    "ImitationConfig",
    "OptimConfig",
    "PPOConfig",
    "RolloutConfig",
    "ScaleConfig",
    "Schedule",
    "SelfPlayConfig",
    "TrainConfig",
    "UpdateConfig",
    "VTraceConfig",
    "WandbConfig",
    "config_from_dict",
    "config_to_dict",
    "with_changes",
]

Schedule = Literal["constant", "linear", "cosine"]

_MOST_THREADS = 1024  # torch crashes with some thousands


@names_its_settings
@dataclass(frozen=True)
class RolloutConfig:
    """The collection of experience.

    Args:
        num_envs: Rows R that act together, rounded up to whole games of several players.
        steps: Steps T of each row between two updates. A rollout has T * R frames.
        processes: Worker processes for the environments; 0 runs them in the main process.
        asynchronous: Whether the rows that are ready first act, and the others go on meanwhile:
            where some steps take much longer than others. Which rows these are depends on time, and
            so does the run. Needs worker processes.
        batch_size: How many rows act together then; 0 for half of them.
        replays: The folder that gets a replay of all games of the training, a line for each
            decision, and another one when it is resumed; null: none is written. Not of worker
            processes.
        stagger: Whether environments that end their episodes in the same step are brought out of
            step by cutting off their first episodes at random (``StaggeredStart``). Not of compiled
            games and games of several players.
        slow_after: Seconds after which an environment that has not returned from a step is named,
            with its worker, while it is waited for; 0 never. Compiled code of others may keep the
            whole program from saying anything.
    """

    num_envs: int = at_least(1, default=128)
    steps: int = at_least(1, default=16)
    processes: int = at_least(0, default=0)
    asynchronous: bool = False
    batch_size: int = at_least(0, default=0)
    replays: str | None = None
    stagger: bool = True
    slow_after: float = at_least(0, default=60.0)


@dataclass(frozen=True)
class UpdateConfig:
    """The gradient steps of an update, which the settings of every algorithm have.

    Args:
        epochs: Passes over a rollout.
        minibatch_size: Frames for each gradient step; with a memory about so many, in whole
            sequences of rows, as all that follows each other in a rollout and an episode.
        microbatch_size: Frames that go through the network at once; 0 for the whole minibatch.
            Changes memory, not results.
        max_grad_norm: Longer gradients are scaled down to this norm.
    """

    epochs: int = at_least(1, default=3)
    minibatch_size: int = at_least(1, default=512)
    microbatch_size: int = at_least(0, default=0)
    max_grad_norm: float = above_0(default=0.5, most=math.inf)


@names_its_settings
@dataclass(frozen=True)
class PPOConfig(UpdateConfig):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347).

    Args:
        gamma: Discount for each step.
        gae_lambda: Lambda of generalised advantage estimation.
        baseline: What returns are compared with. ``value``: the value function (GAE). ``group``:
            where ``env.copies`` rows play the same instances, the mean return of the other rows of
            the group (Kwon et al. 2020, arXiv:2010.16011). ``group_normalized``: the mean of the
            group, the difference over its deviation (Shao et al. 2024, arXiv:2402.03300).
        clip_coef: Probability ratios count within 1 - clip_coef .. 1 + clip_coef.
        ratio: ``per_actor`` clips the ratio of each actor, ``per_frame`` the product of the ratios
            of all actors of a frame.
        actor_weight: ``frame`` gives each frame the same weight, ``actor`` each actor.
        normalize_advantages: Scale the advantages of each minibatch to mean 0, deviation 1.
        least_deviation: Advantages that deviate less are not scaled up to deviation 1. Where
            rewards are rare, this keeps rollouts without any from training on amplified noise.
        entropy_coef: Weight of the entropy bonus.
        entropy_end: Where a schedule ends: play against oneself circles when the bonus vanishes.
        entropy_schedule: How the weight goes to ``entropy_end`` over the run, if it does.
        value_coef: Weight of the value loss.
        clip_value: Clip the change of the value by clip_coef, too.
        target_kl: Stop an update when the policy has moved further than this; 0 never stops.
        clone_kl: Weight of a penalty, at the beginning of the run, on leaving the network that
            ``init`` names: its divergence from it, in nats for each choice. 0 for none.
        clone_kl_fade: The part of the run during which the penalty goes to 0, linearly.
    """

    gamma: float = fraction(default=0.95)
    gae_lambda: float = fraction(default=0.9)
    baseline: Literal["value", "group", "group_normalized"] = "value"
    clip_coef: float = above_0(default=0.2, most=math.inf)
    ratio: Literal["per_actor", "per_frame"] = "per_actor"
    actor_weight: Literal["frame", "actor"] = "frame"
    normalize_advantages: bool = True
    least_deviation: float = at_least(0, default=0.0)
    entropy_coef: float = at_least(0, default=0.03)
    entropy_end: float = at_least(0, default=0.0)
    entropy_schedule: Schedule = "constant"
    value_coef: float = at_least(0, default=0.5)
    clip_value: bool = False
    target_kl: float = at_least(0, default=0.0)
    clone_kl: float = at_least(0, default=0.0)
    clone_kl_fade: float = fraction(default=0.5)


@names_its_settings
@dataclass(frozen=True)
class ImitationConfig(UpdateConfig):
    """Behavioural cloning of recorded games: ``python -m ppo_trainer.imitate``.

    Args:
        held_out: The part of the episodes that is not learned from, but measures what was learned.
        patience: Ends when the loss on these has not fallen for so many passes; the network of the
            least one is kept. 0 goes through all ``epochs``.
        temperature: Weighs episodes by what they earned: ``exp(z / temperature)``, at most 20,
            where z is the episode's reward as deviations from the mean of all. 0 weighs all alike.
        value_coef: Weight of the value loss; the value function learns the recorded returns,
            discounted by ``ppo.gamma``.
        frames: The most frames in memory at a time. A data set that has no more is read once, a
            larger one in each pass, and frames are shuffled among so many.
        readers: Threads that read files ahead, for slow disks: Python computes in one at a time.
    """

    epochs: int = at_least(1, default=100)
    minibatch_size: int = at_least(1, default=256)
    held_out: float = fraction(default=0.1)
    patience: int = at_least(0, default=10)
    temperature: float = at_least(0, default=0.0)
    value_coef: float = at_least(0, default=0.5)
    frames: int = at_least(1, default=100_000)
    readers: int = at_least(1, default=1)


@names_its_settings
@dataclass(frozen=True)
class VTraceConfig:
    """V-trace (Espeholt et al. 2018, arXiv:1802.01561): ``algorithm=vtrace``, beside ``ppo``.

    Args:
        rho_clip: A decision counts at most so many times: how likely the present network makes it,
            as a multiple of how likely it was. It decides what is estimated.
        trace_clip: Later rewards count at most so many times. It decides how fast.
    """

    rho_clip: float = above_0(default=1.0, most=math.inf)
    trace_clip: float = above_0(default=1.0, most=math.inf)


@names_its_settings
@dataclass(frozen=True)
class OptimConfig:
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).

    Args:
        lr: Learning rate at the start.
        schedule: How it goes to 0 over the run, if it does.
        eps: Adam's epsilon.
        weight_decay: Decoupled weight decay.
    """

    lr: float = above_0(default=1e-3)
    schedule: Schedule = "linear"
    eps: float = above_0(default=1e-5)
    weight_decay: float = at_least(0, default=0.0)


@names_its_settings
@dataclass(frozen=True)
class EvalConfig:
    """Fresh episodes after training, or every so often.

    Args:
        episodes: Episodes of the evaluation at the end, greedy and sampled each; 0 for none.
        max_steps: Longer episodes of an evaluation are cut off; 0 lets them go on for ever.
        seconds: The time that the evaluation at the end may take, all players together; what it
            does not reach is left out and said. 0 sets no limit.
        every: Also evaluate greedily every so many updates; 0 never.
        every_episodes: Episodes of those.
        scripted: Dotted path of a function from Observation to actions to compare with.
        env: Settings of the environment in the place of those of the training, wherever a run is
            evaluated, watched or opened: help that learners have at first, such as a curriculum,
            is no part of what they are measured by.
    """

    episodes: int = at_least(0, default=1000)
    max_steps: int = at_least(0, default=10_000)
    seconds: float = at_least(0, default=120.0)
    every: int = at_least(0, default=0)
    every_episodes: int = at_least(1, default=100)
    scripted: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)


@names_its_settings
@dataclass(frozen=True)
class CheckpointConfig:
    """Save every ``every`` updates and at the end; keep the last ``keep`` checkpoints.

    Args:
        every: Updates between two checkpoints.
        keep: How many to keep.
        best: A metric, such as ``win``, ``reward`` or ``eval/win``, by its name on the screen or in
            ``metrics.jsonl``. The network with the best mean over the last episodes is kept in the
            run's folder ``best``.
        best_mode: Whether the greatest (``max``) or the least mean (``min``) is the best.
    """

    every: int = at_least(1, default=20)
    keep: int = at_least(1, default=2)
    best: str | None = None
    best_mode: Literal["max", "min"] = "max"


@names_its_settings
@dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases.

    Args:
        mode: ``online`` sends the metrics while the run trains; ``offline`` writes them to the run
            folder and needs no network.
        project: The project that the run belongs to.
        entity: The user or team that owns it; null for your own.
        group: A name that several runs share, such as the seeds of an experiment.
    """

    mode: Literal["online", "offline", "disabled"] = "disabled"
    project: str = "ragged-rl"
    entity: str | None = None
    group: str | None = None


@names_its_settings
@dataclass(frozen=True)
class ScaleConfig:
    """Several processes, on one machine or many; ``torchrun`` needs no setting.

    Args:
        mode: ``local``: this process plays. ``rapid``: processes of Ray play, each with worlds and
            a copy of the network, and this one learns. ``ascend``: worlds and networks are
            processes of their own; each world serves several networks, each of which plays a part
            of its rows, or the other way round.
        worlds: Processes that step worlds, each a part of the rows; those of ``rapid`` are those of
            the networks, where there are as many.
        networks: Processes that run the network. The larger of the two is a multiple of the other.
        max_staleness: The most updates that a decision may be old when it is learned from; 0 lets
            all wait for the newest weights. ``algorithm=vtrace`` corrects for more.
        cpus: The CPU cores that Ray reserves for each process.
        address: The address of a cluster of Ray, or ``auto``; null starts Ray on this machine.
        timeout: Seconds after which a process that the others wait for is given up; evaluations of
            the first process have to end within them.
    """

    mode: Literal["local", "rapid", "ascend"] = "local"
    worlds: int = at_least(1, default=2)
    networks: int = at_least(1, default=2)
    max_staleness: int = at_least(0, default=1)
    cpus: float = at_least(0, default=1.0)
    address: str | None = None
    timeout: float = above_0(default=1800.0)


@names_its_settings
@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run.

    Args:
        env: ``_target_``, a registered name or a dotted path, and the constructor's arguments.
        seed: Seeds the network, the environments and the sampling.
        total_timesteps: Frames to train on, rounded up to whole rollouts.
        stop_at: The training ends sooner when these means over the last episodes, as they are on
            the screen, are all reached: ``{"win": 0.99}``, ``stop_at.win=0.99``. They count from
            two episodes for each environment on, and 100 at least. With ``eval.every``, also
            means of evaluations, such as ``eval/win``.
        stop_below: As ``stop_at``, for metrics that have to fall: ``{"episodic_length": 20}``.
        device: ``auto`` takes a GPU where there is one; ``cpu``, ``cuda``, ``cuda:1``.
        precision: ``bfloat16`` runs the network under autocast.
        cuda_graphs: On a GPU let it repeat passes and gradient steps without being told each
            operation, where it can. This takes up to twice the memory of a gradient step.
        threads: CPU threads that share the network's blocks; 0 takes all cores. Small networks gain
            little from more than 1, those of width 128 most.
        keep_memory: Let the C library keep up to 1 GiB of freed memory for the rest of the process,
            where it can: a training step is a tenth faster.
        run_dir: Where run folders are made.
        run_name: Name of the run folder; made from environment, time and seed if left out.
        resume: Run folder to go on with.
        init: Run folder, or ``<run>/best``, whose network, with its settings, a new run begins
            with, such as that of ``ppo_trainer.imitate``; null begins with a fresh one.
        algorithm: What improves the network: ``ppo``, or ``vtrace``, which corrects PPO for
            decisions of earlier networks; it has the settings of both groups.
        shown_metrics: Which of the environment's own metrics the screen, ``curve.png`` and tables
            show; null shows all of them, but numbers such as ``energy.max`` only where named.
        viewer: Show the run in the browser while it trains: print the address of a page with its
            curves, in which its newest network plays.
        value_net: A network of its own for the value function; null shares the policy's.
        value_optim: The optimizer of that network; null takes ``optim``.
        selfplay: Who plays against whom, in games of several players.
        scale: Several processes that train one network.
    """

    env: Mapping[str, Any] = field(default_factory=lambda: {"_target_": "minesweeper"})
    seed: int = at_least(0, default=1)
    total_timesteps: int = at_least(1, default=500_000)
    stop_at: Mapping[str, float] | None = None
    stop_below: Mapping[str, float] | None = None
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    cuda_graphs: bool = True
    threads: int = within(0, _MOST_THREADS, default=1)
    keep_memory: bool = True
    run_dir: str = "runs"
    run_name: str | None = None
    resume: str | None = None
    init: str | None = None
    algorithm: Literal["ppo", "vtrace"] = "ppo"
    shown_metrics: Sequence[str] | None = None
    viewer: bool = False
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    net: NetConfig = field(default_factory=NetConfig)
    value_net: NetConfig | None = None
    ppo: PPOConfig = field(default_factory=PPOConfig)
    vtrace: VTraceConfig = field(default_factory=VTraceConfig)
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    value_optim: OptimConfig | None = None
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    selfplay: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    scale: ScaleConfig = field(default_factory=ScaleConfig)

    def __post_init__(self) -> None:
        """Fit and check every value, and check the values against each other."""
        for name, value in fitted(self).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "env", plain(self.env, "env"))
        for name in ("run_dir", "resume", "init"):
            object.__setattr__(self, name, _without_tilde(getattr(self, name)))
        check_device_name(self.device)
        check_ranges(self)
        for name in ("stop_at", "stop_below"):
            object.__setattr__(self, name, _goals(getattr(self, name), name) or None)
        _check_evaluated(self)
        _check_baseline(self)
        frames = self.rollout.num_envs * self.rollout.steps
        if self.ppo.minibatch_size > frames:
            raise ConfigError(
                "ppo.minibatch_size is larger than a rollout",
                expected=f"at most rollout.num_envs * rollout.steps = {frames}",
                received=self.ppo.minibatch_size,
            )
        if self.net.memory != "none" and self.ppo.minibatch_size < self.rollout.steps:
            raise ConfigError(
                "ppo.minibatch_size is smaller than the sequence of a row, which stays whole where "
                "the network has a memory",
                expected=f"at least rollout.steps = {self.rollout.steps}",
                received=self.ppo.minibatch_size,
            )
        if self.value_net is not None and self.value_net.memory != "none":
            raise ConfigError(
                "value_net.memory: the separate value network cannot have a memory of its own",
                expected="none: it reads the memory of net",
                received=self.value_net.memory,
            )
        if self.ppo.microbatch_size > self.ppo.minibatch_size:
            raise ConfigError(
                "ppo.microbatch_size is larger than ppo.minibatch_size",
                expected=f"0, or at most {self.ppo.minibatch_size}",
                received=self.ppo.microbatch_size,
            )
        if self.rollout.processes > self.rollout.num_envs:
            raise ConfigError(
                "rollout.processes is larger than rollout.num_envs",
                expected=f"at most {self.rollout.num_envs}",
                received=self.rollout.processes,
            )
        if self.rollout.asynchronous and not self.rollout.processes:
            raise ConfigError(
                "rollout.asynchronous needs worker processes",
                expected="rollout.processes=2 or more",
                received=self.rollout.processes,
            )
        if self.rollout.batch_size > self.rollout.num_envs:
            raise ConfigError(
                "rollout.batch_size is larger than rollout.num_envs",
                expected=f"0, or at most {self.rollout.num_envs}",
                received=self.rollout.batch_size,
            )
        if self.value_optim is not None and self.value_net is None:
            raise ConfigError(
                "value_optim is set, but the value function has no network of its own",
                hint="set value_net, too, or leave value_optim out",
            )
        if self.init is not None and self.selfplay.policies > 1:
            raise ConfigError(
                "init names one network, and a population has several",
                expected="init=null, or another selfplay.mode",
            )
        if self.ppo.clone_kl and self.init is None:
            raise ConfigError(
                "ppo.clone_kl is set, but the run begins with a fresh network",
                expected="init=<run>, the network that is not to be left",
            )
        if self.ppo.clone_kl and self.net.memory != "none":
            raise ConfigError(
                "ppo.clone_kl does not go together with a memory",
                expected="net.memory=none, or ppo.clone_kl=0",
                received=f"net.memory={self.net.memory}",
            )
        for name in ("run_dir", "run_name", "resume", "init"):
            if "\0" in (getattr(self, name) or ""):
                raise ConfigError(f"{name} has a null byte, which no path may have")
        if self.run_name == ".." or Path(self.run_name or "").name != (self.run_name or ""):
            raise ConfigError(
                "run_name is not the name of a folder",
                expected="a name without slashes; run_dir says where run folders are made",
                received=shorten(self.run_name),
            )
        if not isinstance(self.env, Mapping) or not isinstance(self.env.get("_target_"), str):
            raise ConfigError(
                "env has no _target_",
                expected="env._target_=minesweeper, or a dotted path such as my_pkg.my_env.MyEnv",
                received=shorten(self.env),
            )

        if "_target_" in self.eval.env:
            raise ConfigError(
                "eval.env names another environment",
                expected="settings of the one that is trained on, such as eval.env.curriculum=0",
                received=shorten(dict(self.eval.env)),
            )

    @property
    def frames_per_update(self) -> int:
        """T * R."""
        return self.rollout.num_envs * self.rollout.steps


def _goals(goals: Mapping[str, Any] | None, path: str) -> dict[str, float]:
    """Goals by the names of metrics, which may have dots: the command line nests them."""
    flat: dict[str, float] = {}
    for name, goal in (goals or {}).items():
        if isinstance(goal, Mapping):
            within = _goals(goal, f"{path}.{name}")
            flat |= {f"{name}.{rest}": value for rest, value in within.items()}
        elif isinstance(goal, bool) or not isinstance(goal, int | float) or not math.isfinite(goal):
            raise ConfigError(
                f"{path}.{name} is no goal",
                expected="a finite number, such as stop_at.win=0.99",
                received=shorten(goal),
            )
        else:
            flat[str(name)] = float(goal)
    return flat


def _check_evaluated(config: TrainConfig) -> None:
    """Check that settings which only evaluations use come with evaluations."""
    wanted = {"checkpoint.best": [config.checkpoint.best or ""]}
    wanted |= {name: list(getattr(config, name) or ()) for name in ("stop_at", "stop_below")}
    for setting, names in wanted.items():
        for name in names:
            if name.startswith("eval/") and not config.eval.every:
                raise ConfigError(
                    f"{setting} asks for {name!r}, and nothing is evaluated during the training",
                    hint=f"set eval.every, or take {name.removeprefix('eval/')!r}, the mean over "
                    "the last episodes of the training",
                )


def _check_baseline(config: TrainConfig) -> None:
    """Check that a group baseline has rows that play the same instances."""
    if config.ppo.baseline == "value":
        return
    if config.algorithm == "vtrace":
        raise ConfigError(
            f"ppo.baseline={config.ppo.baseline} does not go together with algorithm=vtrace",
            expected="ppo.baseline=value, which it corrects, or algorithm=ppo",
        )
    copies = config.env.get("copies", 1)
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 2:
        raise ConfigError(
            f"ppo.baseline={config.ppo.baseline} needs groups of rows that play the same instances",
            expected="env.copies=2 or more; environments without this setting have no such groups",
            received=f"env.copies={shorten(copies)}",
        )


def config_from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return a checked TrainConfig from nested dicts; errors name the nearest valid key."""
    return build(TrainConfig, values)


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """Nested dicts of plain values that ``config_from_dict`` turns back into ``config``."""
    values = dataclasses.asdict(config)
    return {**values, "env": dict(values["env"])}


def with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return the config with other values of the settings with these dotted names, all checked."""
    if not changes:
        return config
    values = config_to_dict(config)
    for name, value in changes.items():
        *groups, last = name.split(".")
        within = values
        for group in groups:
            own = within.get(group)
            # A copy: the groups within ``env`` are those of ``config`` itself.
            within[group] = dict(own) if isinstance(own, Mapping) else {}
            within = within[group]
        within[last] = value
    return config_from_dict(values)


def _without_tilde(path: str | None) -> str | None:
    """Return the path with the home folder for ``~``, which a shell leaves in run_dir=~/runs."""
    return path if path is None else os.path.expanduser(path)
