"""Names in a run folder are neither imported nor called without the user's consent."""

import os
import shutil
import sys
from dataclasses import replace
from functools import partial

import pytest
import yaml
from support.trainer_envs import SavedForaging
from support.trainer_runs import from_command_line, small_config

from entity_env import check, runner
from entity_env.errors import (
    EntityEnvError,
    RunFolderError,
    SettingError,
    UnknownEnvironmentError,
    UntrustedRunError,
)
from entity_env.interop import GymnasiumEnv
from ppo_trainer import EvalConfig, evaluate, record, resume, train, watch
from ppo_trainer.agent import load_agent
from ppo_trainer.runs.folder import RunFolder

MODULE = """
from pathlib import Path
from support.trainer_envs import SavedForaging

(Path(__file__).parent / "imported").touch()


class Env(SavedForaging):
    pass


def annotated() -> Env:
    return Env()


def unsaid():
    (Path(__file__).parent / "called").touch()
    return Env()


def rest(observation):
    return {}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A finished run of this user's."""
    config = small_config(total_timesteps=24, run_dir=str(tmp_path_factory.mktemp("own")))
    return train(config, env=SavedForaging).run


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder with a module that leaves files when it is imported or called, and where one is."""
    (tmp_path / "stranger.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("stranger", None)


def harm(folder):
    """Return the effects of a stranger's code."""
    return [name for name in ("imported", "called", "pwned") if (folder / name).exists()]


def download(own, folder, *, signed=True, scripted=None, **env):
    """A copy of a run in which somebody has replaced the environment or the scripted player."""
    run = folder / "downloaded"
    shutil.copytree(own, run)
    values = yaml.safe_load((run / "config.yaml").read_text())
    values["env"] = env or values["env"]
    values["eval"]["scripted"] = scripted
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    if not signed:
        (run / "config.signature").unlink()
    return run


DOORS = {
    "evaluate": lambda run, **said: evaluate.evaluate_run(run, episodes=2, **said),
    "watch": lambda run, **said: watch.watch(run, episodes=1, **said),
    "film": lambda run, **said: watch.film(run, "game.gif", episodes=1, **said),
    "record": lambda run, **said: record.record_run(run, "games.episodes", episodes=1, **said),
    "resume": lambda run, **said: resume(run, total_timesteps=48, **said),
    "command line": lambda run, trust=False: train(
        from_command_line(f"resume={run}", "total_timesteps=48", *(["trust=true"] if trust else []))
    ),
    "watch command": lambda run, trust=False: watch.main(
        [str(run), "--episodes=1", *(["--trust"] if trust else [])]
    ),
    "evaluate command": lambda run, trust=False: evaluate.main(
        [str(run), "--episodes=2", *(["--trust"] if trust else [])]
    ),
    "record command": lambda run, trust=False: record.main(
        [str(run), "games.episodes", "--episodes=1", *(["--trust"] if trust else [])]
    ),
}


HOSTILE = [
    {"_target_": "os.system", "command": "touch pwned"},
    {"_target_": "subprocess.Popen", "args": ["touch", "pwned"]},
    {"_target_": "stranger.Env"},
    {"_target_": "stranger:Env"},
    {"_target_": "stranger.unsaid"},
    {"_target_": "entity_env.make", "name": "stranger.Env"},
    {"_target_": "entity_env.interop.GymnasiumEnv", "env": "stranger:Env-v0"},
    {"_target_": "entity_env.interop.PettingZooGame", "env": "stranger"},
]


ENTRIES = [(door, HOSTILE[2], signed) for door in DOORS for signed in (True, False)]
ENTRIES += [("evaluate", env, True) for env in HOSTILE] + [("resume", e, False) for e in HOSTILE]


@pytest.mark.parametrize(("door", "env", "signed"), ENTRIES)
def test_a_downloaded_run_runs_nothing(own, stranger, door, env, signed):
    run = download(own, stranger, signed=signed, **env)
    with pytest.raises(RunFolderError) as caught:
        DOORS[door](run)
    assert "trust" in str(caught.value)
    assert not harm(stranger)
    assert "stranger" not in sys.modules


