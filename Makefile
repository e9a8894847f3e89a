# Everything lives in .venv. Each target sets up what it needs first; the second time that costs nothing.
PYTHON ?= python3
BIN := .venv/bin
# Two for each core: many tests wait for terminals, servers and other processes. Not more: each collects all tests and
# imports all modules for itself.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 6 ? 2 * cores : 12)))
# Each worker gets neighbours, which share servers and imports, and takes of another's when it is done.
PARALLEL := -n $(WORKERS) --dist worksteal
.DEFAULT_GOAL := help
# The tests start many hundred interpreters, which would compile the package each, or be of another kind than most.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

.PHONY: help demo test test-all test-doors mutants lint docs pictures soak clean

help:
	@echo "make demo      a supervised agent on a small task (set-up included)"
	@echo "make test      the tests, in a few minutes"
	@echo "make test-all  all tests, with as many examples as CI tries"
	@echo "make test-doors  hooks of Codex, Copilot CLI, OpenCode and Cline, and the MCP gateway, with real programs of others"
	@echo "make test-portable  what needs neither Linux nor a server"
	@echo "make lint      ruff, mypy, which part imports which, names and sizes"
	@echo "make docs      the pages as a site in build/site; every link must lead somewhere"
	@echo "make pictures  draws the pictures of the pages anew, from the real thing"
	@echo "make soak      the long forms of the tests (fuzzing, histories)"
	@echo "make mutants   changes the core in many places; a test must notice nearly every change"
	@echo "make clean     remove .venv and everything that was built"

# A stamp per set of packages, so that an unchanged pyproject.toml installs nothing.
$(BIN)/python:
	@echo "==> creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "humanlayer-agent needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml | $(BIN)/python
	@echo "==> installing humanlayer-agent into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

.venv/.test: pyproject.toml | .venv/.run
	@echo "==> installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch .venv/.run $@

# mypy reads what the tests' helpers and the web inbox import.
.venv/.lint: pyproject.toml | .venv/.test
	@echo "==> installing ruff, mypy and import-linter"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint]'
	@touch .venv/.run $@

.venv/.docs: pyproject.toml | .venv/.run
	@echo "==> installing MkDocs"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch .venv/.run $@

# mini-swe-agent 1 and 2 have the same import name: version 1 is tested in an environment of its own. Our package goes
# there without its dependencies, which would bring version 2.
.venv-mini-v1/.test: pyproject.toml tests/agents/mini_v1/requirements.txt
	@echo "==> installing mini-swe-agent 1.17 into .venv-mini-v1"
	@test -x .venv-mini-v1/bin/python || $(PYTHON) -m venv .venv-mini-v1
	@.venv-mini-v1/bin/python -m pip install --quiet --disable-pip-version-check -r tests/agents/mini_v1/requirements.txt
	@.venv-mini-v1/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Frameworks that adapters are for, all in one environment: what they need is not what we need. They come in 40 s, 0.9 GB.
.venv-adapters/.test: pyproject.toml tests/adapters/requirements.txt
	@echo "==> installing agent frameworks into .venv-adapters"
	@test -x .venv-adapters/bin/python || $(PYTHON) -m venv .venv-adapters
	@.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check -r tests/adapters/requirements.txt
	@.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Harbor needs Python 3.12. Where there is none, its tests say so and are left out.
ifndef PYTHON312
PYTHON312 := $(shell for p in python3.12 python3.13 $(HOME)/.pyenv/versions/3.1[23].*/bin/python; do \
	$$p -c "import venv" 2>/dev/null && echo $$p && break; done)
endif
.venv-harbor/.test: pyproject.toml
ifeq ($(PYTHON312),)
	@echo "==> no Python 3.12 was found: Harbor is not tested (name one with: make PYTHON312=...)"
else
	@echo "==> installing Harbor into .venv-harbor"
	@test -x .venv-harbor/bin/python || $(PYTHON312) -m venv .venv-harbor
	@.venv-harbor/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[harbor]' 'pytest>=8'
	@touch $@
