# Everything lives in this folder: Python's packages in .venv, data and downloads in .mistbow.
# Needed: Python 3.11+, Java 17+, make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench docs

run: .venv/stamp ## start the suite on this machine
	$(BIN)/mistbow run

test: .venv/stamp ## run every test
	$(BIN)/mistbow setup
	$(BIN)/pytest -n 2 --dist loadfile

lint: .venv/stamp ## check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/stamp ## measure
	$(BIN)/mistbow setup
	$(BIN)/python -m benchmarks

docs: .venv/stamp ## check the links and the examples of the documents
	$(BIN)/python docs/check.py

.venv/stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Mistbow needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
