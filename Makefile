# Everything here sets itself up: a virtual environment in .venv from requirements.lock, the record kernel where there is Cargo, jars by
# Maven on first need.
# make test TIER=unit runs one tier: unit, web, model, broker, ray, spark, end_to_end, compat, chaos, timed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo check test test-kernel lint lint-python lint-kernel format lock sbom scan image image-demo image-rootfs bench bench-engine bench-link bench-loss bench-merge bench-groups bench-holes bench-carry bench-history bench-translate bench-verify bench-report bench-tally bench-topics bench-transform bench-schema-ids bench-schemas bench-page bench-scale bench-elastic bench-limits bench-commands chaos fuzz-web fuzz-config fuzz-wire fuzz-kernel model mutants versions planted ray-nodes ray-versions soak bench-failover failover-kills kubernetes jars clean

# Containers often set it: every process would compile Ray and all else anew, seconds of a processor's time each.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGES := $(VENV)/.packages
KERNEL := mirror_ray/records/_kernel.abi3.so
# Built anew, too, when another Cargo is there, or there is one at last.
CARGO := $(if $(MIRROR_RAY_NO_KERNEL),off,$(or $(word 2,$(shell cargo --version 2>/dev/null)),none))
KERNEL_TRIED := $(VENV)/.kernel-$(CARGO)
TIER ?=
ARGS ?=

help:
	@echo 'make demo     two real Kafka clusters, live traffic, flows both ways, until Ctrl-C'
	@echo 'make check    lint and the fast tests, after each change: under four minutes'
	@echo 'make test     lint and every test; one tier with TIER=unit, pytest options with ARGS="-k name"'
	@echo 'make lint     ruff, mypy, import-linter, hadolint; cargo fmt and clippy where there is Cargo'
	@echo 'make format   let ruff format the code'
	@echo 'make chaos    100 kills and freezes while records flow, then every record is compared; ARGS="--seed 7"'
	@echo 'make planted  every kind of fault in every kind of copy, by verify, verify --spark, compare and chaos'"'"'s check; a few minutes'
	@echo 'make failover-kills  command, coordinator and brokers killed in each step of a failover and of a failback'
	@echo 'make ray-nodes  several Ray nodes in two regions: lost, frozen, cut off, the head with and without Redis; Linux, as root'
	@echo 'make ray-versions  which versions of Ray work, each in an environment of its own below build/'
	@echo 'make soak     memory and files of every process for an hour under load; ARGS="--minutes 10" for less'
	@echo 'make model    over 100,000 steps of everything that can happen to a flow, in one process; ARGS="--hypothesis-seed 7"'
	@echo 'make fuzz-web  half-right and hostile requests to the web UI by the ten thousand; HOSTILE_REQUESTS=100000 for longer'
	@echo 'make fuzz-wire  changed batches and answers of brokers by the hundred thousand; FUZZ_TIMES=1000 for longer'
	@echo 'make fuzz-kernel  a million changed batches into the record kernel, by cargo; KERNEL_MUTANTS=10000000 for more'
	@echo 'make fuzz-config  ten thousand odd configurations of each kind: each gives settings or error messages, and no secret'
	@echo 'make mutants  do the fast tests find each known kind of fault in the code that protects data? ARGS="--only sender"'
	@echo 'make versions  earlier versions of Kafka on either side, from 2.4.1 on; a broker is killed meanwhile'
	@echo 'make kubernetes  a Kubernetes cluster of three nodes, and on it what deploy/README.md tells; after make image; as root, on Linux, with Go'
	@echo 'make bench    the benchmark against MirrorMaker 2, up to an hour and a half; ARGS="--quick" for ten minutes'
	@echo 'make bench-engine  processor time and memory of a replicator'"'"'s core, by itself'
	@echo 'make bench-link  how much of a link of 100 ms round trip a copy of one partition fills'
	@echo 'make bench-loss  what a link that loses packets lets through, with one connection and with several; Linux, as root'
	@echo 'make bench-merge  up to which size merging batches costs less than passing them on'
	@echo 'make bench-groups  what a round over the offsets of 5,000 consumer groups costs'
	@echo 'make bench-carry  what a round of the group sync costs with thousands of groups'
	@echo 'make bench-history  what the commit history costs with 250,000 offsets'
	@echo 'make bench-translate  what translating 100,000 offsets by millions of segments costs with Spark'
	@echo 'make bench-verify  what comparing a million records costs, with and without Spark'
	@echo 'make bench-report  what a running report costs a flow: latency and lag before, during and after'
	@echo 'make bench-tally  what the statistics cost per batch'
	@echo 'make bench-topics  what it costs to keep the configs and ACLs of a thousand topics in step'
	@echo 'make bench-transform  what transforms cost: records per processor second'
	@echo 'make bench-schema-ids  what translating schema ids costs, against merging the same batches'
	@echo 'make bench-schemas   how soon a schema registry is mirrored, and what it costs when nothing is new'
	@echo 'make bench-page  what it costs to show 5,000 partitions: status, scrape, web UI, the coordinator'
	@echo 'make bench-scale  what one coordinator costs up to 100,000 partitions in 20 flows, and how soon it acts; between stubs'
	@echo 'make bench-elastic  what an elastic fleet does with load in waves, and what it costs against a fixed one; by a model'
	@echo 'make bench-failover  what a failover and a failback of 5,000 groups of 50 partitions cost'
	@echo 'make bench-limits  how exactly limits of bytes per second hold'
	@echo 'make bench-commands  what it costs to ask a running system: lag, status, groups'
	@echo 'make bench-holes  what ten million offset gaps in one partition cost the offset map'
	@echo 'make jars     fetch the jars ahead'
	@echo 'make lock     remake the locks from pyproject.toml'
	@echo 'make sbom     the bill of materials of a release, in CycloneDX, to build/mirror-ray.cdx.json'
	@echo 'make scan     which packages and jars have vulnerabilities known on the dates that it states'
	@echo 'make image    the container image, by Docker or, as root, by buildah; ARGS=--again: anew, and is it the same one?'
	@echo 'make image-demo  what is in the image is run, as its manifests have it; as root, on Linux'
	@echo 'make image-rootfs  the files of the image, unpacked into DIR/rootfs; as root'
	@echo 'make clean    remove .venv and caches'

