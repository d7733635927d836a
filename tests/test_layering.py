"""Imports flow one way, and every package says what it offers."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("entity_env", "ragged_net", "envs", "ppo_trainer")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
EVERYTHING = None
# The modules of entity_env that know neither observations nor environments.
PLAIN = {f"entity_env.{name}" for name in ("spaces", "errors", "arguments")}

ALLOWED = {
    "entity_env": {"entity_env", "numpy"},
    "ragged_net": {"ragged_net", "torch", "numpy", "numba", "llvmlite", *PLAIN},
    "envs": {"entity_env", "numpy", "numba"},
    "ppo_trainer": EVERYTHING,
}
# What single files, or folders, may import besides.
ALLOWED_IN = {
    "entity_env/drawing/": {"PIL"},
    "entity_env/rows/": {"numba"},
    "envs/mmo/terrain.py": {"opensimplex"},
    "entity_env/recording/parquet.py": {"pyarrow"},
    "entity_env/interop/": {"gymnasium", "minari", "pettingzoo", "stable_baselines3"},
    # Games and networks keep their compiled kernels by the same rules.
    "ragged_net/gpu/": {"triton"},
    "entity_env/storage/inner.py": {"llvmlite", "numba"},
    "ragged_net/kernels/": {"entity_env.storage.inner"},
    "ragged_net/kernels/jit.py": {"entity_env.storage.kernel_cache"},
}
# Packages that only one file may import, and nothing else in any package.
ONLY_IN = {
    "ragged_buffer": "entity_env/batching/ragged.py",
    "cloudpickle": "entity_env/workers/messages.py",
    "entity_env.batching.ragged_numpy": "entity_env/batching/ragged.py",
}

# The layers within a package: its folders, and the files beside them. Whatever a layer imports
# stands before it.
LAYERS = {
    "entity_env": "errors habits arguments garbage nearby metrics plugins own_methods space_checks "
    "spaces hints observation actions batching environment multi_player agent scripted_agent "
    "coordinates drawing storage objects rows seats registry onnx_inputs workers wrappers fitting "
    "recording command_line play checking check terminal runner replay viewer interop __init__ "
    "compat __main__",
    "ragged_net": "tensor_checks devices kernels position_config config ragged actors growing "
    "packing observed batch layout gpu frames compiled model heads check network adopt export "
    "__init__",
    "ppo_trainer": "settings config machine environments experience algorithms learner "
    "reporting runs players evaluation training scale preparation loop command_line agent "
    "evaluate export league record imitate watch tuning tune stable_baselines __init__ __main__",
}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def imported(source):
    """The dotted names that a file imports, inside functions and conditions too."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{'.' * node.level}{node.module or ''}"]
    return names


def within(name, packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def forbidden(file, source):
    """The imports of one file that break the rules."""
    allowed = ALLOWED[file.split("/")[0]]
    also = {name for place in ALLOWED_IN if file.startswith(place) for name in ALLOWED_IN[place]}
    found = []
    for name in imported(source):
        special = [package for package in ONLY_IN if within(name, [package])]
        if special:
            if file != ONLY_IN[special[0]]:
                found.append(name)
        elif name.startswith(".") and file.startswith("envs/"):
            continue  # whatever the folder is called
        elif name.startswith(".") or not (
            allowed is EVERYTHING
            or name.split(".")[0] in sys.stdlib_module_names
            or within(name, allowed | also)
        ):
            found.append(name)
    return found


def module_name(path):
    """A file's dotted name, that of the package for ``__init__.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(name, is_package, source, modules):
    """Return the ``modules`` that a module imports, also inside functions and for types only."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".")[: None if is_package else -1]
            package = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            # ``from package import module`` is an import of the module.
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= (inner & modules) | ({base} if inner - modules else set())
    return (found & modules) - {name}


def circles(imports):
    """Modules that import each other, perhaps by way of others: each such set, sorted."""
    reached = {}
    for name in imports:
        seen, waiting = set(), [name]
        while waiting:
            following = imports[waiting.pop()] - seen
            seen |= following
            waiting += following
        reached[name] = seen
    return sorted(
        {
            tuple(sorted(other for other in seen if name in reached[other]))
            for name, seen in reached.items()
            if name in seen
        }
    )


def layer(path):
    """The folder of a file within its package, or the file itself where it lies beside them."""
    return path.relative_to(ROOT).parts[1].removesuffix(".py")


def against_the_order(package, modules):
    """The layers of a package that import from a later one, as ``a -> b``."""
    order = LAYERS[package].split()
    found = set()
    for name, path in modules.items():
        if name.split(".")[0] != package:
            continue
        is_package = path.name == "__init__.py"
        for other in imported_modules(name, is_package, path.read_text(), set(modules)):
            if other.split(".")[0] == package:
                above, below = layer(path), layer(modules[other])
                if order.index(below) > order.index(above):
                    found.add(f"{above} -> {below}")
    return found


@pytest.mark.parametrize("package", LAYERS)
def test_folders_are_layers(package):
    modules = {module_name(path): path for path in FILES}
    own = {layer(path) for name, path in modules.items() if name.split(".")[0] == package}
    assert sorted(own) == sorted(LAYERS[package].split())
    assert against_the_order(package, modules) == set()


def test_an_import_against_the_order_is_found(monkeypatch):
    order = LAYERS["ppo_trainer"].replace("settings config", "config settings")
    monkeypatch.setitem(LAYERS, "ppo_trainer", order)
    modules = {module_name(path): path for path in FILES}
    assert against_the_order("ppo_trainer", modules) == {"config -> settings"}


def star_imports(source):
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]


