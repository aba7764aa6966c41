#!/usr/bin/env bash
# test.sh [NAME…]: installs each package of target/dist on a system with nothing else, and races there over a loopback device of its
# own: static, action, deb, pip, rpm, image, arm, files (all unless named), and cargo, which takes minutes and has to be named. Prints the
# time from nothing to the first verdict. As root.
# Everything it makes ends with it: namespaces with their mounts, and one folder.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"

[ "$(id -u)" = 0 ] || fail "it makes namespaces and systems in folders: run it as root"
[ -e "$DIST/SHA256SUMS" ] || fail "nothing is in $DIST yet: make dist"
PATH="$PATH:/usr/sbin:/sbin"
arch=$(uname -m)
case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) debian=$arch ;; esac
work=$(mktemp -d /var/tmp/deadheat-dist.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
(cd "$DIST" && sha256sum --check --quiet SHA256SUMS)

# within FOLDER COMMAND…: runs the command with the folder as its whole system, in namespaces of mounts, processes and networks
# of its own, with the devices that each system has. VIA is a command that runs the last step.
within() {
  unshare --mount --pid --net --ipc --uts --fork --kill-child --propagation private bash -euc '
    cd "$1"
    mkdir -p proc sys dev
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t tmpfs -o mode=755 tmpfs dev
    for each in "null 3" "zero 5" "random 8" "urandom 9"; do mknod -m 666 "dev/${each% *}" c 1 "${each#* }"; done
    mkdir -m 1777 dev/shm
    ip link set lo up
    shift
    # Word splitting is meant: a command that takes the rest for its own.
    exec ${VIA:-} chroot ${USERSPEC:+--userspec="$USERSPEC"} . "$@"' - "$@"
}

now() { date +%s%N; }

# raced NAME SINCE FOLDER PROGRAM…: races in that system, and prints the verdict and the time since then.
raced() {
  local name=$1 since=$2 folder=$3
  shift 3
  local said code=0
  # Echoes one after the other: a host that builds something else meanwhile is late for a schedule.
  said=$(within "$folder" "$@" race tcp udp -w ping:window=1 --quick -q -o /tmp/race.json) || code=$?
  # 3: it ran, and says why not to trust it, as on a host that works on something else.
  case $code in 0 | 3) ;; *) fail "$name: the race ended with $code" ;; esac
  local verdict
  verdict=$(grep -m 1 -E 'ahead|dead heat|undecided|differ' <<<"$said" | sed 's/^ *//') || fail "$name: no verdict in: $said"
  printf '%-8s %5.1f s  %s\n' "$name" "$(awk "BEGIN { print ($(now) - $since) / 1e9 }")" "$verdict"
}

# A Debian with its least packages.
a_debian() {
  [ -e "$work/debian/usr" ] && return
  local suite
  suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo stable)
  say "debootstrap makes a system of Debian ($suite) in $work"
  debootstrap --variant=minbase "$suite" "$work/debian" >"$work/debootstrap.log" || fail "debootstrap failed: $(tail -3 "$work/debootstrap.log")"
}

# A system of one program, busybox.
a_busybox() {
  mkdir -p "$1"/{bin,tmp,etc}
  cp "$(command -v busybox)" "$1/bin/busybox"
  chroot "$1" /bin/busybox --install -s /bin
}

test_static() {
  a_busybox "$work/static"
  local since
  since=$(now)
  tar -xzf "$DIST/deadheat-$VERSION-$(target "$arch").tar.gz" -C "$work/static" --strip-components 1
  raced static "$since" "$work/static" /deadheat
}

# The first step of action.yml fetches what a release has.
test_action() {
  local file since
  file="deadheat-$VERSION-$(target "$arch").tar.gz"
  since=$(now)
  DEADHEAT_WORK="$work/action" DEADHEAT_URL="file://$DIST/$file" DEADHEAT_DIGEST="$(sha256sum "$DIST/$file" | cut -d ' ' -f 1)" \
    scripts/action/program.sh >/dev/null
  mkdir -p "$work/action/tmp"
  raced action "$since" "$work/action" /bin/deadheat
}

