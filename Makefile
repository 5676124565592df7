# Two promises: `make demo` and `make test` set up everything they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Byte code is kept, whatever the caller's environment says, and apart from the sources: without it every process of every
# test compiles all that it imports anew, which was half of the time of many tests.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode

.PHONY: help demo test test-all lint types bench figures docs locks clean setup

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(READY) ## build the environment in .venv

$(READY): pyproject.toml hatch_build.py requirements-tools.lock requirements-dev.lock requirements-java.lock
	@echo "building $(VENV): the first time a download of about 1 GB"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-tools.lock
	@# PySpark is published as source only. pip keeps the wheel that it built; uv would build it for each environment.
	@sed -n '/^pyspark==/,/[^\\]$$/p' requirements-dev.lock > $(VENV)/pyspark.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-compile --require-hashes -r $(VENV)/pyspark.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements-dev.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation-package lockref -e .
	@$(BIN)/python -m lockref.java || $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements-java.lock
	@touch $@

demo: $(READY) ## simulate, contend on a real S3 server, report through Spark
	$(BIN)/lockref demo

# Three workers on two cores: a quarter of a worker's time it waits, for servers, leases and timeouts.
# Without --max-worker-restart=0 pytest-xdist waits for ever once a worker process has died (loadgroup, 3.8.0).
test: $(READY) ## everything that is not long, in about twelve minutes on two cores
	$(BIN)/python -m pytest -n 3 --dist loadgroup --max-worker-restart=0 -q -m "not long"

test-all: test ## and the slow lanes: long tests, all examples, forty kills, every correct lock and every expectation over many seeds
	$(BIN)/python -m pytest -n 3 --dist loadgroup --max-worker-restart=0 -q -m long
	$(BIN)/python -m pytest -n 3 --dist loadgroup --max-worker-restart=0 -q --hypothesis-profile thorough tests/properties
	$(BIN)/python -m tests.quality.kills --times 40
	$(BIN)/python -m tests.quality.planted.correct_locks 10
	$(BIN)/lockref scenario test

lint: $(READY) ## ruff
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

bench: $(READY) ## ratios, measured in one run
	$(BIN)/python -m tests.bench

figures: $(READY) ## the pictures of docs/delta.md and docs/helix.md, computed and drawn, in .lockref/figures
	$(BIN)/lockref delta figures
	$(BIN)/lockref cluster figures

docs: $(READY) ## what is generated (JSON schema, table of faults, examples in guides), then the site, in .lockref/site
	$(BIN)/lockref scenario schema --output scenarios/schema.json
	$(BIN)/python -m tests.docs.embed
	$(BIN)/python -m tests.docs.clause_pictures
	$(BIN)/python -m tests.docs.promise_picture
	$(BIN)/python -m tests.docs.sessions
	$(BIN)/python -m docs.site .lockref/site

LOCK := $(BIN)/uv pip compile -q pyproject.toml --extra all --universal --generate-hashes --no-header --no-emit-index-url

locks: $(READY) ## the pinned packages, after a change of pyproject.toml; versions that still fit stay
	$(LOCK) -o requirements.lock > /dev/null
	$(LOCK) --group dev -o requirements-dev.lock > /dev/null

clean: ## remove the environment and all results
	rm -rf $(VENV) .lockref .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
