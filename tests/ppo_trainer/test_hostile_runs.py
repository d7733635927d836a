"""Run folders from anywhere: nothing in one hangs, eats the memory, or is written through."""

import json
import os
import resource
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import yaml
from support.trainer_envs import SavedForaging
from support.trainer_runs import checkpoints, reseal, small_config

from entity_env.errors import CheckpointError, EntityEnvError, RunFolderError
from ppo_trainer import EvalConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.config import config_to_dict
from ppo_trainer.evaluation.video import write_video
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics
from ppo_trainer.training.curve import draw_curve

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs pipes and links of POSIX")

MIB = 1024  # of the kibibytes that Linux counts in


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    config = small_config(run_dir=str(tmp_path_factory.mktemp("runs")), run_name="run")
    return config, train(config, env=SavedForaging).run


@pytest.fixture
def run(trained, tmp_path):
    return RunFolder(shutil.copytree(trained[1], tmp_path / "run"))


@pytest.fixture
def bounded():
    """A minute, as for busy machines, and 100 MiB: more is a wait without end, or a bomb."""

    def stop(*_):
        pytest.fail("it takes for ever")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100 * MIB


def resume(run, config, **changes):
    more = replace(config, resume=str(run.path), total_timesteps=192, **changes)
    return train(more, env=SavedForaging)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path):
    path.unlink()
    path.mkdir()


def hole(path):
    path.write_bytes(b"")
    os.truncate(path, 1 << 30)


def hole_behind(path):
    os.truncate(path, 1 << 30)


def brackets(path):
    path.write_text("[" * 900)


def more_brackets(path):
    path.write_text("{" + '"a":{' * 100_000)


def aliases(path):
    lines = ["a0: &a0 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    for i in range(1, 11):
        lines.append(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]")
    path.write_text("\n".join(lines) + "\n")


HOSTILE = [pipe, device, folder, hole, hole_behind, brackets, more_brackets, aliases]


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize("name", ["config.yaml", "spaces.json", "model.safetensors", "state.json"])
def test_files_that_would_hang_or_fill_the_memory_are_errors(make, name, run, bounded):
    file = run.path / name
    file = file if file.exists() else checkpoints(run.path)[-1] / name
    make(file)
    with pytest.raises(EntityEnvError, match=name):
        load_agent(run.path)


@pytest.mark.parametrize("make", HOSTILE)
def test_a_resume_is_as_careful(make, run, trained, bounded):
    make(checkpoints(run.path)[-1] / "optimizers.safetensors")
    with pytest.raises(CheckpointError, match=r"optimizers\.safetensors"):
        resume(run, trained[0])


@pytest.mark.parametrize("make", [pipe, device])
def test_an_evaluation_replaces_a_link_but_no_pipe(make, run, trained, bounded):
    run.evaluation_file.write_text("")
    make(run.evaluation_file)
    config = replace(trained[0], resume=str(run.path), eval=EvalConfig(episodes=4))
    if make is pipe:
        with pytest.raises(RunFolderError, match=r"evaluation\.json cannot be written"):
            train(config, env=SavedForaging)
    else:
        train(config, env=SavedForaging)
        assert json.loads(run.evaluation_file.read_text())["steps"] == 144


@pytest.mark.parametrize("make", [pipe, device, folder, hole, hole_behind])
def test_metrics_that_are_no_file_are_an_error(make, run, trained, bounded):
    make(run.metrics_file)
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl"):
        resume(run, trained[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["net"].update(dim=65536),
        lambda values: values["net"].update(layers=1_000_000),
        lambda values: values["net"].update(layers=10**30, heads=1, dim=1),
        lambda values: values["net"].update(mlp_ratio=10**9),
        lambda values: values["net"].update(dim=10**400),
        lambda values: values.update(value_net=True),
    ],
)
def test_settings_of_a_larger_network_than_the_weights_build_none(change, run, bounded):
    values = config_to_dict(run.read_config())
    change(values)
    run.config_file.write_text(yaml.safe_dump(values))
    with pytest.raises(CheckpointError, match="another network"):
        load_agent(run.path)


@pytest.mark.parametrize(
    "change",
    [
        lambda spaces: spaces.update(global_features=[f"f{i}" for i in range(1_000_000)]),
        lambda spaces: spaces.update(global_features=[f"f{i}" for i in range(20_000)]),
        lambda spaces: spaces.update(
            global_features=[{"kind": "discrete", "name": "n", "n": 10**7}]
        ),
        lambda spaces: spaces["actions"].append(
            {"kind": "categorical", "name": "many", "labels": [str(i) for i in range(90_000)]}
        ),
        lambda spaces: spaces.update(
            entities=[{"name": f"e{i}", "features": ["x"]} for i in range(10_000)]
        ),
    ],
)
def test_spaces_of_a_larger_network_than_the_weights_build_none(change, run, bounded):
    spaces = json.loads(run.spaces_file.read_text())
    change(spaces)
    run.spaces_file.write_text(json.dumps(spaces))
    with pytest.raises(EntityEnvError, match=r"another network|are allowed"):
        load_agent(run.path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0" * 8,
        (1 << 62).to_bytes(8, "little"),
        (900).to_bytes(8, "little") + b"[" * 900,
        (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": {}}',
        (58).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[1152921504606846976],"x":"y"}}'[:58],
        (60).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[99999],"data_offsets":[0,4]}}  ',
    ],
)
def test_headers_of_weights_are_not_believed(header, run, bounded):
    folder = checkpoints(run.path)[-1]
    (folder / "model.safetensors").write_bytes(header)
    reseal(folder, lambda facts: None)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load_agent(run.path)


