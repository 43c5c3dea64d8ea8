# SPDX-License-Identifier: MIT
#
# The front door.  CMake is the build (CMakePresets.json); every preset builds in
# build/<preset>.  Missing Debian packages are installed by scripts/packages.

PREFIX   ?= /usr/local
DESTDIR  ?=
WORKLOAD ?=
JSON     ?=
LENGTH   ?= 1
export PREFIX DESTDIR

help: ## prints this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

run: release ## builds, and runs spindle serve; RUN_SECONDS=10 ends by itself
	@build/release/tools/spindle/spindle serve $(if $(RUN_SECONDS),--seconds=$(RUN_SECONDS)) $(if $(URL),'$(URL)')

release:
	@scripts/packages build
	@scripts/build release -- spindle spindle_static spindle_rpc spindle_rpc_static spindle_program

test: ## every build, every test, in minutes; ends in "N passed, N failed"
	@scripts/packages build test lint
	@scripts/run-tests --all

test-long: ## more builds, schedules, mutants, AArch64, coverage; LENGTH=10 for a night; resumes
	@scripts/packages build test lint long
	@scripts/run-tests --all --long --length $(LENGTH) $(if $(SEED_BASE),--seed-base $(SEED_BASE)) $(if $(RESTART),--restart)

sim: ## the schedule explorer alone
	@scripts/packages build test
	@scripts/run-tests sim

bench: ## benchmarks; WORKLOAD=name for one, JSON=file for the results
	@scripts/packages build
	@scripts/packages bench || echo "going on without the peers that are missing"
	@scripts/build bench
	@bench/run --build build/bench $(if $(WORKLOAD),--workload $(WORKLOAD)) $(if $(JSON),--json $(JSON))

cost: ## instructions, wake-ups, allocations of operations, against the kept figures
	@scripts/packages build test
	@scripts/build release -- cost
	@scripts/build sim -- sim_cost
	@scripts/cost

lint: ## style, layering, the seam, static analysis
	@scripts/packages build test lint
	@scripts/build release-clang
	@scripts/lint

format: ## lets clang-format rewrite the C files
	@scripts/packages build lint
	@scripts/lint --fix-format

mutate: ## weakens each memory order in turn: the tests must notice
	@scripts/packages build test
	@scripts/build sim
	@scripts/mutate build/sim

contract: ## which lines of docs/contract.md and docs/pitfalls.md have a test, or changed under it
	@scripts/packages build
	@scripts/contract

coverage: ## line and branch coverage of the tests
	@scripts/packages build test long
	@scripts/coverage

install: release ## into PREFIX (/usr/local), under DESTDIR when given
	@cmake --install build/release --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean: ## removes everything that was built
	rm -rf build

.PHONY: help run release test test-long sim bench cost lint format mutate contract coverage install clean
