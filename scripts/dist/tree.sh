#!/usr/bin/env bash
# tree.sh ARCH FOLDER: lays out below the folder what a package installs: program, manual, completions, service, settings, pages, licences.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=$1 into=$2
# The program that runs here prints the manual and the completions of both.
own="$STAGE/$(uname -m)/deadheat"

rm -rf "$into"
install -D -m 755 "$STAGE/$arch/deadheat" "$into/usr/bin/deadheat"
put() { install -D -m 644 /dev/stdin "$into/$1"; }
"$own" man --all "$into/usr/share/man/man1"
gzip -9 -n "$into"/usr/share/man/man1/*.1
chmod 644 "$into"/usr/share/man/man1/*
"$own" completions bash | put usr/share/bash-completion/completions/deadheat
# Debian's shells read one folder, those of others the second.
for folder in vendor-completions site-functions; do "$own" completions zsh | put "usr/share/zsh/$folder/_deadheat"; done
"$own" completions fish | put usr/share/fish/vendor_completions.d/deadheat.fish
put usr/lib/systemd/system/deadheat.service <packaging/deadheat.service
put etc/deadheat/serve.env <packaging/install/serve.env
put usr/lib/firewalld/services/deadheat.xml <packaging/install/firewalld.xml
put etc/ufw/applications.d/deadheat <packaging/install/ufw.profile
put usr/lib/sysctl.d/10-deadheat.conf <packaging/install/10-deadheat.conf
put usr/share/doc/deadheat/copyright <packaging/install/copyright
put usr/share/doc/deadheat/third-party.txt <"$STAGE/third-party.txt"
# The pages of the book, as text: a host without a network has them, too.
for page in docs/*.md docs/workloads/*.md; do put "usr/share/doc/deadheat/$page" <"$page"; done
for name in LICENSE-MIT LICENSE-APACHE README.md; do put "usr/share/doc/deadheat/$name" <"$name"; done
dated "$into"