LINKS = ["config.yaml", "config.signature", "metrics.jsonl", "curve.png", "evaluation.json"]


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_resume_writes_through_no_link(kind, run, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("ppo_trainer.training.report.draw_curve", draw_curve)
    targets = {}
    for name in [*LINKS, "config.tmp", "metrics.tmp"]:
        file = run.path / name
        target = targets[name] = tmp_path / f"precious-{name}"
        target.write_bytes(file.read_bytes() if file.exists() else b"precious")
        file.unlink(missing_ok=True)
        os.link(target, file) if kind == "hard" else file.symlink_to(target)
    before = {name: target.read_bytes() for name, target in targets.items()}
    evaluated = replace(trained[0].eval, episodes=4)
    assert resume(run, trained[0], eval=evaluated).steps == 192
    assert {name: target.read_bytes() for name, target in targets.items()} == before
    for name in LINKS:
        assert not (run.path / name).is_symlink()
        assert (run.path / name).stat().st_nlink == 1


def test_a_folder_of_checkpoints_that_is_a_link_is_read_but_not_written(run, trained, tmp_path):
    run.checkpoints.rename(tmp_path / "elsewhere")
    run.checkpoints.symlink_to(tmp_path / "elsewhere")
    load_agent(run.path)
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(CheckpointError, match="is a link"):
        resume(run, trained[0])
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_a_run_folder_may_itself_be_a_link(run, trained, tmp_path):
    run.path.rename(tmp_path / "big_disk")
    run.path.symlink_to(tmp_path / "big_disk")
    assert resume(run, trained[0]).run == run.path
    assert len(read_metrics(RunFolder(tmp_path / "big_disk"))) == 8


def test_a_picture_replaces_a_link(tmp_path):
    (tmp_path / "target").write_text("precious")
    (tmp_path / "a.gif").symlink_to(tmp_path / "target")
    write_video(tmp_path / "a.gif", [np.zeros((8, 8, 3), np.uint8)] * 2, 10)
    assert (tmp_path / "target").read_text() == "precious"
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF8")


def test_all_files_of_a_run_have_the_mode_of_the_umask(trained, tmp_path):
    before = os.umask(0o027)
    try:
        config = replace(trained[0], run_dir=str(tmp_path), total_timesteps=24)
        run = train(config, env=SavedForaging).run
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in run.rglob("*") if path.is_file()}
    assert modes == {0o640}


@pytest.mark.parametrize(
    ("version", "named"),
    [("ragged-rl 0.1", "ragged-rl 0.1"), (None, "another version"), (7, "another")],
)
def test_a_checkpoint_of_another_version_is_refused_with_its_name(run, version, named):
    folder = checkpoints(run.path)[-1]
    reseal(folder, lambda facts: facts.update(format=3, version=version))
    with pytest.raises(CheckpointError, match=f"was written by .*{named}"):
        load_agent(run.path)
