"""Failures: objects that stay usable, resources that are released, and errors."""

from __future__ import annotations

import functools
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.broken import ragged
from support.mines import NEEDS_NUMBA, minesweeper
from support.tiny_envs import Chain, Farm, assert_same_obs, chain_metrics, row_seed

from entity_env import (
    AsyncEnv,
    CategoricalAction,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    ParallelEnv,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionSpace,
    VecSelectEntityActionMask,
    check_env,
    errors,
    make,
)
from entity_env.errors import SettingError
from entity_env.play import play_episodes, play_scripted, random_policy
from entity_env.workers.worker import revive


def go(rows):
    return {"Go": ragged([0] * rows, [1] * rows)}


def gone(pid):
    """Return True if a child is neither running nor a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pids(env):
    return [worker._process.pid for worker in env._workers]


# ------------------------------------------------------------------- a call that fails half-way


class Switch(Chain):
    """A ``Chain`` of 10 steps that saves its state, and raises in the method named ``fails``."""

    fails, error = None, RuntimeError

    def __init__(self):
        super().__init__(10)

    def reset(self):
        self.check("reset")
        return super().reset()

    def act(self, actions):
        self.check("act")
        return super().act(actions)

    def get_state(self):
        return {"time": self.time}

    def set_state(self, state):
        self.check("set_state")
        self.time = state["time"]
        return self._observe()

    def check(self, method):
        if self.fails == method:
            raise self.error(f"{method} broke")


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
@pytest.mark.parametrize("method", ["reset", "act", "set_state"])
def test_after_a_call_that_failed_half_way_rows_disagree_and_act_asks_for_a_reset(method, error):
    made = []
    with ListEnv(lambda: made.append(Switch()) or made[-1], 2) as env:
        env.reset()
        env.act(go(2))
        saved = env.get_state()
        made[1].fails, made[1].error = method, error  # row 0 has done its part by then
        calls = {
            "reset": env.reset,
            "act": lambda: env.act(go(2)),
            "set_state": lambda: env.set_state(saved),
        }
        with pytest.raises(errors.EnvironmentFailedError, match=f"^environment 1.*{method}"):
            calls[method]()
        made[1].fails = None
        for _ in range(2):
            with pytest.raises(errors.ResetNeededError):
                env.act(go(2))
        env.reset()
        assert env.act(go(2)).reward.tolist() == [1.0, 1.0]


class Leaves(Switch):
    fails, error = "act", SystemExit


class LeavingRows(ListEnv):
    """Rows of a user's own, which name no environment."""

    def _act(self, chosen):
        raise SystemExit


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: ParallelEnv(Leaves, 2, 1), "environment 0, step 1"),
        (lambda: AsyncEnv(Leaves, 2, 1, 2), "environment 0, step 1"),
        (lambda: LeavingRows(Chain, 2), "raised SystemExit in act"),
    ],
)
def test_a_game_that_ends_the_program_is_an_error_that_says_where(make, where):
    with make() as env:
        env.reset()
        with pytest.raises(errors.EnvironmentFailedError, match=f"{where}.*") as caught:
            env.act(go(2))
        assert "SystemExit" in str(caught.value)


def test_ctrl_c_in_a_game_stays_ctrl_c():
    with ListEnv(type("Stops", (Leaves,), {"error": KeyboardInterrupt}), 2) as env:
        env.reset()
        with pytest.raises(KeyboardInterrupt):
            env.act(go(2))


def test_a_module_that_ends_the_program_when_it_is_imported_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "leaving.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(errors.UnknownEnvironmentError, match="importing 'leaving' failed: System"):
        make("leaving.Env")


@pytest.mark.parametrize("state", [[], "nothing", [{}, {}]])
def test_a_state_that_is_refused_needs_a_reset_too(state):
    with ListEnv(Switch, 2) as env:
        env.reset()
        with pytest.raises(errors.StateError):
            env.set_state(state)
        with pytest.raises(errors.ResetNeededError):
            env.act(go(2))


def test_actions_may_be_a_view():
    pytest.importorskip("ragged_buffer")  # whose stand-in copies
    with ListEnv(Switch, 2) as env:
        env.reset()
        three = ragged([0, 0, 1], [1, 1, 1])
        assert env.act({"Go": three[[0, 2], :, :]}).reward.tolist() == [1.0, 1.0]
        with pytest.raises(errors.ActionError, match="2 rows"):
            env.act({"Go": three[[0, 1, 2], :, :]})


# -------------------------------------------------------------------------- closing what was made


def closing(closed, number, length=3, breaks=False):
    """A ``Chain`` that notes its number in ``closed``, and perhaps raises after that."""

    class Closing(Chain):
        def close(self):
            closed.append(number)
            if breaks:
                raise RuntimeError(f"lid {number} is stuck")

    return Closing(length)


