# Everything a person or CI calls. Needs make, Python 3.11 or newer (with venv) and Java 17 or newer; nothing else.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tideline-setup
WORKERS ?= 2
SEEDS ?= 0:1000
SPARK_SEEDS ?= 0:50
SHARED_SEEDS ?= 0:50
STEPS ?= 20000
FILES ?= 10000
VIEWS ?= 200
SCALE ?= 0.2
SLOW := not long and not oracle and not crash and not conformance and not browser and not postgres and not kafka and not prometheus and not cluster and not install

QUICK := tests/test_docs.py tests/test_layout.py tests/tools tests/sql tests/meta tests/hummock

export SPARK_LOCAL_IP ?= 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help setup s3a demo up test quick shuffled compiled planted proof cluster pages docs examples fuzz faults state-machine maintenance races conformance long outages first-view crash lint format oracle browser postgres kafka prometheus bench clean
.DEFAULT_GOAL := help

help: ## Show the targets.
	@grep -E '^[a-z0-9-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(STAMP) jars/.complete ## Make .venv, install what is needed, fetch the Delta jars, start Spark once so that it starts fast.
	@$(BIN)/python -m engine.cli.first_start

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed: install it, or run make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11: run make PYTHON=/path/to/a/newer/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "error: $(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[s3,prometheus,otel,demo,dev]'
	@touch $@

jars/.complete: $(STAMP) engine/jars.py
	$(BIN)/python -m engine.jars
	@mkdir -p jars && touch $@

jars/kafka/.complete: $(STAMP) engine/jars.py
	$(BIN)/python -m engine.jars --kafka
	@touch $@

s3a: setup ## Fetch the file system s3a too, by which Spark reads and writes Delta tables in buckets.
	$(BIN)/python -m engine.jars --s3a
	@$(BIN)/python -m engine.cli.first_start

demo: setup ## Replay the flights of New York: landing files, views kept up to date by Dagster and Spark, checked at the end.
	$(BIN)/python -m demo.run

up: setup ## Open the Dagster UI over the store, sensors running, until Ctrl-C.
	$(BIN)/tideline up

test: setup lint ## Lint, layer contracts and the tests (WORKERS=2); build/tests.xml says how long each took.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(SLOW)" --junitxml=build/tests.xml tests

quick: $(STAMP) lint ## What needs no Spark: lint, pages, layers, SQL, catalog and storage engine, within 90 seconds.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(SLOW) and not spark" $(QUICK)

shuffled: setup ## The tests of `make test` in random order; ORDER=N runs an order again, which each run prints.
	$(BIN)/python -m pytest -n $(WORKERS) -p randomly $(if $(ORDER),--randomly-seed=$(ORDER)) -m "$(SLOW)" tests

compiled: setup ## The tests of `make test` on Spark with its plans compiled, as users have them; there they are interpreted.
	TIDELINE_TESTS_COMPILED=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(SLOW) and spark" tests

planted: setup ## Plant a dozen bugs by hand, one at a time, and show which test of `make test` catches each.
	$(BIN)/python -m tools.planted

proof: setup ## All that `make test` leaves out, target by target, with a table; goes on where it was broken off.
	$(BIN)/python -m tools.proof

long: setup ## The tests that take some four seconds or more, or repeat a kind of fault; `make test` leaves them out.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m long tests

faults: setup ## Run the engine on a store that fails, by 1,000 seeds (SEEDS=0:1000); a failing seed prints how to replay it.
	$(BIN)/python -m tests.hummock.mixed_workload --seeds $(SEEDS)

state-machine: setup ## Any verb in any order against a dictionary of versions, 20,000 steps (STEPS=20000).
	$(BIN)/python -m tests.hummock.state_machine --steps $(STEPS)

fuzz: setup ## Land 10,000 mutated files of each format beside good ones (FILES=10000), and hold them against other readers.
	$(BIN)/python -m tests.connectors.fuzz_landing --files $(FILES)
	$(BIN)/python -m tests.connectors.judges --files $(FILES)

examples: setup ## Draw the examples of the property tests anew; `make test` draws the same each time.
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(SLOW)" --hypothesis-profile=random $$(grep -rlE "^from hypothesis|^import hypothesis" tests --include='test_*.py')

maintenance: setup ## 500 epochs of updates under compaction and garbage collection: bytes in the bucket, and reads of the past.
	$(BIN)/python -m pytest -s -q tests/hummock/upkeep/test_maintenance.py -m "crash or not crash"

