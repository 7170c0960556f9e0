# `make demo` and `make test` do all set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ORACLES := .venv-oracles

.PHONY: demo test lint bench coverage oracles samples accuracy docs clean

demo: $(VENV)/installed
	$(BIN)/wallsplit demo --out demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

lint: $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-test
	$(BIN)/python -m tests.bench.bench_scan
	$(BIN)/python -m tests.bench.bench_ingest
	$(BIN)/python -m tests.bench.bench_predict
	$(BIN)/python -m tests.bench.bench_fits

coverage: $(VENV)/installed-test
	$(BIN)/python -m tests.bench.simulate_coverage

# other packages' answers, in an environment of their own: they bring versions and warnings
oracles: $(ORACLES)/installed
	$(ORACLES)/bin/python -m pytest tests/oracles

samples: $(VENV)/installed-test
	$(BIN)/python -m tests.make_samples

accuracy: $(VENV)/installed-test
	$(BIN)/python -m tests.make_accuracy

docs: $(VENV)/installed-test
	$(BIN)/python -m tests.make_docs

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "wallsplit needs Python 3.11 or newer; name one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "this Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

$(VENV)/installed-lint: $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

$(ORACLES)/installed: $(VENV)/installed
	$(PYTHON) -m venv $(ORACLES)
	$(ORACLES)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(ORACLES)/bin/python -m pip install --quiet --editable .
	$(ORACLES)/bin/python -m pip install --quiet --group test --group oracles
	@touch $@

clean:
	rm -rf $(VENV) $(ORACLES) demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
