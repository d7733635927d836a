"""Settings: every mistake stops at the start, with its own class and the nearest valid name."""

import enum
import functools
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import SMALL_NET, from_command_line, small_config

import ppo_trainer
from entity_env.errors import (
    DeviceError,
    EnvironmentFailedError,
    RunFolderError,
    SettingError,
    UnknownEnvironmentError,
)
from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    train,
)
from ppo_trainer.config import config_from_dict, config_to_dict
from ppo_trainer.environments import make_factory, with_env
from ppo_trainer.machine.device import choose_device
from ppo_trainer.runs.folder import RunFolder
from ragged_net import NetConfig

# ---------------------------------------------------------------------------------------- valid


def test_the_command_line_without_arguments_is_the_defaults_on_minesweeper():
    config = from_command_line()
    assert config.env["_target_"] == "minesweeper"
    assert (config.env["width"], config.env["nmines"], config.env["nrobots"]) == (6, 5, 2)
    assert config.rollout.processes == 0
    assert config.wandb.mode == "disabled"


@pytest.mark.parametrize(
    ("arguments", "check"),
    [
        (["env.width=8", "env.nmines=10"], lambda c: (c.env["width"], c.env["nmines"]) == (8, 10)),
        (["env=minesweeper", "seed=3"], lambda c: c.seed == 3 and c.env["width"] == 6),
        (["total_timesteps=1e6"], lambda c: c.total_timesteps == 1_000_000),
        (["device=cpu"], lambda c: c.device == "cpu"),
        (["wandb.mode=offline"], lambda c: c.wandb.mode == "offline"),
        (["ppo.gamma=1"], lambda c: c.ppo.gamma == 1.0 and isinstance(c.ppo.gamma, float)),
        (["optim.lr=3e-4"], lambda c: c.optim.lr == 3e-4),
        (["value_net=true", "net.dim=16"], lambda c: c.value_config.dim == 16),
        (["run_name=null"], lambda c: c.run_name is None),
        (["eval.scripted=null", "eval.episodes=0"], lambda c: c.eval.scripted is None),
        (["~experiment"], lambda c: (c.ppo, c.eval.scripted) == (PPOConfig(), None)),
        (
            ["env._target_=my_pkg.MyEnv", "env.size=3"],
            lambda c: c.env == {"_target_": "my_pkg.MyEnv", "size": 3},
        ),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_command_lines(arguments, check):
    assert check(from_command_line(*arguments))


def full_config():
    """No field at its default."""
    return small_config(
        env={"_target_": "minesweeper", "width": 5, "orbital_cannon": True},
        seed=7,
        precision="bfloat16",
        run_name="x",
        resume="runs/y",
        value_net=True,
        ppo=PPOConfig(minibatch_size=12, ratio="per_frame", target_kl=0.1),
    )


def test_a_config_survives_yaml():
    config = full_config()
    text = yaml.safe_dump(config_to_dict(config))
    assert config_from_dict(yaml.safe_load(text)) == config
    assert config_from_dict(yaml.safe_load(yaml.safe_dump(config_to_dict(TrainConfig())))) == (
        TrainConfig()
    )


def test_a_dict_of_a_config_is_plain():
    values = config_to_dict(full_config())
    assert values["net"] == {f.name: getattr(SMALL_NET, f.name) for f in fields(NetConfig)}
    values["env"]["width"] = 99
    assert full_config().env["width"] == 5


# ----------------------------------------------------------------------------------- what is wrong

BAD = [
    # misspelt keys at each level, with the nearest valid one
    (["sed=3"], SettingError, ["unknown setting 'sed'", "did you mean 'seed'"]),
    (["ppo.clip_coeff=0.1"], SettingError, ["'ppo.clip_coeff'", "did you mean 'clip_coef'"]),
    (["optim.lr.start=1"], SettingError, ["optim.lr", "wrong type"]),
    # settings of another group
    (["lr=1"], SettingError, ["unknown setting 'lr'", "did you mean 'optim.lr'?"]),
    (["search.eps=0.1"], SettingError, ["did you mean 'search.epsilon'?"]),
    (["optim.eps=1e-8"], SettingError, ["Adam's epsilon is 1e-5"]),
    (["optim.epsilon=1e-8"], SettingError, ["Adam's epsilon is 1e-5"]),
    (["n_steps=5"], SettingError, ["did you mean 'rollout.steps'?"]),
    (["ent_coef=0"], SettingError, ["did you mean 'ppo.entropy_coef'?"]),
    (["rollout.seed=2"], SettingError, ["'rollout.seed'", "did you mean 'seed'?"]),
    (["width=8"], SettingError, ["'width'", "did you mean 'env.width'?"]),
    (["use_lstm=true"], SettingError, ["did you mean 'net.memory'?"]),
    (["verbose=1"], SettingError, ["the screen shows a line for each update"]),
    (["net.dropout=0.1"], SettingError, ["there is no dropout"]),
    (["xyzzy=1"], SettingError, ["'xyzzy'", "valid:", "'total_timesteps'"]),
    # wrong types
    (["seed=abc"], SettingError, ["seed has the wrong type", "a whole number", "'abc'"]),
    (["seed=1.5"], SettingError, ["seed has the wrong type", "1.5"]),
    (["seed=true"], SettingError, ["seed has the wrong type", "bool"]),
    (["seed=null"], SettingError, ["seed has the wrong type", "NoneType"]),
    (["ppo.gamma=high"], SettingError, ["ppo.gamma has the wrong type", "a number"]),
    (["ppo.clip_value=1"], SettingError, ["ppo.clip_value has the wrong type", "true or false"]),
    (["ppo=3"], SettingError, ["ppo is not a group of settings", "as in ppo.epochs=..."]),
    (["net=null"], SettingError, ["net=null does not exist", "'neural_mmo'"]),
    (["value_net=big"], SettingError, ["value_net has the wrong type", "true or false"]),
    (["eval.scripted=[a,b]"], SettingError, ["eval.scripted has the wrong type", "text"]),
    # unknown choices
    (
        ["ppo.ratio=per_actr"],
        SettingError,
        ["ppo.ratio", "'per_frame'", "did you mean 'per_actor'"],
    ),
    (["device=gpu"], SettingError, ["device", "'auto', 'cpu', 'cuda'", "did you mean 'cuda'?"]),
    (["precision=float16"], SettingError, ["precision", "did you mean 'bfloat16'"]),
    (["net.value_norm=tanh"], SettingError, ["value_norm", "'none'", "'popart'"]),
    # out of range
    (["seed=-1"], SettingError, ["seed is out of range", ">= 0", "-1"]),
    (["threads=5000"], SettingError, ["threads is out of range", "from 0 to 1024"]),
    (["optim.lr=inf"], SettingError, ["optim.lr is out of range", "> 0, finite"]),
    (["ppo.least_deviation=1e308"], SettingError, ["ppo.least_deviation is out", "in float32"]),
    (["optim.lr=1e-320"], SettingError, ["optim.lr is out of range", "> 0, finite in float32"]),
    (["total_timesteps=0"], SettingError, ["total_timesteps is out of range", ">= 1"]),
    (["ppo.gamma=1.01"], SettingError, ["ppo.gamma is out of range", "from 0 to 1"]),
    (["ppo.gamma=.nan"], SettingError, ["ppo.gamma"]),
    (["ppo.clip_coef=0"], SettingError, ["ppo.clip_coef is out of range", "> 0"]),
    (["net.dim=0"], SettingError, ["net.dim=0: invalid dim"]),
    (
        ["net.dim=31"],
        SettingError,
        ["net.dim=31 net.heads=2: dim cannot be split into heads", "dim=30 or dim=32 with"],
    ),
    # against each other
    (
        ["rollout.num_envs=4", "rollout.steps=4", "ppo.minibatch_size=17"],
        SettingError,
        ["ppo.minibatch_size is larger than a rollout", "= 16", "17"],
    ),
    (
        ["rollout.asynchronous=true"],
        SettingError,
        ["rollout.asynchronous needs worker processes", "rollout.processes=2"],
    ),
    (
        ["ppo.minibatch_size=64", "ppo.microbatch_size=65"],
        SettingError,
        ["ppo.microbatch_size is larger than ppo.minibatch_size", "at most 64"],
    ),
    (
        ["rollout.num_envs=32", "ppo.minibatch_size=32", "rollout.processes=33"],
        SettingError,
        ["rollout.processes is larger than rollout.num_envs"],
    ),
    (["env=custom"], SettingError, ["env has no _target_", "my_pkg.my_env.MyEnv"]),
    (["env=custom", "env.width=3"], SettingError, ["env has no _target_"]),
    (["run_name='a\0b'"], SettingError, ["run_name contains a null byte"]),
    (["run_name=a/b"], SettingError, ["run_name is not the name of a folder", "run_dir"]),
    (["resume=runs/no_such_run"], RunFolderError, ["not a run folder", "nothing there"]),
]


@pytest.mark.parametrize(("arguments", "error", "parts"), BAD, ids=lambda x: str(x)[:60])
def test_a_wrong_command_line_is_explained(arguments, error, parts):
    with pytest.raises(error) as caught:
        from_command_line(*arguments)
    assert type(caught.value) is error
    for part in parts:
        assert part in str(caught.value).replace("valid:     ", "valid: ").replace(
            "hint:      ", "hint: "
        )


BAD_ENVS = [
    ({"_target_": "mineswepper"}, UnknownEnvironmentError, ["did you mean 'minesweeper'"]),
    ({"_target_": "no.such.Module"}, UnknownEnvironmentError, ["importing 'no.such' failed"]),
    (
        {"_target_": "ragged_envs.minesweeper.MineSweper"},
        UnknownEnvironmentError,
        ["has no environment 'MineSweper'", "did you mean 'MineSweeper'"],
    ),
    ({"_target_": "minesweeper", "widht": 3}, SettingError, ["'widht'", "did you mean 'width'"]),
    ({"_target_": ""}, UnknownEnvironmentError, ["unknown environment ''"]),
    ({"_target_": "."}, UnknownEnvironmentError, ["unknown environment '.'"]),
    ({"_target_": "minesweeper", "width": 0}, SettingError, ["env.width=0: invalid"]),
    ({"_target_": "mmo", "agents": 0}, SettingError, ["env.agents=0: invalid"]),
    ({"_target_": "minesweeper", "width": "wide"}, SettingError, ["width"]),
    ({"_target_": "minesweeper", "nmines": 99}, SettingError, ["too small for 99 mines"]),
    ({"_target_": "pathlib.Path"}, Exception, ["environment"]),
]


@pytest.mark.parametrize(("env", "error", "parts"), BAD_ENVS, ids=lambda x: str(x)[:60])
def test_a_wrong_environment_stops_before_there_is_a_run_folder(tmp_path, env, error, parts):
    config = small_config(run_dir=str(tmp_path / "runs"), env=env)
    with pytest.raises(error) as caught:
        train(config)
    assert isinstance(caught.value, ValueError), "one of our own"
    assert hasattr(caught.value, "hint")
    for part in parts:
        assert part in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("workers", [{}, {"processes": 2}, {"processes": 2, "asynchronous": True}])
def test_worker_processes_name_settings_as_the_main_process_does(tmp_path, workers):
    config = small_config(run_dir=str(tmp_path), env={"_target_": "multi_snake", "max_length": 1})
    with pytest.raises(SettingError) as caught:
        train(replace(config, rollout=replace(config.rollout, **workers)))
    assert str(caught.value) == (
        "env.max_length=1: invalid max_length\n"
        "  expected: a whole number >= 2 and <= 10000\n"
        "  received: 1"
    )


def test_a_wrong_setting_of_the_evaluation_has_the_name_of_its_own_group():
    config = small_config(
        env={"_target_": "multi_snake", "max_length": 2}, eval=EvalConfig(env={"max_length": 1})
    )
    game = make_factory(config)
    with pytest.raises(SettingError, match=r"^eval\.env\.max_length=1: invalid"):
        game.evaluated(config)()
    assert game().max_length == 2


def test_an_environment_that_fails_at_its_start_keeps_its_traceback(tmp_path):
    def broken():
        raise KeyError("no such level")

    with pytest.raises(EnvironmentFailedError, match="no such level") as caught:
        train(small_config(run_dir=str(tmp_path)), env=broken)
    assert "environment 0" in str(caught.value)
    assert "def broken" in str(caught.value) or "in broken" in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_cuda_without_a_gpu_is_refused(tmp_path):
    with pytest.raises(DeviceError, match="torch finds no GPU") as caught:
        train(small_config(run_dir=str(tmp_path), device="cuda"), env=Foraging)
    assert "device=auto" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "mps", "CPU"])
