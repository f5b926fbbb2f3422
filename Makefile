# Everything a checkout needs. `make` alone explains the targets.
# Needs Python 3.11 or newer, pip and GNU make; `make setup` fetches the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
DEMO_VENV := .venv-demo
BIN := $(VENV)/bin
PACKAGES := profiles tuner executor api cli
SOURCES := $(PACKAGES) migrations tests benchmarks examples
EXTRAS := executor,postgres,refine,dev
PYTEST_ARGS ?=
WORKERS ?= 2
BENCH_ARGS ?=
PIP := pip --disable-pip-version-check -qq
# -P keeps the working folder off the import path, so what is tested is what is installed.
RUN := "$(CURDIR)/$(BIN)/python" -P
# Tests start hundreds of interpreters: each would compile the packages anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup browser demo test reference lint types format contracts pytest long test-ray test-slurm slurm gpu grid wheel-check bench load clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'
	@echo
	@echo '  PYTEST_ARGS="-k plan" make pytest    pass arguments on (BENCH_ARGS for bench)'

setup: $(VENV)/.ready browser  ## Create .venv with every development dependency, and find a browser

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) install -c constraints.txt hatchling
	$(BIN)/$(PIP) install -c constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]'
	@touch $@

# The browser tests drive Debian's chromium. Without root nothing is installed and those tests are skipped.
browser:
	@if command -v chromium chromium-browser google-chrome >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing chromium for the browser tests'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; \
	else \
		echo 'No chromium found: the browser tests will be skipped. Install it with: apt-get install chromium'; \
	fi

$(DEMO_VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/$(PIP) install -c constraints.txt hatchling
	$(DEMO_VENV)/bin/$(PIP) install -c constraints.txt --no-build-isolation --editable .
	@touch $@

demo: $(DEMO_VENV)/.ready  ## Plan three models and show their reports: sets up by itself, without torch
	@$(DEMO_VENV)/bin/python -P examples/demo.py

test: setup  ## Set up, then lint, types, import contracts and the whole test suite
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory contracts
	@$(MAKE) --no-print-directory pytest

# What fails is run once more, alone: on a busy machine processes may start or end too late for a test. Both
# reports are printed, and a test that fails twice fails the target.
pytest: setup  ## The test suite alone, two files at a time
	@$(RUN) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long" $(PYTEST_ARGS) || \
	if [ $$? = 1 ]; then \
		echo 'Once more, one at a time, what failed:'; \
		$(RUN) -m pytest --last-failed --last-failed-no-failures none -m "not long" $(PYTEST_ARGS); \
	else exit 3; fi

long: setup  ## What `test` leaves out: the grid of equivalence, 500 jobs under kill -9, twenty runs in a row
	@$(RUN) -m pytest -m long $(PYTEST_ARGS)

test-ray: $(VENV)/.ready  ## Trials on a Ray cluster of three nodes on this machine: installs Ray, then about two minutes
	@$(BIN)/$(PIP) install -c constraints.txt ray
	@$(RUN) -m pytest tests/system/test_ray.py $(PYTEST_ARGS)

test-slurm: $(VENV)/.ready slurm  ## Trials under a real Slurm with fake GPUs, as root: installs it and submitit, then about a minute
	@$(BIN)/$(PIP) install -c constraints.txt submitit
	@$(RUN) -m pytest tests/system/test_slurm.py $(PYTEST_ARGS)

# Nothing of it is started here: the tests have a controller and a node of their own.
slurm:
	@if command -v sbatch >/dev/null && command -v slurmctld >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing slurm-wlm and munge'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends slurm-wlm slurm-client munge >/dev/null; \
	else \
		echo 'No Slurm found: its tests will be skipped. Install it as root with: apt-get install slurm-wlm munge'; \
	fi

gpu: setup  ## The tests that need a CUDA device
	@$(RUN) -m pytest -m gpu $(PYTEST_ARGS)

grid: setup  ## The laws of schedules over all of them, D to 16 and N to 64: about 25 minutes
	@$(RUN) -m pytest tests/tuner/schedules/grid.py $(PYTEST_ARGS)

reference: $(VENV)/.ready  ## Write docs/reference anew: commands, routes and documents as the code describes them
	@$(RUN) -m tests.contract.reference

lint: $(VENV)/.ready  ## Style and formatting (ruff)
	@$(BIN)/ruff check $(wildcard $(SOURCES))
	@$(BIN)/ruff format --check $(wildcard $(SOURCES))

format: $(VENV)/.ready  ## Rewrite the sources in the house format
	@$(BIN)/ruff check --fix $(wildcard $(SOURCES))
	@$(BIN)/ruff format $(wildcard $(SOURCES))

types: $(VENV)/.ready  ## mypy --strict over the packages
	@$(BIN)/mypy --strict $(addprefix -p ,$(PACKAGES))

contracts: $(VENV)/.ready  ## Import contracts: profiles <- tuner <- (api | executor) <- cli
	@$(BIN)/lint-imports --no-logo

wheel-check: $(VENV)/.ready  ## Build the wheel and use it in an empty environment outside the checkout
	@$(RUN) -m pytest tests/system/test_wheel.py $(PYTEST_ARGS)

bench: $(VENV)/.ready  ## Print the numbers of every benchmark
	@for script in $(filter-out benchmarks/gpu_checks.py benchmarks/tuned_choice.py benchmarks/service_load.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(RUN) "$$script" $(BENCH_ARGS); done

load: $(VENV)/.ready  ## What the service bears on both databases, beside an empty route: about ten minutes
	@$(RUN) benchmarks/service_load.py $(BENCH_ARGS)

clean:  ## Remove everything the other targets made
	rm -rf $(VENV) $(DEMO_VENV) dist build demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
