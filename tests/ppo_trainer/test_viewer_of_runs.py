"""The viewer on a run folder: its newest agent plays, also while it is trained."""

from __future__ import annotations

import re
import time
import urllib.request

import numpy as np
import pytest
from support.messages import from_message
from support.trainer_envs import Foraging
from support.trainer_runs import small_config

from entity_env.errors import EntityEnvError
from entity_env.viewer import open_source
from ppo_trainer import train
from ppo_trainer.loop import resume


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    return train(small_config(run_dir=str(folder), run_name="one"), env=Foraging).run


def test_the_agent_plays_with_its_values_and_probabilities(run):
    source = open_source(str(run), seed=2)
    steps = acted = 0
    while not source.advance({})["done"]:
        steps += 1
    for step in range(steps):
        frame = source.frame(0, step, 0)
        for own in frame["actions"].values():
            np.testing.assert_allclose(own["probs"].sum(axis=1), 1, rtol=1e-5)
        acted += len(frame["actions"])
        assert frame["value"] is not None
    assert acted
    assert source.curve(0, 0)["value"] is not None


def test_a_newer_network_plays_the_next_episode(run):
    source = open_source(str(run), seed=2)
    before = source.episode(0)["who"]
    resume(run, total_timesteps=192)
    while not source.advance({})["done"]:
        pass
    assert source.advance({})["who"] != before
    assert (source.episode(0)["who"], source.episode(1)["who"]) == (before, "step_000000000192")
    # Now it is the newest.
    while not source.advance({})["done"]:
        pass
    assert source.advance({})["who"] == "step_000000000192"


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(EntityEnvError, match="not a run folder"):
        open_source(str(tmp_path))


@pytest.mark.slow
def test_a_training_shows_itself_while_it_lasts(tmp_path, capfd):
    """The process prints the address of a page that answers; with the training it ends."""
    said, answers = [], []

    def look(session):
        while not answers:
            said.append(capfd.readouterr().out)
            found = re.search(r"^viewer: (\S+)$", "".join(said), re.MULTILINE)
            if found is not None:
                with urllib.request.urlopen(f"{found[1]}api/about", timeout=30) as response:
                    answers.append((found[1], from_message(response.read())))
            time.sleep(0.05)

    train(small_config(run_dir=str(tmp_path), viewer=True), env=Foraging, callbacks=look)
    address, about = answers[0]
    assert about["kind"] == "game"
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{address}api/about", timeout=5)