def test_a_name_that_no_device_has_is_refused_with_the_devices_that_are_here(name):
    with pytest.raises(DeviceError, match="unknown device"):
        choose_device(name)
    with pytest.raises(SettingError) as caught:
        from_command_line(f"device={name}")
    assert "'auto', 'cpu', 'cuda'" in str(caught.value)
    assert "those here: cpu" in str(caught.value)


def test_a_gpu_that_is_not_here_is_refused_when_the_run_begins(tmp_path):
    config = small_config(run_dir=str(tmp_path), device="cuda:77")
    with pytest.raises(DeviceError, match=r"(?s)cuda:77, but torch finds no such GPU.*cpu"):
        train(config, env=Foraging)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TrainConfig(lr=1e-3), ["no argument 'lr'", "did you mean 'optim.lr'?"]),
        (lambda: TrainConfig(totl_timesteps=3), ["did you mean 'total_timesteps'?"]),
        (lambda: PPOConfig(epoch=3), ["PPOConfig has no argument 'epoch'", "'epochs'?"]),
        (lambda: OptimConfig(learning_rate=3), ["OptimConfig", "'lr', 'schedule'"]),
        (lambda: replace(TrainConfig(), sed=3), ["did you mean 'seed'?"]),
    ],
)
def test_keywords_that_no_setting_has_name_the_nearest(make, words):
    with pytest.raises(SettingError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "values", [None, 3, "seed=3", ["seed"], {"ppo": []}, {3: 4}, {"ppo": {1: 2}}]
)
def test_what_is_no_config_at_all(values):
    with pytest.raises(SettingError):
        config_from_dict(values)


