"""The documentation builds without a warning, and its code and commands work as they stand there.

All pages share one process and one folder, with ``orchard.py``, ``orchard_script.py`` and a short
``runs/orchard``. Only the amount of training is cut. Blocks of Python run one after the other,
those of ``bash`` line by line, each line once. Of ``console``, which takes longer or needs
something else, modules are looked for and settings composed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from support.commands import run_here
from support.glossary import undescribed

import ppo_trainer
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.command_line.settings_help import all_settings, settings_help
from ppo_trainer.config import TrainConfig, config_to_dict

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
README = (REPOSITORY / "README.md").read_text()
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in DOCS.glob("*.md"))]
SHORT = ["rollout.num_envs=16", "rollout.steps=8", "ppo.minibatch_size=64", "eval.episodes=20"]
REFERENCES = [
    "entity_env",
    "entity_env.compat",
    "entity_env.drawing",
    "entity_env.interop",
    "entity_env.recording",
    "entity_env.wrappers",
    "ppo_trainer",
    "ragged_net",
]


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a language, including those within lists."""
    text = (REPOSITORY / page).read_text()
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def shortened(command: str) -> list[str]:
    words = shlex.split(command)
    trains = "ppo_trainer" in words and "--help" not in words
    words = [re.sub(r"(total_timesteps=\d+)0_000", r"\g<1>00", word) for word in words]
    if "--minutes" in words:
        words[words.index("--minutes") + 1] = "0.03"
    return words + (SHORT if trains else [])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a reader who has trained the run of the README; ``train`` takes seconds."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "orchard.py").write_text(blocks("README.md", "python")[0])
    (folder / "orchard_script.py").write_text(blocks("docs/start.md", "python")[0])
    train = ppo_trainer.train

    def short(config: TrainConfig, *args: object, **others: object) -> object:
        steps = min(config.total_timesteps, 2_048 if config.total_timesteps < 50_000 else 12_000)
        evaluation = dataclasses.replace(config.eval, episodes=min(100, config.eval.episodes))
        config = dataclasses.replace(config, total_timesteps=steps, eval=evaluation)
        return train(config, *args, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo_trainer, "train", short)
        patch.syspath_prepend(str(folder))
        for command in commands("README.md"):
            run(command, folder)
        yield folder
    for name in ("orchard", "orchard_script"):
        sys.modules.pop(name, None)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "bash") for line in block.splitlines()]


def run(command: str, folder: Path) -> None:
    python, flag, module, *arguments = shortened(command)
    assert (python, flag) == ("python", "-m")
    ended = run_here(module, *arguments, cwd=folder)
    assert not ended.returncode, command + ended.stderr
    assert ended.stdout.strip(), command


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_and_the_commands_of_a_page(page, folder, monkeypatch, capsys):
    for command in commands(page):
        if command not in commands("README.md"):
            run(command, folder)
    code = blocks(page, "python")
    monkeypatch.chdir(folder)
    name = f"page_{Path(page).stem.replace('-', '_')}"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    for block in code:
        exec(compile(block, f"{page} ({block[:30]!r} ...)", "exec"), module.__dict__)
    printed = capsys.readouterr().out
    if page == "docs/start.md":
        found = dict(
            re.findall(r"^(agent, sampled|random play) (-?[\d.]+)$", printed, re.MULTILINE)
        )
        # Three good fruits are worth 1.5 to 3; random picks average 3 * (0.7 * 0.5 - 0.3) = 0.15.
        assert float(found["agent, sampled"]) > 1.3 > 0.5 > float(found["random play"]), printed
    if page == "docs/network.md":
        error, variance = map(
            float, re.findall(r"error: ([\d.]+), of a variance of ([\d.]+)", printed)[0]
        )
        assert error < 0.2 < 0.4 < variance


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_shown_only_exist(page):
    """Settings that do not exist, or modules, would be found by the first reader."""
    for line in "".join(blocks(page, "console")).splitlines():
        words = shlex.split(line.removeprefix("$ "))
        if words[1:2] != ["-m"]:
            continue
        module = words[2]
        assert (REPOSITORY / module.replace(".", "/")).with_suffix(".py").is_file() or (
            REPOSITORY / module.replace(".", "/") / "__main__.py"
        ).is_file(), line
        names = [word for word in words[3:] if word.startswith("env=")]
        if module == "ppo_trainer" and names:
            recipe(names[0].removeprefix("env="), *[w for w in words[3:] if w != names[0]])


