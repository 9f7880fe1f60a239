# `make` lists the targets. Each target installs its prerequisites with scripts/setup, which reports them.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
fuzz_limits = -len_control=0 -timeout=5 -rss_limit_mb=512 -malloc_limit_mb=256
RELEASE ?= trixie
target := $(or $(CARGO_TARGET_DIR),target)
taut := $(target)/release/taut
# Evaluated when a recipe runs, because scripts/setup may have just installed packages.
features = $$(scripts/features)
# `make demo` builds without the lab, unless the present program has it.
without_lab = $$($(taut) lab list >/dev/null 2>&1 || echo --no-default-features)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Build taut without `taut lab`, send a recording to two receivers here, and time each stage
	@scripts/setup build
	cargo build --release --locked -p tautline-cli $(without_lab) $(features)
	$(taut) demo

.PHONY: release
release: ## Build taut with all features, optimized per crate, as target/release/taut
	@scripts/setup build
	cargo build --release --locked -p tautline-cli $(features)

.PHONY: dist
dist: ## Build taut for packages and benchmarks, optimized as a whole, as target/dist/taut (11 minutes)
	@scripts/setup dist
	cargo build --profile dist --locked -p tautline-cli --features bundled-opus $(features)

# Together with taut: alone, the plugins select fewer features of shared crates, and cargo would build these twice.
.PHONY: plugins
plugins: ## Build the libraries for other programs: the ALSA PCM `type tautline`, the LADSPA proxy, the plugin of `taut lab capacity`
	@scripts/setup build
	cargo build --release --locked -p tautline-cli -p tautline-alsa-pcm -p tautline-ladspa-proxy -p tautline-ladspa-cost $(features)

.PHONY: test tests
test: ## Run all tests except the long ones (make nightly 3/5), and count SKIPPED tests by reason
	@scripts/setup test
	@scripts/test-summary $(MAKE) --no-print-directory tests

# WITHOUT=CRATE…: omits the tests of these crates.
tests:
	scripts/run-tests $(WITHOUT)
	scripts/check-realtime $(target)/debug/taut $(target)/debug/deps/libasound_module_pcm_tautline.so $(target)/debug/deps/libtautline_ladspa.so
	scripts/test-install
	scripts/lab-test --short

.PHONY: test-debian
test-debian: ## Run `make demo` and `make test` on a bare Debian RELEASE (trixie) in a folder; needs root
	scripts/test-debian "$(RELEASE)"

.PHONY: lab-test
lab-test: ## Run the tests that need cards, PREEMPT_RT or queue disciplines, in a guest (20 minutes)
	@scripts/setup build
	scripts/lab-test

.PHONY: lab
lab: release ## Run each experiment of `taut lab` briefly, as root; writes target/lab/index.html (5 minutes)
	$(taut) lab all --out $(target)/lab

.PHONY: nightly
nightly: ## Run a part of the long checks, e.g. make nightly 1/5 (scripts/nightly lists the parts)
	@scripts/nightly $(part)

# In `make nightly 1/5`, `1/5` is a goal without a recipe.
part := $(filter %/5,$(MAKECMDGOALS))
$(part):
	@:

.PHONY: check
check: ## Check format, lints, documentation, links, plain words, and generated files of docs/performance.md
	@scripts/setup check
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets $(features) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --workspace $(features)
	scripts/check-words
	scripts/check-docs
	scripts/report-reference --check
	scripts/check-commits
	scripts/check-realtime --self-test
	python3 scripts/measure/page_test.py
	scripts/bench --check

.PHONY: sanitize
sanitize: ## Run the tests of io, audio, engine and the PCM under the real-time sanitizer
	@scripts/setup check
	@scripts/setup test
	@scripts/test-summary scripts/sanitize

.PHONY: bench
bench: ## Measure speed and memory on this machine, and print the tables of docs/performance.md
	@scripts/setup bench
	scripts/bench

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZ_SECONDS (60)
	@scripts/setup fuzz
	@set -e; export RUSTC_BOOTSTRAP=1; targets=$$(cargo fuzz list); \
	for target in $$targets; do \
	    echo "fuzz: $$target, $(FUZZ_SECONDS) s"; \
	    mkdir -p "fuzz/corpus/$$target" "fuzz/seeds/$$target"; \
	    cargo fuzz run "$$target" "fuzz/corpus/$$target" "fuzz/seeds/$$target" -- \
	        -max_total_time=$(FUZZ_SECONDS) $(fuzz_limits); \
	done

.PHONY: man
man: release ## Write man pages and shell completions to target/man and target/completions
	$(taut) man --out $(target)/man
	$(taut) completions --out $(target)/completions

# The pages of the root are next to docs, as here, so that links between them resolve.
.PHONY: docs
docs: ## Build the documents as a website, target/site (needs mdbook)
	@command -v mdbook >/dev/null || { echo "mdbook is missing; install it: cargo install mdbook" >&2; exit 1; }
	scripts/check-docs
	rm -rf $(target)/book
	mkdir -p $(target)/book
	cp -r docs README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md $(target)/book/
	mv $(target)/book/docs/book.toml $(target)/book/
	{ sed 's,](,](docs/,; s,^\[Documents\],[tautline](README.md)\n&,' docs/SUMMARY.md; \
	    printf '\n[%s](%s.md)\n' Architecture ARCHITECTURE Contributing CONTRIBUTING Changelog CHANGELOG; } >$(target)/book/SUMMARY.md
	rm $(target)/book/docs/SUMMARY.md
	mdbook build $(target)/book

.PHONY: install
install: man plugins ## Install taut as `make release` builds it, man pages, completions, services, the PCM for ALSA (PREFIX, /usr/local)
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install "$(target)"

.PHONY: uninstall
uninstall: ## Remove the files that `make install` with the same PREFIX installed
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install --undo

.PHONY: recording
recording: ## Make assets/recording.flac again, and compare it with the file in the tree
	@scripts/setup recording
	assets/make-recording --check
