"""The settings of a run, their defaults and their checks. ``conf/`` holds the recipes."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from entity_env.arguments import ABOVE_0, FRACTION, SMALLEST, Range, at_least, check_fields, checked
from entity_env.errors import SettingError, nearest, shorten
from ppo_trainer.settings.build import (
    build,
    fitted,
    names_its_settings,
    path_field,
    plain,
    setting_names,
)
from ppo_trainer.settings.device_names import check_device_name
from ppo_trainer.settings.search_config import SearchConfig
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
    "SearchConfig",
    "SelfPlayConfig",
    "TrainConfig",
    "VTraceConfig",
    "WandbConfig",
    "config_from_dict",
    "config_to_dict",
    "value_of",
    "with_changes",
]

Schedule = Literal["constant", "linear", "cosine"]

_MOST_THREADS = 1024  # torch crashes with some thousands
_LIMIT = Range(SMALLEST, math.inf, "> 0")  # infinity limits nothing


@names_its_settings
@dataclass(frozen=True)
class RolloutConfig:
    """The collection of experience.

    Args:
        num_envs: Number of rows R that act together. For games of several players it is rounded up
            to whole games. More rows make each pass of the network cheaper per frame, but an update
            then comes after more frames.
        steps: Number of steps T of each row between two updates. A rollout has T * R frames. Longer
            rollouts show rewards that come late; shorter ones update the network more often.
        processes: Number of worker processes for the environments; 0 runs them in the main process.
            Workers pay off where a step takes 100 microseconds or more; each is one more Python
            process in memory.
        asynchronous: Act for the half of the rows that is ready first, without waiting for the
            others. Faster where some steps take much longer than others. Needs worker processes.
            The order of rows depends on time, so that two runs with the same seed differ.
        replays: Folder for a replay of all training games, with one line for each decision, which
            takes time and disk space. A resumed run writes another replay. null writes none. Not
            available with worker processes.
        stagger: Cut off the first episodes of each environment at random steps, so that
            environments with episodes of equal length do not all end in the same step
            (``StaggeredStart``). A few early episodes count as truncated; without it, such rollouts
            show only one phase of an episode. Has no effect on compiled games and games of several
            players.
    """

    num_envs: int = checked(at_least(1), 128)
    steps: int = checked(at_least(1), 16)
    processes: int = checked(at_least(0), 0)
    asynchronous: bool = False
    replays: str | None = path_field(None)
    stagger: bool = True


GROUP = 8
"""The number of consecutive rows that draw the same random numbers with ``ppo.baseline=group``."""


@names_its_settings
@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347).

    Args:
        epochs: Number of passes over a rollout. More passes learn more from the same frames, and
            take proportionally longer; too many overfit to these frames.
        minibatch_size: Number of frames for each gradient step. Larger ones give steadier gradients
            in less time per frame, but fewer steps. With a memory it is approximate, because the
            sequence of a row within one rollout and one episode stays whole.
        microbatch_size: Number of frames that go through the network at once, in imitation, too; 0
            for the whole minibatch. A smaller number takes less memory and more time, and gives the
            same results.
        gamma: Discount factor for each decision. It sets a horizon of about 1 / (1 - gamma)
            decisions: a longer one includes later rewards, but makes advantages noisier.
        gae_lambda: Lambda of generalised advantage estimation (Schulman et al. 2016,
            arXiv:1506.02438). A higher value trusts the rewards that followed (more noise), a lower
            one the value function (more bias).
        baseline: Baseline that is subtracted from returns. ``value``: the value function (GAE).
            ``group``: also the advantages of seven other rows with the same random numbers (Mao et
            al. 2018, arXiv:1807.02264). It cancels what happens whatever is chosen, such as
            arrivals, but the value function learns from an eighth as many different streams.
        clip_coef: Clipping range of probability ratios: 1 - clip_coef to 1 + clip_coef. A wider
            range lets the policy change faster, and less stably.
        ratio: ``per_actor`` clips the ratio of each actor, ``per_frame`` the product of the ratios
            of all actors of a frame. The product is the ratio of the joint choice, but the more
            actors a frame has, the more often it is clipped.
        normalize_advantages: Scale the advantages of each minibatch to mean 0 and standard
            deviation 1. This makes learning independent of the size of rewards, but scales up the
            noise of minibatches with hardly any rewards.
        least_deviation: Lower bound of the standard deviation by which advantages are divided.
            Where rewards are rare, it keeps the noise of rollouts without a reward from being
            scaled up; too high a bound slows learning from small rewards.
        entropy_coef: Weight of the entropy bonus at the start of the run. A higher weight explores
            longer; if it is too high, the policy stays random.
        entropy_end: Weight of the entropy bonus at the end of the run, for a ``linear`` or
            ``cosine`` schedule. 0 lets the policy settle; in self-play a weight above 0 keeps it
            from cycling.
        entropy_schedule: Schedule of the weight from ``entropy_coef`` to ``entropy_end``;
            ``constant`` keeps ``entropy_coef``. A falling weight explores first and settles later.
        value_coef: Weight of the value loss, in imitation, too. A higher weight improves the
            values, at the expense of the policy where both share a network.
        clip_value: Clip the change of the value by clip_coef, too. Values then change more
            steadily, but follow large returns slowly.
        target_kl: Approximate KL divergence between the new and the old policy at which an update
            stops early, in nats; 0 never stops. A lower limit is safer, but skips gradient steps.
        clone_kl: Weight, at the start of the run, of a penalty on the KL divergence from the
            network that ``init`` names, in nats for each choice; 0 for no penalty. A higher weight
            keeps more of what that network can do, and learns less from rewards.
        clone_kl_fade: Fraction of the run over which the weight of the penalty falls linearly to 0;
            0 keeps the weight constant. A longer time protects the network until rewards are found,
            and slows learning from them.
        max_grad_norm: Maximum norm of a gradient, in imitation, too. A longer gradient is scaled
            down to this norm. A lower limit bounds the effect of rare large gradients; if most of
            them exceed it, their sizes are lost.
    """

    epochs: int = checked(at_least(1), 3)
    minibatch_size: int = checked(at_least(1), 512)
    microbatch_size: int = checked(at_least(0), 0)
    gamma: float = checked(FRACTION, 0.95)
    gae_lambda: float = checked(FRACTION, 0.9)
    baseline: Literal["value", "group"] = "value"
    clip_coef: float = checked(_LIMIT, 0.2)
    ratio: Literal["per_actor", "per_frame"] = "per_actor"
    normalize_advantages: bool = True
    least_deviation: float = checked(at_least(0), 0.0)
    entropy_coef: float = checked(at_least(0), 0.03)
    entropy_end: float = checked(at_least(0), 0.0)
    entropy_schedule: Schedule = "constant"
    value_coef: float = checked(at_least(0), 0.5)
    clip_value: bool = False
    target_kl: float = checked(at_least(0), 0.0)
    clone_kl: float = checked(at_least(0), 0.0)
    clone_kl_fade: float = checked(FRACTION, 0.5)
    max_grad_norm: float = checked(_LIMIT, 0.5)


