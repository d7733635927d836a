"""Which packages are installed; everything else about the distribution is in pyproject.toml.

The folder ``envs`` is installed as ``ragged_envs``: a package called ``envs`` would hide, or be
hidden by, the folder of that name that most projects of the field have.
"""

from setuptools import find_packages, setup

OURS = ["entity_env", "ragged_net", "ppo_trainer", "envs"]

found = find_packages(include=[name for ours in OURS for name in (ours, f"{ours}.*")])
setup(
    packages=[f"ragged_{name}" if name.split(".")[0] == "envs" else name for name in found],
    package_dir={"ragged_envs": "envs"},
)
