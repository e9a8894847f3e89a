# Everything lives in .venv. Each target sets up what it needs first; the second time that costs nothing.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
.DEFAULT_GOAL := help

.PHONY: help demo test lint soak clean

help:
	@echo "make demo    a supervised agent on a small task (set-up included)"
	@echo "make test    all tests"
	@echo "make lint    ruff and mypy"
	@echo "make soak    the long forms of the tests (fuzzing, histories)"
	@echo "make clean   remove .venv and everything that was built"

# A stamp per set of packages, so that an unchanged pyproject.toml installs nothing.
$(BIN)/python:
	@echo "==> creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "humanlayer-agent needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml | $(BIN)/python
	@echo "==> installing humanlayer-agent into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.test: pyproject.toml | .venv/.run
	@echo "==> installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch .venv/.run $@

.venv/.lint: pyproject.toml | .venv/.run
	@echo "==> installing ruff and mypy"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint]'
	@touch .venv/.run $@

demo: .venv/.run
	@$(BIN)/hla demo

test: .venv/.test
	@echo "==> running the tests"
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

lint: .venv/.lint
	@echo "==> ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "==> mypy"
	@$(BIN)/mypy

soak: .venv/.test
	@echo "==> running the long forms of the tests"
	@HLA_SOAK=1 $(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