demo: $(READY)
	@$(BIN)/mirror-ray demo $(ARGS)

# Where the time of a recovery is measured, nothing else may run; of the others three files at a time: most of them wait, but more
# at once keep a slow machine so busy that Ray itself gives up starting (30 s).
ALONE := tests/timed
# A worker that dies is not replaced: xdist would wait for ever for the new one.
WORKERS := -n 3 --dist loadfile --max-worker-restart 0
# Who reads what a machine has run wants every failure before all of one.
SHORT := $(if $(CI),--tb=short --show-capture=no)
# How long each test took is kept in build/, and the slowest are shown.
TIMES = --durations=10 --durations-min=1 --junitxml=build/$(1).xml

# One worker a core: nothing in them waits.
check: lint test-kernel
	@$(BIN)/pytest -n 2 --dist loadfile --max-worker-restart 0 $(SHORT) $(call TIMES,check) tests/unit tests/web tests/model

test: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 lint $(if $(TIER)$(ARGS),,test-kernel)
ifeq ($(TIER)$(ARGS),)
	@$(BIN)/pytest $(WORKERS) $(SHORT) $(call TIMES,tests) --ignore $(ALONE) tests
	@$(BIN)/pytest $(SHORT) $(call TIMES,timed) $(ALONE)
else
	@$(BIN)/pytest tests$(if $(TIER),/$(TIER)) $(ARGS)
endif

# As optimized as it is built: what it needs is compiled once.
test-kernel: $(READY)
	@if [[ -e $(KERNEL) ]]; then cd kernel && cargo test --quiet --release --locked; fi

lint: lint-kernel lint-python

lint-python: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/hadolint deploy/image/Dockerfile

lint-kernel: $(READY)
	@if [[ ! -e $(KERNEL) ]]; then exit; fi; \
	cd kernel; \
	if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then \
		echo 'The kernel is not linted: there is no cargo fmt and cargo clippy.'; exit; \
	fi; \
	cargo fmt --check; \
	cargo clippy --quiet --release --locked --all-targets --features python -- -D warnings

format: $(READY)
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench-history: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.history $(ARGS)

bench-translate: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.translate $(ARGS)

planted: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.planted $(ARGS)

bench-verify: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.verify $(ARGS)

bench-report: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.report_cost $(ARGS)

bench-topics: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.topics $(ARGS)

bench-transform: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.transform $(ARGS)

bench-schema-ids: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.schema_ids $(ARGS)

bench-schemas: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.schemas $(ARGS)

bench-page: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.web_ui $(ARGS)

bench-scale: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.scale --to docs/benchmarks/scale.md $(ARGS)

bench-elastic: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.elastic --to docs/benchmarks/elasticity.md $(ARGS)

bench-limits: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.limits $(ARGS)

bench-commands: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.commands $(ARGS)

bench-failover: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.failover $(ARGS)

bench-tally: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.statistics_cost $(ARGS)

chaos: $(READY)
	@$(BIN)/mirror-ray chaos $(ARGS)

failover-kills: $(READY)
	@$(BIN)/mirror-ray failover 'A->B' --simulate --kills $(ARGS)

