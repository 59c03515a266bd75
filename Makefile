# Every target sets itself up: a machine needs only Python 3.11 or later, make and a package registry.
# uv does the installing where it is at hand, venv and pip where it is not.
#   make test ARGS="-k lease"        passes arguments on to pytest
#   make setup PYTHON3=python3.12    picks the interpreter

PYTHON3 ?= $(shell scripts/pythons default)
PYTHON  := .venv/bin/python
READY   := .venv/.ready
UV      := $(shell command -v uv)
ARGS    ?=
PART    ?=
# Tests start hundreds of Python processes; without bytecode each one compiles the sources anew.
export PYTHONDONTWRITEBYTECODE =
# Tests spend much of their time waiting for servers and clocks; those that need the machine for
# themselves are marked `alone`.
IN_PARALLEL := -n 4 --dist worksteal
# What may differ between Pythons. The rest is about servers, SQL and browsers, and is tried on one.
ON_EVERY_PYTHON := $(addprefix tests/,after_commit client domain drivers frameworks jobs notifiers \
	observers providers runtime/test_cancellation.py stores testing typing worker test_app.py) \
	$(addprefix --ignore=tests/stores/,postgres test_migrations.py test_statements.py) \
	-m "not slow and not alone and not long" \
	-k "not second_postgres and not (test_conformance and postgres) and not pgbouncer and not mongodb and not redis and not valkey and not nats"
# Policy that is the same on every PostgreSQL is tried on one, without a pooler.
NOT_AGAIN := -k "not ((second_postgres or pgbouncer) and (schedule or key_turns or rates or holds or limit_changes or job_keys or queue_states))"
# $(call pytest,INTERPRETER,OPTIONS): 5 says that ARGS left no test of this part, which is fine.
pytest = $(1) -m pytest $(2) $(ARGS) || [ $$? -eq 5 ]

# $(call install,ENVIRONMENT,INTERPRETER,REQUIREMENTS): make the environment and put headway into it.
ifdef UV
define install
	uv venv --quiet --allow-existing --python "$(2)" $(1)
	uv pip install --quiet --python $(1)/bin/python -r $(3)
	uv pip install --quiet --python $(1)/bin/python --no-deps --no-build-isolation --editable .
	@touch $(1)/.ready
endef
else
define install
	"$(2)" -m venv $(1)
	$(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r $(3)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(1)/.ready
endef
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all test-all-pythons test-newest-python no-other-python check format sync docs house picture bench bench-peers soak growth prove prove-short clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

setup: $(READY) ## make .venv with everything a developer needs

demo: .venvs/demo/.ready ## see it work, with the core's dependencies only
	@PYTHONPATH=src .venvs/demo/bin/python examples/demo.py

test: $(READY) ## run the tests that guard behaviour, on real servers, in five minutes
	$(call pytest,$(PYTHON),--durations=20 $(IN_PARALLEL) -m "not alone and not long")
	$(call pytest,$(PYTHON),-m "alone and not long")

test-all: $(READY) ## run the other tests: long races, PostgreSQL through PgBouncer, the short proof
	$(call pytest,$(PYTHON),-m "alone and long")
	$(call pytest,$(PYTHON),--durations=20 $(IN_PARALLEL) -m "long and not alone" $(NOT_AGAIN))

check: $(READY) ## format, lint, types and import layers, without changing a file
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m pyright --warnings
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo

format: $(READY) ## format the code and repair what the linter can
	$(PYTHON) -m ruff format
	$(PYTHON) -m ruff check --fix

sync: $(READY) ## make the sync client from the async one
	$(PYTHON) -m scripts.make_sync

docs: $(READY) ## make the site in build/docs; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

house: $(READY) ## report how the source tree is laid out; ARGS=--no-run reads the source only
	$(PYTHON) -m scripts.house $(ARGS)

picture: $(READY) ## draw which package imports which, as docs/internals/house.md
	$(PYTHON) -m scripts.house_picture

.PHONY: dist
dist: $(READY) ## build sdist and wheel in dist, and check them
	rm -rf dist
	$(PYTHON) -m hatchling build -d dist
	TEST_DISTRIBUTIONS=dist $(PYTHON) -m pytest tests/packaging

bench: $(READY) ## measure
	$(PYTHON) -m benchmarks $(ARGS)

bench-peers: $(READY) ## measure beside other queues, each in an environment of its own; takes an hour
	$(PYTHON) -m benchmarks.peers $(ARGS)

soak: $(READY) ## a million jobs with retention on: whether speed, size and memory stay
	$(PYTHON) -m benchmarks.soak $(ARGS)

growth: $(READY) ## speed by workers, queues, payloads and retained rows; writes docs/growth.md
	$(PYTHON) -m benchmarks.growth $(ARGS)

prove: $(READY) ## prove it under kills, crashes and cuts, in 20 minutes; PART="kill sim" for parts of it
	$(PYTHON) -m proof $(PART) $(ARGS)

prove-short: $(READY) ## the same with less of everything, in 3 minutes
	$(PYTHON) -m proof $(PART) --short $(ARGS)

test-all-pythons: ## run the fast tests on every supported Python at hand
	@echo "Pythons at hand:"; scripts/pythons
	@$(MAKE) --no-print-directory $(addprefix fast-tests-on-,$(shell scripts/pythons | cut -d ' ' -f 1))

test-newest-python: $(READY) ## run the fast tests on the newest Python at hand besides that of .venv
	@echo "Pythons at hand:"; scripts/pythons
	@$(MAKE) --no-print-directory $(or $(addprefix fast-tests-on-,$(lastword $(filter-out \
		$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'), \
		$(shell scripts/pythons | cut -d ' ' -f 1)))),no-other-python)

no-other-python:
	@echo "No other supported Python is at hand: the tests ran on one only."

fast-tests-on-%: .venvs/py%/.ready
	@echo "== the fast tests on Python $* =="
	$(call pytest,.venvs/py$*/bin/python,-q $(IN_PARALLEL) $(ON_EVERY_PYTHON))

clean: ## remove everything that was made here
	rm -rf .venv .venvs build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# Seconds instead of minutes: two packages, no build of Headway, and no pip of its own where the
# interpreter's pip can install into another environment.
.venvs/demo/.ready: requirements/core.txt
ifdef UV
	@uv venv --quiet --allow-existing --python "$(PYTHON3)" .venvs/demo
	@uv pip install --quiet --python .venvs/demo/bin/python -r $<
else
	@"$(PYTHON3)" -m venv --without-pip .venvs/demo
	@"$(PYTHON3)" -m pip --python .venvs/demo/bin/python install --quiet --disable-pip-version-check -r $< 2>/dev/null || { \
		"$(PYTHON3)" -m venv .venvs/demo && \
		.venvs/demo/bin/python -m pip install --quiet --disable-pip-version-check -r $<; }
endif
	@touch $@

$(READY): requirements/dev.txt requirements/docs.txt requirements/test.txt requirements/core.txt pyproject.toml
	$(call install,.venv,$(PYTHON3),requirements/dev.txt)

.PRECIOUS: .venvs/py%/.ready
.venvs/py%/.ready: requirements/test.txt requirements/core.txt pyproject.toml
	$(call install,.venvs/py$*,$(shell scripts/pythons | sed -n 's/^$* //p'),requirements/test.txt)
