# make install   install core and the default plugins into .venv
# make run       install, then serve on port 17000 with the settings in etc/ and data in data/
# make test      install what tests need, then run all of them (PYTEST_ARGS="..." is passed on)
# make lint      style and types
# make format    let ruff format the code
# make clean     remove what was installed and built; data/ stays

VENV := .venv
PY := $(VENV)/bin/python
# The first interpreter that is new enough; `make PYTHON=/path/to/python` chooses another.
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
PYTEST_ARGS ?=

PROJECTS := setup.py pyproject.toml \
	$(foreach kind,datasources writers plugins,$(wildcard $(kind)/*/pyproject.toml $(kind)/*/setup.py))
COMPILED := $(shell find core datasources writers plugins -name '*.px[ydi]' 2>/dev/null)

.PHONY: install install-test run test lint format clean
.DELETE_ON_ERROR:

install: $(VENV)/.installed

install-test: $(VENV)/.installed-test

run: install
	@exec $(VENV)/bin/tocsin center -c etc

test: install-test
	$(PY) -m pytest $(PYTEST_ARGS)

lint: install-test $(VENV)/.installed-lint
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) tools/typecheck

format: $(VENV)/.installed-lint
	$(PY) -m ruff format

clean:
	rm -rf $(VENV) .tox build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find core datasources writers plugins tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(PY):
	@test -n "$(PYTHON)" || { echo "Tocsin needs Python 3.11 or newer; none was found on PATH" >&2; exit 1; }
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "On Debian: apt-get install python3-venv" >&2; exit 1; }

# Editable, so that edits count at once; installed again only when a project file or compiled source is newer.
# Without a C compiler the compiled module is left out and its plain twin does the work.
SOURCES := $(PROJECTS) $(COMPILED) requirements/build.txt requirements/standard.txt tools/requirements

$(VENV)/.installed: $(SOURCES) | $(PY)
	@echo "Installing Tocsin and its default plugins into $(VENV)"
	@$(PIP) -r requirements/build.txt
	@$(PY) tools/requirements --editable > $(VENV)/requirements.txt
	@$(PIP) --no-build-isolation -r $(VENV)/requirements.txt
	@touch $@

# All that `install` does and more, at once: nothing is compiled twice.
$(VENV)/.installed-test: $(SOURCES) requirements/test.txt requirements/optional.txt | $(PY)
	@echo "Installing Tocsin, all plugins and what the tests need into $(VENV)"
	@$(PIP) -r requirements/build.txt -r requirements/test.txt
	@$(PY) tools/requirements --editable --tests > $(VENV)/requirements-test.txt
	@$(PIP) --no-build-isolation -r $(VENV)/requirements-test.txt
	@touch $(VENV)/.installed $@

$(VENV)/.installed-lint: requirements/lint.txt | $(PY)
	@$(PIP) -r requirements/lint.txt
	@touch $@
