# Each command does its own set-up. `make help` lists them; CONTRIBUTING.md says more.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.PHONY: help bench test check soak asan tsan schedules fuzz man install clean build rivals

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
PROGRAM := $(TARGET_DIR)/release/credenza
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
MUSL := $(HOST:-gnu=-musl)
PREFIX ?= /usr/local

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: # the release program
	@cargo build --release --locked -p credenza-cli

# --- measuring -------------------------------------------------------------------------------

# What to measure with: DATA=FILE (text records), or a workload by name; RECORDS=N at most, GETS=N lookups in each
# phase. Of the machine's own paths so many of each that all rivals of Debian are measured within five minutes.
WORKLOAD ?= files
DATA ?=
IS_PATHS := $(if $(DATA)$(filter-out files,$(WORKLOAD)),,yes)
RECORDS ?= $(if $(IS_PATHS),50000)
GETS ?= $(if $(IS_PATHS),50000)
ROUNDS ?= 5
# Empty for all there are.
PHASES ?= build,get-hit,get-miss,get-many-hit,scan,range,insert-random,reinsert,remove,mixed
# Where the results go.
OUT ?= bench-out
# Rivals' libraries that Debian does not package, as in LIBS="mcdb=/opt/mcdb/libmcdb.so".
LIBS ?=

bench: build rivals ## measure this store and every rival found: DATA, WORKLOAD, RECORDS, GETS, PHASES, ROUNDS, OUT, LIBS
	@mkdir -p "$(OUT)"
	arguments=(--rounds "$(ROUNDS)" --json "$(OUT)/report.json" --html "$(OUT)/report.html")
	if [[ -n "$(DATA)" ]]; then arguments+=(--data "$(DATA)"); else arguments+=(--workload "$(WORKLOAD)"); fi
	[[ -z "$(RECORDS)" ]] || arguments+=(--records "$(RECORDS)")
	# Refused where nothing is looked up.
	if [[ -n "$(GETS)" && ( -z "$(PHASES)" || "$(PHASES)" =~ get|range|mixed ) ]]; then
	  arguments+=(--gets "$(GETS)")
	fi
	[[ -z "$(PHASES)" ]] || arguments+=(--phases "$(PHASES)")
	for library in $(LIBS); do arguments+=(--lib "$$library"); done
	"$(PROGRAM)" bench "$${arguments[@]}"
	echo "wrote $(OUT)/report.json and $(OUT)/report.html"

# The rivals that Debian packages; the program opens them at run time.
RIVALS := libcdb1 libtokyocabinet9 libdb5.3 liblmdb0 libtdb1 libkyotocabinet16v5 libtkrzw1 libgdbm6 \
  libsqlite3-0 libleveldb1d librocksdb7.8
# Tools that some tests compare with; without them those tests say so.
TOOLS ?=

