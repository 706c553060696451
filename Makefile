# make demo    the main job on made-up data, in a fresh environment
# make test    the ordinary tests           make check   format, lint, types, imports
# make docs    the documentation, build/docs  (make docs-links asks other hosts for the pages
#              that it links to)
# make lab     JupyterLab on the notebooks  make bench   how fast and how large
# make bench-scale   stores of many million transactions and what they take; writes a table for
#              the documentation (MILLIONS="10 30", and much disk: 0.6 GB a million)
# make sample  write both samples anew    make soak    an hour of ill services,
#                                          kills and full disks (MINUTES=60)
# make baseline  draw the pictures anew that plots are compared with; look at each of them
# make test-slow, test-wheel, test-spark   what CI runs besides: more seeds and engines; a clean
#                                          environment; Spark (400 MB, Java)
# make test-s3   a store in a bucket, with the server of moto, which needs older packages than we do
# make test-random   all tests with many new random examples; takes hours
# make test-lowest, test-newest   the tests with the lowest and the newest versions allowed

PYTHON ?= python3
LOWEST_PYTHON ?= python3.11
BIN := .venv/bin

# Tested versions for the packages, and for what builds ours.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests start hundreds of processes: without the cached bytecode each compiles every module anew.
export PYTHONDONTWRITEBYTECODE :=

# One worker more than cores: tests also wait, for a disk, a socket or another process.
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell expr $(CORES) + 1)

# The tests that depend most on the versions of other packages, with five examples of each property:
# all but the long ones of fetching, the local service, answers that are too large, and large stores.
VERSION_TESTS := --dist=worksteal --ignore=tests/client/test_size.py \
	--ignore=tests/store/test_compaction.py --ignore=tests/store/test_many_files.py \
	--ignore=tests/store/test_overlaps.py --ignore=tests/store/test_store_under_fire.py \
	tonframes tests/analysis tests/bodies tests/client tests/network tests/plots tests/store \
	tests/wire tests/fetch/test_fetch.py \
	tests/test_addresses.py tests/test_cli.py tests/test_excel.py tests/test_export.py tests/test_frames.py

.PHONY: demo lab docs docs-links test test-slow test-wheel test-spark test-s3 test-lowest test-newest check format bench bench-scale sample baseline columns soak test-random clean

demo: .venv/.base
	rm -rf build/demo
	$(BIN)/tonframes demo --store build/demo

lab: .venv/.lab
	$(BIN)/jupyter lab notebooks/01-first-look.ipynb

# Every build executes all pages. Warnings are errors. The last line checks the links between pages.
docs: .venv/.docs
	rm -rf build/docs docs/reference/api
	$(BIN)/sphinx-build --fresh-env --nitpicky --fail-on-warning --keep-going --jobs=auto --quiet docs build/docs
	$(BIN)/python docs/links.py build/docs

docs-links: .venv/.docs
	$(BIN)/sphinx-build --builder=linkcheck --jobs=auto --quiet docs build/docs-links

test: .venv/.dev
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal

test-slow: .venv/.dev
	HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal \
		-m '(slow or hypothesis) and not s3 and not spark and not wheel' tests

test-wheel: .venv/.dev
	$(BIN)/python -m pytest -m wheel tests

test-spark: .venv/.spark
	$(BIN)/python -m pytest -m spark tests

test-s3: .venv/.dev .venv-s3/.server
	$(BIN)/python -m pytest -m s3 tests

test-lowest: .venv-lowest/.test
	HYPOTHESIS_PROFILE=versions .venv-lowest/bin/python -m pytest --numprocesses=auto $(VERSION_TESTS)

test-newest: .venv-newest/.test
	HYPOTHESIS_PROFILE=versions .venv-newest/bin/python -m pytest --numprocesses=auto $(VERSION_TESTS)

check: .venv/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/.dev
	$(BIN)/python tests/benchmarks/bench_decode.py
	$(BIN)/python tests/benchmarks/bench_fetch.py
	$(BIN)/python tests/benchmarks/bench_analysis.py
	$(BIN)/python tests/benchmarks/bench_engines.py
	$(BIN)/python tests/benchmarks/bench_files.py

# Without MILLIONS: 10, and as many as half of the free disk takes.
bench-scale: .venv/.dev
	mkdir -p build/scale
	$(BIN)/python tests/benchmarks/bench_scale.py $(MILLIONS) $(SCALE_OPTIONS) --store build/scale/store \
		--json docs/guide/measured/scale.json --table docs/guide/measured/scale.md

MINUTES ?= 60
soak: .venv/.dev
	$(BIN)/python tests/soak.py --minutes $(MINUTES)

test-random: .venv/.dev
	SOAK_SEEDS=200 HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest --numprocesses=auto --timeout=3600 \
		-m 'not s3 and not spark and not wheel'

sample: .venv/.base
	rm -rf data/sample data/histories
	PYTHONPATH=tests $(BIN)/python tests/chain/samples.py blocks data/sample
	PYTHONPATH=tests $(BIN)/python tests/chain/samples.py histories data/histories
	rm -f data/sample/.lock* data/histories/.lock*

baseline: .venv/.dev
	$(BIN)/python tests/pictures.py

columns: .venv/.base
	$(BIN)/python -c "from tonframes.columns import column_reference; print(column_reference(), end='')" > data/COLUMNS.md

clean:
	rm -rf .venv .venv-lowest .venv-newest .venv-s3 build dist docs/reference/api .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tonframes needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

.venv/.base: .venv/.python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/.dev: .venv/.python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/.base

.venv/.lab: .venv/.dev
	$(BIN)/python -m pip install --quiet --editable '.[notebook,boc,engines]'
	touch $@

.venv/.docs: .venv/.dev
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

.venv/.spark: .venv/.dev
	$(BIN)/python -m pip install --quiet --editable '.[spark]'
	touch $@

.venv-s3/.server: PIP_CONSTRAINT := constraints-s3.txt
.venv-s3/.server: constraints-s3.txt
	$(PYTHON) -m venv --clear .venv-s3
	.venv-s3/bin/python -m pip install --quiet 'moto[s3]' flask flask-cors
	touch $@

.venv-lowest/.test: PIP_CONSTRAINT := constraints-lowest.txt
.venv-lowest/.test: pyproject.toml constraints-lowest.txt
	$(LOWEST_PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --editable '.[boc,engines,test]'
	touch $@

# Made anew each time: the newest versions change without a change here.
.PHONY: .venv-newest/.test
.venv-newest/.test: PIP_CONSTRAINT :=
.venv-newest/.test:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --editable '.[boc,engines,test]'