test_deb() {
  a_debian
  local file="deadheat_${VERSION}_$debian.deb" since
  cp "$DIST/$file" "$work/debian/root/"
  since=$(now)
  within "$work/debian" dpkg --install "/root/$file" >/dev/null
  raced deb "$since" "$work/debian" deadheat
  for path in usr/share/man/man1/deadheat.1.gz usr/lib/systemd/system/deadheat.service etc/deadheat/secret etc/deadheat/serve.env etc/ufw/applications.d/deadheat; do
    # The least Debian leaves manuals out.
    [ -e "$work/debian/$path" ] || [[ $path = */man/* ]] || fail "deb: $path is not there"
  done
  [ "$(stat -c %a "$work/debian/etc/deadheat/secret")" = 600 ] || fail "deb: others can read the secret"
  within "$work/debian" dpkg --purge deadheat >/dev/null
  [ ! -e "$work/debian/usr/bin/deadheat" ] && [ ! -e "$work/debian/etc/deadheat" ] || fail "deb: the purge left something"
}

test_pip() {
  a_debian
  cp /etc/resolv.conf /etc/hosts "$work/debian/etc/"
  chroot "$work/debian" apt-get install -qy --no-install-recommends python3-venv >"$work/python.log" 2>&1 || fail "pip: $(tail -3 "$work/python.log")"
  cp "$DIST"/*"_$arch.whl" "$work/debian/root/"
  local since
  since=$(now)
  within "$work/debian" sh -euc 'python3 -m venv /venv && /venv/bin/pip install --quiet --no-index --disable-pip-version-check /root/*.whl'
  raced pip "$since" "$work/debian" /venv/bin/deadheat
  within "$work/debian" /venv/bin/python - <"$root/packaging/python/check.py"
}

test_rpm() {
  local folder=$work/rpm since
  # Its scripts take a shell, and nothing else.
  a_busybox "$folder"
  rpm --root "$folder" --initdb
  since=$(now)
  rpm --root "$folder" --nodeps --noplugins --install "$DIST/deadheat-$VERSION-1.$arch.rpm"
  raced rpm "$since" "$folder" /usr/bin/deadheat
  [ -s "$folder/usr/lib/sysctl.d/10-deadheat.conf" ] || fail "rpm: the setting is not there"
  rpm --root "$folder" --noplugins --erase deadheat
  [ ! -e "$folder/usr/bin/deadheat" ] || fail "rpm: the removal left the program"
}

# The image as its own files, and as tools of others read it.
test_image() {
  local file="$DIST/deadheat-$VERSION-$arch-oci.tar" folder=$work/image since
  mkdir -p "$folder/rootfs"
  /usr/bin/python3 scripts/dist/unpack.py "$file" "$folder/rootfs"
  if command -v skopeo >/dev/null; then
    skopeo --insecure-policy copy --quiet "oci-archive:$file" "oci:$folder/layout:test"
    skopeo inspect "oci:$folder/layout:test" >/dev/null
    if command -v umoci >/dev/null; then
      umoci unpack --image "$folder/layout:test" "$folder/bundle" >/dev/null
      diff -r --no-dereference "$folder/rootfs" "$folder/bundle/rootfs" || fail "image: umoci unpacks something else"
    fi
  fi
  since=$(now)
  USERSPEC=65534:65534 raced image "$since" "$folder/rootfs" /deadheat
}

# The program for the other processor, on an emulated one. Both ends of a trial are processes of the program that runs, so the kernel has
# to start programs by the emulator.
test_arm() {
  local file folder=$work/arm emulator since
  file="$DIST/deadheat-$VERSION-$(target aarch64).tar.gz"
  [ "$arch" = x86_64 ] && [ -e "$file" ] || { say "arm is left out: no package for aarch64, or this host is one"; return; }
  emulator=$(command -v qemu-aarch64-static) || { say "arm is left out: no qemu-aarch64-static"; return; }
  mkdir -p "$folder/tmp"
  local via="unshare --user --map-root-user --mount $root/scripts/dist/emulated.sh $emulator"
  if ! $via true 2>/dev/null; then say "arm is left out: this kernel does not let a namespace name its own emulator"; return; fi
  since=$(now)
  tar -xzf "$file" -C "$folder" --strip-components 1
  VIA=$via raced arm "$since" "$folder" /deadheat
}

# From a clone, by a compiler: minutes of all CPUs, so only where it is named.
test_cargo() {
  local since
  a_debian
  since=$(now)
  git clone --quiet "$root" "$work/clone"
  (cd "$work/clone" && cargo install --quiet --locked --path . --root "$work/cargo")
  install -D "$work/cargo/bin/deadheat" "$work/debian/usr/local/bin/deadheat"
  raced cargo "$since" "$work/debian" deadheat
  rm "$work/debian/usr/local/bin/deadheat"
}

# The formula and the flake are read by their own tools, where these are there.
test_files() {
  if command -v ruby >/dev/null && [ -e "$DIST/deadheat.rb" ]; then ruby -c "$DIST/deadheat.rb"; fi
  if command -v nix-instantiate >/dev/null; then nix-instantiate --parse packaging/nix/flake.nix >/dev/null && echo "flake.nix parses"; fi
}

[ $# != 0 ] || set -- static action deb pip rpm image arm files
for name in "$@"; do "test_$name"; done