@names_its_settings
@dataclass(frozen=True)
class ImitationConfig:
    """Behavioural cloning of recorded games: ``python -m ppo_trainer.imitate``.

    The value function learns the recorded returns, discounted by ``ppo.gamma``.

    Args:
        epochs: Maximum number of passes over the recorded games. More passes learn more from the
            same games, and take proportionally longer.
        minibatch_size: Number of frames for each gradient step. Larger ones give steadier gradients
            in less time per frame, but fewer steps.
        held_out: Fraction of the episodes that is not trained on and measures the validation loss.
            More of them measure it more precisely, but leave fewer to learn from; 0 learns from
            all, without an early end.
        patience: Number of passes without a lower validation loss after which the training ends.
            The network with the lowest validation loss is kept. A higher number takes longer, but
            survives a chance rise. 0 goes through all ``epochs``.
        temperature: Temperature of the weights of episodes. An episode has the weight ``exp(z /
            temperature)``, at most 20, where z is its reward, standardised over all episodes. A
            lower temperature learns mainly from the best episodes, and so from fewer frames. 0
            gives all episodes the same weight.
        frames: Maximum number of frames in memory, among which frames are shuffled. A data set of
            at most so many frames is read once, a larger one is read again in each pass. More
            frames take more memory, and are shuffled better.
    """

    epochs: int = checked(at_least(1), 100)
    minibatch_size: int = checked(at_least(1), 256)
    held_out: float = checked(FRACTION, 0.1)
    patience: int = checked(at_least(0), 10)
    temperature: float = checked(at_least(0), 0.0)
    frames: int = checked(at_least(1), 100_000)


