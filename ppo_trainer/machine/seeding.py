"""The random numbers of a run, all derived from one integer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import torch

from entity_env.environment import check_seed

__all__ = ["Generators", "derived_seed", "make_generators"]


@dataclass(frozen=True)
class Generators:
    """Random number generators: ``actions`` on the network's device, ``minibatches`` on the CPU."""

    actions: torch.Generator
    minibatches: torch.Generator

    def all(self) -> dict[str, torch.Generator]:
        """Return the generators by name."""
        return {"actions": self.actions, "minibatches": self.minibatches}


def derived_seed(seed: int, purpose: str, number: int = 0) -> int:
    """Return a seed that depends on the purpose."""
    sequence = np.random.SeedSequence([check_seed(seed), zlib.crc32(purpose.encode()), number])
    return int(sequence.generate_state(1)[0])


def make_generators(seed: int, device: torch.device, rank: int = 0) -> Generators:
    """Return new generators, which differ between the processes of one training."""
    return Generators(
        actions=torch.Generator(device).manual_seed(derived_seed(seed, "actions", rank)),
        minibatches=torch.Generator().manual_seed(derived_seed(seed, "minibatches", rank)),
    )
