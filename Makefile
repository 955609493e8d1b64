# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: demo test check test-engines bench-help bench-load bench-analysis soak format clean help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.demo ## a whole engagement on the embedded engine, into ./demo (no compiler needed)
	@$(BIN)/teardown demo demo
	@echo "report: $(CURDIR)/demo/out/report.html"

test: $(VENV)/.test ## everything: style, types, floors, all tests (compiles llama-cpp-python once)
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest --durations=10

check: $(VENV)/.test ## the fast checks alone, in under a minute
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.engine_log

test-engines: $(VENV)/.test ## longer tests on real engines; writes tests/engines.log, which is committed
	@$(BIN)/python -m tests.engine_log --run

bench-help: $(VENV)/.demo ## how long each verb takes to answer --help
	@$(BIN)/python -m tests.bench_help

bench-load: $(VENV)/.demo ## the load process beside aiohttp, httpx, GuideLLM and AIPerf (installs them; gcc)
	@$(BIN)/python -m tests.bench_load

bench-analysis: $(VENV)/.demo ## what the analysis of up to a million requests costs
	@$(BIN)/python -m tests.bench_load.analysis

soak: $(VENV)/.demo ## ten minutes at 300 streams: memory flat, no event lost (needs gcc)
	@$(BIN)/python -m tests.bench_load.soak

format: $(VENV)/.test ## lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# What the demo needs comes as prebuilt wheels; a source package here would be a mistake.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing the kit and its engine from prebuilt wheels (1 to 2 minutes)"
	@$(PIP) install --quiet --only-binary :all: -c constraints.txt -e '.[engine,charts]'
	@touch $@

# llama-cpp-python has no wheel: it compiles for 6 to 10 minutes on 2 cores, and shows that it does.
$(VENV)/.test: $(VENV)/.demo
	@echo "installing what the tests need"
	@$(PIP) install --quiet -c constraints.txt -e '.[engine,charts,terraform,dev]'
	@$(BIN)/python -m tests.install_logits
	@touch $@

clean: ## remove what was built here; a demo engagement stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