ray-nodes: $(READY)
	@$(BIN)/python -m mirror_ray.lab.ray_nodes $(ARGS)

ray-versions: $(READY)
	@$(BIN)/python -m mirror_ray.lab.ray_versions $(ARGS)

soak: $(READY)
	@$(BIN)/python -m mirror_ray.lab.soak $(ARGS)

model: $(READY)
	@MODEL_PROFILE=thorough $(BIN)/pytest -q --timeout 3600 tests/model $(ARGS)

fuzz-web: $(READY)
	@HOSTILE_REQUESTS=$${HOSTILE_REQUESTS:-20000} $(BIN)/pytest -q --timeout 36000 tests/web/test_hostile_requests.py $(ARGS)

fuzz-wire: $(READY)
	@FUZZ_TIMES=$${FUZZ_TIMES:-200} $(BIN)/pytest -q --timeout 36000 tests/unit/records/test_hostile_batches.py \
		tests/unit/records/test_kernel_hostile.py tests/unit/records/test_batch_run.py tests/unit/kafka/test_hostile_answers.py $(ARGS)

fuzz-kernel: $(READY)
	@cd kernel && cargo test --release --locked --test hostile -- --ignored --nocapture $(ARGS)

fuzz-config: $(READY)
	@CONFIG_PROFILE='many files' $(BIN)/pytest -q --timeout 3600 tests/unit/config/test_odd_files.py $(ARGS)

mutants: $(READY)
	@$(BIN)/python -m tests.mutants $(ARGS)

# Programs are fetched and built in the machine's network; the cluster has one of its own, and ends with its first process.
kubernetes: $(READY)
	@$(BIN)/python -m tests.support.kubernetes.binaries >/dev/null
	@[[ -d build/image/rootfs ]] || $(MAKE) --no-print-directory image-rootfs
	@KUBERNETES_REPORT=$${KUBERNETES_REPORT:-docs/deploy/kubernetes.md} unshare --net --mount --pid --fork --kill-child --mount-proc \
		$(BIN)/pytest -p no:randomly -p no:cacheprovider --exitfirst tests/kubernetes $(ARGS)

versions: $(READY)
	@KAFKA_VERSIONS='2.4.1 2.8.2 3.5.2 3.9.1' $(BIN)/pytest tests/compat/test_versions.py $(ARGS)

bench: $(READY)
	@$(BIN)/mirror-ray bench --against mm2 $(ARGS)

bench-engine: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.engine $(ARGS)

bench-link: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.link $(ARGS)

bench-merge: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.merge $(ARGS)

bench-loss: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.loss $(ARGS)

bench-holes: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.offset_gaps $(ARGS)

bench-groups: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.groups $(ARGS)

bench-carry: $(READY)
	@$(BIN)/python -m mirror_ray.lab.benchmarks.group_sync $(ARGS)

jars: $(READY)
	@$(BIN)/mirror-ray jars

# All; what runs, which the image has; and what makes an environment: the latter two are parts of the first.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
lock: $(READY)
	@$(COMPILE) pyproject.toml --group dev --output-file requirements.lock $(ARGS)
	@$(COMPILE) pyproject.toml --constraint requirements.lock --output-file requirements-runtime.lock
	@$(COMPILE) --group build --constraint requirements.lock --output-file requirements-build.lock

sbom: $(READY)
	@$(BIN)/python -m supply.sbom build/mirror-ray.cdx.json

scan: $(READY)
	@$(BIN)/python -m supply.scan

image: $(READY)
	@$(BIN)/python -m supply.image.build $(ARGS)

image-demo: $(READY)
	@$(BIN)/python -m supply.image.demo $(ARGS)

image-rootfs: $(READY)
	@$(BIN)/python -m supply.image.rootfs $(or $(DIR),build/image)

clean:
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist kernel/target $(KERNEL)
	@find mirror_ray actors tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target needs this one. A second run does nothing.
$(READY): $(PACKAGES) $(KERNEL_TRIED)
	@touch $@

# A venv whose set-up broke off has no stamp and is made anew. The kernel has a rule of its own.
$(PACKAGES): pyproject.toml requirements.lock requirements-build.lock
	@./.ci/tools
	@python="$$(./.ci/tools python)"; rm -rf $(VENV); echo "Setting up $(VENV) ..."; "$$python" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@MIRROR_RAY_NO_KERNEL=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Built, or not: hatch_build.py says which, and why. It is tried again when a source of it changes, or Cargo.
$(KERNEL_TRIED): $(PACKAGES) hatch_build.py $(wildcard kernel/Cargo.* kernel/.cargo/*) $(shell find kernel/src)
	@$(BIN)/python hatch_build.py
	@rm -f $(VENV)/.kernel-*; touch $@
