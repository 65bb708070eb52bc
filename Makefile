# `make train` and `make test` do all set-up by themselves; `make help` tells the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
NP ?= 2
ARGS ?=

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PYTHON
export FASTHVD_PYTHON := $(BIN)/python

# Bazel and pip keep their caches under HOME; give them one if there is none to write to.
ifeq ($(shell test -d "$${HOME:-}" -a -w "$${HOME:-}" && echo usable),)
export HOME := $(CURDIR)/build/home
$(shell mkdir -p "$(HOME)")
endif

# Folders are listed too: their time changes when a file goes.
SOURCES := $(shell find setup.py pyproject.toml .bazelrc WORKSPACE BUILD \
  third_party runtime ops kernels tf_fasthvd \
  -not -path '*/__pycache__*' -not -path '*/.*.sw?' -not -name _build_info.py -not -name fasthvd_lane -not -name '*.so')
CC_SOURCES = $(shell find runtime ops kernels tests -name '*.h' -o -name '*.cc' -o -name '*.inc')
PY_SOURCES := .

VENV_READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed

# A virtual environment does not survive a move of this folder, so its stamp tells where it was made.
ifneq ($(shell cat $(VENV_READY) 2>/dev/null),$(CURDIR))
.PHONY: $(VENV_READY)
endif

.PHONY: train test benchmark format lint wheel clean help
.PHONY: install test-cc test-python packages-build packages-test packages-benchmark

train: packages-build $(INSTALLED)  ## Train the example: make train NP=4 ARGS=--epochs=2
	$(BIN)/horovodrun -np $(NP) $(BIN)/python examples/keras_train.py $(ARGS)

test: packages-test lint test-cc test-python  ## Lint, then all C++ and Python tests

benchmark: packages-benchmark $(INSTALLED)  ## Measure against stock Horovod
	bash benchmarks/run.sh $(ARGS)

install: packages-build $(INSTALLED)  ## Build, and install into .venv

lint: $(VENV_READY)  ## Check the format and the usual mistakes
	$(BIN)/ruff check $(PY_SOURCES)
	$(BIN)/ruff format --check $(PY_SOURCES)
	@echo $(CC_SOURCES) | xargs -r $(BIN)/clang-format --dry-run -Werror

format: packages-build $(VENV_READY)  ## Format all sources
	$(BIN)/ruff check --select I --fix $(PY_SOURCES)
	$(BIN)/ruff format $(PY_SOURCES)
	@echo $(CC_SOURCES) | xargs -r $(BIN)/clang-format -i

test-cc:  ## C++ tests: plain, under Address- and UBSanitizer, under ThreadSanitizer
	bazel test //tests/runtime/...
	bazel test --config=asan //tests/runtime/...
	bazel test --config=tsan //tests/runtime/...

test-python: $(INSTALLED)  ## Python tests, on the installed package: make test-python ARGS=-x
	$(BIN)/pytest $(ARGS)

wheel: packages-build $(VENV_READY)  ## Make a wheel in dist/
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	ls dist/*.whl

clean:  ## Remove what was built, the caches and .venv
	@! command -v bazel >/dev/null || bazel clean --expunge
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache

help:  ## Print this list
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/:.*  ## /\t/' | expand -t 14

packages-build packages-test packages-benchmark: packages-%:
	@tools/system_packages.sh $*

$(VENV_READY): requirements-build.txt requirements.txt requirements-dev.txt tools/make_venv.sh
	@echo "Installing the Python requirements into $(VENV) (once, about a minute) …"
	@rm -f $(INSTALLED)
	@tools/make_venv.sh $(VENV)
	@pwd >$@

# The stamp gets the time of the start: what changes meanwhile is built the next time.
$(INSTALLED): $(VENV_READY) $(SOURCES)
	@echo "Building and installing tf_fasthvd (the first time: a few minutes) …"
	@touch $@.started
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-build-isolation --no-deps --force-reinstall .
	@mv $@.started $@