endif

# The environments that the tests run in, made at the same time.
.PHONY: test-environments other-environments
test-environments: .venv/.compiled other-environments
other-environments: .venv-mini-v1/.test .venv-harbor/.test .venv-adapters/.test

# Left to the workers, which begin at the same time, each would compile each module.
.venv/.compiled: .venv/.test
	@echo "==> compiling the tests"
	@$(BIN)/python -m pytest -q --collect-only >/dev/null || true
	@touch $@

demo: .venv/.run
	@$(BIN)/hla demo; code=$$?; \
	echo "From here hla is $(BIN)/hla; after \`. $(BIN)/activate\` it is hla. Next: $(BIN)/hla init"; exit $$code

# One recipe: how much is tried is told by variables (tests/support: extent, remembered).
test: export HLA_REMEMBER = 1
test-all: export HLA_ALL = 1
soak: export HLA_SOAK = 1
test test-all soak:
	@$(MAKE) --no-print-directory -j3 test-environments
	@echo "==> running the tests"
	@folder=$$(mktemp -d) && $(BIN)/python -m pytest -q --basetemp="$$folder/tests" $(PARALLEL) $(ARGS); \
	code=$$?; [ $$code != 0 ] || rm -rf "$$folder"; exit $$code

# What reads, judges, redacts and records needs a shell and nothing else. What the catalog says of programs is held against
# GNU's, which other systems don't have. A test may skip there, also in CI.
PORTABLE := tests/shell tests/policy tests/redaction tests/audit tests/policy_tools \
	--ignore=tests/shell/programs/test_catalog_truth.py
.PHONY: test-portable
test-portable: .venv/.test
	@echo "==> running the portable tests"
	@CI= $(BIN)/python -m pytest -q $(PARALLEL) $(PORTABLE) $(ARGS)

# Coding agents as npm has them, at the versions that what we know of them was learnt from.
build/doors/.installed: tests/hooks/doors.json
	@echo "==> installing coding agents into build/doors"
	@mkdir -p build/doors && cp tests/hooks/doors.json build/doors/package.json
	@npm install --silent --no-fund --no-audit --prefix build/doors && touch $@

# Servers of other people that speak MCP.
build/doors/mcp/.installed: tests/hooks/gateway/public_servers.txt
	@echo "==> installing MCP servers into build/doors/mcp"
	@test -x build/doors/mcp/bin/python || $(PYTHON) -m venv build/doors/mcp
	@build/doors/mcp/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@

test-doors: .venv/.test build/doors/.installed build/doors/mcp/.installed
	@echo "==> running the tests that drive real coding agents, and real MCP servers"
	@HLA_ALL=1 $(BIN)/python -m pytest -q tests/hooks/test_codex.py tests/hooks/test_doors.py \
		tests/hooks/gateway/test_public_servers.py $(ARGS)

mutants: .venv/.test
	@echo "==> running the tests of the core on mutants of it"
	@$(BIN)/python tests/mutants.py $(ARGS)

lint: .venv/.lint
	@echo "==> ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> imports and names"
	@$(BIN)/lint-imports
	@HLA_ALL=1 $(BIN)/python -m pytest -q tests/test_layout.py

# What pages link to lies beside them, as it does in the repository. The variable silences a notice of the theme about its
# successor (MkDocs Material is kept up until May 2027).
SITE := README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs examples policies channels \
	humanlayer_agent/shell/README.md humanlayer_agent/confine/caches.yaml humanlayer_agent/processes/multiplexers.yaml
docs: .venv/.docs
	@echo "==> building the site in build/site"
	@rm -rf build/pages && mkdir -p build/pages && cp -r --parents $(SITE) build/pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pictures: .venv/.test
	@for each in render_pictures render_inbox_pictures render_report_picture render_demo; do \
		PYTHONPATH=. $(BIN)/python docs/$$each.py || exit 1; done

clean:
	rm -rf .venv .venv-mini-v1 .venv-harbor .venv-adapters build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
