#!/usr/bin/env bash
# need.sh COMMAND…: makes sure that each command is there; python3-MODULE is a module of the system's Python, node-MODULE one
# of Node.js, NAME.h a header of the C compiler. Installs a missing one with the system's package manager, and says what and why first. What is there is
# never touched.
set -euo pipefail

say() { printf 'need: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Administrators' commands are not on every user's path.
PATH="$PATH:/usr/sbin:/sbin:${CARGO_HOME:-$HOME/.cargo}/bin"

manager() {
  local name
  for name in apt-get dnf pacman zypper apk; do
    if command -v "$name" >/dev/null; then echo "$name"; return; fi
  done
}

why() {
  case $1 in
    cc) echo "Rust needs a C linker" ;;
    g++) echo "libFuzzer and BoringSSL are built from C++" ;;
    cmake | libclang) echo "BoringSSL and its bindings for Rust are built with it" ;;
    ip) echo "tests make network namespaces with it" ;;
    taskset) echo "benchmarks pin peers with it" ;;
    setpriv | unshare) echo "tests drop privileges and make namespaces with it" ;;
    nft) echo "the firewall test blocks a transport with it" ;;
    sockperf) echo "benchmarks compare with it" ;;
    iperf3 | irtt | iperf | flent) echo "tests and benchmarks compare with it" ;;
    nginx | python3-* | node-* | socat | xinetd | openssl | mptcpize | kcptun-server | turnserver | usrsctp.h) echo "tests have it for the other end" ;;
    ping | tcpdump) echo "tests have it look at emulated networks" ;;
    sshd | ssh-keygen | parallel | rsync) echo "a test spreads a map over hosts with it" ;;
    munged | slurmctld | slurmd | sbatch) echo "a test spreads a map over nodes of Slurm with it" ;;
    bash) echo "a test runs it on a terminal" ;;
    tmux) echo "the live view is looked at in it" ;;
    tc) echo "tests shape links with it, and backend=netem is set up with it" ;;
    asciinema | npx) echo "the demo is recorded with it and made a picture" ;;
    chromium) echo "tests open pages in it" ;;
    zig) echo "make dist compiles and links static programs with it" ;;
    dpkg-deb | rpmbuild | rpm) echo "make dist writes packages with it, and its test installs them" ;;
    debootstrap | busybox) echo "make dist-test makes bare systems with it" ;;
    skopeo | umoci) echo "make dist-test reads the container image with it" ;;
    qemu-aarch64-static) echo "make dist-test runs the program for aarch64 with it" ;;
    file | xz | zstd) echo "packages are packed or checked with it" ;;
    ruby | nix-instantiate) echo "the formula or the flake is checked with it" ;;
    linux.uml) echo "tests of netem run in it: a kernel in user mode, which has netem" ;;
    *) echo "asked for" ;;
  esac
}

# package COMMAND MANAGER: the package that holds it there; nothing where there is none.
package() {
  case $1:$2 in
    cc:zypper | cc:dnf | cc:pacman) echo gcc ;;
    cc:apt-get) echo gcc libc6-dev ;;
    cc:apk) echo gcc musl-dev ;;
    g++:dnf | g++:zypper) echo gcc-c++ ;;
    g++:pacman) echo gcc ;;
    g++:*) echo g++ ;;
    cmake:*) echo cmake ;;
    # Without the compiler: 60 MB in place of 400.
    libclang:apt-get) echo libclang1-19 libclang-common-19-dev ;;
    libclang:dnf | libclang:pacman) echo clang ;;
    libclang:*) echo clang-dev ;;
    ip:dnf) echo iproute ;;
    ip:*) echo iproute2 ;;
    tc:dnf) echo iproute-tc ;;
    tc:*) echo iproute2 ;;
    # kmod reads the dependencies of its modules, which are not where the host's are.
    linux.uml:apt-get) echo user-mode-linux kmod ;;
    chromium:*) echo chromium ;;
    setpriv:apk) echo setpriv ;;
    setpriv:* | unshare:* | taskset:*) echo util-linux ;;
    nft:*) echo nftables ;;
    ping:apt-get) echo iputils-ping ;;
    ping:*) echo iputils ;;
    tcpdump:*) echo tcpdump ;;
    bash:*) echo bash ;;
    iperf3:zypper) echo iperf ;;
    iperf3:*) echo iperf3 ;;
    iperf:* | flent:* | python3:*) echo "$1" ;;
    sockperf:apt-get | sockperf:dnf) echo sockperf ;;
    irtt:apt-get | irtt:dnf) echo irtt ;;
    # Debian has it from version 13 on.
    python3-aioquic:apt-get) in_suite python3-aioquic ;;
    python3-*:apt-get) echo "$1" ;;
    openssl:*) echo openssl ;;
    nginx:apt-get) echo nginx-light ;;
    nginx:*) echo nginx ;;
    mptcpize:apt-get) echo mptcpize ;;
    mptcpize:dnf) echo mptcpd ;;
    kcptun-server:apt-get) echo kcptun ;;
    turnserver:*) echo coturn ;;
    usrsctp.h:apt-get) echo libusrsctp-dev ;;
    usrsctp.h:dnf) echo usrsctp-devel ;;
    sshd:apt-get | sshd:dnf) echo openssh-server ;;
    ssh-keygen:apt-get) echo openssh-client ;;
    sshd:* | ssh-keygen:*) echo openssh ;;
    parallel:* | rsync:* | socat:* | xinetd:* | git:* | curl:*) echo "$1" ;;
    go:apt-get) echo golang-go ;;
    go:*) echo go ;;
    munged:*) echo munge ;;
    slurmctld:apt-get | slurmd:apt-get) echo "$1" ;;
    slurmctld:dnf | slurmd:dnf) echo "slurm-$1" ;;
    sbatch:apt-get) echo slurm-client ;;
    sbatch:dnf) echo slurm ;;
    dpkg-deb:*) echo dpkg ;;
    rpmbuild:apt-get | rpm:*) echo rpm ;;
    rpmbuild:*) echo rpm-build ;;
    debootstrap:* | skopeo:* | umoci:* | file:* | zstd:* | ruby:*) echo "$1" ;;
    busybox:apt-get) echo busybox-static ;;
    busybox:*) echo busybox ;;
    qemu-aarch64-static:apt-get) echo qemu-user-static ;;
    qemu-aarch64-static:dnf) echo qemu-user-static-aarch64 ;;
    xz:apt-get) echo xz-utils ;;
    xz:*) echo xz ;;
    nix-instantiate:apt-get) echo nix-bin ;;
    tmux:*) echo tmux ;;
    asciinema:*) echo asciinema ;;
    npx:*) echo npm ;;
  esac
}

