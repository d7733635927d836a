import subprocess
import sys

import pytest

from ppo_trainer import memory

MEASURE = """
import resource
import numpy as np
from ppo_trainer.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(1_000_000, np.float64)  # 8 MB, or 1,953 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

np.ones(5_000_000, np.float64)  # more than glibc's own threshold ever grows to
usual = faults()
assert keep_freed_memory()
faults()
print(usual, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a switch of glibc")
def test_freed_memory_is_used_again():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, kept = map(int, done.stdout.split())
    assert kept < 1953  # less than one of twenty arrays was mapped anew


def test_other_systems_go_without(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert not memory.keep_freed_memory()
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # such as musl
    assert not memory.keep_freed_memory()
