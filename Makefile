# Everything needs only python3 (3.11 or newer) with venv and pip; the environment is made in .venv, and updated only
# when pyproject.toml or constraints.txt changes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-dev
DEMO   := $(VENV)/.installed
SITE   := $(VENV)/.installed-docs
# PyTorch is large and only recorders need it, so it has an environment of its own.
TORCH  := .venv-torch
# SimGrid is a package of the system, for the system's Python; tests start that beside their own.
SIMGRID ?= /usr/bin/python3

# With the versions of constraints.txt, also of what builds the package, so that no release of theirs breaks this.
INSTALL := -m pip install --quiet --disable-pip-version-check
PINNED  := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test tests test-torch test-simgrid test-browser check lint fuzz docs pages lists bench bench-compare paper validation traces constraints clean

help:            ## list the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(DEMO)    ## plan, replay, Gantt chart and comparison on bundled traces, into demo/
	$(BIN)/pipesim demo --output demo

test: $(STAMP)   ## lint and types, and beside them all tests but those of docs, those of check among them
	@$(MAKE) --no-print-directory --jobs=2 lint tests

tests:
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not docs'

test-torch: $(TORCH)/.installed  ## the recorders' tests, with PyTorch, in an environment of their own
	$(TORCH)/bin/python -m pytest tests/with_torch

test-simgrid: $(STAMP)  ## shares of links beside SimGrid's, which the system's Python has (Debian: python3-simgrid)
	@$(SIMGRID) -c 'import simgrid' 2>/dev/null || { echo "test-simgrid: $(SIMGRID) has no module simgrid; it comes with" \
	  "Debian's package python3-simgrid (apt-get install python3-simgrid); SIMGRID=... names another Python" >&2; exit 1; }
	PIPESIM_SIMGRID=$(SIMGRID) $(BIN)/python -m pytest tests/with_simgrid -s

test-browser: $(STAMP)  ## interactive pages in a headless Chromium (Debian: chromium-headless-shell)
	@PYTHONPATH=tests $(BIN)/python -m helpers.browser
	PIPESIM_BROWSER=1 $(BIN)/python -m pytest tests/with_browser -s

check: lint      ## ruff, formatting, mypy --strict, architecture test, words
	$(BIN)/python -m pytest tests/project/test_architecture.py tests/project/test_words.py

lint: $(STAMP)   ## ruff, formatting, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(STAMP)   ## drawn input of many sorts for an hour (MINUTES=5: for five), resumable; prints what it covered
	$(BIN)/python tests/fuzz/driver.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PROCESSES),--processes $(PROCESSES))

pages: $(STAMP)  ## update the outputs that the README and docs/ show; read the diff
	PYTHONPATH=tests $(BIN)/python -m helpers.pages README.md $$(find docs -name '*.md')

docs: $(SITE)    ## the documentation as a site, into site/, then the tests that run what pages show
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python -m pytest -n auto --dist worksteal -m docs
	@echo "site/index.html"

lists: $(STAMP)  ## update the lists of names in README.md and docs/, after adding a planner, a schedule, ...
	$(BIN)/python docs/site/lists.py

bench: $(STAMP)  ## measure; prints the tables that benchmarks/README.md keeps
	$(BIN)/python benchmarks/run.py

bench-compare: $(STAMP)  ## this checkout beside commit REV (REV=main~10 ROUNDS=7 ONLY=lower): what is over 5 % slower
	@test -n "$(REV)" || { echo "bench-compare: REV=... names the commit to compare with, as in REV=main~10" >&2; exit 2; }
	$(BIN)/python benchmarks/compare.py "$(REV)" $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

paper: $(DEMO)   ## every figure of the evaluation of SPP, with its rows and what drifted (minutes, resumable)
	$(BIN)/python experiments/spp/run.py

validation: $(DEMO)  ## measured runs of others simulated: errors of time and memory, with tables and figure (minutes)
	$(BIN)/python experiments/validation/run.py

traces: $(DEMO)  ## make the bundled roofline traces again, byte for byte
	$(BIN)/python traces/roofline/make.py

constraints: | $(VENV)/bin/python  ## renew the versions in constraints.txt, with the lowest Python that is supported
	$(BIN)/python .ci/constraints.py

clean:           ## remove the environment and everything made
	rm -rf $(VENV) $(TORCH) demo fuzz site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PINNED) $(BIN)/python $(INSTALL) -e .
	touch $@

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PINNED) $(BIN)/python $(INSTALL) -e '.[dev]'
	touch $@ $(DEMO)

$(SITE): $(STAMP)
	$(PINNED) $(BIN)/python $(INSTALL) -e '.[docs]'
	touch $@

$(TORCH)/.installed: pyproject.toml constraints.txt
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(PINNED) $(TORCH)/bin/python $(INSTALL) -e '.[torch,dev]'
	touch $@