@names_its_settings
@dataclass(frozen=True)
class VTraceConfig:
    """V-trace (Espeholt et al. 2018, arXiv:1802.01561): ``algorithm=vtrace``.

    The settings of ``ppo`` apply, too.

    Args:
        rho_clip: Maximum of the probability ratio between the present policy and the policy that
            acted, in the error of a decision (rho-bar in the paper). It determines the policy whose
            value is estimated. A lower maximum has less variance, but learns values nearer to those
            of the policy that acted.
        trace_clip: Maximum of the probability ratio by which the errors of later decisions are
            multiplied (c-bar in the paper). A lower maximum has less variance, but late rewards
            reach early decisions more slowly.
    """

    rho_clip: float = checked(_LIMIT, 1.0)
    trace_clip: float = checked(_LIMIT, 1.0)


@names_its_settings
@dataclass(frozen=True)
class OptimConfig:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980).

    Args:
        lr: Learning rate at the start. A higher one learns faster, until updates become unstable
            (``policy/kl`` above 0.1).
        schedule: Schedule of the learning rate from ``lr`` to 0 over the run; ``constant`` keeps
            ``lr``. A falling rate ends with fine steps; with a constant one a run can be continued
            as it was.
    """

    lr: float = checked(ABOVE_0, 1e-3)
    schedule: Schedule = "linear"


@names_its_settings
@dataclass(frozen=True)
class EvalConfig:
    """The evaluation of the network in new episodes, after and during the training.

    Args:
        episodes: Number of episodes of the evaluation at the end, played once with the most likely
            choices (greedy) and once with sampled ones; 0 for no evaluation. Four times as many
            halve the intervals, and take four times as long.
        max_steps: Maximum length of an episode of an evaluation, in steps; 0 sets no limit. A limit
            bounds the time of games that may never end, but cuts off long ones.
        seconds: Maximum duration of the evaluation at the end, in seconds, for all players
            together. A shorter one leaves out more episodes; the report says how many. 0 sets no
            limit.
        every: Number of updates between two greedy evaluations during the training, of at most 100
            episodes; 0 for none. Frequent evaluations follow the greedy policy closely, but take
            time from the training.
        scripted: Dotted path of a function from Observation to actions. Evaluations compare the
            network with it.
        env: Settings of the environment that replace those of the training wherever a run is
            evaluated, watched or opened. Use it to switch off what only helps learning, such as a
            curriculum.
    """

    episodes: int = checked(at_least(0), 1000)
    max_steps: int = checked(at_least(0), 10_000)
    seconds: float = checked(at_least(0), 120.0)
    every: int = checked(at_least(0), 0)
    scripted: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)


@names_its_settings
@dataclass(frozen=True)
class CheckpointConfig:
    """The checkpoints of a run. The last one is saved at the end.

    Args:
        every: Number of updates between two checkpoints. A smaller number loses less if the run is
            killed, but writes more often.
        keep: Number of checkpoints to keep. Older ones are removed. More of them take more disk
            space.
        best: Name of a metric on the screen or in ``metrics.jsonl``, such as ``win``, ``reward`` or
            ``eval/win``. The network with the best mean over the last episodes is kept in the
            folder ``best`` of the run. Means of the training are free, but lag behind; ``eval/``
            metrics are those of one network, and need ``eval.every``.
        best_mode: ``max`` if the greatest mean is the best, ``min`` if the least one is.
    """

    every: int = checked(at_least(1), 20)
    keep: int = checked(at_least(1), 2)
    best: str | None = None
    best_mode: Literal["max", "min"] = "max"


@names_its_settings
@dataclass(frozen=True)
class WandbConfig:
    """Logging to Weights & Biases, whose own variables, such as ``WANDB_ENTITY``, apply, too.

    Args:
        mode: ``online`` sends the metrics while the run trains; ``offline`` writes them to the run
            folder and needs no internet connection; ``disabled`` logs nothing there.
        project: Name of the project that the run belongs to.
    """

    mode: Literal["online", "offline", "disabled"] = "disabled"
    project: str = "ragged-rl"


@names_its_settings
@dataclass(frozen=True)
class ScaleConfig:
    """Training with processes of Ray, on one machine or many. ``torchrun`` needs no setting.

    Args:
        mode: ``local``: this process plays. ``rapid``: each rollout process of Ray steps worlds and
            runs a copy of the network, and this process learns; with torchrun each of its processes
            does, from its share of them. ``ascend``: processes that step worlds and processes that
            run the network are separate; with torchrun its processes are the networks, and each
            learns from what it plays. More processes collect more frames per second, but what they
            play is not the same in each run.
        worlds: Number of processes that step worlds. Each steps an equal part of the rows. With
            ``rapid`` and ``worlds`` equal to ``networks``, the same processes do both. More of them
            step slow environments faster, until the learner or the networks are the bottleneck.
        networks: Number of processes that run the network. More of them act faster, until the
            learner is the bottleneck. The larger of ``worlds`` and ``networks`` must be a multiple
            of the smaller.
        max_staleness: Maximum age of a decision when it is learned from, in updates. A higher one
            lets processes wait less, but learns from older decisions, for which
            ``algorithm=vtrace`` corrects. 0 makes all processes wait for the newest weights.
        cpus: Number of CPU cores that Ray reserves for each process. Below 1, processes share
            cores, so that more of them fit.
        address: Address of a Ray cluster, or ``auto``; null starts Ray on this machine.
        timeout: Seconds after which a process that does not answer counts as lost. A shorter time
            notices losses sooner, but must be longer than the evaluations of the first process.
    """

    mode: Literal["local", "rapid", "ascend"] = "local"
    worlds: int = checked(at_least(1), 2)
    networks: int = checked(at_least(1), 2)
    max_staleness: int = checked(at_least(0), 1)
    cpus: float = checked(at_least(0), 1.0)
    address: str | None = None
    timeout: float = checked(ABOVE_0, 1800.0)


@names_its_settings
@dataclass(frozen=True)
class TrainConfig:
    """All settings of a run.

    Args:
        env: The environment: ``_target_``, which is a registered name or a dotted path, and the
            arguments of its constructor.
        seed: Seed of the network's weights, of the environments and of sampling. Results differ
            between seeds: compare settings over several of them.
        total_timesteps: Number of frames to train on, rounded up to whole rollouts. More steps take
            proportionally longer; the schedules of ``optim`` and ``ppo`` stretch with them.
        stop_at: Metrics and their goals, such as ``stop_at.win=0.99``. The training ends early when
            the mean of each of them over the last episodes, as shown on the screen, is at least its
            goal. The means count after two episodes for each environment, and at least 100. With
            ``eval.every``, means of evaluations such as ``eval/win`` may be goals, too. The highest
            of many noisy means is partly luck, so that the final evaluation may be lower.
        stop_below: The same for metrics that must fall to their goals, such as
            ``stop_below.episodic_length=20``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``. ``auto`` takes a GPU if there is one.
            Small networks on small frames are often faster on a CPU.
        precision: Number format of the network; ``bfloat16`` runs it under autocast. On a GPU it is
            faster and takes less memory, but has only 8 bits of precision.
        cuda_graphs: Run passes and gradient steps on a GPU as CUDA graphs where possible. It is
            faster and takes up to twice the memory of a gradient step.
        threads: Number of CPU threads that run the network; 0 takes all cores. Networks of width
            128 gain most from several threads, small networks little; other runs on the machine
            lose these cores.
        run_dir: Folder in which run folders are made.
        run_name: Name of the run folder; null makes it from environment, time and seed.
        resume: Run folder of a run to resume. Settings that are given beside it replace those of
            the run.
        init: Run folder, or ``<run>/best``, of the network that a new run begins with, such as the
            result of ``ppo_trainer.imitate``. The settings of that network apply. null begins with
            random weights.
        algorithm: ``ppo``; ``vtrace``, which corrects PPO for decisions of earlier networks and
            takes an additional pass over these; or ``search``, which learns from a tree search in
            games that can be copied. The settings of returns and gradient steps of ``ppo`` apply to
            all, those of ``vtrace`` and ``search`` to one.
        shown_metrics: Metrics of the environment that the screen, ``curve.png`` and tables show;
            null shows all of them except those with a suffix such as ``energy.max``.
        viewer: Print the address of a page for the browser that shows games of the newest network
            while it trains. Games on an open page take time from the training.
        find_positions: Let a new run set ``net.relative_position``, if it is null: for the
            positions that the space declares, or else for those that it finds by names and numbers
            in a few random steps (``entity_env.coordinates``), which stay features, too. ``unit``
            and ``extent`` fit these steps. Offsets between entities make places easier to learn; a
            training step takes a seventh longer.
        value_net: Use a separate network for the value function, with the settings of ``net`` and
            ``optim``. It takes about twice the time of a shared one, and the value may need other
            features than the policy.
        selfplay: Players of each seat in games of several players.
        scale: Training with several processes.
    """

    env: Mapping[str, Any] = field(default_factory=lambda: {"_target_": "minesweeper"})
    seed: int = checked(at_least(0), 1)
    total_timesteps: int = checked(at_least(1), 500_000)
    stop_at: Mapping[str, float] | None = None
    stop_below: Mapping[str, float] | None = None
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    cuda_graphs: bool = True
    threads: int = checked(Range(0, _MOST_THREADS, f"from 0 to {_MOST_THREADS}"), 1)
    run_dir: str = path_field("runs")
    run_name: str | None = path_field(None)
    resume: str | None = path_field(None)
    init: str | None = path_field(None)
    algorithm: Literal["ppo", "vtrace", "search"] = "ppo"
    shown_metrics: Sequence[str] | None = None
    viewer: bool = False
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    find_positions: bool = True
    net: NetConfig = field(default_factory=NetConfig)
    value_net: bool = False
    ppo: PPOConfig = field(default_factory=PPOConfig)
    vtrace: VTraceConfig = field(default_factory=VTraceConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
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
        check_fields(self)
        for name in ("stop_at", "stop_below"):
            object.__setattr__(self, name, _goals(getattr(self, name), name) or None)
        _check_evaluated(self)
        _check_baseline(self)
        _check_search(self)
        _check_sizes(self)
        _check_memory(self)
        _check_what_others_need(self)
        _check_names(self)

    @property
    def value_config(self) -> NetConfig | None:
        """The settings of the separate value network, which reads the memory of the policy's."""
        return dataclasses.replace(self.net, memory="none") if self.value_net else None

    @property
    def frames_per_update(self) -> int:
        """The number of frames of a rollout, T * R."""
        return self.rollout.num_envs * self.rollout.steps