# A benchmark leaves out the peer that is not there, and a test says that it is skipped where there is
# no kernel in user mode (only Debian and its kin have one), no browser, or no other end; nothing else goes on without.
optional() {
  case $1 in
    sshd | ssh-keygen | parallel | rsync | munged | slurmctld | slurmd | sbatch) return 0 ;;
    skopeo | umoci | qemu-aarch64-static | ruby | nix-instantiate) return 0 ;;
    iperf3 | sockperf | irtt | linux.uml | chromium | nginx | python3-* | node-* | socat | xinetd | openssl | mptcpize | kcptun-server | turnserver | usrsctp.h) return 0 ;;
    *) return 1 ;;
  esac
}

# The Python and the modules of Node.js of the other ends that no package has.
PEERS="$(cd "$(dirname "$0")/.." && pwd)/target/peers"

# Zig and what lets cargo link with it, in a folder of their own.
DIST_TOOLS="${PEERS%/peers}/dist-tools"

# Whether a command is there or, for python3-MODULE and node-MODULE, one of ours has the module or, for NAME.h, the compiler
# the header.
is_there() {
  case $1 in
    python3-*)
      /usr/bin/python3 -c "import ${1#python3-}" 2>/dev/null \
        || { [ -x "$PEERS/bin/python3" ] && "$PEERS/bin/python3" -c "import ${1#python3-}" 2>/dev/null; } ;;
    node-*) NODE_PATH="$PEERS/node_modules" node -e "require('${1#node-}')" 2>/dev/null ;;
    zig) [ -x "$DIST_TOOLS/bin/cargo-zigbuild" ] ;;
    # The library, and the headers that a compiler brings.
    libclang)
      [ -n "$(find -L /usr/lib /usr/lib64 -maxdepth 2 -name 'libclang[-.][0-9s]*' -print -quit 2>/dev/null)" ] \
        && [ -n "$(find -L /usr/lib /usr/lib64 -maxdepth 6 -path '*/clang/*/include/stddef.h' -print -quit 2>/dev/null)" ] ;;
    *.h) cc -E -include "$1" -xc /dev/null >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else say "not root, and no sudo to become it; run as root: $*"; return 1
  fi
}

refreshed=
refresh() {
  [ -n "$refreshed" ] || as_root apt-get update -q >&2 || return 1
  refreshed=yes
}

# in_suite PACKAGE: its name, where this version of Debian has it.
in_suite() {
  refresh || true
  apt-cache policy "$1" | awk -v package="$1" '$1 == "Candidate:" && $2 != "(none)" { print package }'
}

add() { # add MANAGER PACKAGE…
  local with=$1
  shift
  case $with in
    apt-get)
      refresh || return 1
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >&2 ;;
    dnf) as_root dnf install -qy "$@" >&2 ;;
    pacman) as_root pacman -S --needed --noconfirm "$@" >&2 ;;
    zypper) as_root zypper --non-interactive install "$@" >&2 ;;
    apk) as_root apk add --quiet "$@" >&2 ;;
  esac
}

# at_rest COMMAND mask|disable: keeps the daemon of a package from starting, now and with the system. Tests start their own.
at_rest() {
  local unit
  case $1 in
    sshd) unit=ssh.service ;;
    munged) unit=munge.service ;;
    xinetd) unit=xinetd.service ;;
    slurmctld | slurmd) unit=$1.service ;;
    turnserver) unit=coturn.service ;;
    *) return 0 ;;
  esac
  [ "$with" = apt-get ] && [ -d /run/systemd/system ] || return 0
  if [ "$2" = mask ]; then
    as_root systemctl mask --quiet "$unit"
  else
    as_root systemctl unmask --quiet "$unit"
    as_root systemctl disable --quiet "$unit"
  fi
}