CALLED = [*((door, HOSTILE[4]) for door in DOORS), *(("watch", env) for env in HOSTILE[:2])]


@pytest.mark.parametrize(("door", "env"), CALLED)
def test_consent_calls_nothing_that_makes_no_environments(own, stranger, door, env):
    run = download(own, stranger, **env)
    with pytest.raises(UnknownEnvironmentError, match="is not an environment"):
        DOORS[door](run, trust=True)
    assert not {"called", "pwned"} & set(harm(stranger))


@pytest.mark.parametrize("door", DOORS)
def test_consent_opens_a_run(own, stranger, door):
    target = "stranger.annotated" if door == "watch" else "stranger.Env"
    DOORS[door](download(own, stranger, _target_=target), trust=True)
    assert harm(stranger) == ["imported"]


@pytest.mark.parametrize("door", ["evaluate", "resume"])
def test_a_run_of_ones_own_needs_no_consent_wherever_it_lies(own, stranger, door):
    DOORS[door](download(own, stranger))


def test_a_refusal_says_what_would_be_imported_and_from_where(own, stranger):
    (stranger / "pack" / "deep").mkdir(parents=True)
    for init in ("pack/__init__.py", "pack/deep/__init__.py"):
        (stranger / init).write_text("raise SystemExit")
    (stranger / "pack" / "deep" / "game.py").touch()
    run = download(own, stranger, _target_="pack.deep.game.Env")
    with pytest.raises(UntrustedRunError) as caught:
        watch.watch(run)
    file = stranger / "pack" / "deep" / "game.py"
    assert f"would import 'pack.deep.game', from {file}" in caught.value.what
    for words in ("--trust", "trust=true", "trust=True", "env=MyEnv", "load_agent"):
        assert words in caught.value.hint
    for target, where in (
        ("nowhere.at.all.Env", "'nowhere.at.all', which is not found here"),
        ("stranger.Env.Env", "'stranger.Env', which is not found here"),
        ("os.path.join", "'os.path', which is not found here"),
        ("sys.exit", "'sys', a part of Python"),
        ("__main__.Env", "'__main__', "),
    ):
        shutil.rmtree(run)
        download(own, stranger, _target_=target)
        with pytest.raises(UntrustedRunError) as caught:
            watch.watch(run)
        assert f"would import {where}" in caught.value.what


@pytest.mark.parametrize("target", ["a/b.Env", "../stranger.Env", "stranger\n.Env", "stranger .E"])
def test_a_path_leads_through_modules_only(own, stranger, target):
    run = download(own, stranger, _target_=target)
    for said in ({}, {"trust": True}):
        with pytest.raises(UnknownEnvironmentError, match="unknown environment"):
            watch.watch(run, **said)


def test_registered_environments_need_no_consent(own, stranger, tmp_path):
    config = small_config(
        total_timesteps=24, run_dir=str(tmp_path), env={"_target_": "xor"}, run_name="xor"
    )
    run = train(config).run
    (run / "config.signature").unlink()
    evaluate.evaluate_run(run, episodes=2)
    for target in ("ragged_envs.xor.Xor", "ragged_envs.xor:Xor"):
        values = yaml.safe_load((run / "config.yaml").read_text()) | {"env": {"_target_": target}}
        (run / "config.yaml").write_text(yaml.safe_dump(values))
        evaluate.evaluate_run(run, episodes=2)


SCRIPTED = [door for door in DOORS if door.startswith(("evaluate", "resume", "command"))]


@pytest.mark.parametrize("door", SCRIPTED)
@pytest.mark.parametrize("path", ["stranger.rest", "os.system", "stranger"])
def test_a_scripted_player_needs_consent(own, stranger, door, path):
    run = download(own, stranger, scripted=path, _target_="minesweeper", width=3, height=3)
    with pytest.raises(UntrustedRunError, match=r"eval\.scripted=") as caught:
        DOORS[door](run)
    assert repr(path) in str(caught.value)
    assert not harm(stranger)


