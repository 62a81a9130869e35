# One verb each. Every verb does its whole set-up; a second run is quick.
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Images of Python in containers set it: then every run compiles the tests again, which takes 10 s of each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-postgres chaos upgrade-check restore-check check fix bench fuzz lock docs pictures screenshots shape mutants dist clients console console-check clean

demo: $(VENV)/.runtime
	$(BIN)/counsel demo

# The last lines print the coverage by lines and branches and fail under the floor in pyproject.toml;
# `.venv/bin/coverage report` lists the files afterwards.
test: $(VENV)/.dev clients
	@if command -v npm >/dev/null; then $(MAKE) console console-check; else echo "npm is not here: tests of the console will say so"; fi
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/python -m tools.suite

# The engine's whole suite with its jobs in PostgreSQL; CI runs a part of it (tests/engine/test_on_postgres.py).
test-postgres: $(VENV)/.dev
	COUNSEL_TEST_STORE=postgres $(BIN)/pytest -n 2 --dist loadgroup -q tests/engine

# Three servers, two workers, 300 jobs and all kinds of faults; CI runs a smaller one.
chaos: $(VENV)/.dev
	COUNSEL_CHAOS=1 $(BIN)/pytest -q -s tests/team/test_chaos.py

# Servers of an earlier release (FROM, a commit) are replaced one by one under load.
FROM ?= 5b0a8cb3
upgrade-check: $(VENV)/.dev
	cd tests && PYTHONPATH=.:../src ../$(BIN)/python -m team.upgrade $(FROM)

# pg_dump during work, restored into another database, on which the jobs continue.
restore-check: $(VENV)/.dev
	cd tests && PYTHONPATH=.:../src ../$(BIN)/python -m team.restore

check: $(VENV)/.dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/pytest -n 4 --dist loadgroup -q -m "not slow and not thorough and not client and not browser and not conformance and not localmodel"

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix-only -q . ; $(BIN)/ruff format -q .

bench: $(VENV)/.dev
	$(BIN)/python -m bench

# New inputs for every interface and every editor of files; EXAMPLES of them for each test.
EXAMPLES ?= 2000
fuzz: $(VENV)/.dev
	COUNSEL_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -q tests/fuzz tests/configfiles/test_properties.py tests/configfiles/test_toml_properties.py -n 2

# Generated pages, then the site in site/, with checked links.
docs: $(VENV)/.dev
	$(BIN)/python -m tools.generate
	$(BIN)/zensical build --clean --strict

# The terminal pictures of the README and the docs, from real commands.
pictures: $(VENV)/.dev
	$(BIN)/python -m tools.pictures

# The pictures of the console in docs/images/console/, both themes, from a scratch server.
screenshots: $(VENV)/.dev console
	$(BIN)/python -m tools.screenshots

# Lengths of functions and modules, `Any`, `noqa`, import cycles. Other commits: python -m tools.shape CHECKOUT …
shape: $(VENV)/.dev
	$(BIN)/python -m tools.shape

# Small changes to the source, N per package, that a test must notice. PACKAGES="engine models", another SEED: another sample.
N ?= 30
SEED ?= 1
mutants: $(VENV)/.dev
	$(BIN)/python -m tools.mutants -n $(N) --seed $(SEED) $(PACKAGES)

# The source archive and the wheel, as the release workflow builds them, in dist/.
dist: $(VENV)/.dev
	rm -rf dist && COUNSEL_REQUIRE_CONSOLE=1 $(BIN)/hatchling build

# The lock holds hashes and no addresses.
lock:
	$(PY) -m pip install -q uv
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate -p 3.11 pyproject.toml -o requirements.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate -p 3.11 pyproject.toml --extra team --extra otel -o requirements-team.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate -p 3.11 pyproject.toml --group dev -o requirements-dev.lock
	cd tests/clients/python && for name in installer llm langchain aider; do uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate -p 3.11 $$name.in -o $$name.lock || exit; done
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --no-deps -p 3.11 src/counsel/models/embedded.in -o src/counsel/models/embedded.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --no-deps -p 3.11 src/counsel/models/embedded_openmp.in -o src/counsel/models/embedded_openmp.lock

# The console's page, from console/ into src/counsel/http/console/page/.
console:
	$(PY) src/counsel/http/console/build.py

# Its types, its style, its unit tests.
console-check: console/node_modules/.installed
	cd console && npm run -s check && npm run -s test

console/node_modules/.installed: console/package-lock.json
	cd console && npm ci --ignore-scripts --loglevel=error
	touch $@

# The real agent CLIs and the clients of /v1, pinned with hashes, for the tests that drive them.
clients:
	@if command -v npm >/dev/null; then PY=$(PY) tests/clients/install; else echo "npm is not here: tests with real agents will say so"; fi

$(VENV)/bin/python:
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "counsel needs Python 3.11 or newer, and $(PY) is " + sys.version.split()[0] + ": make PY=python3.12 …")'
	$(PY) -m venv $(VENV)

# Locks are complete, so pip resolves nothing. With its resolver, an extra of a locked package (procrastinate wants
# psycopg[pool]) stopped the installation on the day on which psycopg had a newer release.
$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache
