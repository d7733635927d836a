"""Training within somebody's own Hydra program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.version import VersionBase
from omegaconf import OmegaConf

from ppo_trainer import recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture
def theirs(tmp_path):
    """A folder of configs with names that ours have, too."""
    (tmp_path / "env").mkdir()
    (tmp_path / "config.yaml").write_text("defaults: [base, env: xor, _self_]\nwhose: theirs\n")
    (tmp_path / "env" / "xor.yaml").write_text("_target_: somebody.elses\n")
    return tmp_path


def test_a_recipe_leaves_somebodys_hydra_as_it_was(theirs, monkeypatch):
    monkeypatch.setattr(ConfigStore.instance(), "repo", dict(ConfigStore.instance().repo))
    ConfigStore.instance().store("base", {"seed": "of their base"})
    stored = dict(ConfigStore.instance().repo)
    with initialize_config_dir(str(theirs), job_name="theirs", version_base="1.2"):
        OmegaConf.register_new_resolver("now", lambda text: "their now", replace=True)
        instance, own = GlobalHydra.instance(), GlobalHydra.instance().hydra
        config = recipe("xor", "seed=3", "net.dim=32")
        assert (config.env["_target_"], config.seed, config.net.dim) == ("xor", 3, 32)
        assert GlobalHydra.instance() is instance
        assert instance.hydra is own
        assert str(VersionBase.instance().getbase()) == "1.2"
        assert ConfigStore.instance().repo == stored
        assert OmegaConf.create({"at": "${now:%Y}"}).at == "their now"
        composed = compose("config")
        assert (composed.whose, composed.seed) == ("theirs", "of their base")
        assert composed.env._target_ == "somebody.elses"
    OmegaConf.clear_resolver("now")
    assert not GlobalHydra.instance().is_initialized()


def test_a_recipe_leaves_no_trace_where_nobody_uses_hydra(monkeypatch):
    store = ConfigStore.instance()  # in which a test of the command line may have left ours
    monkeypatch.setattr(store, "repo", {k: v for k, v in store.repo.items() if k != "base.yaml"})
    recipe("xor")
    assert not GlobalHydra.instance().is_initialized()
    assert "base.yaml" not in ConfigStore.instance().repo
    with initialize(version_base=None):  # as if for the first time
        assert recipe("xor").seed == 1


PROGRAM = """
import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from ppo_trainer import recipe, train

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    own = ["eval.episodes=0", "run_name=run", f"seed={config.mine.seed}", "device=cpu"]
    result = train(recipe("xor", "total_timesteps=2048", *own))
    assert HydraConfig.get().job.name == "program"
    assert GlobalHydra.instance().is_initialized()
    print("trained", result.steps, "with seed", config.mine.seed)

main()
"""


@pytest.mark.slow
def test_a_program_of_hydras_can_train(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text("mine: {seed: 3}\n")
    done = subprocess.run(
        [sys.executable, "program.py", "mine.seed=4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "trained 2048 with seed 4" in done.stdout
    assert (tmp_path / "runs" / "run" / "checkpoints").is_dir()
