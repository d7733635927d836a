"""Checkpoints: round trips, damage, and kills at every step of writing one."""

import os
import random
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file
from support.killed_at import die_at_step
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    checkpoints,
    network,
    parameters,
    reseal,
    rollout_of,
    small_config,
)

from entity_env.errors import CheckpointError, RunFolderError
from entity_env.storage.files import fresh_name
from ppo_trainer import OptimConfig, PPOConfig, train
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.learner.update import update
from ppo_trainer.machine.seeding import make_generators
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.runs.checkpoint import (
    TrainState,
    latest_checkpoint,
    load_network,
    load_state,
    own_checkpoints,
    save_state,
)
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import RunLogger
from ppo_trainer.runs.results import read_metrics

CPU = torch.device("cpu")


def new_folder(config):
    return RunFolder.new(config).publish(config)


def fresh_state(config, seed=0):
    net = network(Foraging(), config, seed)
    return TrainState(net, make_optimizers(net, config), make_generators(seed, CPU))


def trained_state(config, seed=0):
    """A state after an update: Adam has moments, the generators have moved."""
    state = fresh_state(config, seed)
    rollout = rollout_of(Foraging, config, state.net)
    generator = state.generators.minibatches
    algorithm = PPO(config.ppo)
    update(algorithm, state.net, state.optimizers, rollout, config, 0.3, generator, Stopwatch())
    torch.rand(3, generator=state.generators.actions)
    state.update, state.steps = 7, 168
    return state


def adam(state):
    """All moments and step counts, and the settings of the groups."""
    return {name: deepcopy(o.state_dict()) for name, o in state.optimizers.all().items()}


@pytest.fixture
def run(tmp_path):
    return new_folder(small_config(run_dir=str(tmp_path), run_name="run"))


@pytest.mark.parametrize("value_net", [False, True])
def test_everything_comes_back(run, value_net):
    config = small_config(value_net=value_net, optim=OptimConfig(lr=0.02))
    state = trained_state(config)
    envs = [{"x": 1.5, "list": [1, 2]}, None]
    save_state(run, state, envs, keep=2)

    other = fresh_state(config, seed=9)
    assert load_state(latest_checkpoint(run), other).envs == envs
    assert (other.update, other.steps) == (7, 168)
    assert_same(parameters(other.net), parameters(state.net))
    before, after = adam(state), adam(other)
    assert before.keys() == after.keys() == ({"main", "value"} if value_net else {"main"})
    for name in before:
        for key in ("eps", "params"):
            assert before[name]["param_groups"][0][key] == after[name]["param_groups"][0][key]
        moments, again = before[name]["state"], after[name]["state"]
        assert moments.keys() == again.keys()
        assert len(moments) > 3
        for index in moments:
            assert_same(moments[index], again[index])
    for name, generator in state.generators.all().items():
        assert torch.equal(generator.get_state(), other.generators.all()[name].get_state())
        mine, theirs = (
            torch.rand(4, generator=g) for g in (generator, other.generators.all()[name])
        )
        assert torch.equal(mine, theirs)


def test_going_on_from_a_checkpoint_takes_the_very_same_step(run):
    config = small_config()
    state = trained_state(config)
    save_state(run, state, None, keep=2)
    other = fresh_state(config, seed=9)
    assert load_state(latest_checkpoint(run), other).envs is None
    rollout = rollout_of(Foraging, config, deepcopy(state.net))
    for each in (state, other):
        generator = each.generators.minibatches
        algorithm = PPO(config.ppo)
        update(algorithm, each.net, each.optimizers, rollout, config, 0.5, generator, Stopwatch())
    assert_same(parameters(other.net), parameters(state.net))


def test_the_settings_of_the_optimizer_are_those_of_the_resumed_config(run):
    save_state(run, trained_state(small_config(optim=OptimConfig(lr=1e-4))), None, keep=2)
    other = fresh_state(small_config(optim=OptimConfig(lr=1e-3)))
    load_state(latest_checkpoint(run), other)
    assert other.optimizers.main.param_groups[0]["lr"] == 1e-3