need_cargo() {
  fail "cargo is not there. Install Rust (https://rustup.rs), then run this again."
}

need_cargo_fuzz() {
  say "cargo-fuzz is not there (it builds and runs the fuzz targets): cargo install --locked cargo-fuzz"
  cargo install --locked cargo-fuzz >&2 || fail "cargo install --locked cargo-fuzz failed; its own words are above"
}

# From PyPI on each system, so that each links with the same; each file is held to its hash.
need_zig() {
  say "zig is not there ($(why zig)): pip installs what scripts/dist/tools.txt names into $DIST_TOOLS"
  [ -x /usr/bin/python3 ] || add "$(manager)" python3 || fail "zig takes Python"
  into_venv "$DIST_TOOLS" "$(dirname "$0")/dist/tools.txt" || fail "pip could not install zig; its own words are above"
}

# Without its server and its watch for changes, which are most of it.
need_mdbook() {
  say "mdbook is not there (it makes pages of docs/): cargo install --locked mdbook"
  cargo install --locked --version 0.5.4 --no-default-features --features search mdbook >&2 \
    || fail "cargo install mdbook failed; its own words are above"
}

# A second program with iperf3's protocol, in a folder of its own.
need_riperf3() {
  [ -x "$PEERS/bin/riperf3" ] && return
  say "riperf3 is not there (a script has it for the other end): cargo install --locked --root $PEERS riperf3-cli"
  cargo install --locked --root "$PEERS" --version 0.8.0 riperf3-cli >&2 || fail "cargo install riperf3-cli failed; its own words are above"
}

# What no package of this system has and PyPI does, in a folder of its own; each file is held to its hash.
from_pypi() {
  local files
  files="$(dirname "$0")/../tests/interop/${1#python3-}.txt"
  [ -x /usr/bin/python3 ] || return 1
  say "$1 is not there ($(why "$1")), and no package has it: pip installs what ${files##*/../} names into $PEERS"
  into_venv "$PEERS" "$files"
}

into_venv() { # into_venv FOLDER FILE: makes a Python of its own there, with what the file names.
  if ! /usr/bin/python3 -c 'import ensurepip' 2>/dev/null && [ "$(manager)" = apt-get ]; then
    add apt-get python3-venv || return 1
  fi
  /usr/bin/python3 -m venv "$1" >&2 || return 1
  "$1/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$2" >&2
}

# What npm alone has, in a folder of its own; each file is held to its hash, and no script of theirs runs.
from_npm() {
  local names=tests/interop/${1#node-}
  if ! command -v npm >/dev/null; then
    add "$(manager)" npm || return 1
  fi
  say "${1#node-} is not there ($(why "$1")), and no package has it: npm installs what $names names into $PEERS"
  mkdir -p "$PEERS" && cp "$PEERS/../../$names"/package*.json "$PEERS" || return 1
  npm ci --prefix "$PEERS" --ignore-scripts --no-audit --no-fund --silent >&2
}

# --known COMMAND…: installs nothing, and names each command that no package of Debian is known for.
if [ "${1:-}" = --known ]; then
  shift
  in_suite() { echo "$1"; }
  for command in "$@"; do
    case $command in
      cargo | cargo-fuzz | mdbook | riperf3 | zig | node-*) ;;
      *) [ -n "$(package "$command" apt-get)" ] || echo "$command" ;;
    esac
  done
  exit
fi

for command in "$@"; do
  is_there "$command" && continue
  case $command in
    cargo) need_cargo ;;
    cargo-fuzz) need_cargo_fuzz; continue ;;
    mdbook) need_mdbook; continue ;;
    riperf3) need_riperf3; continue ;;
    zig) need_zig; continue ;;
  esac
  with=$(manager)
  packages=
  [ -z "$with" ] || packages=$(package "$command" "$with")
  if [ -z "$packages" ]; then
    trouble="no package of it is known for ${with:-this system}; install it by hand"
  else
    say "$command is not there ($(why "$command")): $with installs $packages"
    # Word splitting is meant: one command may need two packages.
    at_rest "$command" mask || true
    # shellcheck disable=SC2086
    if add "$with" $packages && is_there "$command"; then
      at_rest "$command" disable || true
      continue
    fi
    at_rest "$command" disable || true
    trouble="$with could not install $packages"
  fi
  if [ "$command" = python3-aioquic ]; then
    if from_pypi "$command" && is_there "$command"; then continue; fi
    trouble="$trouble, and pip could not install it"
  fi
  if [[ $command = node-* ]]; then
    if from_npm "$command" && is_there "$command"; then continue; fi
    trouble="npm could not install it"
  fi
  if optional "$command"; then
    say "$command is missing ($(why "$command")), so that is left out: $trouble"
  else
    fail "$command is missing ($(why "$command")): $trouble"
  fi
done