# ----------------------------------------------------------------------------- resume, and env=


def test_resume_takes_the_settings_of_the_run_and_what_the_command_line_changes(tmp_path):
    saved = small_config(
        run_dir=str(tmp_path),
        seed=9,
        env={"_target_": "minesweeper", "width": 4},
        optim=OptimConfig(lr=0.5, schedule="cosine"),
    )
    run = RunFolder.new(saved).publish(saved)
    config = from_command_line(f"resume={run.path}", "total_timesteps=500", "optim.lr=0.125")
    assert config == replace(
        saved,
        resume=str(run.path),
        total_timesteps=500,
        optim=OptimConfig(lr=0.125, schedule="cosine"),
    )


def test_env_as_a_class_sets_its_path_and_keeps_the_settings():
    config = with_env(small_config(env={"_target_": "minesweeper", "length": 3}), SavedForaging)
    assert config.env == {"_target_": "support.trainer_envs.SavedForaging", "length": 3}
    assert make_factory(config)().length == 3


def test_an_environment_of_a_function_cannot_be_found_again_and_says_so():
    class Local(Foraging):
        pass

    config = with_env(small_config(env={"_target_": "minesweeper"}), Local)
    assert isinstance(make_factory(config, Local)(), Local)
    with pytest.raises(RunFolderError, match="cannot be imported") as caught:
        make_factory(config)
    assert "Local" in str(caught.value)
    assert "env=MyEnv" in str(caught.value)