def test_the_packages_are_there():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(PACKAGES)
    assert len(FILES) > 40


def test_a_file_imports_only_what_its_layer_may():
    found = {name_of(path): forbidden(name_of(path), path.read_text()) for path in FILES}
    assert {name: imports for name, imports in found.items() if imports} == {}


def test_no_modules_import_each_other():
    """Nor late, within functions, nor for the sake of types: what ties them belongs elsewhere."""
    modules = {module_name(path): path for path in FILES}
    imports = {
        name: imported_modules(name, path.name == "__init__.py", path.read_text(), set(modules))
        for name, path in modules.items()
    }
    assert sum(map(len, imports.values())) > 500
    assert circles(imports) == []


def test_circles_are_found():
    modules = {"a", "a.b", "a.c", "a.d"}
    sources = {
        "a": "from a.b import x",
        "a.b": "def f():\n    from a import c",  # late
        "a.c": "if TYPE_CHECKING:\n    from .d import X",
        "a.d": "import numpy, a.b",
    }
    imports = {
        name: imported_modules(name, name == "a", source, modules)
        for name, source in sources.items()
    }
    assert imports == {"a": {"a.b"}, "a.b": {"a.c"}, "a.c": {"a.d"}, "a.d": {"a.b"}}
    assert circles(imports) == [("a.b", "a.c", "a.d")]
    assert circles(imports | {"a.d": set()}) == []


def test_a_file_has_no_star_import():
    assert [name_of(path) for path in FILES if star_imports(path.read_text())] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_offers(package):
    if package in ("ragged_net", "ppo_trainer"):
        pytest.importorskip("torch")
    module = importlib.import_module("ragged_envs" if package == "envs" else package)
    assert isinstance(module.__all__, list)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name)


def test_a_module_says_what_it_offers():
    modules = [path for path in FILES if path.name != "__main__.py"]
    assert [name_of(path) for path in modules if "__all__" not in assigned(path.read_text())] == []


def assigned(source):
    """The names that a module assigns."""
    return {
        target.id
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def public_classes(sources):
    """Where each public class is defined, by its name."""
    places = {}
    for file, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(file)
    return places


def test_no_name_stands_for_two_classes():
    places = public_classes({name_of(path): path.read_text() for path in FILES})
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_classes_of_one_name_are_found():
    sources = {"a.py": "class A: ...\nclass _B: ...", "b.py": "class A: ...\nclass _B: ..."}
    assert public_classes(sources) == {"A": ["a.py", "b.py"]}


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        ("entity_env/batching/vec_obs.py", "def f():\n    from torch import nn", ["torch"]),
        (
            "entity_env/batching/vec_obs.py",
            "import ragged_envs.minesweeper",
            ["ragged_envs.minesweeper"],
        ),
        ("entity_env/batching/vec_obs.py", "import ragged_buffer", ["ragged_buffer"]),
        ("entity_env/batching/vec_obs.py", "from . import errors", ["."]),
        ("entity_env/batching/vec_obs.py", "from PIL import Image", ["PIL"]),
        ("entity_env/drawing/drawer.py", "def f():\n    import PIL.Image", []),
        ("entity_env/interop/padding.py", "import gymnasium\nfrom pettingzoo import AECEnv", []),
        ("entity_env/rows/jit.py", "from numba import njit", []),
        ("entity_env/batching/vec_obs.py", "import os, numpy.typing", []),
        ("entity_env/batching/ragged.py", "from ragged_buffer import cat", []),
        ("ragged_net/heads/value.py", "from entity_env.spaces import ObsSpace", []),
        (
            "ragged_net/heads/value.py",
            "from entity_env.batching.vec_obs import VecObs",
            ["entity_env.batching.vec_obs"],
        ),
        (
            "ragged_net/heads/value.py",
            "import entity_env.spaces_of_mine",
            ["entity_env.spaces_of_mine"],
        ),
        ("envs/game.py", "from entity_env import Entity\nimport numba", []),
        ("envs/game.py", "import torch\nimport ragged_net", ["torch", "ragged_net"]),
        ("envs/game.py", "from .rules import step", []),
        ("ppo_trainer/loop.py", "import torch, wandb, entity_env", []),
        ("ppo_trainer/loop.py", "import ragged_buffer", ["ragged_buffer"]),
    ],
)
def test_the_rules_find_what_they_forbid(file, source, found):
    assert forbidden(file, source) == found
    assert star_imports("from entity_env import *") == [1]