def test_only_the_last_checkpoints_are_kept(run):
    state = fresh_state(small_config())
    for steps in (24, 48, 72, 96):
        state.steps = steps
        save_state(run, state, None, keep=3)
    assert [f.name for f in checkpoints(run.path)] == [f"step_{s:012d}" for s in (48, 72, 96)]
    assert latest_checkpoint(run).name == "step_000000000096"
    state.steps = 1_000_000  # sorted as numbers, not as words
    save_state(run, state, None, keep=1)
    assert [f.name for f in checkpoints(run.path)] == ["step_000001000000"]


# ---------------------------------------------------------------------------------------- kills


def test_leftovers_of_killed_writers_are_ignored_and_cleaned(run):
    state = fresh_state(small_config())
    state.steps = 24
    save_state(run, state, None, keep=2)
    leftover = fresh_name(run.checkpoints / "step_000000000048")
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half of")
    assert latest_checkpoint(run).name == "step_000000000024"
    state.steps = 72
    save_state(run, state, None, keep=2)
    assert sorted(f.name for f in run.checkpoints.iterdir()) == [
        "step_000000000024",
        "step_000000000072",
    ]


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("steps", [168, 144], ids=["next", "same"])
def test_a_writer_that_dies_at_any_step_leaves_a_checkpoint_that_loads(run, keep, steps):
    """Also where a run saves the same moment a second time, as at its end."""
    config = small_config()
    state = fresh_state(config)
    for earlier in (120, 144):
        state.update, state.steps = earlier // 24, earlier
        save_state(run, state, [earlier], keep)
    state.update, state.steps = steps // 24, steps
    kept = run.path.parent / "kept"
    shutil.copytree(run.path, kept)
    found = set()
    for step in count(1):
        shutil.rmtree(run.path)
        shutil.copytree(kept, run.path)
        died = die_at_step(lambda: save_state(run, state, [steps], keep), run.path, step)
        other = fresh_state(config)
        envs = load_state(latest_checkpoint(run), other).envs
        assert envs == [other.steps]
        assert other.steps in (144, steps), f"killed at step {step}: lost what was there"
        found.add(other.steps)
        if not died:
            break
    assert found == {144, steps}
    assert other.steps == steps
    assert steps == 144 or step > 5, "nothing was killed"


def test_a_logger_that_dies_at_any_step_of_its_start_loses_no_record(run):
    with RunLogger(run, small_config(), 0) as log:
        for number in range(1, 8):
            log.write(number, 24 * number, {"loss": 1.0})
    kept = run.metrics_file.read_text()
    for step in count(1):
        run.metrics_file.write_text(kept)
        died = die_at_step(lambda: RunLogger(run, small_config(), 5), run.path, step)
        updates = [record["update"] for record in read_metrics(run)]
        assert updates in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7]), f"killed at step {step}"
        if not died:
            break
    assert updates == [1, 2, 3, 4, 5]
    assert step > 2, "nothing was killed"


# --------------------------------------------------------------------------------------- damage


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path):
    path.write_bytes(b"")


def removed(path):
    path.unlink()


def garbled(path):
    path.write_bytes(b"\xff\x00not what it was\x80" * 40)


def replaced_by_folder(path):
    path.unlink()
    path.mkdir()


def words(path):
    path.write_text('["a list", "not a dict"]')


