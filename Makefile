# Needs python3 >= 3.11 with its venv module, and make; everything else goes into .venv, pinned by
# constraints.txt. Each stage installs only what its targets need, so that `make demo` is quick.
#
#   make demo     run the main job, kill it half-way, resume it, check the result
#   make test     the test suite
#   make check    what CI runs: format, lint, types, layers, tests, docs snippets, the wheel
#   make help     all targets

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help setup setup-test setup-dev demo test check format fix lint types mypy pyright layers docs wheel-test \
        bench soak test-all cover clean guarantees

VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q -W error
PINS := pyproject.toml constraints.txt
SOAK_SECONDS ?= 900

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

help:
	@sed -n 's/^#  *\(make .*\)/\1/p' Makefile
	@echo 'make soak     the minutes-long tests, up to SOAK_SECONDS ($(SOAK_SECONDS))'
	@echo 'make bench    the benchmarks, against their peers'
	@echo 'make cover    the tests with branch coverage'
	@echo 'make test-all the tests on each of Python 3.12 and 3.13 that is found'
	@echo 'make guarantees  render docs/guarantees.md from the tests'
	@echo 'make fix      format, and repair what the linter can'
	@echo 'make format lint types layers docs wheel-test    single parts of check'
	@echo 'make setup setup-test setup-dev clean'

# --- environments ---------------------------------------------------------------------------
# A stamp is newer than the pins it was installed from; a larger stage includes the smaller ones.

setup: $(VENV)/.run
setup-test: $(VENV)/.test
setup-dev: $(VENV)/.dev

define NO_PYTHON
trouper needs Python 3.11 or newer with its venv module, and found none.
  Debian, Ubuntu: apt-get install python3 python3-venv
  elsewhere: make PYTHON=/path/to/python3 ...
endef
export NO_PYTHON

$(VENV)/bin/pip:
	@for py in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if $$py -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then echo "setting up $(VENV) with $$($$py --version) (once)"; exec $$py -m venv $(VENV); fi; \
	done; echo "$$NO_PYTHON" >&2; exit 1

$(VENV)/.run: $(PINS) | $(VENV)/bin/pip
	@$(PY) -m pip install -qq --upgrade pip
	@$(PY) -m pip install -qq -e '.[cli]'
	@touch $@

$(VENV)/.test: $(PINS) | $(VENV)/.run
	@$(PY) -m pip install -qq -e '.[asyncio,cli,otel,testing]' --group test
	@touch $(VENV)/.run $@

$(VENV)/.dev: $(PINS) | $(VENV)/.run
	@$(PY) -m pip install -qq -e '.[asyncio,cli,otel,testing]' --group dev
	@touch $(VENV)/.run $(VENV)/.test $@

# --- running --------------------------------------------------------------------------------

demo: $(VENV)/.run
	@$(PY) examples/demo.py

test: $(VENV)/.test
	@$(PYTEST)

# The suite runs once even as `make test check`: make builds a target once.
check: format lint types layers test wheel-test
	@echo 'check: all green'

format: $(VENV)/.dev
	@$(VENV)/bin/ruff format -q --check || { echo 'format: run make fix' >&2; exit 1; }

lint: $(VENV)/.dev
	@$(VENV)/bin/ruff check -q

fix: $(VENV)/.dev
	@$(VENV)/bin/ruff check -q --fix-only
	@$(VENV)/bin/ruff format -q

types: mypy pyright

mypy: $(VENV)/.dev
	@$(VENV)/bin/mypy

pyright: $(VENV)/.dev
	@$(VENV)/bin/pyright --warnings

layers: $(VENV)/.dev
	@$(VENV)/bin/lint-imports --cache-dir .import_linter_cache >.import_linter_cache.log 2>&1 \
	  || { cat .import_linter_cache.log; exit 1; }

guarantees: $(VENV)/.run
	@$(PY) tests/house/guarantees.py

docs: $(VENV)/.test
	@$(PYTEST) tests/docs

wheel-test: $(VENV)/.dev
	@$(PY) tests/house/wheel.py

soak: $(VENV)/.test
	@$(PYTEST) -m soak --soak-seconds=$(SOAK_SECONDS)

cover: $(VENV)/.dev
	@rm -f .coverage .coverage.*
	@$(PY) -m coverage run -m pytest -q -W error
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report

test-all: test
	@set -e; for version in 3.12 3.13; do \
	  if ! python$$version -c '' 2>/dev/null; then echo "python$$version: not found, left out"; continue; fi; \
	  $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON=python$$version; \
	done

bench: .venv-bench/.bench
	@status=0; for file in benchmarks/*.py; do \
	  echo "== $$file"; .venv-bench/bin/python $$file || status=1; \
	done; exit $$status

.venv-bench/.bench: $(PINS)
	@$(MAKE) --no-print-directory setup VENV=.venv-bench
	@.venv-bench/bin/python -m pip install -qq --group bench
	@touch $@

clean:
	rm -rf .venv .venv-* build dist .demo .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache* .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
