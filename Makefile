# Two commands matter: `make run` shows the product, `make test` runs every check.
# Both install what is missing first, and say what (scripts/setup.sh).

TARGET  := $(or $(CARGO_TARGET_DIR),target)
TOMBOLO := $(TARGET)/release/tombolo
MACHINE ?= machines/default.toml
PREFIX  ?= /usr/local
LIBDIR  ?= lib

# Debian's Rust where setup had to install it comes first; rustup's folder may be missing from a fresh shell.
export PATH := $(abspath $(TARGET))/debian-rust:$(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help run test browser-tests setup build kit c board-c mpi omp mpi4py vm-python install dist test-packages test-arm-package test-guest-package rdf-farm bench bench-communities bench-mpi bench-omp bench-peers bench-python results clean

help: ## Lists these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Brings a machine up and runs the main job on it; GRAPH=file picks the graph, ARGS= adds options
	@sh scripts/setup.sh run "$(MACHINE)"
	@cargo xtask kit --machine '$(MACHINE)' --image communities --image litmus
	@TOMBOLO=$(TOMBOLO) KIT=$(TARGET)/kit MACHINE='$(MACHINE)' GRAPH='$(GRAPH)' sh scripts/run.sh $(ARGS)

test: ## Runs every check: format, tidy, clippy, tests, loom, miri, foreign instruction sets, whole machines
	@sh scripts/setup.sh test
	@cargo xtask ci $(ARGS)

browser-tests: ## Tests the page of `tombolo web` in Chromium (after `make kit`); ARGS=words picks, --pictures draws, --soak takes an hour
	@sh scripts/browser.sh $(TARGET) $(ARGS)

setup: ## Installs what is missing, and says what
	@sh scripts/setup.sh

build: setup ## Builds the command, and the monitors of every node
	@cargo xtask kit --programs-only

kit: setup ## Builds all that nodes are made of, in target/kit
	@cargo xtask kit

c: ## Puts the library for programs in C in target/kit/c, for every instruction set
	@sh scripts/setup.sh c
	@cargo xtask kit --c

board-c: ## Puts the library for programs in C on boards in target/kit/board-c: RCCE, over picolibc
	@sh scripts/setup.sh board-c
	@cargo xtask kit --board-c

mpi: ## Puts MPI for every instruction set in target/kit/mpi: MPICH, what C programs need, the provider
	@sh scripts/setup.sh mpi
	@cargo xtask kit --mpi

omp: ## Puts what OpenMP programs for unlike processors are linked with in target/kit/omp
	@sh scripts/setup.sh omp
	@cargo xtask kit --omp

mpi4py: ## Puts mpi4py beside MPI: an environment in target/mpi4py, and files of Arm machines in target/kit/mpi4py
	@sh scripts/setup.sh mpi
	@sh scripts/mpi4py.sh $(TARGET)

vm-python: ## Fetches Debian's Python for Arm machines to target/kit/python/aarch64, for `files` in a machine file
	@sh scripts/fetch-vm-python.sh $(TARGET)

install: setup ## Installs the command and what C needs: PREFIX=/usr/local, DESTDIR=, LIBDIR=lib; ARGS=--remove undoes it
	@cargo xtask install --prefix '$(PREFIX)' --libdir '$(LIBDIR)' $(if $(DESTDIR),--destdir '$(DESTDIR)') $(ARGS)

dist: ## Makes packages in target/dist: tarballs, for Debian, wheels; ARGS=--check-crates tries to publish the crates
	@sh scripts/setup.sh dist
	@cargo xtask dist $(ARGS)

test-packages: ## Installs each of these into an empty Debian, and runs ping-pong there (as root, after `make dist`)
	@sh scripts/test-packages.sh $(TARGET)

test-arm-package: ## Installs the package for Arm into an empty Debian for Arm, emulated, and runs ping-pong there (minutes)
	@sh scripts/test-arm-package.sh $(TARGET)

test-guest-package: ## Installs the package into a Debian that QEMU boots, and tests the node as which that joins (minutes)
	@sh scripts/test-guest-package.sh $(TARGET)

bench: kit ## Measures the rings of this host; ARGS=--json for machines
	@$(TOMBOLO) bench ring $(ARGS)

bench-peers: build ## Builds what Tombolo is compared with; AERON=1 adds Aeron (needs CMake 3.30, libbsd, libuuid)
	@sh scripts/bench-peers.sh $(TARGET) $(if $(AERON),--features aeron)

bench-python: build ## Measures arrays between programs in Python, by the wheel; RAY=1 beside Ray; ARGS=--json=FILE keeps it
	@sh scripts/bench-python.sh $(TARGET) $(if $(RAY),--ray) $(ARGS)

rdf-farm: build ## Runs a farm of SPARQL engines on mixes of nodes, by MPI (after `make mpi4py`); RDF=file picks the graph
	@sh scripts/rdf-farm.sh $(TARGET) $(RDF)

bench-communities: ## Measures the main job beside igraph and leidenalg; ARGS=--json=FILE keeps the figures
	@sh scripts/setup.sh run machines/default.toml
	@cargo xtask kit --machine machines/default.toml --image communities
	@cargo build --release --quiet --package communities
	@sh scripts/bench-communities.sh $(TARGET) $(ARGS)

bench-mpi: build ## Fetches and builds what `tombolo bench mpi` compares (after `make mpi`)
	@sh scripts/bench-mpi.sh $(TARGET)

bench-omp: ## Installs what `tombolo bench omp` compares: clang and LLVM's libomp (after `make kit`)
	@sh scripts/setup.sh bench-omp

results: ## Writes the pages and plots of docs/results from the JSON files there
	@cargo run --quiet --release --package tombolo-bench-report -- docs/results/*.json --output docs/results

clean: ## Removes everything that was built
	@cargo clean
