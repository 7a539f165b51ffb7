# Everything a newcomer needs. `make help` lists it. Needs cargo (Rust 1.88 or later) and a C linker.
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
FREEHOLD := $(TARGET)/release/freehold
DEMO := scenarios/two-tasks-none.toml scenarios/two-tasks-spc.toml scenarios/two-tasks-spel.toml

.DEFAULT_GOAL := help
.PHONY: help setup build demo test tidy lint verify soak fuzz bench app-programs tmem-programs

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed 's/^\([a-z-]*\):.*## /  make \1\t/' | expand -t 20

setup:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo 'make: cargo is missing. Install Rust 1.88 or later:' >&2; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default" >&2; \
	  echo '  . "$$HOME/.cargo/env"' >&2; exit 1; }
	@command -v cc >/dev/null 2>&1 || { \
	  echo 'make: a C linker is missing. On Debian, as root: apt-get install -y gcc libc6-dev' >&2; exit 1; }

build: setup ## build the command freehold and the agent that it loads into programs, optimised
	@echo '== building freehold (release)'
	$(CARGO) build --release --locked -p freehold -p freehold-agent -p freehold-rtl

demo: build ## two tasks share a region, live, under none, spc and spel: who misses what and why; then a program
	@echo '== two tasks, one region, real pages: under none, spc and spel'
	@$(FREEHOLD) run $(DEMO) --engine live || { status=$$?; \
	  echo; echo "== the demo ended with status $$status; what this machine can do:"; \
	  $(FREEHOLD) doctor; exit $$status; }
	@echo '== an ordinary program, which knows nothing of it, in a reservation of 8 MiB'
	@$(FREEHOLD) exec --reserve 8MiB -- sh -c \
	  'seq 2000000 | sort -rn | tail -n 1 >/dev/null & sleep 0.4; $(FREEHOLD) status; wait' || { status=$$?; \
	  echo; echo "== the demo ended with status $$status; what this machine can do:"; \
	  $(FREEHOLD) doctor; exit $$status; }

tidy: setup
	@echo '== tidy: sizes, banned words, unsafe, dependency arrows'
	$(CARGO) run --locked -q -p xtask -- tidy
	@echo '== rustfmt'
	$(CARGO) fmt --all --check

lint: tidy ## tidy, format, clippy and rustdoc, warnings refused
	@echo '== clippy and rustdoc'
	sh xtask/lints.sh $(CARGO)

test: tidy ## lint, then every test and doc test
	@echo '== what tests start and load: the command, the agent, the process for modules'
	$(CARGO) build --locked --workspace --lib --bins --examples --tests
	@echo '== tests, in two lanes side by side: what has real memory, processes and times; what computes, then lints'
	@sh xtask/tests.sh $(CARGO) $(TARGET)

verify: setup ## arithmetic of quotas, limits, ages, rings and parsers, over whole domains (minutes)
	@echo '== verify: no proofs by Kani: its compiler comes from no package registry. Small domains are gone through'
	@echo '==         in full instead, large ones in steps, with optimisation; what stays open is in CAVEATS.md'
	$(CARGO) test --locked --release -p freehold-shm -p freehold-protocol -p freehold-core -p freehold-server --lib verify
	$(CARGO) test --locked --release -p freehold-protocol --test verify
	$(CARGO) test --locked --release -p freehold-core --test exhaustive

soak: setup ## the random suites a hundred times longer, optimised (hours)
	@echo '== soak: FREEHOLD_SOAK=1 multiplies every random suite by 100'
	FREEHOLD_SOAK=1 PROPTEST_CASES=$${PROPTEST_CASES:-25600} \
	  $(CARGO) test --locked --release --workspace --no-fail-fast
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
	  echo '== soak: what makes no system calls, under Miri'; \
	  $(CARGO) +nightly miri test --locked -p freehold-protocol --lib -- --skip verify && \
	  MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 \
	    $(CARGO) +nightly miri test --locked -p freehold-shm --test byte_ring && \
	  $(CARGO) +nightly miri test --locked -p freehold-linux --lib memory::racing; \
	else echo '== soak: no Miri: rustup toolchain install nightly --component miri,rust-src'; fi

fuzz: setup ## cargo-fuzz FUZZ_SECONDS on each target, then the random suites with FUZZ_ROUNDS new seeds
	@if $(CARGO) fuzz --version >/dev/null 2>&1 && $(CARGO) +nightly --version >/dev/null 2>&1; then \
	  for target in $$($(CARGO) +nightly fuzz list); do \
	    echo "== fuzz: cargo-fuzz, $$target, $${FUZZ_SECONDS:-60} s"; seeds=; \
	    if [ $$target = scenario_text ]; then mkdir -p fuzz/corpus/$$target; seeds="fuzz/corpus/$$target scenarios"; fi; \
	    $(CARGO) +nightly fuzz run $$target $$seeds -- -max_total_time=$${FUZZ_SECONDS:-60} -max_len=4096 || exit 1; \
	  done; \
	else echo '== fuzz: no cargo-fuzz or no nightly toolchain: random suites only'; fi
	@echo '== fuzz: random suites, new seeds each round; a failure prints its seed'
	@round=0; while [ $$round -lt $${FUZZ_ROUNDS:-10} ]; do \
	  round=$$((round + 1)); seed=$${FUZZ_SEED:-$$(date +%s)}$$round; echo "-- round $$round, FREEHOLD_SEED=$$seed"; \
	  FREEHOLD_SEED=$$seed PROPTEST_CASES=$${PROPTEST_CASES:-4096} \
	    $(CARGO) test --locked --release -q -p freehold-core -p freehold-scenario -p freehold-sim || exit 1; \
	done

bench: build ## every benchmark, floor beside ours; then throughput with criterion
	@command -v valgrind >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo '== installing valgrind, which counts instructions'; apt-get install -y -qq valgrind; \
	  else echo '== valgrind is missing: instructions of the core are not counted'; fi; }
	$(FREEHOLD) bench all
	$(CARGO) bench --locked -p freehold-core -p freehold-sim

app-programs: ## as root on Debian: R, OpenCV, mplayer and GraphChi, for `freehold reproduce app-live`
	sh experiments/app/live/install.sh

tmem-programs: setup ## wrk, and the program for iceoryx2, for `freehold reproduce tmem-table3` and `tmem-table4`
	sh experiments/tmem/install.sh $(TARGET)/iceoryx2
