# The two commands of the README, and what a contributor needs. Each does its whole set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-full lint bench paper clean

demo: $(STAMP)
	$(BIN)/privquant demo

test: $(STAMP) system
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-full: $(STAMP) system
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "full or not full"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

paper: $(STAMP)
	$(BIN)/privquant paper --out out/paper

# What the tests need beyond Python packages; installed only where it is missing.
.PHONY: system
system:
	@sh scripts/system-packages.sh

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) out
