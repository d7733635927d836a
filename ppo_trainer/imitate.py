"""Learn from recorded games: ``python -m ppo_trainer.imitate games.episodes env=minesweeper``.

This is behavioural cloning: the network learns to choose as the recorded players, and the value
function learns the returns of their games. The training ends when the loss in held-out episodes
does not fall any more. The result is a run, from which PPO can begin: ``python -m ppo_trainer
env=minesweeper init=runs/<run>``. ``python -m ppo_trainer.record`` makes recordings of scripts,
networks and replays. The settings are those of ``ppo_trainer``, with the group ``imitation`` for
the cloning.

``--teacher search`` needs no recording: a search plays, and the network learns its improved
policies and values (``algorithm=search`` with a fixed ``search.teacher``)::

    python -m ppo_trainer.imitate --teacher search env=connect_four search.teacher=runs/<run>
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from entity_env import VecObs
from entity_env.errors import SettingError, counted, shorten
from entity_env.recording import DamageWarning, EpisodeDataset
from entity_env.registry import Factory
from entity_env.storage.space_json import spaces_to_json
from ppo_trainer.algorithms.advantage import explained_variance
from ppo_trainer.algorithms.cloning import Cloning, right_choices
from ppo_trainer.command_line.configs import config_of
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game, make_factory, with_env
from ppo_trainer.experience.acting import MOST_FRAMES, autocast, evaluated
from ppo_trainer.experience.recorded import Examples, episode_weight, examples_of
from ppo_trainer.learner.update import update
from ppo_trainer.loop import TrainResult, train
from ppo_trainer.machine.commands import INTERRUPTED, command_parser, run_main
from ppo_trainer.machine.device import default_torch_state
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.training.callbacks import Callback, CallbackLike
from ppo_trainer.training.session import Session
from ragged_net import RaggedNet

__all__ = ["imitate", "main"]


@default_torch_state()
def imitate(
    paths: Iterable[str | Path],
    config: TrainConfig | None = None,
    env: Factory | None = None,
    callbacks: Iterable[CallbackLike] = (),
) -> TrainResult:
    """Train a network to choose as the players of recorded games.

    Args:
        paths: Recordings, all with the spaces of the environment.
        config: Settings; ``config.imitation`` contains those of the cloning.
        env: Class of the environment, as for ``train``.
        callbacks: Callbacks, as for ``train``.

    Returns:
        The result of the training, as of ``train``. Its steps count each frame in each pass.

    Raises:
        RecordingError: A recording cannot be read, or recordings have different spaces.
        SettingError: The recordings have no episode, or other spaces than the environment.
    """
    config = with_env(TrainConfig() if config is None else config, env)
    settings = config.imitation
    if config.resume is not None or config.selfplay.policies > 1:
        raise SettingError(
            "imitation trains one network in a new run",
            expected="no resume=, and a single policy",
            hint="init=<run> begins with the network of a run",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)  # said below
        dataset = EpisodeDataset(paths)
    for problem in dataset.problems:
        warn(problem)
    _check_spaces(dataset, make_factory(config, env))
    training, held_out = dataset.split(settings.held_out, derived_seed(config.seed, "held out"))
    if not training.num_frames:
        raise SettingError(
            "the recordings contain nothing to train on",
            expected="at least one episode with a decision, besides those that are held out",
            received=counted(len(dataset.index), "episode"),
            hint=f"{counted(dataset.lost_parts, 'part')} cannot be read"
            if dataset.lost_parts
            else None,
        )
    log(
        f"{counted(len(dataset.index), 'episode')} of mean reward "
        f"{dataset.index.rewards.mean():.3f}, {counted(dataset.num_frames, 'frame')}; "
        f"held out: {counted(len(held_out.index), 'episode')}"
    )
    cloner = _Cloner(training, held_out, config)
    steps = settings.epochs * training.num_frames
    config = replace(config, total_timesteps=steps)
    return train(config, env, callbacks=[cloner, *callbacks], learn=cloner.learn)


def _check_spaces(dataset: EpisodeDataset, game: Game) -> None:
    """Raise SettingError unless the recordings have the spaces of the game."""
    recorded = spaces_to_json(dataset.obs_space, dataset.action_space)
    with game.rows(game.whole(1), seed=0) as rows:
        shown = spaces_to_json(rows.obs_space(), rows.action_space())
    for kind in shown:
        if shown[kind] != recorded[kind]:
            raise SettingError(
                f"{dataset.parts[0].path.parent} does not have the spaces of {game.name}: "
                f"the {kind} differ",
                expected=shorten(shown[kind], 400),
                received=shorten(recorded[kind], 400),
            )


class _Cloner(Callback):
    """A callback that trains on blocks of recorded frames in the place of rollouts.

    Args:
        training: Episodes to train on.
        held_out: Episodes that measure the validation loss, possibly none.
        config: Settings of the run.
    """

    def __init__(
        self, training: EpisodeDataset, held_out: EpisodeDataset, config: TrainConfig
    ) -> None:
        self._training, self._held_out, self._config = training, held_out, config
        # Each update gets one block and uses it once; ``_pass`` counts the passes over all blocks.
        size = config.imitation.minibatch_size
        self._cloning = Cloning(replace(config.ppo, epochs=1, minibatch_size=size))
        self._blocks: Iterator[Examples] | None = None
        self._measured: Callable[[RaggedNet], Iterator[Examples]] | None = None
        self._pass, self._seen = 0, 0
        self._best: tuple[float, int, dict[str, Tensor]] | None = None

    def learn(
        self, session: Session, obs: VecObs, clock: Stopwatch
    ) -> tuple[VecObs, dict[str, float]]:
        """Train on the next block; return ``obs`` unchanged, since nobody plays, and metrics."""
        state, net = session.state, session.net
        if self._blocks is None:
            self._blocks = _in_passes(self._training, net, self._config)
        with clock("read"):
            examples = next(self._blocks)
        if not self._pass:
            net.update_statistics(examples.rollout.batch)
        rollout = examples.valued(net)
        metrics = update(
            self._cloning, net, state.optimizers, rollout, session.config,
            session.steps / session.config.total_timesteps, state.generators.minibatches, clock,
        )  # fmt: skip
        state.update += 1
        state.steps += len(rollout)
        self._seen += len(rollout)
        if self._seen >= self._training.num_frames:
            self._pass, self._seen = self._pass + 1, 0
            with clock("held out"):
                metrics |= self.measure(net)
        return obs, {**metrics, "episodes": 0.0}

    def on_update(self, session: Session) -> bool:
        """Keep the best network; return True if the loss has not fallen for ``patience`` passes."""
        loss = session.metrics.get("loss/held_out")
        if loss is not None and (self._best is None or loss < self._best[0]):
            weights = {name: tensor.clone() for name, tensor in session.net.state_dict().items()}
            self._best = loss, self._pass, weights
        if self._best is None:
            return True
        least, best, weights = self._best
        patience = self._config.imitation.patience
        is_over = session.steps >= session.config.total_timesteps
        is_over |= bool(patience and self._pass - best >= patience)
        if is_over:
            session.net.load_state_dict(weights)
            log(f"the network after pass {best} of {self._pass} is kept: held-out loss {least:.4f}")
        return not is_over

    @torch.no_grad()
    def measure(self, net: RaggedNet) -> dict[str, float]:
        """Return the loss and the accuracy of each action in the held-out episodes."""
        if not self._held_out.num_frames:
            return {}
        if self._measured is None:
            self._measured = _again(self._held_out, self._config)
        surprise, weight, values, returns = 0.0, 0.0, [], []
        right: dict[str, list[Tensor]] = {}
        for examples in self._measured(net):
            rollout = examples.valued(net)
            scale = self._cloning.scale(rollout)
            weight += float(scale.policy)
            for part in rollout.parts(MOST_FRAMES):
                with autocast(rollout.values.device, self._config):
                    output, greedy = evaluated(net, part), evaluated(net, part, greedy=True)
                losses = self._cloning.losses(output, part, scale, None)
                surprise += float(losses["loss/cloning"]) * float(scale.policy)
                values.append(output.value)
                returns.append(part.returns)
                for name, same in right_choices(greedy, part).items():
                    right.setdefault(name, []).append(same)
        accuracies = {name: torch.cat(parts) for name, parts in right.items()}
        metrics = {
            f"policy/accuracy/{name}": float(same.float().mean())
            for name, same in accuracies.items()
            if len(same)
        }
        if metrics:
            metrics["policy/accuracy"] = float(torch.cat([*accuracies.values()]).float().mean())
        explained = explained_variance(torch.cat(values), torch.cat(returns))
        return metrics | {"loss/held_out": surprise / weight, "value/explained_variance": explained}


def _in_passes(dataset: EpisodeDataset, net: RaggedNet, config: TrainConfig) -> Iterator[Examples]:
    """Yield the blocks of a data set again and again; a single block is read once."""
    number = 0
    blocks = _again(dataset, config)
    while True:
        yield from blocks(net, derived_seed(config.seed, "pass", number))
        number += 1


def _again(dataset: EpisodeDataset, config: TrainConfig) -> Callable[..., Iterator[Examples]]:
    """Return a function from a network and a seed to the blocks of a data set.

    A single block is kept in memory.
    """
    kept: list[Examples] = []
    settings, rewards = config.imitation, dataset.index.rewards
    mean, deviation = float(rewards.mean()), float(rewards.std())
    weigh = partial(
        episode_weight, mean=mean, deviation=deviation, temperature=settings.temperature
    )

    def blocks(net: RaggedNet, seed: int | None = None) -> Iterator[Examples]:
        if kept:
            yield from kept
            return
        for block in dataset.blocks(settings.frames, seed):
            examples = examples_of(block, weigh, config.ppo.gamma, net)
            if len(examples) == dataset.num_frames:
                kept.append(examples)
            yield examples

    return blocks


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("imitate", __doc__, trusts=False)
    parser.add_argument("words", nargs="+", metavar="<file> or <setting>=<value>")
    parser.add_argument("--teacher", choices=("search",), help="learn from a search while it plays")
    given = parser.parse_intermixed_args(arguments)
    words = given.words
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    paths = [word for word in words if word not in settings]
    if given.teacher is not None:
        if paths:
            parser.error("--teacher search takes no recordings")
        config = config_of(["algorithm=search", *settings], "learn to play")
        if config.search.teacher is None:
            parser.error("name the teacher, search.teacher=<run> or search.teacher=none")
        if train(config).interrupted:
            sys.exit(INTERRUPTED)
        return
    if not paths:
        parser.error("name a recording, such as games.episodes env=minesweeper")
    if imitate(paths, config_of(settings, "learn to play")).interrupted:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run_main(main)
