# The two commands of the README, and what a contributor needs. Each does its whole set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-full lint bench paper system clean

demo: $(VENV)/.demo
	$(BIN)/privquant demo

test: $(VENV)/.dev system lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The same checks in their long form: every published row, every kill, every draw.
test-full: $(VENV)/.dev system lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "full or not full"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

paper: $(VENV)/.run
	$(BIN)/privquant paper --out out/paper

# What the tests need beyond Python packages; installed only where it is missing.
system:
	sh scripts/system-packages.sh

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[demo]"
	touch $@

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[all]"
	touch $@ $(VENV)/.demo

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@ $(VENV)/.run $(VENV)/.demo

clean:
	rm -rf $(VENV) out