conformance: s3a ## Every source and sink against the contract of connectors: each fault, and processes that are killed; Delta on S3.
	$(BIN)/python -m pytest tests/connectors/conformance tests/connectors/test_delta_s3.py tests/connectors/sinks/delta/test_s3.py

races: setup ## Race 16 processes for 800 manifests on a directory, on moto and, where its programs are, on Ceph.
	$(BIN)/python -m pytest -m crash tests/hummock/test_race.py

crash: setup ## Random programs with crashes: 1,000 over a reference executor, 50 in killed processes on Spark, 50 with shared actions, planted bugs (SEEDS, SPARK_SEEDS, SHARED_SEEDS).
	$(BIN)/python -W ignore -m tests.crash.program --jobs $(WORKERS) range $(subst :, ,$(SEEDS))
	$(BIN)/python -W ignore -m tests.crash.program --executor spark range $(subst :, ,$(SPARK_SEEDS))
	$(BIN)/python -W ignore -m tests.crash.shared range $(subst :, ,$(SHARED_SEEDS))
	$(BIN)/python -m pytest -m crash tests/crash --deselect tests/crash/test_programs.py --deselect tests/crash/test_processes.py

outages: setup ## Dagster's services cancelled, reloaded, killed, without room on the disk, without S3.
	$(BIN)/python -m pytest -m crash tests/dagster

cluster: setup ## Views on two Spark workers over S3, each machine a network namespace (root), workers killed, S3 away (VIEWS=200, SCALE=0.2).
	TIDELINE_RANDOM_VIEWS=$(VIEWS) TIDELINE_TPCH_SCALE=$(SCALE) $(BIN)/python -m pytest -q -m cluster tests/cluster

first-view: setup ## Install the wheel into an empty environment, and count the seconds to a view of a CSV file.
	$(BIN)/python -m pytest -s -q -m install tests/packaging

lint: $(STAMP) ## Check style, formatting, layers and types.
	@$(BIN)/ruff format --check --quiet . && $(BIN)/python -m tools.wrap --check || { echo "error: run make format, which mends this"; exit 1; }
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

pages: $(STAMP) ## Write the pages that are made of the code: docs/reference.md, docs/conversions.md and docs/rooms.md.
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.conversions
	$(BIN)/python -m tools.rooms

docs: $(STAMP) $(VENV)/.tideline-docs ## Build the documentation as a site in build/docs, with search and API pages; fails on any warning.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/docs/index.html opens in a browser; with search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs"

format: $(STAMP) pages ## Format code, wrap pages, write the pages that are made of the code, and fix what can be fixed.
	-$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tools.wrap

oracle: setup ## Compare views with batch engines at length: TPC-H, Nexmark, random queries.
	$(BIN)/python -m pytest -m oracle -n $(WORKERS) --dist worksteal tests

browser: setup $(VENV)/.tideline-browser ## Look at Dagster's page in a real Chromium; pictures in build/screens.
	$(BIN)/python -m pytest -m browser tests/browser

postgres: setup $(VENV)/.tideline-postgres ## Follow tables of PostgreSQL, and run Dagster with its instance in it (needs the system's package postgresql).
	$(BIN)/python -m pytest -m postgres tests/dagster tests/connectors/postgres tests/connectors/conformance

kafka: setup jars/kafka/.complete $(VENV)/.tideline-kafka ## Follow and write topics of Kafka, of a broker of the tests' own.
	$(BIN)/python -m pytest -m kafka tests/connectors/kafka tests/connectors/conformance

prometheus: setup ## Have a real Prometheus scrape, and try the dashboard and the alerts (needs the system's package prometheus).
	$(BIN)/python -m pytest -m prometheus tests/telemetry

bench: setup $(VENV)/.tideline-bench ## Measure seconds per epoch, and the storage engine beside other stores.
	$(BIN)/python -m benchmarks.epochs
	$(BIN)/python -m benchmarks.deep_views
	$(BIN)/python -m benchmarks.kv

$(VENV)/.tideline-browser: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	@touch $@

$(VENV)/.tideline-postgres: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[postgres,postgres-source]'
	@touch $@

$(VENV)/.tideline-kafka: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[kafka]'
	@touch $@

$(VENV)/.tideline-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(VENV)/.tideline-bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

clean: ## Remove what was built or produced; the store in .tideline goes too.
	rm -rf $(VENV) jars .tideline build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
