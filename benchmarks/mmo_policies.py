"""What plays all agents of a massively multiplayer world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from entity_env import VecObs
from entity_env.batching.ragged import ActionBuffer
from ppo_trainer.agent import load_agent
from ppo_trainer.experience.frames import answers_in_order, asked_frames

MAPS = 24
Policy = Callable[[VecObs], Mapping[str, ActionBuffer]]


def of_run(run: Path, seed: int) -> Policy:
    """What plays all agents of a world as a run does, by one policy or one for each population."""
    count = load_agent(run).loaded.config.selfplay.policies
    agents = [load_agent(run, seed=seed + number, policy=number) for number in range(count)]

    def act(obs: VecObs) -> Mapping[str, ActionBuffer]:
        places = [np.flatnonzero(obs.rows % count == number) for number in range(count)]
        pairs = zip(agents, places, strict=True)
        answers = [
            own.act_rows(asked_frames(obs, mine)) if len(mine) else {} for own, mine in pairs
        ]
        return answers_in_order(answers, places)

    return agents[0].act_rows if count == 1 else act