def factory(*envs):
    """Makes one after the other; an exception is raised in its place."""
    left = iter(envs)

    def create_env():
        env = next(left)
        if isinstance(env, BaseException):
            raise env
        return env

    return create_env


class OtherObs(Chain):
    def obs_space(self):
        return ObsSpace(entities={"Walker": Entity(["time", "wind"])})


class OtherActions(Chain):
    def action_space(self):
        return {"Go": CategoricalActionSpace(["left"])}


@pytest.mark.parametrize(
    ("third", "error", "words"),
    [
        (RuntimeError("no parts left"), errors.EnvironmentFailedError, "no parts left"),
        ({"a": 1}, errors.ObservationError, "create_env did not make an environment"),
        (OtherObs(), errors.SpaceError, "the obs_space differs from that of the first"),
        (OtherActions(), errors.SpaceError, "the action_space differs from that of the first"),
    ],
    ids=["raises", "no environment", "obs_space", "action_space"],
)
@pytest.mark.parametrize("stuck", [False, True])
def test_rows_that_cannot_be_made_close_those_that_were(third, error, words, stuck):
    closed = []
    envs = [closing(closed, 0, breaks=stuck), closing(closed, 1), third, closing(closed, 3)]
    with pytest.raises(error, match=r"^environment 2, step 0") as caught:
        ListEnv(factory(*envs), 4)
    assert words in str(caught.value), "not what the closing raised"
    # Spaces are compared once all four are there.
    assert closed == ([0, 1, 3] if error is errors.SpaceError else [0, 1])


def test_an_environment_in_place_of_its_class_is_refused():
    with pytest.raises(errors.ObservationError, match="a subclass of"):
        ListEnv(Chain(), 2)


def test_ctrl_c_in_a_constructor_closes_too():
    closed = []
    with pytest.raises(KeyboardInterrupt):
        ListEnv(factory(closing(closed, 0), KeyboardInterrupt()), 2)
    assert closed == [0]


def test_a_refused_seed_closes_what_was_made():
    closed = []
    with pytest.raises(errors.SettingError):
        ListEnv(factory(closing(closed, 0), closing(closed, 1)), 2, seed=-1)
    assert closed == [0, 1]


def test_close_closes_every_row_and_then_reports_the_first_failure():
    closed = []
    env = ListEnv(factory(*(closing(closed, i, breaks=i in (1, 2)) for i in range(4))), 4)
    env.reset()
    with pytest.raises(errors.EnvironmentFailedError, match=r"^environment 1.*lid 1 is stuck"):
        env.close()
    assert closed == [0, 1, 2, 3]
    env.close()
    assert closed == [0, 1, 2, 3], "a second close does nothing"


# --------------------------------------------------------------------------- nobody who could act


class Idle(Environment):
    """Rocks that count steps; there are three kinds of actions, and nobody to take them."""

    def obs_space(self):
        return ObsSpace(entities={"Rock": Entity(["time"])})

    def action_space(self):
        return {
            "Move": CategoricalActionSpace(["left", "right"]),
            "Grab": SelectEntityActionSpace(),
            "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
        }

    def reset(self):
        self.time = 0
        return self.observe()

    def act(self, actions):
        assert len(actions["Move"].indices) == len(actions["Grab"].actees) == 0
        assert "Mode" not in actions
        self.time += 1
        return self.observe()

    def observe(self):
        return Observation(features={"Rock": [[self.time]]}, reward=self.time)


@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("make", [ListEnv, functools.partial(ParallelEnv, num_processes=2)])
def test_where_nobody_acts_an_empty_answer_may_have_any_width(make, width):
    nobody = np.zeros(3, np.int64)
    empty = RaggedBufferI64.from_flattened(np.zeros((0, width), np.int64), nobody)
    with make(Idle, 3) as env:
        env.reset()
        for answer in ({"Move": empty, "Grab": empty, "Mode": empty}, {"Grab": empty}, {}):
            obs = env.act(answer)
        assert obs.reward.tolist() == [3.0, 3.0, 3.0]


def test_where_nobody_acts_an_answer_with_actors_is_refused():
    with ListEnv(Idle, 2) as env:
        env.reset()
        with pytest.raises(errors.ActionError, match="number of actors"):
            env.act({"Move": ragged([0, 0], [1, 1])})
        with pytest.raises(errors.ActionError, match="number of rows"):
            env.act({"Move": ragged([], [0, 0, 0])})


# --------------------------------------------------------------------------- names that are taken


@pytest.mark.parametrize("name", ["episodic_reward", "episodic_length"])
def test_a_metric_that_the_framework_counts_itself_is_refused(name):
    class Greedy(Chain):
        def act(self, actions):
            observation = super().act(actions)
            observation.metrics = {name: 100.0}
            return observation

    with ListEnv(Greedy, 2) as env:
        env.reset()
        with pytest.raises(errors.ObservationError, match=rf"^environment 0, step 1.*'{name}'"):
            env.act(go(2))


