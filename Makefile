# Two commands for a newcomer:  make demo   make test
# Both make their own virtual environment first; nothing else is needed than Python >= 3.11.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Torch first and alone: resolved together with the rest, an installer may look past the pin.
DEMO_OUT ?= demo-out
# In the order of tests/conftest.py
SPREAD := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# make test SEED=2: the files, and the tests of each file, in another order
SEED ?=
ORDER := $(if $(SEED),--random-order-bucket=module --random-order-seed=$(SEED))
# make fuzz TIMES=200: so many times the examples of make test
TIMES ?= 20

.PHONY: help bench-quick counts coverage demo docs fuzz quick record test test-portable test-ray lint types check clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "opencse needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	@echo "setting up $(VENV) (a few minutes, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) "$$(grep '^torch==' constraints.txt)"
	@$(PIP) -e '.[train]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed  ## train, evaluate, search and report on the built-in sample (offline)
	$(BIN)/opencse demo --out $(DEMO_OUT)
	@echo "opencse is in $(BIN): source $(BIN)/activate"

quick: lint types  ## lint, types and all but the slow tests, two minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SPREAD) -m "not slow"

bench-quick: $(VENV)/.installed-dev  ## whether training, encoding, the loss or start-up got slower
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/quick.py

record: $(VENV)/.installed-dev  ## the recorded numbers anew, where they should move
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m recorded --write

# Python keeps the tests as pytest rewrites them, which takes each worker seconds, for the next run.
test: $(VENV)/.installed-dev  ## the whole test suite; SEED=2 runs it in another order
	@$(BIN)/python -m compileall -q src  # once, for the hundred processes that the tests start, also where Python keeps nothing
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(SPREAD) $(ORDER)

fuzz: $(VENV)/.installed-dev  ## the property tests on new random examples, TIMES=20 as many as usual
	OPENCSE_FUZZ=$(TIMES) OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SPREAD) -m hypothesis --timeout 0

coverage: $(VENV)/.installed-dev  ## the whole suite, and which lines it runs (half as long again)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SPREAD) --cov=opencse --cov-report=term:skip-covered

counts: $(VENV)/.installed-dev  ## the size of source and tests, and the time of the last suite
	$(BIN)/python tools/counts.py

test-portable: $(VENV)/.installed-dev  ## the numeric tests as older processors compute them, on one and two threads
	PYTEST_ADDOPTS="$(SPREAD)" $(BIN)/python tests/portable.py $(TESTS)

$(VENV)/.installed-ray: $(VENV)/.installed-dev
	@$(PIP) -e '.[ray]'
	@touch $@

test-ray: $(VENV)/.installed-ray  ## work on a Ray cluster of this machine's cores, some minutes
	OPENCSE_TEST_RAY=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engines/test_ray.py

lint: $(VENV)/.installed-dev  ## ruff, who may import whom, words that a reader has to guess at, and the size (tools/budget.toml)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/words.py
	$(BIN)/python tools/counts.py --budget

types: $(VENV)/.installed-dev $(VENV)/.installed-docs  ## mypy --strict, the scripts of the documentation and of the benchmarks too
	$(BIN)/mypy
	$(BIN)/mypy benchmarks  # apart: some of its scripts have names of folders of tests

docs: $(VENV)/.installed-docs  ## the documentation site, in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/.installed-docs: $(VENV)/.installed
	@$(PIP) -e '.[docs]'
	@touch $@

check: lint types test  ## everything CI runs

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(DEMO_OUT) site .mypy_cache .ruff_cache .pytest_cache
