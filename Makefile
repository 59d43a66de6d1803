# One line a recipe. A fresh machine needs Python 3.11 or newer, git and make.
VENV ?= .venv
BIN := $(VENV)/bin
# Unit tests side by side; nothing is timed in them. Each takes up to 4 GB.
JOBS ?= 2
# The newest interpreter that starts and is new enough; a shim that only exists on PATH does not count.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
SYSTEM_UV := $(shell uv --version >/dev/null 2>&1 && command -v uv)
UV := $(or $(SYSTEM_UV),$(BIN)/uv)
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup run test lint format perf slow aot asv-quick ci lock docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# Where the environment forbids writing byte code, every process of a test would make that of the package anew.
setup: $(INSTALLED) ## fill .venv from the lock, and make byte code of what has changed here
	@-$(BIN)/python -m compileall -q qwenperf

run: setup ## measure the default suite, print the table, save run and traces
	$(BIN)/qwenperf run

test: setup ## the unit tests, 10 minutes at most on 2 cores
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not slow and not perf"

lint: setup ## formatting, rules, types, layers, workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github

format: setup ## rewrite what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

perf: setup ## the timed gates, one after another
	$(BIN)/pytest -m perf -p no:xdist

slow: setup ## the slow proofs
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m slow

aot: setup ## our engines compiled for each generation of TPU, judged by their budgets
	$(BIN)/qwenperf aot --budgets benchmarks/aot.toml --model qwen2.5-0.5b --engine cached+cache_layout=position-major --prompt-length 512 --new-tokens 64 --target v4-1,v5e-1,v5p-1,v6e-1,v7x-1,v5e-4

asv-quick: setup ## check the ASV suite, then one quick real run of it in this environment
	$(BIN)/python tools/asv_quick.py

ci: lint test perf slow aot asv-quick ## everything that must be green, 40 minutes at most

lock: setup ## resolve requirements/lock.txt anew, for every Python and platform
	$(UV) pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --group dev --extra profile --extra service --no-header pyproject.toml --output-file requirements/lock.txt

docs: setup ## write the generated pages
	$(BIN)/python tools/generate_docs.py

clean: ## remove what setup and the tools made
	rm -rf $(VENV) .asv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .benchmarks .hypothesis

$(BIN)/python:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: '$(PYTHON)' is no Python 3.11 or newer; say PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(if $(SYSTEM_UV),uv venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))

$(BIN)/uv: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

# Byte code is made once here: where the environment forbids writing it, importing JAX takes 3.3 s instead of 0.8 s.
$(INSTALLED): requirements/lock.txt pyproject.toml | $(BIN)/python $(UV)
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python requirements/lock.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@