@pytest.mark.parametrize(
    "damage", [truncated, emptied, removed, garbled, replaced_by_folder, words]
)
@pytest.mark.parametrize("name", ["model.safetensors", "optimizers.safetensors", "state.json"])
def test_a_damaged_file_is_a_checkpoint_error_with_a_hint(run, damage, name):
    state = trained_state(small_config())
    folder = save_state(run, state, None, keep=2)
    damage(folder / name)
    with pytest.raises(CheckpointError) as caught:
        load_state(folder, fresh_state(small_config()))
    assert str(folder) in str(caught.value)
    assert "hint" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("update"),
        lambda facts: facts.update(update="many"),
        lambda facts: facts.update(steps=None),
        lambda facts: facts.update(update=[1]),
        lambda facts: facts.update(update=float("inf")),
        lambda facts: facts.pop("groups"),
        lambda facts: facts.update(groups={}),
        lambda facts: facts.update(groups={"policy": []}),
        lambda facts: facts.update(groups={"policy": [{"params": [0]}]}),
        lambda facts: facts.update(groups={"policy": 3}),
        lambda facts: facts.update(groups=None),
        lambda facts: facts.pop("envs"),
        lambda facts: facts.update(envs=5),
    ],
)
def test_a_state_that_is_json_but_makes_no_sense_is_a_checkpoint_error(run, change):
    folder = save_state(run, trained_state(small_config()), None, keep=2)
    reseal(folder, change)
    with pytest.raises(CheckpointError, match="damaged"):
        load_state(folder, fresh_state(small_config()))


FILES = ["model.safetensors", "optimizers.safetensors", "state.json"]


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed(run, name):
    folder = save_state(run, trained_state(small_config()), [{"x": 1e-5}], keep=2)
    whole, other = (folder / name).read_bytes(), fresh_state(small_config())
    rng = random.Random(0)
    # The beginning, where headers are, bit by bit; then wherever chance leads.
    bits = [*range(8 * 40), *(rng.randrange(8 * len(whole)) for _ in range(60))]
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (folder / name).write_bytes(damaged)
        with pytest.raises(CheckpointError) as caught:
            load_state(folder, other)
        assert str(folder / name) in str(caught.value), bit
    (folder / name).write_bytes(whole)
    load_state(folder, other)


@pytest.mark.parametrize("name", FILES[:2])
def test_files_of_another_run_are_noticed(run, name):
    config = small_config(run_dir=str(run.path.parent))
    ours = save_state(run, trained_state(config, seed=0), None, keep=2)
    other = new_folder(config)
    theirs = save_state(other, trained_state(config, seed=1), None, keep=2)
    shutil.copy(theirs / name, ours / name)
    with pytest.raises(CheckpointError, match=f"{name} is damaged: it has changed since"):
        load_state(ours, fresh_state(config))
    if name == "model.safetensors":
        with pytest.raises(CheckpointError, match="it has changed since it was saved"):
            load_network(ours, fresh_state(config).net)


def without_numbers(tensors):
    name = next(name for name in tensors if name.endswith(("weight", "exp_avg")))
    tensors[name].flatten()[3] = float("nan")


def infinite(tensors):
    name = next(name for name in tensors if name.endswith(("bias", "exp_avg_sq")))
    tensors[name].flatten()[0] = float("inf")


def half(tensors):
    name = next(name for name in tensors if name.endswith(("weight", "exp_avg")))
    tensors[name] = tensors[name].half()


def double(tensors):
    name = next(name for name in tensors if name.endswith(("weight", "exp_avg")))
    tensors[name] = tensors[name].double()


def wider(tensors):
    name = next(name for name in tensors if name.endswith(("weight", "exp_avg")))
    tensors[name] = torch.cat([tensors[name], tensors[name]])


def fewer(tensors):
    del tensors[next(name for name in tensors if name.endswith(("weight", "exp_avg")))]


def more(tensors):
    tensors["main/99/exp_avg"] = torch.zeros(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_numbers, "numbers that are not finite"),
        (infinite, "numbers that are not finite"),
        (half, "differs in dtype"),
        (double, "differs in dtype"),
        (wider, "differs in shape"),
        (fewer, "to be there"),
        (more, "not to be there"),
    ],
)
@pytest.mark.parametrize("name", FILES[:2])
def test_tensors_that_cannot_be_are_refused(run, change, message, name):
    folder = save_state(run, trained_state(small_config()), None, keep=2)
    tensors = load_file(folder / name)
    change(tensors)
    (folder / name).write_bytes(safetensors.torch.save(tensors))
    reseal(folder, len)
    other = fresh_state(small_config(), seed=9)
    before = parameters(other.net)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_state(folder, other)
    assert str(folder / name) in str(caught.value)
    assert_same(parameters(other.net), before)


