# Two commands for a fresh machine: `make demo` and `make test`. The rest is `make help`.
# What needs more than a line is done by scripts/ and by `cargo xtask`.

PREFIX ?= /usr/local
DESTDIR ?=
SECONDS_EACH ?= 60
SUITE ?= bookworm
SUITES ?= bookworm trixie

# Rust from rustup is found in the same call that installed it, before a distribution's older one.
CARGO_BIN := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export PATH := $(CARGO_BIN):$(PATH):/usr/sbin:/sbin

BIN = $(DESTDIR)$(PREFIX)/bin
SHARE = $(DESTDIR)$(PREFIX)/share
# libvdeplug looks here when PREFIX is /usr; docs/guide/vde.md says what to do otherwise.
PLUGINS = $(DESTDIR)$(PREFIX)/lib/vdeplug

.PHONY: help demo test bare browser test-browser bench conformance oracles kernels install dist wheel packages packages-test peers fuzz findings check setup build clean

help:
	@echo 'make demo      bring up a network of two sites, download through two routers, take it down'
	@echo 'make test      all tests, as an ordinary user and as root where the kernel asks for it'
	@echo 'make bare      demo and test where nothing is installed, in a bare Debian (root, apt); SUITE=$(SUITE)'
	@echo 'make test-browser  chromium under guard, where it is installed; not part of make test'
	@echo 'make bench     all measurements, beside the peers that are installed; BENCH="--quick --report DIR"'
	@echo 'make conformance  os-ken'"'"'s switch tests on the OpenFlow switch, some 30 minutes (needs make peers)'
	@echo 'make oracles  imports of random labs, compared with the programs whose labs they are (pip, apt)'
	@echo 'make kernels  tests under other kernels, in virtual machines without KVM'
	@echo 'make peers     install programs that tests and benches run beside netloom'
	@echo 'make browser     install Chromium, some 130 MB, for the tests of the page; make test skips them without it'
	@echo 'make install   binaries, plug-in, man pages and completions below PREFIX=$(PREFIX) (and DESTDIR)'
	@echo 'make dist      a tarball of the same in dist/'
	@echo 'make wheel     the Python package in dist/ (needs make peers)'
	@echo 'make packages  deb and rpm packages, tarball, list of components and checksums in dist/'
	@echo 'make packages-test  these packages in bare Debians: SUITES="$(SUITES)" (root, apt)'
	@echo 'make check     formatting, lints, documentation, layers of the workspace'
	@echo 'make fuzz      attacks and kills for some 30 minutes, properties, every fuzz target for SECONDS_EACH=$(SECONDS_EACH)'
	@echo 'make findings  show surprises of other programs and of the kernel: findings/README.md'
	@echo 'make clean     remove what was built'
	@echo 'demo and test install what is missing on Debian, Ubuntu and dnf systems, and say so.'

setup:
	@sh scripts/setup.sh tools

build: setup
	cargo build --release --package netloom --package netloom-bench --package netloom-vdeplug

# In the tests' profile, and with the features that the whole workspace gives to libraries: `make test` builds none of
# them a second time.
demo: setup
	cargo build --workspace --bin netloom
	@sh scripts/demo.sh "$$(sh scripts/binary.sh debug)"

test: setup
	cargo xtask test

bare:
	@bash scripts/bare.sh "$(SUITE)"

test-browser: setup
	cargo xtask test browser

bench: setup
	cargo xtask bench $(BENCH)

oracles: setup
	cargo xtask oracles

conformance: setup
	cargo xtask conformance

# Debian's kernel, then newer ones that apt's lists have.
kernels: setup
	cargo xtask test kernel
	cargo xtask test kernel --newer

peers:
	@sh scripts/setup.sh peers

browser:
	@sh scripts/setup.sh browser

# Builds as whoever calls; `sudo make install` after `make build` only copies.
install:
	@sh scripts/install.sh "$(BIN)" "$(SHARE)" "$(PLUGINS)"

dist: setup
	cargo xtask dist

wheel:
	@sh python/wheel.sh

packages: setup
	@sh scripts/setup.sh packages
	cargo xtask packages

# A build with optimisation comes first.
packages-test: packages
	@bash scripts/packages-test.sh $(SUITES)

check: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --workspace --no-deps
	cargo xtask check
	cargo xtask codegen --check
	cargo xtask web --check

fuzz: setup
	cargo xtask fuzz $(SECONDS_EACH)

# Without setup: they run without netloom.
findings:
	@sh scripts/findings.sh

clean:
	cargo clean
	rm -rf dist
