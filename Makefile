# Setup and everyday commands. Needs python3 >= 3.11 with venv; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode on disk every process would compile JAX's modules again, 3 seconds each.
unexport PYTHONDONTWRITEBYTECODE
# Lock files are complete, so pip need not look for dependencies; modules are byte-compiled when first imported.
INSTALL := -m pip install -q --disable-pip-version-check --no-deps --no-compile
# One worker process per core, up to eight; each has a few GB of compiled programs. A module's tests
# stay in one worker, where they share compiled programs.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile
COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate pyproject.toml --extra tune --extra tensorboard --extra jaxmarl --extra jumanji --group build

# PyTorch's tests have their own environment, so that nothing else has to install gigabytes of it.
TORCH_VENV := .venv-torch
TORCH := torch==2.13.0
# So does the site, whose generator only reads the source.
DOCS_VENV := .venv-docs

.PHONY: help install install-dev demo test test-all test-torch torture system-tools docs lint lock lock-torch lock-docs bench clean
help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ratiosym needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python3 has no working venv module. On Debian or Ubuntu: apt-get install python3-venv"; exit 2; }

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV) from requirements.lock ..."
	@$(BIN)/python $(INSTALL) --require-hashes -r requirements.lock
	@$(BIN)/python $(INSTALL) --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "Installing test tools into $(VENV) from requirements-dev.lock ..."
	@$(BIN)/python $(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.installed  ## install the package and its dependencies into .venv
install-dev: $(VENV)/.installed-dev  ## also install test and lint tools

demo: $(VENV)/.installed  ## watch MARS learn a task, a few minutes on two cores
	@$(BIN)/ratiosym demo

test: $(VENV)/.installed-dev  ## run the everyday tests
	@$(PYTEST)

# Debian packages for the slow tests: a browser to open reports, and a database for searches on several machines.
# Installed if we are root; otherwise the command is printed.
system-tools:
	@missing=""; \
	command -v chromium >/dev/null || missing="chromium"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing $$missing ..."; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
		echo "Some slow tests need $$missing. On Debian or Ubuntu: sudo apt-get install -y $$missing"; \
	fi

# PyTorch itself is pinned by version only, as its CPU build is a different file on every index. pip finds it
# through PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS.
$(TORCH_VENV)/.installed: requirements-torch.lock pyproject.toml
	@$(PYTHON) -m venv $(TORCH_VENV)
	@echo "Installing PyTorch into $(TORCH_VENV) ..."
	@$(TORCH_VENV)/bin/python $(INSTALL) "$(TORCH)"
	@$(TORCH_VENV)/bin/python $(INSTALL) --require-hashes -r requirements-torch.lock
	@$(TORCH_VENV)/bin/python $(INSTALL) --no-build-isolation -e .
	@$(TORCH_VENV)/bin/python -c 'import torch' || { echo "pip found no CPU build of $(TORCH). Set PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels, or PIP_FIND_LINKS to a directory with the wheel, and try again."; rm -rf $(TORCH_VENV); exit 2; }
	@touch $@

test-torch: $(TORCH_VENV)/.installed  ## run the tests with PyTorch, TorchRL and BenchMARL, in .venv-torch
	@$(TORCH_VENV)/bin/python -m pytest tests_torch

$(DOCS_VENV)/.installed: requirements-docs.lock
	@$(PYTHON) -m venv $(DOCS_VENV)
	@echo "Installing MkDocs into $(DOCS_VENV) from requirements-docs.lock ..."
	@$(DOCS_VENV)/bin/python $(INSTALL) --require-hashes -r requirements-docs.lock
	@touch $@

docs: $(DOCS_VENV)/.installed  ## build the documentation as an offline site: site/index.html
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict
	@echo "Open site/index.html"

test-all: $(VENV)/.installed-dev system-tools test-torch docs  ## run all tests: everyday, slow and PyTorch's
	@$(PYTEST) -m "slow or not slow"

lint: $(VENV)/.installed-dev  ## check style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: | $(BIN)/python  ## update the two lock files
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(COMPILE) -o requirements.lock
	$(COMPILE) --group dev -c requirements.lock -o requirements-dev.lock

lock-torch: | $(BIN)/python  ## update the lock file of test-torch (PIP_FIND_LINKS: directory of PyTorch's CPU wheel)
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --no-emit-package torch $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS),--torch-backend cpu) requirements-torch.in -o requirements-torch.lock

lock-docs: | $(BIN)/python  ## update the lock file of docs
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate requirements-docs.in -o requirements-docs.lock

SECONDS ?= 3600
SEED ?= 0
torture: $(VENV)/.installed-dev  ## inject random faults for SECONDS=3600 with SEED=0; results must not change
	@$(BIN)/python -m tests.torture --seconds $(SECONDS) --seed $(SEED)

bench: $(VENV)/.installed  ## measure speed, as ratios within one run
	@$(BIN)/python -m benchmarks

clean:  ## remove .venv, .venv-torch, .venv-docs, the site and caches
	rm -rf $(VENV) $(TORCH_VENV) $(DOCS_VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build src/*.egg-info