def unsaid():
    return Foraging()


def said() -> Foraging:
    return Foraging()


def test_a_function_is_found_again_if_it_says_that_it_makes_environments():
    config = small_config()
    assert make_factory(with_env(config, said))().action_space()
    assert make_factory(with_env(config, unsaid), unsaid)().action_space()
    for env in (unsaid, functools.partial(Foraging, 3), lambda: Foraging()):
        with pytest.raises(RunFolderError, match=r"\(-> Environment\)"):
            make_factory(with_env(config, env))


def test_a_recipe_is_what_the_command_line_trains_with():
    assert ppo_trainer.recipe("xor", "seed=3") == from_command_line("env=xor", "seed=3")
    with pytest.raises(SettingError, match="env=xorr does not exist"):
        ppo_trainer.recipe("xorr")
    with pytest.raises(SettingError, match=r"did you mean 'optim.lr'"):
        ppo_trainer.recipe("xor", "lr=1e-3")


@pytest.mark.parametrize("group", ["env", "experiment"])
def test_a_resume_keeps_its_environment_and_recipe(tmp_path, group):
    config = small_config(run_dir=str(tmp_path), env={"_target_": "minesweeper", "width": 4})
    run = RunFolder.new(config).publish(config)
    with pytest.raises(SettingError, match=f"^{group}= cannot be combined with resume=") as caught:
        from_command_line(f"resume={run.path}", f"{group}=minesweeper")
    assert "env.width=8" in caught.value.hint
    with pytest.raises(
        SettingError, match="run_name= cannot be combined with resume=: a run keeps its folder"
    ):
        from_command_line(f"resume={run.path}", "run_name=other")
    assert from_command_line(f"resume={run.path}", "env.width=8").env == {**config.env, "width": 8}
    assert from_command_line(f"resume={run.path}", "env._target_=a.B").env == {
        "_target_": "a.B",
        "width": 4,
    }