def test_a_checkpoint_under_the_number_of_another_is_refused(run):
    state = trained_state(small_config())
    folder = save_state(run, state, None, keep=2)
    with pytest.raises(CheckpointError, match=r"saved at update 7, step 168"):
        load_state(
            folder.rename(run.checkpoints / "step_000000000192"), fresh_state(small_config())
        )


def test_an_error_names_the_checkpoint_before_it(run):
    config = small_config()
    state = fresh_state(config)
    for state.steps in (24, 48):
        save_state(run, state, None, keep=9)
    old, newest = checkpoints(run.path)
    garbled(newest / "optimizers.safetensors")
    with pytest.raises(CheckpointError, match=f"to resume from {old}, move {newest.name} away"):
        load_state(latest_checkpoint(run), state)
    newest.rename(newest.with_name(f"{newest.name}_damaged"))  # doing what it says
    load_state(latest_checkpoint(run), state)
    assert state.steps == 24
    garbled(old / "state.json")
    with pytest.raises(CheckpointError, match="there is no older checkpoint"):
        load_state(latest_checkpoint(run), state)


COPIES = ["step_best", "step_000000000072_backup", "step_000000000072 (copy)", "step_72", "step_"]
COPIES += ["Step_000000000072", "step_0000000000072", "step_000000000072.bak", "xstep_000000000072"]


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_beside_the_checkpoints_is_nobodys_business(run, name):
    state = fresh_state(small_config())
    for state.steps in (24, 48):
        save_state(run, state, None, keep=2)
    copy = shutil.copytree(run.checkpoints / "step_000000000024", run.checkpoints / name)
    (run.checkpoints / "step_000000000099").write_text("a file, not a folder")
    assert latest_checkpoint(run).name == "step_000000000048"
    for state.steps in (72, 96):
        save_state(run, state, None, keep=2)
    assert [folder.name for folder in own_checkpoints(run)] == [
        "step_000000000072",
        "step_000000000096",
    ]
    assert sorted(file.name for file in copy.iterdir()) == sorted(FILES)
    load_network(copy, fresh_state(small_config()).net)  # it still is a checkpoint


@pytest.mark.parametrize("error", [PermissionError, OSError], ids=["forbidden", "disk"])
def test_checkpoints_that_cannot_be_listed_are_not_none(run, error, monkeypatch):
    save_state(run, fresh_state(small_config()), None, keep=2)

    def refuse(path):
        raise error("nobody may look")

    monkeypatch.setattr("ppo_trainer.runs.checkpoint.os.scandir", refuse)
    with pytest.raises(CheckpointError, match=r"checkpoints cannot be read: nobody may look"):
        latest_checkpoint(run)


def test_a_run_that_cannot_be_looked_at_is_not_nothing(run, monkeypatch):
    def refuse(path):
        raise PermissionError("nobody may look")

    monkeypatch.setattr("pathlib.Path.lstat", refuse)
    with pytest.raises(RunFolderError, match=r"config\.yaml cannot be read: nobody may look"):
        RunFolder.open(run.path)


def test_a_checkpoint_is_on_the_disk_before_it_gets_its_name(run, monkeypatch):
    done = []
    sync, rename = os.fsync, Path.rename

    def watched_sync(descriptor):
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def watched_rename(path, target):
        done.append(f"named {target.name}")
        return rename(path, target)

    monkeypatch.setattr("os.fsync", watched_sync)
    monkeypatch.setattr("pathlib.Path.rename", watched_rename)
    folder = save_state(run, fresh_state(small_config()), None, keep=2)
    named = done.index(f"named {folder.name}")
    for file in FILES:
        assert any(file in name for name in done[:named]), file
    assert done[named - 1].startswith(f".{folder.name}.")  # the folder of all three
    assert done[named + 1] == "checkpoints"


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (replace(SMALL_NET, dim=32), "differs in shape"),
        (replace(SMALL_NET, layers=2), "blocks.1"),
        (replace(SMALL_NET, mlp_ratio=3), "differs in shape"),
    ],
)
def test_another_network_is_named_and_left_as_it_was(run, net, message):
    folder = save_state(run, trained_state(small_config()), None, keep=2)
    other = fresh_state(small_config(net=net))
    before = parameters(other.net)
    with pytest.raises(CheckpointError, match="another network") as caught:
        load_state(folder, other)
    assert message in str(caught.value)
    assert_same(parameters(other.net), before)


