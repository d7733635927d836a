"""A trained network as an agent for single observations: to play beside, and to use elsewhere.

agent = load_agent("runs/minesweeper")
actions = agent.act(env.reset())  # as env.act takes them, with probabilities

"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from entity_env import Action, ActionSpace, Observation, ObsSpace, VecObs
from entity_env.agent import Decision, decided_actions
from entity_env.batch import batch_frames
from entity_env.errors import EntityEnvError
from entity_env.frame import Frame
from entity_env.registry import Factory
from entity_env.validate import FrameReader
from entity_env.wrappers.feature_filter import ObservationFilter
from ppo_trainer.checkpoint import latest_checkpoint
from ppo_trainer.collect import autocast, check_output
from ppo_trainer.errors import RunFolderError
from ppo_trainer.loading import LoadedNet, load_net, load_policy
from ppo_trainer.run_folder import RunFolder
from ppo_trainer.seeding import derived_seed
from ppo_trainer.tensors import to_batch
from ragged_net import ActionOutput

__all__ = ["RunAgent", "load", "load_agent"]


def load_agent(
    run: str | Path,
    env: Factory | None = None,
    *,
    greedy: bool = False,
    seed: int | None = None,
    device: str = "auto",
    trust: bool = False,
) -> RunAgent:
    """The network of a run's newest checkpoint, ready to act; safe with a run of anybody's.

    No environment is imported, but where ``trust`` allows it and the run is an old one that does
    not know its spaces.

    Args:
        run: The run folder.
        env: What makes the environment whose observations come, where it shows more than the
            network knows, or is not the one that the run names.
        greedy: Take the likeliest choice instead of drawing.
        seed: Seeds the draws; None derives a seed from that of the run.
        device: Where the network runs: ``auto``, ``cpu``, ``cuda``.
        trust: The consent to import the environment that an old run names.

    Raises:
        RunFolderError: No run folder; or an old one, which only knows its environment's name.
        CheckpointError: No checkpoint, or one that does not fit the environment.
    """
    loaded = load_net(run, device) if env is None else None
    if loaded is not None:
        return RunAgent(loaded, greedy=greedy, seed=seed)
    if env is None and not trust:
        latest_checkpoint(RunFolder.open(run))  # without one, that is what is wrong
        raise RunFolderError(
            f"the run {str(run)!r} has no spaces.json: only its environment can say what its "
            "network reads",
            expected="load_agent(run, env=MyEnv)",
            hint="to import the environment that the run names, if you trust whoever made it: "
            "load_agent(run, trust=True), or --trust",
        )
    with_env = load_policy(run, env, device, trust=trust)
    return RunAgent(with_env, shown=with_env.fitted.whole, greedy=greedy, seed=seed)


def load(path: str, seed: int, trust: bool = False) -> RunAgent:
    """What ``entity_env.agent.load_agent`` finds as a plug-in."""
    return load_agent(path, seed=seed, trust=trust)


class RunAgent:
    """Decides with a network, one frame at a time.

    Args:
        loaded: The network and where it comes from.
        shown: What the observations contain; None for just what the network knows.
        greedy: Take the likeliest choice instead of drawing.
        seed: Seeds the draws; None derives a seed from that of the run.
    """

    def __init__(
        self,
        loaded: LoadedNet,
        *,
        shown: ObsSpace | None = None,
        greedy: bool = False,
        seed: int | None = None,
    ) -> None:
        self.loaded = loaded
        self.greedy = greedy
        if seed is None:
            seed = derived_seed(loaded.config.seed, "agent")
        self._generator = torch.Generator(loaded.device).manual_seed(seed)
        spaces = loaded.net.obs_space, loaded.net.action_space
        self._reader = FrameReader(*spaces)
        self._filter = ObservationFilter(shown or spaces[0], spaces[1], spaces[0])

    @property
    def obs_space(self) -> ObsSpace:
        """What the network can see."""
        return self._reader.obs_space

    @property
    def action_space(self) -> Mapping[str, ActionSpace]:
        """What the network can do."""
        return self._reader.action_space

    def act(self, observation: Observation) -> dict[str, Action]:
        """What to do: actions as the environment takes them, with ``probs``.

        Raises:
            EntityEnvError: The observation does not fit the spaces of the run.
        """
        frame = self._frame(observation)
        decided = decided_actions(frame, self.decide(self._batch(frame)), self.action_space)
        return self._filter.own_actions(decided)

    @torch.no_grad()
    def value(self, observation: Observation) -> float:
        """The return that the network expects from this observation on."""
        batch = to_batch(self._batch(self._frame(observation)), self.loaded.device)
        with autocast(self.loaded.device, self.loaded.config):
            return float(self.loaded.net.value(batch)[0])

    @torch.no_grad()
    def decide(self, obs: VecObs) -> Decision:
        """What to do in the one row of ``obs``, with all probabilities and the value."""
        with autocast(self.loaded.device, self.loaded.config):
            batch = to_batch(obs, self.loaded.device)
            output = self.loaded.net(batch, generator=self._generator, greedy=self.greedy)
        actions = check_output(output).actions
        return Decision(
            chosen={name: own.chosen.values.cpu().numpy() for name, own in actions.items()},
            probs={name: _probs(own) for name, own in actions.items()},
            value=float(output.value[0]),
        )

    def _frame(self, observation: Observation) -> Frame:
        try:
            return self._reader.read(self._filter.show(observation))
        except EntityEnvError as error:
            raise error.located(f"run {str(self.loaded.run.path)!r}") from error.__cause__

    def _batch(self, frame: Frame) -> VecObs:
        return batch_frames([frame], self.obs_space, self.action_space)


def _probs(action: ActionOutput) -> npt.NDArray[np.float32]:
    """Shape (A, C), or (A, E) for a selection in one frame."""
    if isinstance(action.probs, torch.Tensor):
        probs: npt.NDArray[np.float32] = action.probs.cpu().numpy()
        return probs
    actors = action.chosen.num_rows
    pairs: npt.NDArray[np.float32] = action.probs.values.cpu().numpy()
    return pairs.reshape(actors, -1 if actors else 0)
