"""The README's Python blocks and commands work as they stand there.

Only the amount of training is cut: ``SHORT`` is appended to commands that train, and the Python
block that trains runs with fewer steps. Commands run one after the other in this process.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import run_here

from ppo_trainer.runs.curve import draw_curve

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
SHORT = [
    "rollout.num_envs=16",
    "rollout.steps=8",
    "ppo.minibatch_size=64",
    "eval.episodes=20",
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def shortened(command: str) -> list[str]:
    words = shlex.split(command)
    trains = "ppo_trainer" in words and not {"--help", "--cfg"} & set(words)
    words = [re.sub(r"(total_timesteps=)(\d)0_000", r"\g<1>\g<2>_000", word) for word in words]
    words = [re.sub(r"total_timesteps=120_000", "total_timesteps=8_000", word) for word in words]
    return words + (SHORT if trains else [])


@pytest.mark.slow
def test_every_python_block_runs_in_one_session(tmp_path):
    code = "\n".join(blocks("python"))
    assert code.count("total_timesteps=60_000") == 1
    (tmp_path / "readme.py").write_text(code.replace("60_000", "12_000"))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "readme.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    text = done.stdout
    sampled = re.search(r"agent, sampled\s+(-?[\d.]+)", text)
    random = re.search(r"random play\s+(-?[\d.]+)", text)
    assert sampled is not None
    assert random is not None
    error, variance = map(float, re.findall(r"error: ([\d.]+), of a variance of ([\d.]+)", text)[0])
    assert error < 0.2 < 0.4 < variance
    # Three good fruits are worth 1.5 to 3; random picks average 3 * (0.7 * 0.5 - 0.3) = 0.15.
    assert float(sampled.group(1)) > 1.3 > 0.5 > float(random.group(1)), text


@pytest.mark.slow
def test_every_command_runs(tmp_path, monkeypatch):
    (tmp_path / "orchard.py").write_text(blocks("python")[0])
    (tmp_path / "orchard_script.py").write_text(blocks("python")[1])
    monkeypatch.setattr("ppo_trainer.training.report.draw_curve", draw_curve)
    for module in ("orchard", "orchard_script"):
        monkeypatch.setitem(sys.modules, module, None)  # to be forgotten again
        del sys.modules[module]
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) >= 7
    for command in commands:
        python, flag, module, *arguments = shortened(command)
        assert (python, flag) == ("python", "-m")
        done = run_here(module, *arguments, cwd=tmp_path)
        assert not done.returncode, command + done.stderr
        assert done.stdout.strip(), command
    assert (tmp_path / "runs" / "orchard" / "curve.png").is_file()


def test_the_environment_is_about_fifty_lines():
    assert 40 <= len(blocks("python")[0].splitlines()) <= 60


def test_files_that_the_readme_names_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (REPOSITORY / target).exists(), target
    for target in re.findall(r"`((?:envs|ppo_trainer|entity_env)/[\w/.]+)`", README):
        assert (REPOSITORY / target).exists(), target
