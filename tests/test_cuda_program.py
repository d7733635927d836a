"""The program that tries everything on a GPU, tried where there may be none."""

import dataclasses
import signal

import pytest
import torch

from benchmarks import cuda


def table(path):
    """The cells of each line of the table."""
    lines = path.read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line][
        2:
    ]


def test_parts_that_fail_are_lines_and_the_others_go_on(tmp_path, monkeypatch):
    def broken(place):
        yield cuda.Line("broken", "first", "passed")
        raise RuntimeError("a | b\nmore")

    monkeypatch.setattr(cuda, "PARTS", {"broken": broken, "resume": cuda.PARTS["resume"]})
    out = tmp_path / "table.md"
    assert cuda.main(["--device", "cpu", "--out", str(out)]) == 1
    first, failed, resumed = table(out)
    assert first == ["broken", "first", "passed", ""]
    assert failed == ["broken", "failed", "RuntimeError: a / b", ""]
    assert resumed == ["resume", "cpu -> cpu", "passed: 8,192 steps", ""]


def test_waiting_is_forbidden_from_the_first_gradient_step_on_and_allowed_at_the_end(
    tmp_path, monkeypatch
):
    modes = []
    monkeypatch.setattr(cuda, "_sync_is", lambda mode, place: modes.append(mode))
    small = cuda._minesweeper(64, 3)
    small = dataclasses.replace(
        small,
        rollout=dataclasses.replace(small.rollout, num_envs=8, steps=8),
        ppo=dataclasses.replace(small.ppo, minibatch_size=64),
    )
    monkeypatch.setattr(cuda, "_minesweeper", lambda dim, updates: small)
    assert cuda.main(["--device", "cpu", "sync", "--out", str(tmp_path / "table.md")]) == 0
    # 64 frames are one minibatch in each of 3 epochs; then the numbers are read.
    assert modes == ["error"] * 3 + ["default"] * 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_it_says_so(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cuda.main(["--out", str(tmp_path / "table.md")])
    assert "finds no GPU; --device cpu tries the program without one" in capsys.readouterr().err


def test_a_misspelt_part_names_the_valid_ones(capsys):
    with pytest.raises(SystemExit):
        cuda.main(["atention"])
    assert "no such part: atention; valid: kernels, acting" in capsys.readouterr().err


def test_a_part_that_takes_too_long_is_a_line_and_the_others_go_on(tmp_path, monkeypatch):
    def slow(place):
        yield cuda.Line("slow", "first", "passed")
        signal.raise_signal(signal.SIGALRM)  # as the alarm does after --seconds
        yield cuda.Line("slow", "second", "passed")

    def quick(place):
        yield cuda.Line("quick", "only", "passed")

    monkeypatch.setattr(cuda, "PARTS", {"slow": slow, "quick": quick})
    out = tmp_path / "table.md"
    assert cuda.main(["--device", "cpu", "--out", str(out)]) == 1
    assert [line[2] for line in table(out)] == [
        "passed",
        "Late: it took longer than --seconds",
        "passed",
    ]
