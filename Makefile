# Two commands on a fresh machine: `make demo` and `make test`. They need Python 3.11 or newer (with venv), make and a
# C compiler; everything else is installed into .venv from requirement files in which every package is locked by hash.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STARTED_AT := $(shell date +%s)
# one file per target platform would be missing after a half-finished install; this one is written last
STAMP := $(VENV)/.installed

# the shell this was started from may configure pip and uv for other projects (--user, --target, constraints, …): only
# what says how to reach a package index is passed on
INDEX_SETTINGS := PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT PIP_CLIENT_CERT PIP_PROXY PIP_TIMEOUT \
    PIP_DEFAULT_TIMEOUT PIP_RETRIES PIP_CACHE_DIR PIP_KEYRING_PROVIDER PIP_CONFIG_FILE \
    UV_DEFAULT_INDEX UV_INDEX_URL UV_INDEX UV_EXTRA_INDEX_URL UV_CACHE_DIR UV_HTTP_TIMEOUT UV_NATIVE_TLS UV_SYSTEM_CERTS \
    UV_INSECURE_HOST UV_KEYRING_PROVIDER UV_CONFIG_FILE UV_LINK_MODE UV_CONCURRENT_DOWNLOADS
$(foreach name,$(filter-out $(INDEX_SETTINGS),$(filter PIP_% UV_%,$(.VARIABLES))),$(eval unexport $(name)))
# the same for Python itself; without bytecode files every start of Airflow or dbt would compile thousands of modules anew
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE PYTHONSAFEPATH VIRTUAL_ENV CONDA_PREFIX __PYVENV_LAUNCHER__
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PATH := $(BIN):$(PATH)

.PHONY: help demo questions docs real test fuzz chaos lint audit up down bi-superset bi-superset-down bi-clients bench bench-agent lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## two weeks of 60 made-up GPUs through Airflow's own DAG runs, published, mailed, compared with the planted truth
	@GPU_NET_STARTED_AT=$(STARTED_AT) $(BIN)/python -m demo

questions: $(STAMP) ## ten questions people ask of a fleet, with the SQL and the answer, on the demo's published database (after `make demo`)
	@GPU_NET_HOME=$(CURDIR)/.demo/data $(BIN)/python -m warehouse questions

docs: $(STAMP) ## every model, column, test, reader and metric as one page, build/docs.html
	@$(BIN)/python -m warehouse docs

real: $(STAMP) ## the same path on the real captures of ../shared/data/real, each system its own cluster
	@$(BIN)/python -m tests.real.run

# in the order of the folders: the long ones, which build warehouses, come first and the quick ones fill the gaps
test: $(STAMP) ## run all tests; those that need a server or a capture that is not here skip and say so
	@$(BIN)/python -m pytest tests -n 3 --dist loadfile --no-loadscope-reorder

fuzz: $(STAMP) ## damage every collector's input at random for an hour (FUZZ_SECONDS=3600), captures included where they are here
	@GPU_NET_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest tests/unit/collectors/bad_input/test_fuzzed.py -n 2

FUZZ_SECONDS := 3600

chaos: $(STAMP) ## kill -9 at CHAOS_KILLS=200 random moments of every step while readers look; the seed is printed, CHAOS_SEED=… repeats it
	@GPU_NET_CHAOS=1 $(BIN)/python -m pytest -q tests/crash/test_disk_is_full.py
	@$(BIN)/python -m tests.crash.chaos --kills $(CHAOS_KILLS) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

CHAOS_KILLS := 200

lint: $(STAMP) ## ruff (lint and format), mypy, sqlfluff, as pre-commit and CI do; known vulnerabilities where a network tells of them
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/sqlfluff lint --nocolor --disable-progress-bar --processes 2 dbt_project/models
	@$(MAKE) audit

audit: $(STAMP) ## known vulnerabilities of the locked packages, by pip-audit; skipped where no advisory service answers (AUDIT_REQUIRED=1: fails)
	@$(BIN)/python -m tests.project.audit

up: $(STAMP) ## start Airflow here (SQLite, this project's DAGs), print address and login
	@$(BIN)/python -m dags.local.standalone up

down: $(STAMP) ## end the Airflow that `make up` started
	@$(BIN)/python -m dags.local.standalone down

bi-superset: $(STAMP) ## Apache Superset over the published database, with the dashboard: environment of its own, address, login
	@$(BIN)/python -m warehouse.superset up

bi-superset-down: $(STAMP) ## end the Superset that `make bi-superset` started
	@$(BIN)/python -m warehouse.superset down

bi-clients: $(STAMP) ## read in every client and version (duckdb, SQLAlchemy, Polars, pandas, JavaScript) while 50 versions are published
	@$(BIN)/python -m tests.integration.clients.campaign

bench: $(STAMP) ## time landing and building one day of 1,000 GPUs against DuckDB's own scan, and a day after sixty days of history against the second
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.history

bench-agent: $(STAMP) ## what the nvml agent costs a host of 8 GPUs read every second: processor, memory, landing
	@$(BIN)/python -m bench.agent

lock: $(STAMP) ## renew the locked requirement files from pyproject.toml
	@printf 'uv\nsetuptools>=77\n' | $(COMPILE) --universal - -o requirements/bootstrap.txt
	@printf 'pip-audit>=2.9\n' | $(COMPILE) --universal - -o requirements/audit.txt
	@$(COMPILE) --universal pyproject.toml --all-extras -o requirements/dev.txt
	@$(COMPILE) --universal pyproject.toml -c requirements/dev.txt -o requirements/base.txt
	@$(COMPILE) --universal pyproject.toml --extra warehouse -c requirements/dev.txt -o requirements/warehouse.txt
	@$(COMPILE) --universal pyproject.toml --extra warehouse --extra airflow -c requirements/dev.txt -o requirements/airflow.txt
	@printf '%s\n' $(SUPERSET) | $(COMPILE) --universal - -o requirements/superset.txt

# an environment of its own: Superset wants other versions of what both use
SUPERSET := apache-superset==6.1.0 duckdb-engine==0.17.0 duckdb==2.0.1 rich cachetools flask-caching==2.3.1 \
    selenium

COMPILE := $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras

clean: ## remove what can be made again: .venv, caches, .bi, .demo, .real, dbt's artifacts (never GPU_NET_HOME)
	@rm -rf $(VENV) .bi .demo .real .mypy_cache .ruff_cache .pytest_cache .hypothesis dbt_project/target dbt_project/logs *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# redone when a lock changes; a half-built or broken .venv is built anew
$(STAMP): requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	@set -e; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    python=; \
	    for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	        if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
	        then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "GPU Net needs Python 3.11, 3.12 or 3.13 with its venv module (Debian: apt-get install python3-venv);" >&2; \
	        echo "none was found. If it lies elsewhere: make PYTHON=/path/to/python3.11 …" >&2; exit 1; \
	    fi; \
	    echo "building $(VENV) with $$($$python --version); the first time takes some minutes"; \
	    "$$python" -m venv --clear $(VENV); \
	fi; \
	index=$$($(BIN)/python -m pip config list 2>/dev/null | sed -n "s/^[a-z:]*\.index-url='\(.*\)'$$/\1/p" | tail -n 1); \
	if [ -n "$$index" ] && [ -z "$$UV_DEFAULT_INDEX$$UV_INDEX_URL" ]; then export UV_DEFAULT_INDEX="$$index"; fi; \
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/bootstrap.txt; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	touch $(STAMP)