def _goals(goals: Mapping[str, Any] | None, path: str) -> dict[str, float]:
    """Return goals by the names of metrics; the command line nests names that have dots."""
    flat: dict[str, float] = {}
    for name, goal in (goals or {}).items():
        if isinstance(goal, Mapping):
            within = _goals(goal, f"{path}.{name}")
            flat |= {f"{name}.{rest}": value for rest, value in within.items()}
        elif isinstance(goal, bool) or not isinstance(goal, int | float) or not math.isfinite(goal):
            raise SettingError(
                f"{path}.{name} is not a goal",
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
                raise SettingError(
                    f"{setting} names {name!r}, but there is no evaluation during the training",
                    hint=f"set eval.every, or name {name.removeprefix('eval/')!r}, the mean over "
                    "the last episodes of the training",
                )


def _check_baseline(config: TrainConfig) -> None:
    """Check the settings that do not go with rows that share random numbers."""
    if config.ppo.baseline == "value":
        return
    for name, is_wrong, expected in (
        ("algorithm=vtrace", config.algorithm == "vtrace", "algorithm=ppo"),
        ("rollout.asynchronous=true", config.rollout.asynchronous, "rollout.asynchronous=false"),
        ("rollout.replays", config.rollout.replays is not None, "no replays"),
    ):
        if is_wrong:
            raise SettingError(
                f"ppo.baseline={config.ppo.baseline} is not supported with {name}",
                expected=f"ppo.baseline=value, or {expected}",
            )


def _check_search(config: TrainConfig) -> None:
    """Check the settings that ``algorithm=search`` restricts."""
    if config.algorithm != "search":
        return
    for name, value, expected in (
        ("net.memory", config.net.memory, "none"),
        ("ppo.baseline", config.ppo.baseline, "value"),
        ("ppo.clone_kl", config.ppo.clone_kl, 0.0),
        ("scale.mode", config.scale.mode, "local"),
        ("rollout.processes", config.rollout.processes, 0),
    ):
        if value != expected:
            raise SettingError(
                f"{name}={value} is not supported with algorithm=search",
                expected=f"{name}={expected}, or algorithm=ppo",
            )
    if config.selfplay.policies > 1:
        raise SettingError(
            "algorithm=search trains one network",
            expected="one policy, as with selfplay.mode=mirror; or algorithm=ppo",
        )


def _check_sizes(config: TrainConfig) -> None:
    """Check that no part is larger than its whole."""
    ppo, rollout, frames = config.ppo, config.rollout, "rollout.num_envs * rollout.steps = "
    for name, size, whole, most, formula in (
        ("ppo.minibatch_size", ppo.minibatch_size, "a rollout", config.frames_per_update, frames),
        ("ppo.microbatch_size", ppo.microbatch_size, "ppo.minibatch_size", ppo.minibatch_size, ""),
        ("rollout.processes", rollout.processes, "rollout.num_envs", rollout.num_envs, ""),
    ):
        if size > most:
            raise SettingError(
                f"{name} is larger than {whole}", expected=f"at most {formula}{most}", received=size
            )


def _check_memory(config: TrainConfig) -> None:
    """Check the settings that a memory restricts."""
    if config.net.memory != "none" and config.ppo.minibatch_size < config.rollout.steps:
        raise SettingError(
            "ppo.minibatch_size is smaller than the sequence of a row, which must stay whole "
            "if the network has a memory",
            expected=f"at least rollout.steps = {config.rollout.steps}",
            received=config.ppo.minibatch_size,
        )


def _check_what_others_need(config: TrainConfig) -> None:
    """Check that settings which need others come with them."""
    if config.rollout.asynchronous and not config.rollout.processes:
        raise SettingError(
            "rollout.asynchronous needs worker processes",
            expected="rollout.processes=2 or more",
            received=config.rollout.processes,
        )
    if config.init is not None and config.selfplay.policies > 1:
        raise SettingError(
            f"init names one network, but selfplay.mode={config.selfplay.mode} trains several",
            expected="init=null, or another selfplay.mode",
        )
    if config.ppo.clone_kl and config.init is None:
        raise SettingError(
            "ppo.clone_kl is set, but the run begins with random weights",
            expected="init=<run>, the network that the policy should stay close to",
        )


def _check_names(config: TrainConfig) -> None:
    """Check the names of folders and of the environment."""
    for name in ("run_dir", "run_name", "resume", "init"):
        if "\0" in (getattr(config, name) or ""):
            raise SettingError(f"{name} contains a null byte, which a path must not contain")
    if config.run_name == ".." or Path(config.run_name or "").name != (config.run_name or ""):
        raise SettingError(
            "run_name is not the name of a folder",
            expected="a name without slashes; run_dir is the folder that contains run folders",
            received=shorten(config.run_name),
        )
    if not isinstance(config.env, Mapping) or not isinstance(config.env.get("_target_"), str):
        raise SettingError(
            "env has no _target_",
            expected="env._target_=minesweeper, or a dotted path such as my_pkg.my_env.MyEnv",
            received=shorten(config.env),
        )
    if "_target_" in config.eval.env:
        raise SettingError(
            "eval.env has a _target_, but an evaluation plays the environment of the training",
            expected="settings of that environment, such as eval.env.curriculum=0",
            received=shorten(dict(config.eval.env)),
        )


def config_from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return a checked TrainConfig from nested dicts; errors name the nearest valid key."""
    return build(TrainConfig, values)


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return nested dicts of plain values, which ``config_from_dict`` turns into ``config``."""
    values = dataclasses.asdict(config)
    return {**values, "env": dict(values["env"])}


def with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return the config with changed settings, given by their dotted names, and check them."""
    if not changes:
        return config
    values = config_to_dict(config)
    for name, value in changes.items():
        *groups, last = name.split(".")
        within = values
        for group in groups:
            inner = within.get(group)
            # A copy: the groups within ``env`` are those of ``config`` itself.
            within[group] = dict(inner) if isinstance(inner, Mapping) else {}
            within = within[group]
        within[last] = value
    return config_from_dict(values)


def value_of(config: TrainConfig, name: str) -> Any:
    """Return a setting by its dotted name; None for an argument that the environment does not set.

    Raises:
        SettingError: There is no such setting.
    """
    value: Any = config
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif not hasattr(value, part):
            raise SettingError(
                f"{name} is not a setting, or its group is null",
                hint=nearest(name, setting_names(TrainConfig)),
            )
        else:
            value = getattr(value, part)
    return value


def _without_tilde(path: str | None) -> str | None:
    """Return the path with the home folder for ``~``, which a shell leaves in run_dir=~/runs."""
    return path if path is None else os.path.expanduser(path)
