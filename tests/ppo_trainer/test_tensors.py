import torch
from support.tiny_envs import Chain

from entity_env import ListEnv
from ppo_trainer.tensors import to_batch
from ragged_net import EntityBatch


def test_batches_for_a_gpu_are_pinned_and_copied_without_waiting(monkeypatch):
    calls = []
    monkeypatch.setattr(EntityBatch, "pin_memory", lambda self: calls.append("pin") or self)
    monkeypatch.setattr(
        EntityBatch,
        "to",
        lambda self, device, non_blocking=False: calls.append((str(device), non_blocking)) or self,
    )
    with ListEnv(Chain, 2) as env:
        obs = env.reset()
        to_batch(obs, torch.device("cuda"))
        assert calls == ["pin", ("cuda", True)]
        calls.clear()
        to_batch(obs, torch.device("cpu"))
        assert calls == [("cpu", False)]
