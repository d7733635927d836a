# make train   set up what training needs, then train MineSweeper and say how good it is
# make test    set up everything, then run all tests
# make learning   set up, then train small agents to real thresholds
# make platforms  set up, then test with other Pythons, for other processors, compiled games, and the wheel
# make docs    set up, then build the documentation into site/
# make bench   set up, then measure speed, memory and learning against named baselines (10 minutes)
# make check   ruff and mypy
# make clean   remove the virtual environments and caches

# The versions that the tests run with are pinned for 3.11 first; from there on any Python does.
SUITS = import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3 python3.14 python; do \
  $$python -c '$(SUITS)' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
# One stamp for each set of packages: training needs the fewest, tests all.
TRAINS := .venv/.trains
BUILDS := .venv/.builds
TESTS := .venv/.tests

.PHONY: train test learning platforms docs bench check clean

train: $(TRAINS)
	$(BIN)/python -m ppo_trainer env=minesweeper

test: $(TESTS)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

learning platforms: $(TESTS)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m $@

docs: $(BUILDS)
	$(BIN)/python -m mkdocs build -q

bench: $(TESTS)
	$(BIN)/python -m benchmarks

check: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch comes first and pinned: anything else may draw in another build of several gigabytes.
$(TRAINS): pyproject.toml setup.py constraints.txt
	@$(or $(PYTHON),false) -c '$(SUITS)' || { echo "Python 3.11 or later is needed, with venv" \
	  "(python3-venv on Debian): set PYTHON=/path/to/python"; exit 1; }
	@echo "Setting up .venv with $(PYTHON) (once, a minute or two) ..."
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) -e .
	@touch $@

$(BUILDS): $(TRAINS)
	$(PIP) -e ".[docs]"
	@touch $@

$(TESTS): $(TRAINS)
	@echo "Adding what the tests need (once, a minute or two) ..."
	$(PIP) -e ".[dev]"
	@touch $@

clean:
	rm -rf site .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
