"""AdamW on its shorter way is torch's to the last bit."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from ppo_trainer.adamw import AdamW

SETTINGS = {"lr": 0.01, "eps": 1e-5, "weight_decay": 0.1}


def parameters():
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 5), (40,), (1,), (2, 2, 2))
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def give(own, seed, missing=()):
    """Gradients for all but the ``missing`` ones."""
    generator = torch.Generator().manual_seed(seed)
    for i, parameter in enumerate(own):
        gradient = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if i in missing else gradient


def assert_same(ours, theirs, optimizer, plain):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)
    mine, other = (
        {
            i: {name: value.tolist() for name, value in own.items()}
            for i, own in each.state_dict()["state"].items()
        }
        for each in (optimizer, plain)
    )
    assert mine == other


NOBODY = (0, 1, 2, 3)
MISSING = [NOBODY, (), (), (1,), (1,), (1,), (), (0, 3), NOBODY, (), ()]
"""Of eleven steps: parameters without a gradient, which keep their moments and step counts."""


def test_it_is_torchs_to_the_last_bit(monkeypatch):
    ours, theirs = parameters(), parameters()
    optimizer, plain = AdamW(ours, **SETTINGS), torch.optim.AdamW(theirs, fused=True, **SETTINGS)
    stepped = []

    def step(self):
        stepped.append(1)
        torch.optim.AdamW.step(self)

    monkeypatch.setattr(AdamW, "step", step)
    for seed, missing in enumerate(MISSING):
        for each in (optimizer, plain):
            each.param_groups[0]["lr"] = 0.01 / (1 + seed)
        give(ours, seed, missing)
        give(theirs, seed, missing)
        optimizer.advance()
        plain.step()
        assert_same(ours, theirs, optimizer, plain)
    # Once for each time that others have gradients than in the step before.
    assert len(stepped) == 6


@pytest.mark.parametrize("how", ["load", "copy", "pickle"])
def test_a_state_from_elsewhere_is_gone_on_with(how):
    ours, theirs = parameters(), parameters()
    optimizer, plain = AdamW(ours, **SETTINGS), torch.optim.AdamW(theirs, fused=True, **SETTINGS)
    for seed in range(3):
        give(theirs, seed)
        plain.step()
        give(ours, 10 + seed)
        optimizer.advance()
    for a, b in zip(ours, theirs, strict=True):
        a.data.copy_(b)
    optimizer.load_state_dict(copy.deepcopy(plain.state_dict()))
    if how == "copy":
        optimizer, ours = copy.deepcopy((optimizer, ours))
    if how == "pickle":
        optimizer, ours = pickle.loads(pickle.dumps((optimizer, ours)))
    for seed in range(20, 23):
        give(theirs, seed)
        plain.step()
        give(ours, seed)
        optimizer.advance()
    assert_same(ours, theirs, optimizer, plain)


def test_hooks_on_steps_are_called():
    own = parameters()
    optimizer, seen = AdamW(own, **SETTINGS), []
    handle = optimizer.register_step_post_hook(lambda *_: seen.append(1))
    for seed in range(3):
        give(own, seed)
        optimizer.advance()
    handle.remove()
    give(own, 3)
    optimizer.advance()
    assert len(seen) == 3
