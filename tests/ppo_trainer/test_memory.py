import subprocess
import sys

import pytest

from ppo_trainer.machine import malloc as memory

MEASURE = """
import resource
import torch
from ppo_trainer.machine.malloc import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(10_000_000)  # 9,766 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.ones(10_000_000)  # 40 MB: more than glibc's own threshold ever grows to
usual = faults()
assert keep_freed_memory()
faults()
print(usual, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a switch of glibc")
def test_freed_memory_is_used_again():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    usual, kept = map(int, done.stdout.split())
    assert usual > 10 * 9_766  # most of the twenty arrays were mapped anew
    assert kept < 9_766  # not one of them was


def test_other_systems_go_without(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert not memory.keep_freed_memory()
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # such as musl
    assert not memory.keep_freed_memory()
