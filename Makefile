# Every target sets up what it needs in .venv; nothing has to be activated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.demo-installed
DOCS_STAMP := $(VENV)/.docs-installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint types docs fuzz mutants bench overview dist clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The core and matplotlib: a minute rather than the gigabytes of the tests' tools.
$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[report]'
	@touch $@

# What is installed here suffices for the demonstration as well.
$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@ $(DEMO_STAMP)

demo: $(DEMO_STAMP)  ## align two halves of the digits, print what improved, draw pictures
	$(BIN)/python -m harmonicalign.demo

# One process per core and one thread in each: quicker than the other way round.
test: $(STAMP)  ## run all tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile $(PYTEST)

lint: $(STAMP)  ## style checks, and a look for what is unsafe
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/bandit --quiet --recursive --severity-level medium src

types: $(STAMP)  ## static types of src/, strictly
	$(BIN)/mypy

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@

docs: $(DOCS_STAMP)  ## build the documentation in docs/_build/html; warnings are errors
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

fuzz: $(STAMP)  ## 10,000 random cases; every one must end in a result or in a clear error
	$(BIN)/python fuzz/run.py --cases 10000

mutants: $(STAMP)  ## change the core stages bit by bit and see whether the tests notice (40 minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/mutmut run
	$(BIN)/mutmut results

bench: $(STAMP)  ## time and memory of aligning pairs of MNIST samples
	$(BIN)/python benchmarks/pairs.py

overview: $(STAMP)  ## draw the picture on the landing page of the documentation and in the README
	$(BIN)/python docs/overview.py

dist: $(STAMP)  ## build wheel and sdist in dist/, check them and list what is in them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m zipfile -l dist/*.whl
	$(BIN)/python -m tarfile -l dist/*.tar.gz

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) demo-output docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants
