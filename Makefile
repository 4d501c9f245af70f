# Every target installs what it needs into an environment of its own: .venv for most,
# .venv-docs for the docs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
CLAIMS ?=
FRESH ?=
BASE ?= HEAD
PAIRS ?=
DATA ?= data
BYTES ?=
SIMULATION ?=
HOSTILE ?=
HOSPITALS ?=
FIDELITY ?=
EVENTS ?= 1e7
PAYLOADS ?= 1e6
CUTS ?= 1e5
SEED ?= 0
KILLS ?= 300
MUTANTS ?=
FLWR ?= 1.24.0
PARALLEL := -n auto --dist worksteal
PICTURES ?=
EXTRAS := torch,frames,huggingface,lightning,flower,flower-datasets,tensorboard,mlflow,wandb,web,telemetry,laws

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-extras test-heavy test-protobuf7 test-oldest test-flower check claims fresh pairs bench codecs bytes simulation hostile hospitals fidelity soak fuzz power kill mutants golden proto configuration pictures docs chart containers clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environment is complete when its stamp is newer than what it was made from.
$(VENV)/.stamp: pyproject.toml constraints.txt hatch_build.py $(wildcard fedcore/kernels/c/* fedtorch/compiled/c/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade "pip>=25.1"
	$(BIN)/pip install -q -c constraints.txt --group dev -e ".[torch]"
	@touch $@

# A worker has one core: the threads of NumPy and torch would wait for one another.
test test-slow test-extras test-oldest: export OMP_NUM_THREADS := 1

demo: $(VENV)/.stamp  ## a server, a dozen clients, four kills, and a report
	$(PY) -m examples.demo

test: $(VENV)/.stamp  ## the tests
	$(PY) -m pytest -q $(PARALLEL) -m "quick or not (slow or processes)"

test-slow: $(VENV)/.stamp  ## the tests of real processes, and the long ones
	$(PY) -m pytest -q $(PARALLEL) -m "(slow or processes) and not quick"

test-extras: $(VENV)/.stamp  ## the tests that `make test` skips: pandas, MLflow and the like
	$(BIN)/pip install -q -c constraints.txt --group mutants --group trainers -e ".[$(EXTRAS)]"
	$(PY) -m pytest -q $(PARALLEL) --all-there -m "needs and not heavy"

test-heavy: $(VENV)/.stamp  ## the tests with Ray and Flower
	$(BIN)/pip install -q -c constraints.txt --group flower -e ".[ray]"
	$(PY) -m pytest -q --all-there -m heavy

test-protobuf7:  ## the wire's tests with the newest protobuf
	$(PYTHON) -m venv .venv-protobuf7
	.venv-protobuf7/bin/pip install -q --upgrade "pip>=25.1"
	.venv-protobuf7/bin/pip install -q --group test -e . "protobuf>=7,<8"
	.venv-protobuf7/bin/python -m pytest -q tests/fedwire tests/integration

test-oldest:  ## the core's tests with the oldest NumPy and array-api-compat
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install -q --upgrade "pip>=25.1"
	.venv-oldest/bin/pip install -q -c constraints.txt --group test -e ".[torch]" "numpy==2.0.*" "array-api-compat==1.12.*"
	.venv-oldest/bin/python -m pytest -q -n auto tests/fedcore tests/laws tests/golden

test-flower:  ## Flower apps with the oldest flwr that fits (FLWR=1.24.0)
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/pip install -q --upgrade "pip>=25.1"
	.venv-flower/bin/pip install -q -c constraints.txt --group test -e . "protobuf<7"
	.venv-flower/bin/pip install -q "flwr==$(FLWR)" "protobuf>=6.31.1,<7"
	.venv-flower/bin/python -m pytest -q --all-there tests/fedflower/app

check: $(VENV)/.stamp  ## style, types, import contracts, fresh stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	MYPYPATH=protos $(BIN)/mypy
	PYTHONPATH=protos:. $(BIN)/lint-imports
	$(PY) -m tools.stubs --check

claims: $(VENV)/.stamp  ## the papers' claims, measured here (CLAIMS="5 6" for some)
	$(PY) -m benchmarks.claims $(CLAIMS)

fresh: $(VENV)/.stamp  ## which saved results are older than the program (FRESH=--run runs those again)
	$(PY) -m benchmarks.fresh $(FRESH)

pairs: $(VENV)/.stamp  ## this state's speed beside a commit's (BASE=COMMIT)
	$(PY) -m benchmarks.pairs $(BASE) $(PAIRS)

bench: $(VENV)/.stamp  ## speed, as ratios against peers and physical floors
	$(PY) -m benchmarks

codecs: $(VENV)/.stamp  ## bytes, error and speed of every compressor, beside peers
	$(PY) -m benchmarks.codecs

bytes: $(VENV)/.stamp  ## accuracy against bytes at the socket (DATA=folder BYTES="--task cnn")
	$(PY) -m benchmarks.bytes --data $(DATA) $(BYTES)

simulation: $(VENV)/.stamp  ## simulated updates a second, beside peers (SIMULATION="fashion")
	$(PY) -m benchmarks.simulation --data $(DATA) $(SIMULATION)

hostile: $(VENV)/.stamp  ## honest clients beside one hostile peer (HOSTILE="unread trickle")
	$(PY) -m benchmarks.hostile $(HOSTILE)

hospitals: $(VENV)/.stamp  ## eight sites, drops, kills, and three kinds of rounds (HOSPITALS="--seeds 1")
	$(PY) -m benchmarks.hospitals $(HOSPITALS)

fidelity: $(VENV)/.stamp  ## real processes beside their simulation (FIDELITY=federation.yaml)
	$(PY) -m benchmarks.fidelity $(FIDELITY)

soak: $(VENV)/.stamp  ## the model check for EVENTS events
	$(PY) -m tests.protocol.soak --events $(EVENTS)

fuzz: $(VENV)/.stamp  ## PAYLOADS mutated messages of every format (SEED=1 for others)
	$(PY) -m tests.laws.fuzz --payloads $(PAYLOADS) --seed $(SEED)

power: $(VENV)/.stamp  ## CUTS power cuts under journals and client states
	$(PY) -m tests.power.soak --cuts $(CUTS) --seed $(SEED)

kill: $(VENV)/.stamp  ## KILLS SIGKILLs of a loaded server, pauses, full disks, lost states
	$(PY) -m tests.integration.kill --kills $(KILLS)

mutants: $(VENV)/.stamp  ## mistakes planted: do tests see them? (MUTANTS="leases")
	$(BIN)/pip install -q -c constraints.txt --group mutants
	$(PY) -m tests.mutants $(MUTANTS)

golden: $(VENV)/.stamp  ## save anew what federations come to: for a change that is meant to change it
	$(PY) -m tests.golden.runs --save

proto: $(VENV)/.stamp  ## generate the stubs anew
	$(PY) -m tools.stubs

configuration: $(VENV)/.stamp  ## docs/configuration/ and docs/api.md anew
	$(PY) -m docs.generate
	$(PY) -m docs.reference

pictures: $(VENV)/.stamp  ## the pictures of the pages (PICTURES=--screens for those of a run, with Chromium)
	$(PY) -m docs.pictures $(PICTURES)

docs:  ## the documentation, into docs/_build/html
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q --upgrade "pip>=25.1"
	.venv-docs/bin/pip install -q -c constraints.txt --group docs -e .
	.venv-docs/bin/sphinx-build -q -W --keep-going -n -b html docs docs/_build/html

containers:  ## build the images and run them (needs podman; see deploy/README.md)
	deploy/test.sh

chart: $(VENV)/.stamp  ## check the Helm chart, the monitoring and the unit of deploy/ with their own tools
	deploy/tools.sh
	$(BIN)/pip install -q -c constraints.txt -e ".[web]"
	$(BIN)/pytest -q tests/deploy

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-deploy .venv-docs .venv-protobuf7 .venv-oldest .venv-flower docs/_build .mypy_cache .ruff_cache .pytest_cache
	rm -f fedcore/kernels/*.so fedtorch/compiled/*.so