@pytest.mark.parametrize("own_value_net", [True, False])
def test_a_value_network_that_only_one_side_has_is_refused(run, own_value_net):
    mine, other = small_config(), small_config(value_net=True)
    if own_value_net:
        mine, other = other, mine
    folder = save_state(run, trained_state(mine), None, keep=2)
    with pytest.raises(CheckpointError, match="value_encoder"):
        load_state(folder, fresh_state(other))


def test_no_checkpoint_yet(run):
    with pytest.raises(CheckpointError, match="no checkpoint yet") as caught:
        latest_checkpoint(run)
    assert "start the run again" in str(caught.value)


def test_what_is_not_a_run_folder_is_told_so_with_those_nearby(tmp_path, run):
    with pytest.raises(RunFolderError, match="nothing there") as caught:
        RunFolder.open(tmp_path / "rnu")
    assert str(run.path) in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"no config\.yaml"):
        RunFolder.open(tmp_path / "empty")


@pytest.mark.parametrize("text", [b"a: [1", b"just words", b"\xff\xfe\xfa", b"", b"- 1\n- 2\n"])
def test_a_damaged_config_file_is_a_run_folder_error(run, text):
    run.config_file.write_bytes(text)
    with pytest.raises(RunFolderError, match=r"config\.yaml"):
        run.read_config()


def test_a_name_that_is_taken_gets_a_number(tmp_path):
    config = small_config(run_dir=str(tmp_path / "deep" / "er"), run_name="run")
    names = [new_folder(config).path.name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]
    assert sorted(p.name for p in (tmp_path / "deep" / "er").iterdir()) == names


def test_a_run_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="can be made"):
        new_folder(small_config(run_dir=str(tmp_path / "file" / "runs")))


# ------------------------------------------------------------------------------- no code runs


def test_opening_a_run_never_unpickles(tmp_path, monkeypatch):
    """No file of a run is a pickle, and nothing that loads pickles is called to resume it."""
    import pickle

    config = small_config(run_dir=str(tmp_path), value_net=True, ppo=PPOConfig(minibatch_size=24))
    done = train(config, env=SavedForaging)
    kinds = set()
    for path in done.run.rglob("*"):
        if path.is_file():
            start = path.read_bytes()[:4]
            # Protocol 2 and later start with 0x80; torch.save writes a zip archive.
            assert not start.startswith((b"\x80", b"PK")), path
            kinds.add(path.name.partition(".")[2] or path.name)
    assert {"safetensors", "json", "jsonl", "yaml"} <= kinds

    def guarded(original):
        def call(*args, **kwargs):
            # Numba's cache of compiled kernels lies beside the code, not in the run.
            caller = sys._getframe(1).f_globals["__name__"]
            assert caller.startswith("numba."), "a pickle was opened"
            return original(*args, **kwargs)

        return call

    for module, names in ((torch, ["load"]), (pickle, ["load", "loads", "Unpickler"])):
        for name in names:
            monkeypatch.setattr(module, name, guarded(getattr(module, name)))
    longer = replace(config, resume=str(done.run), total_timesteps=168)
    assert train(longer, env=SavedForaging).steps == 168


def test_yaml_tags_that_would_run_code_are_refused(run, tmp_path):
    evil = tmp_path / "evil"
    run.config_file.write_text(f"seed: !!python/object/apply:os.mkdir ['{evil}']\n")
    with pytest.raises(RunFolderError):
        run.read_config()
    assert not evil.exists()
