"""The files of ``docs/cluster`` are complete for Ray, which checks them as ``ray up`` does."""

import importlib.util
import json
import warnings
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "docs" / "cluster"
each_file = pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))


@each_file
def test_the_files_of_a_cluster_follow_the_schema_of_ray(name):
    jsonschema = pytest.importorskip("jsonschema")
    found = importlib.util.find_spec("ray")  # importing it takes seconds
    if found is None:
        pytest.skip("needs Ray")
    schema = Path(found.submodule_search_locations[0]) / "autoscaler" / "ray-schema.json"
    config = yaml.safe_load((FOLDER / name).read_text())
    jsonschema.validate(config, json.loads(schema.read_text()))
    for kind in ("head", "worker"):
        commands = config[f"{kind}_start_ray_commands"]
        assert commands[0].endswith("ray stop")
        assert "RAY_AUTH_MODE=token" in commands[1]  # which the head and all others must agree on


@pytest.mark.platforms
@each_file
def test_ray_completes_the_files_of_a_cluster(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        util = pytest.importorskip("ray.autoscaler._private.util")
        config = util.prepare_config(yaml.safe_load((FOLDER / name).read_text()))
        util.validate_config(config)
    kinds = config["available_node_types"].values()
    assert sum(kind["min_workers"] for kind in kinds) == config["max_workers"]