def test_what_passes_no_observation_on_is_no_scripted_player(own, stranger):
    for path in ("os.system", "stranger.Env", "stranger.unsaid"):
        with pytest.raises(SettingError, match="is not a scripted player"):
            evaluate.evaluate_run(download(own, stranger, scripted=path), episodes=1, trust=True)
        shutil.rmtree(stranger / "downloaded")
    assert "called" not in harm(stranger)


def test_a_scripted_player_of_a_registered_package_needs_no_consent(own, stranger):
    script = "ragged_envs.minesweeper_script.walk_and_defuse"
    run = download(own, stranger, signed=False, scripted=script, _target_="xor")
    with pytest.raises(EntityEnvError) as caught:  # the network is one for another game
        evaluate.evaluate_run(run, episodes=1)
    assert not isinstance(caught.value, UntrustedRunError)


def test_an_environment_of_the_user_s_own_is_no_consent_to_a_script(own, stranger):
    run = download(own, stranger, scripted="stranger.rest")
    for call in (evaluate.evaluate_run, resume):
        with pytest.raises(UntrustedRunError, match=r"eval\.scripted"):
            call(run, env=SavedForaging)
    resume(run, env=SavedForaging, total_timesteps=48, eval=EvalConfig(episodes=0))
    assert not harm(stranger)


def test_who_passes_the_environment_consents_to_it_alone(own, stranger):
    run = download(own, stranger, **HOSTILE[0])
    for env in (lambda: SavedForaging(), SavedForaging):
        values = yaml.safe_load((run / "config.yaml").read_text())
        values["env"] = {"_target_": "os.system"}
        (run / "config.yaml").write_text(yaml.safe_dump(values))
        watch.watch(run, env, episodes=1)
        evaluate.evaluate_run(run, env, episodes=2)
    assert load_agent(run, env=SavedForaging)


def test_settings_that_name_code_are_not_the_user_s(own, stranger):
    run = download(own, stranger, _target_="a.B", env="stranger:Env-v0")
    for door in (watch.watch, evaluate.evaluate_run, resume):
        with pytest.raises(UntrustedRunError, match=r"env\.env='stranger:Env-v0'"):
            door(run, env=GymnasiumEnv)
    with pytest.raises(UntrustedRunError, match=r"env\.env="):
        from_command_line(f"resume={run}", "env._target_=entity_env.interop.GymnasiumEnv")
    assert not harm(stranger)
    said = ["env._target_=entity_env.interop.GymnasiumEnv", "env.env=CartPole-v1"]
    assert from_command_line(f"resume={run}", *said).env["env"] == "CartPole-v1"
    # Nor are those of evaluations.
    values = yaml.safe_load((run / "config.yaml").read_text())
    values["env"]["env"] = "CartPole-v1"
    values["eval"]["env"] = {"env": "stranger:Env-v0"}
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UntrustedRunError, match=r"env\.env='CartPole-v1'"):
        evaluate.evaluate_run(run, env=GymnasiumEnv)
    del values["env"]["env"]
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UntrustedRunError, match=r"eval\.env\.env='stranger:Env-v0'"):
        evaluate.evaluate_run(run, env=GymnasiumEnv)
    assert not harm(stranger)


def edit(run, settings):
    """Change settings of the folder, by dotted name, as a stranger would."""
    values = yaml.safe_load((run / "config.yaml").read_text())
    for name, value in settings.items():
        *groups, last = name.split(".")
        within = values
        for group in groups:
            within = within[group]
        within[last] = value
    (run / "config.yaml").write_text(yaml.safe_dump(values))


GYMNASIUM = "entity_env.interop.GymnasiumEnv"
NAMED = {"env._target_": GYMNASIUM, "env.env": "CartPole-v1"}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("eval.env", {"env": "stranger:Env-v0"}),
        ("eval.env", {"xml_file": "/etc/passwd"}),
        ("env", {"_target_": "xor", "render_mode": "human"}),
        ("env", {"_target_": "xor", "kwargs": 1}),
        ("eval.scripted", "stranger.rest"),
    ],
)
def test_what_the_user_names_is_consent_to_that_setting_alone(own, stranger, setting, value):
    run = download(own, stranger, _target_="xor", env="stranger:Env-v0")
    edit(run, {setting: value})
    with pytest.raises(UntrustedRunError, match=setting):
        from_command_line(f"resume={run}", *(f"{name}={own}" for name, own in NAMED.items()))
    if setting.startswith("eval.env"):
        with pytest.raises(UntrustedRunError, match=r" env\.env="):
            resume(run, env=GymnasiumEnv, eval=EvalConfig(env=value))
    assert not harm(stranger)


