"""Callbacks: their calls during a run, their order, and their errors."""

import json

import pytest
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import assert_same_checkpoint, checkpoints, small_config

from entity_env.errors import CallbackError, SettingError
from ppo_trainer import Callback, EvalConfig, resume, train


class Diary(Callback):
    """Notes what is called, and after how many updates."""

    def __init__(self):
        self.called = []

    def on_start(self, session):
        self.called.append(("start", session.updates))

    def on_update(self, session):
        self.called.append(("update", session.updates))

    def on_evaluation(self, session):
        self.called.append(("evaluation", session.updates))

    def on_checkpoint(self, session):
        self.called.append(("checkpoint", session.updates))

    def on_end(self, session):
        self.called.append(("end", session.updates))


def test_each_moment_is_called_once_and_in_order(tmp_path):
    # Checkpoints every 2 updates and at the end, evaluations every 3 and at the end; 5 updates.
    diary = Diary()
    config = small_config(
        total_timesteps=120, run_dir=str(tmp_path), eval=EvalConfig(episodes=4, every=3)
    )
    train(config, env=Foraging, callbacks=[diary])
    assert diary.called == [
        ("start", 0),
        ("update", 1),
        ("update", 2),
        ("checkpoint", 2),
        ("evaluation", 3),
        ("update", 3),
        ("update", 4),
        ("checkpoint", 4),
        ("update", 5),
        ("checkpoint", 5),
        ("evaluation", 5),
        ("end", 5),
    ]


def test_the_session_says_where_the_training_stands(tmp_path):
    seen = []

    class Look(Callback):
        def on_update(self, session):
            newest = json.loads((session.run.path / "metrics.jsonl").read_text().splitlines()[-1])
            assert newest == {"update": session.updates, "steps": session.steps, **session.metrics}
            assert next(iter(session.net.parameters())).isfinite().all()
            seen.append((session.updates, session.steps, session.means.get("episodic_length")))

        def on_evaluation(self, session):
            seen.append([evaluation.player for evaluation in session.evaluations])

    config = small_config(
        total_timesteps=48, run_dir=str(tmp_path), eval=EvalConfig(episodes=4, every=2)
    )
    result = train(config, env=Foraging, callbacks=Look())
    # An episode has 5 steps, so that the first ends within the first rollout of 6 steps.
    assert seen[:2] == [(1, 24, 5.0), ["agent, greedy"]]
    assert seen[2:] == [(2, 48, 5.0), [evaluation.player for evaluation in result.evaluations]]


def test_false_ends_the_training_as_its_last_step_would(tmp_path):
    config = small_config(run_dir=str(tmp_path), eval=EvalConfig(episodes=4))
    result = train(config, env=Foraging, callbacks=[lambda session: session.updates < 3])
    assert (result.steps, result.interrupted) == (72, False)
    assert checkpoints(result.run)[-1].name == "step_000000000072"
    assert [evaluation.player for evaluation in result.evaluations] == [
        "agent, greedy",
        "agent, sampled",
        "random play",
    ]
    # What is no boolean is no answer: a function may return anything.
    assert train(small_config(run_dir=str(tmp_path)), Foraging, callbacks=lambda _: 0).steps == 144


def test_a_training_that_never_starts_is_a_run_all_the_same(tmp_path):
    class Never(Callback):
        def on_start(self, session):
            return False

    result = train(small_config(run_dir=str(tmp_path)), env=Foraging, callbacks=[Never()])
    assert (result.steps, result.interrupted, len(checkpoints(result.run))) == (0, False, 1)


def test_a_callback_that_fails_is_named_and_the_run_saved_first(tmp_path):
    class Fails(Callback):
        def on_update(self, session):
            if session.updates == 3:  # no checkpoint is due
                raise KeyError("phone")

    config = small_config(run_dir=str(tmp_path), run_name="x")
    with pytest.raises(CallbackError, match=r"Fails.on_update failed: KeyError: 'phone'") as caught:
        train(config, env=SavedForaging, callbacks=[Fails()])
    assert isinstance(caught.value.__cause__, KeyError)
    assert "nothing is lost: the state before it is saved in " in caught.value.hint
    assert "step_000000000072; to resume: " in caught.value.hint
    assert "resume" in caught.value.hint
    assert checkpoints(tmp_path / "x")[-1].name == "step_000000000072"
    # It goes on as a run that never failed.
    again = resume(tmp_path / "x", env=SavedForaging, callbacks=[Diary()])
    whole = train(small_config(run_dir=str(tmp_path)), env=SavedForaging)
    assert_same_checkpoint(again.run, whole.run)


@pytest.mark.parametrize("event", ["on_end", "on_evaluation", "on_checkpoint", "on_start"])
def test_a_failure_at_any_moment_loses_nothing(tmp_path, event):
    def fail(self, session):
        raise OSError("no route")

    failing = type("Sends", (Callback,), {event: fail})()
    config = small_config(run_dir=str(tmp_path), run_name="x", eval=EvalConfig(episodes=2))
    with pytest.raises(CallbackError, match="OSError: no route"):
        train(config, env=Foraging, callbacks=[failing])
    steps = {"on_start": 0, "on_checkpoint": 48}.get(event, 144)
    assert checkpoints(tmp_path / "x")[-1].name == f"step_{steps:012d}"


def test_what_is_no_callback_stops_before_the_training(tmp_path):
    class Misspelt(Callback):
        def on_udpate(self, session): ...

    class Silent(Callback):
        def _on_step(self):
            return True

    for wrong, what in [
        ([3], r"callbacks\[0\] cannot be called"),
        (3, "callbacks cannot be called"),
        ([print, Diary], r"callbacks\[1\] cannot be called"),
        ([Misspelt()], "Misspelt.on_udpate would never be called"),
        ([Silent()], "Silent has no method to call"),
    ]:
        with pytest.raises(SettingError, match=what) as caught:
            train(small_config(run_dir=str(tmp_path)), env=Foraging, callbacks=wrong)
        if wrong == [print, Diary]:
            assert caught.value.hint == "an object of the class: Diary(...)"
        if "udpate" in what:
            assert caught.value.hint == "did you mean 'on_update'?"
    assert not list(tmp_path.iterdir())
