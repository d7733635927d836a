"""An environment that does not return is named, and nobody who returns is."""

from __future__ import annotations

import array
import fcntl
import os
import termios
import time
from pathlib import Path

import pytest
from support.broken import ragged
from support.seat_games import Secrets
from support.tiny_envs import Chain

from entity_env import AsyncEnv, ListEnv, ParallelEnv, SeatRows, VecEnv
from entity_env.rows.slow_calls import SlowCalls, naming_slow_calls
from entity_env.wrappers import VecWrapper


class Hangs(Chain):
    """Waits in one row until the file ``go`` is there, as it is once somebody has complained."""

    def __init__(self, here):
        super().__init__(5)
        self.here = Path(here)

    def _wait(self, file):
        end = time.monotonic() + 60
        while not (self.here / file).exists() and time.monotonic() < end:
            time.sleep(0.01)

    def reset(self):
        self.is_second = not (self.here / "first").exists()
        (self.here / "first").touch()
        return super().reset()

    def act(self, actions):
        if self.is_second:
            self._wait("go")
        return super().act(actions)


def go(count):
    return {"Go": ragged([0] * count, [1] * count)}


MADE = {
    "list": lambda make: ListEnv(make, 2),
    "workers": lambda make: ParallelEnv(make, 2, 1),
    "workers apart": lambda make: AsyncEnv(make, 2, 2, 2),
    "wrapped": lambda make: VecWrapper(ListEnv(make, 2)),
}


@pytest.mark.parametrize("name", MADE)
def test_an_environment_that_hangs_is_named(tmp_path, name):
    said = []

    def say(sentence):
        said.append(sentence)
        (tmp_path / "go").touch()

    def make(here=str(tmp_path)):
        return Hangs(here)

    with MADE[name](make) as env:
        env.reset()
        with naming_slow_calls(0.05, say), naming_slow_calls(0.001, say):
            env.act(go(2))
    assert len(said) >= 1
    assert all(sentence.startswith("environment ") for sentence in said)
    assert "step 1" in said[0]
    assert ", since " in said[0]
    assert ("worker process" in said[0]) == ("workers" in name)


class Loops(ListEnv):
    """Looks at the clock in the middle of a step."""

    looked: list[list[str]]

    def _act(self, chosen):
        self.looked = [self.calls.look(now) for now in (0, 5, 10, 15, 20, 29, 30, 31)]
        return super()._act(chosen)

    def _running(self):
        return VecEnv._running(self)


def test_a_call_is_named_again_after_twice_the_time_and_not_when_it_is_over():
    with Loops(lambda: Chain(5), 2) as env:
        env.calls = SlowCalls(10)
        env.reset()
        for _ in range(2):  # another call begins anew
            env.act(go(2))
            named = [len(own) for own in env.looked]
            assert named == [0, 0, 1, 0, 0, 0, 1, 0]
            assert env.looked[2][0].startswith("act of Loops has not returned for 10 s, since ")
        assert env.calls.look(1000) == []


class Tells(Secrets):
    """Looks at its rows while it is reset."""

    rows, seen = None, []

    def reset(self):
        Tells.seen.append([where for _, where in Tells.rows._running()])
        return super().reset()


def test_a_game_of_several_players_is_named():
    with SeatRows(Tells, 6) as Tells.rows:
        Tells.rows.reset()
        assert Tells.seen == [["game 0, step 0"], ["game 1, step 0"]]
        assert Tells.rows._running() == []


def test_rows_that_nobody_reads_do_not_hang():
    with AsyncEnv(lambda: Chain(5), 2, 1, 1) as env:
        env.reset()
        waiting = array.array("i", [0])  # bytes of reports
        while not waiting[0] and not env._arrived:  # of the second row
            os.sched_yield()
            fcntl.ioctl(env._workers[0].reports, termios.FIONREAD, waiting)
        assert env._running() == []
