# `make` alone lists the targets. Each installs what it lacks by scripts/setup, which says what.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
target := $(or $(CARGO_TARGET_DIR),target)
taut := $(target)/release/taut
pcm := $(target)/release/libasound_module_pcm_tautline.so
# Where ALSA looks, whatever the PREFIX.
alsa_plugins = $$(pkg-config --variable=libdir alsa)/alsa-lib
alsa_conf = /usr/share/alsa/alsa.conf.d
# Asked when a recipe runs: scripts/setup may just have installed what is needed.
features = $$(scripts/features)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: release ## Carry a recording to two receivers here; write what each heard, time every stage
	$(taut) demo

.PHONY: release
release: ## Build taut, optimized, as target/release/taut
	@scripts/setup build
	cargo build --release --locked -p tautline-cli $(features)

.PHONY: plugins
plugins: ## Build what other programs load: the ALSA PCM `type tautline`
	@scripts/setup build
	cargo build --release --locked -p tautline-alsa-pcm

.PHONY: test
test: ## Run all tests; those that lack a program or a privilege say SKIPPED
	@scripts/setup test
	cargo test --locked --workspace $(features)
	scripts/lab-test --short

.PHONY: lab-test
lab-test: ## Run what needs cards, PREEMPT_RT or queue disciplines, in a guest (20 minutes)
	@scripts/setup build
	scripts/lab-test

.PHONY: soak
soak: ## Run the long tests: simulated days, millions of operations (up to an hour)
	@scripts/setup test
	cargo test --locked --profile soak --workspace $(features) -- --ignored
	scripts/lab-test --soak

.PHONY: check
check: ## Format, lints, documentation, licences, real-time sanitizer, house figures
	@scripts/setup check
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets $(features) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --workspace $(features)
	scripts/check-deny
	scripts/sanitize
	scripts/house

.PHONY: bench
bench: ## Measure speed and memory on this machine and print them as a table (8 minutes)
	@scripts/setup test
	scripts/bench

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZ_SECONDS (60)
	@scripts/setup fuzz
	@set -e; export RUSTC_BOOTSTRAP=1; targets=$$(cargo fuzz list); \
	for target in $$targets; do \
	    echo "fuzz: $$target, $(FUZZ_SECONDS) s"; \
	    cargo fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS); \
	done

.PHONY: man
man: release ## Write man pages and shell completions to target/man and target/completions
	$(taut) man --out $(target)/man
	$(taut) completions --out $(target)/completions

.PHONY: install
install: man plugins ## Install taut, man pages, completions (PREFIX, /usr/local) and the PCM for ALSA
	install -Dm755 $(taut) $(DESTDIR)$(PREFIX)/bin/taut
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m644 $(target)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -Dm644 $(target)/completions/taut.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/taut
	install -Dm644 $(target)/completions/_taut $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_taut
	install -Dm644 $(target)/completions/taut.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/taut.fish
	install -Dm644 $(pcm) $(DESTDIR)$(alsa_plugins)/$(notdir $(pcm))
	install -Dm644 plugins/alsa-pcm/99-tautline.conf $(DESTDIR)$(alsa_conf)/99-tautline.conf
	install -d $(DESTDIR)/etc/alsa/conf.d
	ln -sf $(alsa_conf)/99-tautline.conf $(DESTDIR)/etc/alsa/conf.d/99-tautline.conf
	@echo "installed: the ALSA PCM taut:HOST, $(DESTDIR)$(alsa_plugins)/$(notdir $(pcm)) and 99-tautline.conf"
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/taut, its man pages and completions below $(DESTDIR)$(PREFIX)/share"

.PHONY: recording
recording: ## Make assets/recording.flac again and compare it with the one in the tree
	@scripts/setup recording
	assets/make-recording --check