class NumberedSeed(Farm):
    """Keeps a number of its own in the attribute that is a method of ``Environment``."""

    def __init__(self):
        super().__init__()
        self.seed = 3


def test_an_environment_may_call_an_attribute_seed_and_is_seeded_nevertheless():
    check_env(NumberedSeed)
    made = []
    with (
        ListEnv(lambda: made.append(NumberedSeed()) or made[-1], 3, seed=5) as env,
        ListEnv(Farm, 3, seed=5) as plain,
    ):
        for row, own in enumerate(made):
            expected = np.random.default_rng(row_seed(5, row)).bit_generator.state
            assert own.rng.bit_generator.state == expected
            assert own.seed == 3
        assert_same_obs(env.reset(), plain.reset())
        assert_same_obs(env.reset(seed=8), plain.reset(seed=8))
    same = [
        play_scripted(kind, farm_rest, 5, 1)["episodic_reward"] for kind in (NumberedSeed, Farm)
    ]
    np.testing.assert_array_equal(*same)


def farm_rest(observation):
    """Everybody stays, nobody eats."""
    count = len(observation.features.get("Animal", ()))
    walk = CategoricalAction(list(range(count)), np.ones(count, np.int64), ["l", "s", "r"])
    return {"Walk": walk, "Eat": SelectEntityAction([], [])}


# --------------------------------------------------------------------- episodes that never end


def endless():
    """A ``Chain`` whose episodes end long after any limit, so that a limit that fails is seen."""
    return Chain(300)


def stay(observation):
    return {}


def test_endless_episodes_are_cut_off_and_count_with_the_reward_so_far():
    expected = {name: {value} for name, value in chain_metrics(4).items()}
    for played in (
        # Two rows play 3 and 2 episodes: the limit counts anew in each of them.
        play_episodes(endless, random_policy(0), 5, seed=0, rows=2, max_steps=4),
        play_scripted(endless, stay, 5, seed=0, max_steps=4),
    ):
        assert {name: set(column.tolist()) for name, column in played.items()} == expected
        assert all(column.shape == (5,) for column in played.values())


@pytest.mark.parametrize("max_steps", [0, 3, 4])
def test_a_limit_that_is_never_passed_changes_nothing(max_steps):
    for played in (
        play_episodes(lambda: Chain(3), random_policy(0), 4, seed=0, max_steps=max_steps),
        play_scripted(lambda: Chain(3), stay, 4, seed=0, max_steps=max_steps),
    ):
        assert played["episodic_length"].tolist() == [3.0] * 4
        assert played["episodic_reward"].tolist() == [6.0] * 4


def test_the_limit_does_not_change_which_episodes_are_played():
    free, limited = (
        play_episodes(Farm, random_policy(0), 30, seed=2, rows=4, max_steps=limit)
        for limit in (0, 6)  # a Farm ends after 6 steps at the latest
    )
    for name in free:
        np.testing.assert_array_equal(free[name], limited[name])


@pytest.mark.parametrize(
    ("episodes", "options", "expected"),
    [(10, {"rows": 3}, 3), (2, {"rows": 3}, 2), (300, {}, 128), (7, {"rows": 1}, 1)],
)
def test_so_many_environments_are_made_for_an_evaluation(episodes, options, expected):
    made, closed = [], []

    class Counted(Chain):
        def __init__(self):
            super().__init__(1)
            made.append(self)

        def close(self):
            closed.append(self)

    played = play_episodes(Counted, random_policy(0), episodes, seed=0, **options)
    assert len(played["episodic_length"]) == episodes
    assert len(made) == expected
    assert closed == made


def test_a_random_policy_names_the_actor_that_has_nothing_to_select():
    actors = RaggedBufferI64.from_flattened(np.array([[0], [1]]), np.array([2]))
    nothing = RaggedBufferI64.from_flattened(np.zeros((0, 1), np.int64), np.array([0]))
    obs = SimpleNamespace(action_masks={"Fire": VecSelectEntityActionMask(actors, nothing)})
    with pytest.raises(errors.ObservationError, match=r"(?s)actor 0 .*nothing to select.*2 actors"):
        random_policy(0)(obs)


def test_a_script_that_raises_leaves_no_environment_open():
    closed = []

    def script(observation):
        raise KeyError("no idea")

    with pytest.raises(KeyError):
        play_scripted(lambda: closing(closed, 0), script, 3, seed=0)
    assert closed == [0]


# ------------------------------------------------------------------------------- worker processes


