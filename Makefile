# make train   set up, then train MineSweeper and say how good it is
# make test    set up, then run all tests
# make bench   set up, then measure speed, memory and learning against named baselines (10 minutes)
# make check   ruff and mypy
# make clean   remove the virtual environments and caches

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: train test bench check clean

train: $(READY)
	$(BIN)/python -m ppo_trainer env=minesweeper

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

bench: $(READY)
	$(BIN)/python -m benchmarks

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch comes first and pinned: anything else may draw in another build of several gigabytes.
$(READY): pyproject.toml setup.py constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Python 3.11 is needed, $(PYTHON) is another version: set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up .venv (once, a few minutes) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
