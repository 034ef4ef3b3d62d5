# All files stay in this folder: Python packages in .venv, data and downloads in .mistbow.
# Required: Python 3.11+, Java 17+, make.

PYTHON ?= python3
BIN := .venv/bin

# BASE: the base of an image: a public Python image, or `mistbow-base` after `make base`. Without BASE,
# an image keeps its former base; the first one has python:3.12-slim-bookworm.
ON_BASE = $(if $(BASE),--base $(BASE))

.PHONY: run unit integration e2e test retest coverage crash handovers scenarios adaptation chaos fuzz lint style types bench docs reference base images role-images sbom identities up down

run: .venv/stamp ## start all services on this machine
	$(BIN)/mistbow run

unit: .venv/stamp ## run the tests that start no process: no Java, no set-up, under a minute
	$(BIN)/pytest -q -n 2 --hypothesis-profile=quick -m "unit and not alone and not soak"

integration: .venv/stamp ## run the tests that start Ignite, Spark or other processes
	$(BIN)/mistbow setup
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "integration and not alone and not soak"

e2e: .venv/stamp ## run the tests of the whole suite, and of containers
	$(BIN)/mistbow setup
	$(BIN)/pytest -m "e2e and not soak"

# With RETEST=1, the failed tests of at most five files run again, one at a time, and may pass then:
# a service that does not start fails all tests of its file. An interrupted run, whose status is not
# 1, has failed.
OTHERWISE = $(if $(RETEST),|| { test $$? = 1 && $(MAKE) retest; })

test: .venv/stamp ## run all tests except the soaks, at all three speeds
	$(BIN)/mistbow setup
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=60 -m "not alone and not soak" $(OTHERWISE)
	$(BIN)/pytest --durations=10 -m "alone and not soak" $(OTHERWISE)

retest: .venv/stamp ## run the failed tests of the last run again, one at a time
	@$(BIN)/python -c 'import json; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
		print("Failed, and run again alone:", *sorted(failed), sep="\n"); \
		assert len({test.split("::")[0] for test in failed}) <= 5, "too many files failed to blame the load"'
	$(BIN)/pytest --last-failed --last-failed-no-failures=none -m "not soak"

coverage: .venv/stamp ## run the unit and the integration tests, and report the coverage of lines and branches
	$(BIN)/mistbow setup
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term:skip-covered \
		-m "not e2e and not alone and not soak"

# Without Docker, an image or a program, tests fail here: a skipped soak would pass without a test.
crash: export MISTBOW_NEEDS_DOCKER = 1
crash: .venv/stamp ## test durability with kills, freezes, a full disk and power cuts (as root)
	$(BIN)/mistbow setup
	MISTBOW_ROUNDS=50 MISTBOW_FROZEN_S=60 MISTBOW_CUT_REPLIES=1000 MISTBOW_EXAMPLES=400 \
		$(BIN)/pytest -rA tests/storage_agent/crashes
	MISTBOW_ROUNDS=10 $(BIN)/pytest -rA tests/storage_agent/cluster
	MISTBOW_ROUNDS=20 $(BIN)/pytest -rA tests/storage_agent/replication
	$(BIN)/pytest -rA -m soak tests/storage_agent/test_openapi.py
	$(BIN)/pytest -rA -m soak tests/analytics_enabler/domains tests/storage_agent/membership tests/end_to_end
	$(BIN)/pytest -rA -m soak tests/analytics_enabler/live tests/analytics_enabler/execution \
		tests/analytics_enabler/test_quality_checks.py tests/analytics_enabler/test_measured_demands.py
	$(BIN)/pytest -rA -m soak tests/storage_agent/ingest tests/storage_agent/backup tests/ignite_server \
		tests/suite tests/fog_emulation tests/upgrade tests/compatibility
	$(BIN)/pytest -rA -m soak tests/monitoring_agent
	$(BIN)/pytest -rA -m soak tests/mistbow tests/analytics_worker --ignore=tests/analytics_worker/spark

handovers: .venv/stamp ## run 50 handovers of each kind under load, also with kills, and print the pauses
	$(BIN)/mistbow setup
	MISTBOW_HANDOVERS=50 MISTBOW_MAX_PAUSE_S=2 $(BIN)/pytest -rA tests/handovers

scenarios: .venv/stamp ## run each scenario of each Fogify file for MINUTES (5), and compare all results; SCENARIO=tunnel: only this one
	MISTBOW_NEEDS_DOCKER=1 MISTBOW_SCENARIO_S=$$(($(or $(MINUTES),5) * 60)) MISTBOW_SCENARIO_PAGE=benchmarks/results/scenarios.md \
		$(BIN)/pytest -rA -m soak $(if $(SCENARIO),-k $(SCENARIO)) tests/end_to_end/test_fog_scenarios.py

adaptation: .venv/stamp ## change links, batteries, prices, data and load of a fog, and check the placements
	$(BIN)/mistbow setup
	$(BIN)/pytest -rA tests/adaptation
	$(BIN)/pytest -rA -m soak tests/analytics_enabler/scheduling

chaos: .venv/stamp ## inject random faults into four sites for 30 minutes, and compare all results (as root)
	$(BIN)/mistbow setup
	MISTBOW_CHAOS_S=1800 $(BIN)/pytest -rA tests/chaos

fuzz: .venv/stamp ## run thousands of random queries, parse random statements, and wait 50 times for settled results
	$(BIN)/mistbow setup
	$(BIN)/pytest -m soak tests/grammar tests/analytics_worker/spark
	MISTBOW_ROUNDS=50 $(BIN)/pytest -rA tests/analytics_enabler/results/test_settled_results.py
	$(BIN)/pytest -q -n 2 --timeout=3600 --hypothesis-profile=thorough -m "unit and not alone and not soak"

lint: style types ## check style, types and imports between packages

style: .venv/stamp docs ## check style, documents and imports between packages, which takes seconds
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: .venv/stamp ## check types, which takes minutes
	$(BIN)/mypy
	$(BIN)/mypy deploy benchmarks

bench: .venv/stamp ## run the benchmarks
	$(BIN)/mistbow setup
	$(BIN)/python -m benchmarks

docs: .venv/stamp ## check the links and the examples of the documents
	$(BIN)/python docs/check.py

reference: .venv/stamp ## write the tables of settings, metrics and commands from the code
	$(BIN)/python docs/reference.py

base: ## make the image mistbow-base from Debian packages, if no image registry is reachable
	deploy/make_base.sh mistbow-base

images: .venv/stamp ## build the image mistbow on the image BASE
	$(BIN)/python -m deploy image $(ON_BASE)

role-images: .venv/stamp ## build the images mistbow-storage, mistbow-worker and mistbow-enabler
	$(BIN)/python -m deploy image --roles $(ON_BASE)

sbom: .venv/stamp ## write a software bill of materials of each image that was built here into .mistbow/sbom
	$(BIN)/python -m deploy sbom

identities: .venv/stamp ## give each container of the fog its identities and tokens
	$(BIN)/python -m deploy identities

up: .venv/stamp ## start a fog of six sites in containers, and show its insights; TLS=1: with mutual TLS
	$(BIN)/python -m deploy up $(ON_BASE) $(if $(TLS),--tls)

down: .venv/stamp ## remove the fog of make up; IMAGES=1: the images that were built here too
	$(BIN)/python -m deploy down $(if $(IMAGES),--images)

.venv/stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Mistbow needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	# Without --no-deps, pip tries a newer release than the locked one for a dependency with an extra.
	$(BIN)/pip install --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip check --disable-pip-version-check
	touch $@