class DiesWhileSending(Switch):
    """The process of row 3 is killed when half of its state is on its way."""

    def seed(self, seed):
        self.fails = seed == row_seed(0, 3)

    def check(self, name):
        """Nothing fails but ``get_state``."""

    def get_state(self):
        if self.fails:

            def send(self, message):
                head = len(message).to_bytes(4, "big")
                assert os.write(self.fileno(), head + message[: len(message) // 2])
                os.kill(os.getpid(), signal.SIGKILL)

            Connection.send_bytes = send
        # More than one read of a socket.
        return {"time": self.time, "much": "x" * 100_000}


def test_a_worker_that_dies_in_the_middle_of_a_message_is_reported():
    env = ParallelEnv(DiesWhileSending, 4, 2)
    workers = pids(env)
    env.reset()
    env.act(go(4))
    with pytest.raises(errors.WorkerDiedError) as caught:
        env.get_state()
    assert caught.value.where == "environment 3, step 1"
    assert "the worker of environments 2 to 3 died (signal 9)" in str(caught.value)
    assert all(gone(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.act(go(4))


def test_workers_leave_signals_to_the_main_process():
    with ParallelEnv(Chain, 4, 2) as env:
        env.reset()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for pid in pids(env):
                os.kill(pid, number)
        for step in (1.0, 2.0):
            assert env.act(go(4)).reward.tolist() == [step] * 4
        workers = pids(env)
    assert all(gone(pid) for pid in workers)


class Secretive(Switch):
    """Its state, or a part of it, cannot be sent."""

    def get_state(self):
        return {"time": self.time, "parts": [self.secret()]}

    def secret(self):
        return lambda: 1


class Locked(Secretive):
    def secret(self):
        return open(os.devnull)


@pytest.mark.parametrize("kind", [Secretive, Locked])
def test_a_state_that_cannot_be_sent_is_a_state_error(kind):
    env = ParallelEnv(kind, 2, 2)
    workers = pids(env)
    env.reset()
    with pytest.raises(errors.StateError, match="the result of get_state cannot be sent") as caught:
        env.get_state()
    assert "lists and dicts" in caught.value.expected
    assert all(gone(pid) for pid in workers)


class MotorError(errors.EntityEnvError):
    """A mistake of one environment, in an importable place."""


class PickyError(errors.EntityEnvError):
    """Cannot be made from a message alone."""

    def __init__(self, *, volts):
        super().__init__(f"{volts} volts are too many", hint="turn it down")


class Faulty(Chain):
    """Raises ``error`` in its first step."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def act(self, actions):
        raise self.error()


@NEEDS_NUMBA
@pytest.mark.parametrize("make", [ListEnv, functools.partial(ParallelEnv, num_processes=2)])
def test_an_error_class_from_elsewhere_arrives_as_itself(make):
    with pytest.raises(SettingError) as caught:
        make(functools.partial(minesweeper, width=0), 2)
    assert type(caught.value) is SettingError
    assert caught.value.where == "environment 0, step 0, create_env"
    assert "width" in caught.value.what

    with make(functools.partial(Faulty, functools.partial(MotorError, "it smokes")), 2) as env:
        env.reset()
        with pytest.raises(MotorError, match=r"^environment 0, step 1, act: it smokes"):
            env.act(go(2))


def test_an_error_class_that_cannot_be_made_again_still_says_all_it_said():
    class Local(errors.EntityEnvError):
        pass

    for error, what, hint in (
        (functools.partial(Local, "it smokes", hint="water"), "it smokes", "water"),
        (functools.partial(PickyError, volts=9), "9 volts are too many", "turn it down"),
    ):
        with ParallelEnv(functools.partial(Faulty, error), 2, 1) as env:
            env.reset()
            with pytest.raises(errors.EntityEnvError) as caught:
                env.act(go(2))
        assert (caught.value.what, caught.value.hint) == (what, hint)
        assert caught.value.where == "environment 0, step 1, act"


def test_a_name_that_is_no_error_class_revives_as_the_base_class():
    fields = errors.StateError("lost", hint="look again").fields()
    assert type(revive("entity_env.errors", "StateError", fields)) is errors.StateError
    for module, name in (("no.such.module", "X"), ("entity_env.errors", "nearest"), ("os", "path")):
        revived = revive(module, name, fields)
        assert type(revived) is errors.EntityEnvError
        assert str(revived) == str(errors.StateError("lost", hint="look again"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_workers_that_die_leave_no_file_open():
    ParallelEnv(Chain, 1, 1).close()  # what the first one imports may stay open
    before = len(list(Path("/proc/self/fd").iterdir()))
    env = ParallelEnv(Chain, 2, 2)
    env.reset()
    os.kill(pids(env)[0], signal.SIGKILL)
    with pytest.raises(errors.WorkerDiedError):
        env.act(go(2))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
