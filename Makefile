# Every target installs what it needs where that is missing, and says what and why.
# `make help` lists the targets; the Rust toolchain itself comes from https://rustup.rs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

SECONDS ?= 60
RUNS ?= 20
HOURS ?= 1
RACES ?= 10
TWINS ?= 100
BENCH ?=
ARCHES ?=
# Contenders behind features that are measured, too; quic-quiche takes what scripts/quiche.sh names.
BENCH_FEATURES ?= quic-noq
# The other ends of tests/interop.
PEERS := socat xinetd openssl mptcpize kcptun-server turnserver usrsctp.h python3-enet python3-websockets python3-aioquic node-utp-native
# What tests/network/spread.rs has a map spread by.
SPREAD := sshd ssh-keygen parallel rsync munged slurmctld slurmd sbatch
FUZZ_TARGETS := control hello result grammar study import far_end responder ndt7 protocol protocol+address

.PHONY: race test test-needs test-build docs book answer lint check bench fuzz soak dist dist-test dist-twice help

race: ## build, then race TCP, UDP and ICMP on loopback
	scripts/need.sh cargo cc
	cargo build --release --locked
	./target/release/deadheat race tcp udp icmp || [ $$? = 3 ] # 3: it ran, and says why not to trust it

test: test-needs ## all tests, those of the documentation's examples included
	scripts/test.sh

test-needs:
	scripts/need.sh cargo cc ip tc setpriv unshare nft bash ping tcpdump iperf3 irtt nginx linux.uml chromium $(PEERS) $(SPREAD)

test-build:
	scripts/need.sh cargo cc
	cargo test --locked --workspace --features all-contenders --lib --bins --tests --no-run

docs: ## the documentation of the code, without a warning
	scripts/need.sh cargo cc
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --features all-contenders --no-deps

book: ## the book of docs/ as pages, in target/book
	scripts/need.sh cargo cc mdbook
	PATH="$$PATH:$${CARGO_HOME:-$$HOME/.cargo}/bin" scripts/book.sh

answer: ## docs/answer.md and studies/runs anew, by the rules of this version
	scripts/need.sh cargo cc
	UPDATE_GOLDEN=1 cargo test --locked --workspace --features all-contenders --test program kept_runs_say
	UPDATE_GOLDEN=1 cargo test --locked --workspace --features all-contenders --test tidy the_answer_to_the_articles

lint:
	scripts/need.sh cargo cc
	scripts/lint.sh

check: lint ## format, lints, house rules: what changes should pass before a commit
	cargo test --locked --workspace --features all-contenders --test tidy

bench: ## figures beside the floor and beside peers (BENCH="ping bulk" selects), and what RACES=10 default races decide
	scripts/need.sh cargo cc taskset iperf3 sockperf irtt
	cargo build --release --locked --features $(BENCH_FEATURES)
	cargo bench --locked --features $(BENCH_FEATURES) --bench floor
	cargo bench --locked --features $(BENCH_FEATURES) --bench ratios -- $(BENCH)
	cargo bench --locked --features $(BENCH_FEATURES) --bench overhead
	cargo bench --locked --features $(BENCH_FEATURES) --bench workloads
	cargo bench --locked --features $(BENCH_FEATURES) --bench verdicts -- $(RACES) $(TWINS)
	cargo bench --locked --features $(BENCH_FEATURES) --bench closed_forms
	cargo bench --locked --features $(BENCH_FEATURES) --bench causes

fuzz: ## each fuzz target for SECONDS=60, two at a time, on stable Rust
	scripts/need.sh cargo cc g++ cargo-fuzz
	scripts/fuzz.sh $(SECONDS) $(FUZZ_TARGETS)

soak: test-needs ## RUNS=20 of the whole test suite, 1000 networks up and down, HOURS=1 of attacks and of ping; not part of CI
	cargo test --locked --workspace --features all-contenders --no-run
	for run in $$(seq $(RUNS)); do echo "run $$run of $(RUNS)"; cargo test --locked --workspace --features all-contenders --quiet; done
	DEADHEAT_SOAK_SECONDS=$${SOAK_SECONDS:-$$(($(HOURS) * 3600))} cargo test --locked --test attack a_soak -- --nocapture
	DEADHEAT_ATTACK_SECONDS=20 cargo test --locked --test attack -- --nocapture
	scripts/quiche.sh
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test conformance bulk_arrives
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network remote::cells
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network answers::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network web::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network browser::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network quicperf::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network ndt7::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network commands::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network external::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network emulated::
	DEADHEAT_ALL_CELLS=1 cargo test --locked --features all-contenders --test network hosts::
	DEADHEAT_DOWN_SECONDS=30 cargo test --locked --test network away::
	DEADHEAT_ROUNDS=1000 cargo test --locked --test network path::nothing_is_left_behind
	cargo build --release --locked --features live
	scripts/iperf3-matrix.sh
	scripts/pull-request.sh
	DEADHEAT=target/release/deadheat scripts/pairs.sh
	DEADHEAT=target/release/deadheat scripts/axe.sh
	DEADHEAT=target/release/deadheat scripts/live.sh
	./target/release/deadheat race udp -w ping:interval=1ms,count=$$(($(HOURS) * 3600000)) --blocks 1 --budget $$(($(HOURS) * 3))h

dist: ## what a release has, in target/dist: a static program, .deb, .rpm, wheel, image, checksums (ARCHES="x86_64 aarch64" for both)
	scripts/need.sh cargo cc zig dpkg-deb rpmbuild xz file
	scripts/dist/all.sh $(ARCHES)

dist-test: ## installs each of them on a system with nothing else, and races there; as root
	scripts/need.sh debootstrap busybox rpm skopeo umoci unshare ip qemu-aarch64-static ruby nix-instantiate
	scripts/dist/test.sh

dist-twice: ## builds them again in another folder, and compares the bytes
	scripts/dist/twice.sh $(ARCHES)

help: ## this list
	@echo "deadheat, the referee for network transports"
	@sed -nE 's/^([a-z-]+): ## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