@pytest.mark.parametrize(
    "env",
    [
        partial(GymnasiumEnv, ignore=()),
        lambda **settings: GymnasiumEnv(**settings),
        type("Subclass", (GymnasiumEnv,), {}),
    ],
)
def test_what_passes_settings_on_is_as_careful(own, stranger, env):
    run = download(own, stranger, _target_="a.B", env="stranger:Env-v0")
    for door in (watch.watch, evaluate.evaluate_run, resume):
        with pytest.raises(UntrustedRunError, match=r"env\.env='stranger:Env-v0'"):
            door(run, env=env)
    assert not harm(stranger)


def test_a_file_that_a_setting_names_is_not_read(own, stranger):
    (stranger / "secret").write_text("a secret")
    for target in ("job_shop", "ragged_envs.industry.job_shop.JobShopRows"):
        run = download(own, stranger, _target_=target, instance=["ta01", str(stranger / "secret")])
        with pytest.raises(UntrustedRunError, match=r"env\.instance"):
            from_command_line(f"resume={run}")
        kept = [{"file": "/etc/passwd", "text": "1 1\n0 5\n"}]
        edit(run, {"env.instance": kept, "eval.env": {"instance": "ta02"}})
        assert from_command_line(f"resume={run}").env["instance"] == kept
        edit(run, {"eval.env": {"instance": {"file": "/etc/passwd", "sha256": "0" * 64}}})
        with pytest.raises(UntrustedRunError, match=r"eval\.env\.instance"):
            from_command_line(f"resume={run}")
        shutil.rmtree(run)


OUTSIDE = [
    ({"rollout.replays": "elsewhere"}, {"rollout.replays": "null"}),
    ({"wandb.mode": "offline"}, {"wandb.mode": "disabled"}),
    (
        {"wandb.mode": "online", "wandb.project": "theirs"},
        {"wandb.mode": "offline", "wandb.project": "own"},
    ),
    ({"selfplay.mode": "fixed", "selfplay.opponents": ["stranger.rest"]}, None),
    ({"selfplay.mode": "fixed", "selfplay.opponents": ["/a/run"]}, None),
    ({"search.play_on": "stranger.rest"}, {"search.play_on": "null"}),
    ({"search.teacher": "/a/run"}, {"search.teacher": "null"}),
    ({"scale.address": "theirs:6379", "scale.mode": "rapid"}, {"scale.mode": "local"}),
]


@pytest.mark.parametrize(("settings", "instead"), OUTSIDE)
@pytest.mark.parametrize("signed", [True, False])
def test_settings_that_act_outside_of_the_folder_need_consent(
    own, stranger, settings, instead, signed
):
    run = download(own, stranger, signed=signed, _target_="xor")
    if signed:  # it would be the user's own, and has been changed since
        write_config = RunFolder(run).write_config
        write_config(RunFolder(run).read_config())
    edit(run, settings)
    setting = list(settings)[-1] if instead is None else next(iter(settings))
    for door in (resume, lambda run: from_command_line(f"resume={run}")):
        with pytest.raises(UntrustedRunError, match=setting):
            door(run)
    assert from_command_line(f"resume={run}", "trust=true")
    if instead is not None:
        named = [f"{name}={value}" for name, value in instead.items()]
        assert from_command_line(f"resume={run}", *named)
        for left_out in named if len(named) > 1 else ():
            said = [word for word in named if word != left_out]
            with pytest.raises(UntrustedRunError, match=left_out.partition("=")[0]):
                from_command_line(f"resume={run}", *said)
    if signed:
        write_config(RunFolder(run).read_config())
        assert from_command_line(f"resume={run}")


