"""A trained network as an agent.

agent = load_agent("runs/minesweeper")
actions = agent.act(env.reset())  # input of env.act, with probabilities

Call agent.reset() at the beginning of each game, for networks with a memory.
"""

from __future__ import annotations

from pathlib import Path

from entity_env import ObsSpace
from entity_env.registry import Factory
from ppo_trainer.machine.device import default_torch_state
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import LoadedNet, load_net, load_policy

__all__ = ["NetworkAgent", "load", "load_agent"]


@default_torch_state()
def load_agent(
    run: str | Path,
    env: Factory | None = None,
    *,
    greedy: bool = False,
    seed: int | None = None,
    device: str = "auto",
    temperature: float = 1.0,
    top_k: int = 0,
    policy: int = 0,
) -> NetworkAgent:
    """Load the network of a run's newest checkpoint as an agent; safe with runs of other people.

    No environment is imported.

    Args:
        run: Run folder, or ``<run>/best`` for its best network.
        env: Class of the environment of the observations, needed if it shows more than the network
            was trained on, or differs from the environment of the run.
        greedy: True to take the most likely choices. By default the agent draws as in training,
            and plays about as well as ``agent, sampled`` of the evaluation.
            ``act(observation, greedy=True)`` takes the most likely choice once.
        seed: Seed of the draws; None derives it from the seed of the run, so that two agents of one
            run draw the same numbers.
        device: Device of the network: ``auto``, ``cpu`` or ``cuda``.
        temperature: See ``NetworkAgent``.
        top_k: See ``NetworkAgent``.
        policy: Number of a policy of a population, also written as ``<run>:1``.

    Raises:
        SettingError: ``temperature`` or ``top_k`` is out of range.
        RunFolderError: The folder is not a run.
        CheckpointError: There is no checkpoint, or it does not fit the environment.
    """
    if policy:
        run = f"{run}:{policy}"
    loaded: LoadedNet
    shown: ObsSpace | None = None
    if env is None:
        loaded = load_net(run, device)
    else:
        loaded = with_env = load_policy(run, env, device)
        shown = with_env.whole
    return NetworkAgent(
        loaded.nets,
        seed=derived_seed(loaded.config.seed, "agent") if seed is None else seed,
        greedy=greedy,
        temperature=temperature,
        top_k=top_k,
        precision=loaded.config.precision,
        loaded=loaded,
        shown=shown,
    )


def load(path: str, seed: int, trust: bool = False) -> NetworkAgent:
    """Return the agent of a run; this is the plug-in of ``entity_env.agent.load_agent``.

    Loading a network imports no code, so that it needs no ``trust``.
    """
    return load_agent(path, seed=seed)