def test_files_that_the_pages_name_exist():
    for page in PAGES:
        text = (REPOSITORY / page).read_text()
        for target in re.findall(r"\]\(((?!https?:)[^)#]+)(?:#[^)]*)?\)", text):
            made = (REPOSITORY / page).parent / target
            assert made.exists() or target == "settings.md", f"{page}: {target}"
        for target in re.findall(r"`((?:envs|ppo_trainer|entity_env|ragged_net)/[\w/.]+)`", text):
            assert (REPOSITORY / target).exists(), f"{page}: {target}"


def test_the_readme_is_short_and_so_is_its_environment():
    assert len(README.splitlines()) < 110
    assert 36 <= len(blocks("README.md", "python")[0].splitlines()) <= 44


@pytest.mark.slow
def test_the_documentation_builds_strictly_and_shows_every_public_name(tmp_path):
    pytest.importorskip("mkdocstrings")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(REPOSITORY / "mkdocs.yml"), site_dir=str(tmp_path / "site")))
    pages = {path.name: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    shown = {name for text in pages.values() for name in re.findall(r'id="([\w.]+)"', text)}
    modules = {name: import_module(name) for name in REFERENCES}
    for package, module in modules.items():
        for name in module.__all__:
            value = getattr(module, name)
            same = {f"{own}.{name}" for own, it in modules.items() if vars(it).get(name) is value}
            assert shown & {f"{package}.{name}", *same}, f"{package}.{name} is on no page"
    for name, text in pages.items():  # nothing is fetched from elsewhere
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"(https?:[^\"]+)", text)
        loaded += re.findall(
            r"<link[^>]+rel=\"(?:stylesheet|preload|icon)\"[^>]+href=\"(https?:[^\"]+)", text
        )
        assert not loaded, f"{name}: {loaded}"


def test_every_setting_is_described_and_its_recipes_are_true():
    described = {own.name: own for own in all_settings()}
    leaves = dict(_leaves(config_to_dict(TrainConfig())))
    missing = {name for name in leaves if name not in described} - {"eval.env", "env._target_"}
    assert missing <= {"net.relative_position", "net.translation"}
    for own in described.values():
        assert own.meaning.endswith((".", ")")), own.name
        assert own.values, own.name
        if re.search(r"number|^>|^from|true or false", own.values):
            assert ". " in own.meaning, f"{own.name}: what does a larger or another value trade?"
        if own.name in leaves and own.default is not None:
            assert _read(own.default) == _plain(leaves[own.name]), own.name
    (slow,) = [names for value, names in described["ppo.gamma"].recipes.items() if value == "0.997"]
    for name in slow:
        assert recipe(name).ppo.gamma == 0.997
    assert "0.997 in" in settings_help("ppo.gamma")


def _leaves(values, above=""):
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _read(text):
    try:
        return float(text)
    except ValueError:
        return yaml.safe_load(text)


def _plain(value):
    return list(value) if isinstance(value, tuple) else value


def test_every_logged_number_is_in_the_glossary(folder):
    """What the runs of the pages have logged, and whatever else is named in the source."""
    runs = sorted((folder / "runs").glob("*/metrics.jsonl"))
    assert runs
    logged = {
        key for run in runs for line in run.read_text().splitlines() for key in json.loads(line)
    }
    source = "".join(path.read_text() for path in (REPOSITORY / "ppo_trainer").rglob("*.py"))
    logged |= set(re.findall(r'"((?:selfplay|loss|policy|value|optim|scale)/[a-z_.]+)"', source))
    assert {"policy/entropy", "selfplay/stage", "time/env"} <= logged
    assert not undescribed(logged)
    assert undescribed(["policy/entropy", "policy/luck", "policy_2/luck", "score"]) == [
        "policy/luck"
    ]


def test_the_commands_of_the_package_lead_to_its_modules(tmp_path, monkeypatch):
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"ragged-train", "ragged-watch", "ragged-view", "ragged-check"}
    for path in scripts.values():
        module, _, name = path.partition(":")
        assert callable(getattr(import_module(module), name))