def test_an_evaluation_trains_nothing_and_asks_for_nothing_of_training(own, stranger):
    run = download(own, stranger)
    edit(run, {"wandb.mode": "online", "rollout.replays": str(stranger / "elsewhere")})
    evaluate.evaluate_run(run, SavedForaging, episodes=2)
    assert not (stranger / "elsewhere").exists()


def test_a_command_line_that_names_the_environment_consents_to_it(own, stranger):
    run = download(own, stranger, **HOSTILE[0])
    config = from_command_line(f"resume={run}", "env._target_=stranger.Env")
    assert config.env["_target_"] == "stranger.Env"
    with pytest.raises(UnknownEnvironmentError, match="is not an environment"):
        from_command_line(f"resume={run}", "env._target_=stranger.unsaid")
    assert "called" not in harm(stranger)


def test_a_resume_with_consent_makes_the_run_one_s_own(own, stranger):
    run = download(own, stranger, _target_="stranger.Env")
    resume(run, trust=True, total_timesteps=48)
    watch.watch(run, episodes=1)


@pytest.mark.parametrize("how", ["missing", "pipe", "folder", "large", "not text", "of another"])
def test_a_damaged_signature_is_none(own, stranger, how):
    run = download(own, stranger)
    file = run / "config.signature"
    valid = file.read_text()
    file.unlink()
    if how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    elif how != "missing":
        text = {"large": valid.strip() + "0" * 10**6, "not text": "ä\0", "of another": "f" * 64}
        file.write_text(text[how], encoding="utf-8")
    with pytest.raises(UntrustedRunError):
        watch.watch(run, episodes=1)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_consent_is_true_or_false(own, value):
    with pytest.raises(SettingError, match="trust is not True or False"):
        watch.watch(own, trust=value)


def test_trust_is_said_to_a_resumed_run_only(own):
    with pytest.raises(SettingError, match=r"add resume=<run>"):
        from_command_line("trust=true")
    assert from_command_line(f"resume={own}", "trust=true").resume == str(own)


def test_text_of_a_run_is_not_expanded(own, stranger, monkeypatch):
    monkeypatch.setenv("A_SECRET", "secret")
    run = download(own, stranger, _target_="xor", text="${oc.env:A_SECRET}")
    assert from_command_line(f"resume={run}").env["text"] == "${oc.env:A_SECRET}"


def test_the_agent_of_any_run_is_loaded_without_importing_anything(own, stranger, capsys):
    run = download(own, stranger, **HOSTILE[2])
    assert load_agent(run).obs_space.entities
    game = ["support.trainer_envs.SavedForaging", "--agent", str(run), "--auto"]
    assert runner.main(game) == 0
    assert load_agent(run, env=SavedForaging).obs_space.entities
    (run / "spaces.json").unlink()
    with pytest.raises(RunFolderError, match=r"spaces\.json cannot be read"):
        load_agent(run)
    assert not harm(stranger)


@pytest.mark.parametrize("program", [check, runner])
def test_what_is_typed_is_imported_but_only_environments_are_called(stranger, program, capsys):
    for words in (["os.system", "command=touch pwned"], ["stranger.unsaid"]):
        assert program.main(words) == 1
        assert "is not an environment" in capsys.readouterr().err
    assert harm(stranger) == ["imported"]


def test_a_user_without_a_place_for_a_key_trains_and_is_asked_later(stranger, monkeypatch, capsys):
    (stranger / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(stranger / "file"))
    config = small_config(
        total_timesteps=24, run_dir=str(stranger), env={"_target_": "stranger.Env"}
    )
    run = train(config).run
    assert not (run / "config.signature").exists()
    said = "it is not signed: the user's key, "
    assert said in capsys.readouterr().out
    with pytest.raises(
        UntrustedRunError, match=r"cannot be determined: the user's key, .*Not a dir"
    ):
        watch.watch(run, episodes=1)
    watch.watch(run, episodes=1, trust=True)
    watch.watch(run, SavedForaging, episodes=1)
    train(replace(config, env={"_target_": "xor"}))
    train(config, env=lambda: SavedForaging())
    assert said not in capsys.readouterr().out