rivals: # installs what is missing, where it may; never fails
	@missing=()
	if ! command -v dpkg-query >/dev/null; then
	  echo "note: no Debian packages here; going on with the rivals that are found"
	  exit 0
	fi
	for package in $(RIVALS) $(TOOLS); do
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing+=($$package)
	done
	(( $${#missing[@]} )) || exit 0
	as_root=()
	if (( EUID != 0 )); then
	  if ! sudo -n true 2>/dev/null; then
	    echo "note: may not install $${missing[*]} (neither root nor sudo without password); going on without"
	    exit 0
	  fi
	  as_root=(sudo -n)
	fi
	echo "installing $${missing[*]}"
	as_root+=(timeout 600 env DEBIAN_FRONTEND=noninteractive apt-get -qq)
	"$${as_root[@]}" update || echo "note: the package lists could not be refreshed"
	for package in "$${missing[@]}"; do
	  "$${as_root[@]}" install -y --no-install-recommends $$package </dev/null >/dev/null ||
	    echo "note: $$package could not be installed; going on without"
	done

# --- testing ---------------------------------------------------------------------------------

test: check ## everything that a change must pass
	cargo test --workspace --locked
	for example in constant hash btree; do cargo run --quiet --locked --example $$example; done
	cargo run --quiet --locked --example from_cdb

check: ## formatting, lints, documents, licences; no tests
	@components=$$(cargo fmt --version >/dev/null 2>&1 || echo rustfmt; cargo clippy --version >/dev/null 2>&1 || echo clippy)
	[[ -z "$$components" ]] || rustup component add $$components
	cargo fmt --all --check
	cargo fmt --manifest-path schedules/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTFLAGS="--cfg credenza_schedules" cargo check --locked --tests --manifest-path schedules/Cargo.toml \
	  --target-dir $(TARGET_DIR)/schedules
	if rustup target add $(MUSL) 2>/dev/null; then
	  cargo check --locked -p credenza --lib --test hash_kill --target $(MUSL)
	else
	  echo "note: not compiled for musl: 'rustup target add $(MUSL)' could not be done"
	fi
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
	if cargo deny --version >/dev/null 2>&1; then
	  cargo deny --locked --log-level error check licenses bans sources
	else
	  echo "note: licences not checked: 'cargo install --locked cargo-deny' brings the tool"
	fi

SECONDS_EACH ?= 600
TIMES ?= 100

soak: ## hours: TIMES=100 times as many random rounds, sanitizers, schedules, fuzz targets
	CREDENZA_TIMES=$(TIMES) cargo test --profile soak --workspace --locked --no-fail-fast
	CREDENZA_SOAK=1 cargo test --profile soak -p credenza --locked --lib --test btree_kill --test btree_corruption
	$(MAKE) asan tsan
	$(MAKE) schedules SCHEDULES=$$(($(TIMES) * 600))
	$(MAKE) fuzz SECONDS_EACH=$(SECONDS_EACH)

# The sanitizers are not stable options of rustc: RUSTC_BOOTSTRAP lets the installed one take them.
# What is forgotten on purpose is in lsan.supp.
asan: ## the suite under the address sanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" \
	  LSAN_OPTIONS="suppressions=$(CURDIR)/tests/lsan.supp" \
	  cargo test --workspace --locked --no-fail-fast --target $(HOST) --target-dir $(TARGET_DIR)/asan --tests

# The standard library is not instrumented, so its channels look like races: tsan.supp names them. Tests fork, and
# the child starts threads: the sanitizer knows none of the parent's there, and goes on only when it is told to.
tsan: ## the suite of the library under the thread sanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp die_after_fork=0" \
	  cargo test -p credenza --locked --no-fail-fast --target $(HOST) --target-dir $(TARGET_DIR)/tsan --tests

SCHEDULES ?= 600

schedules: ## the engines in SCHEDULES=600 orders of the steps of their threads
	RUSTFLAGS="--cfg credenza_schedules" SCHEDULES=$(SCHEDULES) cargo test --release --locked \
	  --manifest-path schedules/Cargo.toml --target-dir $(TARGET_DIR)/schedules

# What cargo-fuzz would pass to rustc; libFuzzer itself is compiled by fuzz/ (needs a C++ compiler).
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cdebug-assertions \
  -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares

fuzz: ## every fuzz target for SECONDS_EACH=600; TARGETS="one two" for some
	@cd fuzz
	targets="$(or $(TARGETS),$(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs)))"
	[[ -d corpus ]] || cargo run --quiet --locked --target-dir $(TARGET_DIR)/fuzz --example seeds
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --locked --target $(HOST) --target-dir $(TARGET_DIR)/fuzz
	for target in $$targets; do
	  echo "==> $$target for $(SECONDS_EACH) s"
	  mkdir -p corpus/$$target artifacts/$$target
	  $(TARGET_DIR)/fuzz/$(HOST)/release/$$target -max_total_time=$(SECONDS_EACH) -print_final_stats=1 \
	    -rss_limit_mb=4096 -artifact_prefix=artifacts/$$target/ corpus/$$target
	done

# --- installing ------------------------------------------------------------------------------

man: build ## write the manual pages to target/man
	"$(PROGRAM)" man "$(TARGET_DIR)/man"

install: build man ## install program, manual and completions below PREFIX=/usr/local
	@share="$(DESTDIR)$(PREFIX)/share"
	install -D -m 755 "$(PROGRAM)" "$(DESTDIR)$(PREFIX)/bin/credenza"
	# What only a profile needs is four fifths of the file.
	strip --strip-debug "$(DESTDIR)$(PREFIX)/bin/credenza" || true
	install -d "$$share/man/man1"
	install -m 644 "$(TARGET_DIR)"/man/*.1 "$$share/man/man1"
	completions() { "$(PROGRAM)" completions "$$1" | install -D -m 644 /dev/stdin "$$share/$$2"; }
	completions bash bash-completion/completions/credenza
	completions fish fish/vendor_completions.d/credenza.fish
	completions zsh zsh/site-functions/_credenza
	echo "installed $(DESTDIR)$(PREFIX)/bin/credenza"

clean: ## remove what was built and measured
	cargo clean
	rm -rf "$(OUT)"
