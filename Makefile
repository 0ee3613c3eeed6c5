# What people type here. Every target builds .venv itself; nothing outside the repo is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# pytest looks at its session's time between tests only.
AT_MOST := $(if $(shell command -v timeout),timeout --kill-after=15 1200)
# Tests on servers mostly wait: 607 of them take 170 s of CPU. Each process has servers of its own, and takes whole files in the order of their names
# here: the longest first. By itself xdist would begin with the files of many tests, and end with the storms of a minute.
PROCESSES ?= 4
SIDE_BY_SIDE := -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# Where each pytest of `make test` notes what it skipped.
SKIPS := $(CURDIR)/.pytest_cache/skipped
CHAOS_OF_TRIGGERS := tests/chaos/test_schedulers.py tests/chaos/test_change_streams.py
CHAOS_OF_ACCOUNTING := tests/chaos/test_accounting_storm.py
.DEFAULT_GOAL := help
# The tests start hundreds of processes, and each would compile our code anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up doctor test test-fast test-versions test-integration chaos chaos-triggers chaos-accounting mutations upgrade dashboards pictures audit check format coverage constraints clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Messages go to stderr, so that `make -s demo ARGS=--json` prints JSON and nothing else.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Unattended needs Python 3.11 or newer; yours is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >&2 || { rm -rf $(VENV); echo "Could not build .venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) …" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded]' >&2
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing the developers' tools …" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]' >&2
	@touch $@

demo: $(VENV)/.installed ## Everything on this machine in two minutes: four triggers, four runs, the bill
	@$(BIN)/unattended demo $(ARGS)

up: $(VENV)/.installed ## Start servers and all roles, and stay; data is kept in .unattended
	@$(BIN)/unattended up $(ARGS)

doctor: $(VENV)/.installed ## Check settings, servers, packages, models and ports
	@$(BIN)/unattended doctor $(ARGS)

test: $(VENV)/.installed-dev ## All tests: the fast ones on two versions of Python, then those on real servers
	@rm -f $(SKIPS); UNATTENDED_TEST_SKIPS=$(SKIPS) $(MAKE) --no-print-directory test-fast test-versions test-integration; \
	  code=$$?; $(BIN)/python -m tests.skipped $(SKIPS); exit $$code

test-fast: $(VENV)/.installed-dev ## Tests without servers and other programs
	@$(BIN)/pytest -q -n auto tests/unit tests/contracts $(ARGS)

test-versions: $(VENV)/.installed-dev ## The same on the oldest and the newest Python of 3.11 to 3.13 that is here
	@$(BIN)/python -m tests.pythons | while read -r version python; do echo "fast tests on Python $$version" >&2; \
	  $(MAKE) --no-print-directory test-fast VENV=.venv-$$version PYTHON=$$python </dev/null || exit 1; done

test-integration: $(VENV)/.installed-dev ## Tests on real Redis, MongoDB and Celery, started by the suite; and with programs
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/e2e tests/chaos tests/integration tests/tools $(ARGS)

chaos: $(VENV)/.installed-dev ## The long storms: kills, pauses and outages at random; 500 examples of each property; some 20 minutes
	@UNATTENDED_TEST_LONG=1 $(AT_MOST) $(BIN)/pytest -q -n auto -m hypothesis tests/unit tests/contracts
	@UNATTENDED_TEST_LONG=1 $(AT_MOST) $(BIN)/pytest -q --session-timeout=1140 tests/chaos $(foreach file,$(CHAOS_OF_TRIGGERS) $(CHAOS_OF_ACCOUNTING),--ignore=$(file)) $(ARGS)

chaos-triggers: $(VENV)/.installed-dev ## The same for clocks and changes: 10,000 ticks, 100,000 events; at most 30 minutes
	@UNATTENDED_TEST_LONG=1 $(BIN)/pytest -q --session-timeout=1800 $(CHAOS_OF_TRIGGERS) $(ARGS)

chaos-accounting: $(VENV)/.installed-dev ## The same for the ledger: 1,000 runs and 20 kills against a model server that counts; some 5 minutes
	@UNATTENDED_TEST_LONG=1 $(BIN)/pytest -q --session-timeout=900 $(CHAOS_OF_ACCOUNTING) $(ARGS)

mutations: $(VENV)/.installed-dev ## Put small errors into the product, one at a time, and see which tests notice; an hour (ARGS=--fast: ten minutes)
	@$(BIN)/python -m tests.mutations $(ARGS)

upgrade: $(VENV)/.installed-dev ## This version and that of FROM=<commit> side by side on the same runs, with kills; half a minute
	@$(BIN)/python -m tests.integration.upgrade.side_by_side $(FROM)

dashboards: $(VENV)/.installed-dev ## Write the dashboards' JSON anew from their source
	@$(BIN)/python -m ops.dashboards $(ARGS)

pictures: $(VENV)/.installed-dev ## Draw the pictures of the dashboards anew, from a product that is busy; some five minutes
	@UNATTENDED_TEST_PICTURES=240 $(BIN)/pytest -q -p no:xdist tests/e2e/test_dashboards.py $(ARGS)

audit: $(VENV)/.installed ## Ask the package index which of the pinned versions have known weaknesses
	@$(PYTHON) -m venv $(VENV)-audit && $(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	@$(VENV)-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict $(ARGS)

check: $(VENV)/.installed-dev ## Lint, types and import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed-dev ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

coverage: $(VENV)/.installed-dev ## Fast tests with branch coverage
	@$(BIN)/pytest -q tests/unit tests/contracts --cov --cov-report=term-missing:skip-covered

constraints: $(VENV)/.installed-dev ## Pin what is installed now: versions only, no addresses
	@$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools > constraints.txt

clean: ## Remove .venv and caches; data in .unattended stays
	@rm -rf $(VENV) $(VENV)-* .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info build dist