# ----------------------------------------------------------------------------- settings in Python


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: TrainConfig(ppo=PPOConfig(minibatch_size=10.5)), "ppo.minibatch_size"),
        (lambda: TrainConfig(ppo=PPOConfig(gamma=None)), "ppo.gamma"),
        (lambda: TrainConfig(ppo=PPOConfig(epochs=True)), "ppo.epochs"),
        (lambda: TrainConfig(ppo=PPOConfig(clip_value=1)), "ppo.clip_value"),
        (lambda: TrainConfig(env=5), "env"),
        (lambda: TrainConfig(seed="1"), "seed"),
        (lambda: TrainConfig(optim=OptimConfig(lr=float("nan"))), "optim.lr"),
        (lambda: replace(TrainConfig(), rollout=RolloutConfig(num_envs=-1)), "rollout.num_envs"),
        (lambda: TrainConfig(env=["minesweeper"]), "env"),
        (lambda: TrainConfig(env={"_target_": 5}), "env"),
        (lambda: TrainConfig(seed=np.array([3])), "seed"),
        (lambda: TrainConfig(seed=np.bool_(True)), "seed"),
        (lambda: TrainConfig(device=np.array(["cpu", "cuda"])), "device"),
        (lambda: TrainConfig(env={"_target_": "xor", "size": np.zeros(2)}), "env.size"),
        (lambda: TrainConfig(run_name=5), "run_name"),
        (lambda: TrainConfig(eval=EvalConfig(scripted=print)), "eval.scripted"),
        (lambda: TrainConfig(checkpoint=CheckpointConfig(every=2.5)), "checkpoint.every"),
        # A group that is no group, or another one
        (lambda: TrainConfig(rollout=PPOConfig()), "rollout"),
        (lambda: TrainConfig(value_net=PPOConfig()), "value_net"),
        (lambda: TrainConfig(value_net="big"), "value_net"),
        (lambda: TrainConfig(optim=None), "optim"),
        (lambda: TrainConfig(ppo=PPOConfig), "ppo"),
    ],
)
def test_a_setting_of_the_wrong_type_is_named(make, where):
    with pytest.raises(SettingError) as caught:
        make()
    assert caught.value.what.startswith(f"{where} "), caught.value.what


