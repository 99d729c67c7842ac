# The two commands of the README, and what a contributor needs. Each does its whole set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-quick test-full test-engines lint bench paper system clean

demo: $(VENV)/.demo
	$(BIN)/privquant demo

test: $(VENV)/.dev system lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What needs no server, no browser and no long simulation: lint, types, and the packages that only compute.
QUICK := tests/privacy tests/device tests/protocols/naive tests/protocols/tree tests/protocols/test_*.py \
  tests/protocols/isotonic/test_isotonic*.py tests/test_columns.py tests/test_domain.py tests/test_names.py \
  tests/test_quantiles.py tests/test_results.py tests/test_wire*.py
test-quick: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal $(QUICK)

# The same checks in their long form: every published row, every kill, every draw.
test-full: $(VENV)/.dev system lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 3600 -m "full or not full"

# Clusters, each in an environment of its own: flwr pins old versions of what our command line uses.
test-engines: $(VENV)-engines/.done $(VENV)-flower/.done
	PYTHONPATH="$(CURDIR)/cluster-tests:$(CURDIR)" PATH="$(CURDIR)/$(VENV)-engines/bin:$$PATH" $(VENV)-engines/bin/python -m pytest -c cluster-tests/pytest.ini cluster-tests --ignore cluster-tests/flower
	$(VENV)-flower/bin/python -m pytest -c cluster-tests/pytest.ini cluster-tests/flower

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

paper: $(VENV)/.run
	$(BIN)/python -m studies paper --out out/paper

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

$(VENV)-engines/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)-engines
	$(VENV)-engines/bin/python -m pip install --quiet --disable-pip-version-check -e ".[ray,dask]" "ray==2.60.*" pytest psutil
	touch $@

$(VENV)-flower/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check -e ".[device]" "flwr[simulation]==1.41.*" pytest
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-engines $(VENV)-flower out
