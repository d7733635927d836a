"""Every module of ``benchmarks`` can be imported, and takes the arguments that are printed."""

from __future__ import annotations

import argparse
import importlib
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
PRINTED = [
    *ROOT.glob("*.md"),
    ROOT / "Makefile",
    *(path for folder in ("docs", "envs", "examples") for path in (ROOT / folder).rglob("*.md")),
    *BENCHMARKS.rglob("*.md"),
    *BENCHMARKS.rglob("*.py"),
]
NEEDS = {"benchmarks.scale": "ray", "benchmarks.work.service": "fastapi"}


def module_names():
    for path in sorted(BENCHMARKS.rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def commands():
    """Yield what is printed behind ``python -m``, within backquotes or alone on a line."""
    for path in PRINTED:
        text = path.read_text()
        quoted = re.findall(r"`python -m (benchmarks[^`]*)`", text)
        alone = re.findall(r"^(?:\s*\$)? *python -m (benchmarks[^`\n]*)$", text, re.MULTILINE)
        for command in [*map(" ".join, map(str.split, quoted)), *alone]:
            # Comments follow a number sign or several spaces; brackets mark what may be left out.
            yield re.split(r"#|\s{2,}", command)[0].translate(str.maketrans("", "", "[]"))


@pytest.mark.parametrize("name", sorted(module_names()))
def test_a_benchmark_can_be_imported(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    if not name.endswith("__main__"):
        importlib.import_module(name)


@pytest.mark.parametrize("command", sorted({command.strip() for command in commands()}))
def test_a_printed_command_is_understood(command, monkeypatch):
    module, *given = (word for word in shlex.split(command) if word != "...")
    parts = module.split(".")[1:]
    file = BENCHMARKS.joinpath(*parts).with_suffix(".py")
    file = file if parts and file.exists() else BENCHMARKS.joinpath(*parts, "__main__.py")
    parses = "argparse" in file.read_text()
    assert file.exists()

    class Parsed(Exception):
        pass

    for name in ("parse_args", "parse_intermixed_args"):
        parse = getattr(argparse.ArgumentParser, name)

        def parse_and_stop(parser, *arguments, parse=parse):
            parse(parser, *arguments)
            raise Parsed

        monkeypatch.setattr(argparse.ArgumentParser, name, parse_and_stop)
    monkeypatch.setattr(sys, "argv", [module, *given])
    if parses:
        with pytest.raises(Parsed):
            runpy.run_module(module, run_name="__main__")