class Schedules(enum.Enum):
    EVEN = "constant"


class Devices(enum.StrEnum):
    CPU = "cpu"


def test_settings_in_python_are_as_free_as_on_the_command_line():
    config = TrainConfig(
        env={
            "_target_": np.str_("xor"),
            "sizes": (np.int32(3), [np.float64(0.5)]),
            "file": Path("a/b"),
            "rules": {"fast": np.bool_(True)},
        },
        total_timesteps=1e5,
        seed=np.int64(3),
        threads=np.array(2),
        device=Devices.CPU,
        precision=np.str_("float32"),
        run_dir=Path("~/runs"),
        run_name=np.str_("mine"),
        resume=Path("~") / "runs" / "old",
        net={"dim": np.int64(32), "layers": 1.0},
        value_net=np.bool_(True),
        rollout={"num_envs": torch.tensor(8), "steps": 64.0},
        ppo=PPOConfig(gamma=np.float32(0.5), minibatch_size=np.uint8(64), clip_value=np.bool_(1)),
        optim=OptimConfig(lr=np.float64(0.25), schedule=Schedules.EVEN),
    )
    home = Path.home()
    expected = {
        "env": {"_target_": "xor", "sizes": (3, [0.5]), "file": "a/b", "rules": {"fast": True}},
        "total_timesteps": 100_000,
        "seed": 3,
        "threads": 2,
        "device": "cpu",
        "precision": "float32",
        "run_dir": str(home / "runs"),
        "run_name": "mine",
        "resume": str(home / "runs/old"),
        "net": {"dim": 32, "layers": 1},
        "value_net": True,
        "rollout": {"num_envs": 8, "steps": 64},
        "ppo": {"gamma": 0.5, "minibatch_size": 64, "clip_value": True},
        "optim": {"lr": 0.25, "schedule": "constant"},
    }
    assert config == config_from_dict(expected)
    written = yaml.safe_dump({**config_to_dict(config), "env": {}})  # only plain values can be
    assert yaml.safe_load(written)["total_timesteps"] == 100_000
    for value in (config.total_timesteps, config.seed, config.threads, config.net.layers):
        assert type(value) is int
    assert type(config.ppo.clip_value) is type(config.value_net) is bool
    assert type(config.device) is type(config.env["_target_"]) is str


def test_the_home_folder_may_be_written_as_a_tilde_on_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert from_command_line("run_dir=~/runs").run_dir == str(tmp_path / "runs")


@pytest.mark.parametrize(
    ("config", "hint"),
    [(Foraging, "train(env=MyEnv)"), ("xor", "recipe('xor')"), ({"seed": 3}, None)],
)
def test_what_is_no_config_is_explained(config, hint):
    with pytest.raises(SettingError, match="not a TrainConfig") as caught:
        train(config)
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in caught.value.hint


def test_a_stop_that_cannot_be_called_leaves_no_folder(tmp_path):
    config = small_config(run_dir=str(tmp_path / "runs"))
    with pytest.raises(SettingError, match="stop cannot be called"):
        train(config, env=Foraging, stop=True)
    assert not (tmp_path / "runs").exists()


def test_a_mistake_in_the_file_of_a_run_names_the_file(tmp_path):
    run = RunFolder.new(small_config(run_dir=str(tmp_path))).publish(small_config())
    run.config_file.write_text(run.config_file.read_text().replace("seed:", "sed:"))
    with pytest.raises(SettingError, match="unknown setting 'sed'") as caught:
        run.read_config()
    assert str(caught.value).startswith(f"{run.config_file}: ")
