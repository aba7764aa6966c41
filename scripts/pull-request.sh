#!/usr/bin/env bash
# pull-request.sh [MINUTES]: judges two branches of a throw-away repository by the steps of action.yml, with the inputs of the workflow in docs/ci.md:
# a transfer over TCP that waits for an answer after each window, with a Makefile of its own. The branch `slow` has a window a fifth
# smaller, the branch `same` another comment. Prints both comments and the time that each took, and fails where the first is not worse or the second
# is. MINUTES replaces the time of the workflow; DEADHEAT names the program (target/release/deadheat).
set -euo pipefail

cd "$(dirname "$0")/.."
here="$PWD"
program="$(realpath "${DEADHEAT:-target/release/deadheat}")"
scripts/need.sh cc ip git

# Prints an input of the workflow in docs/ci.md: the value on its line, or the lines of a block.
input() {
  awk -v name="$1" '
    /^```yaml/ { inside = 1; next }
    /^```/ { inside = 0 }
    !inside { next }
    block { if (match($0, /^ */) && RLENGTH > block) { sub(/^ */, ""); print; next } block = 0 }
    $1 == name ":" { match($0, /^ */); if ($2 == "|") block = RLENGTH; else { sub(/^ *[a-z]+: /, ""); print } }
  ' docs/ci.md
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
repository="$work/repository"
git init --quiet --initial-branch main "$repository"
cd "$repository"
git config user.name nobody
git config user.email nobody@example.org
cat >pair.c <<'CODE'
/* Sends bytes over TCP, and waits for an answer after each window: ROLE ADDRESS PORT BYTES. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "window.h"

static char window[WINDOW];

static void all(ssize_t (*call)(int, void *, size_t), int end, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t moved = call(end, window + done, length - done);
		if (moved <= 0)
			exit(1);
		done += moved;
	}
}

static ssize_t put(int end, void *bytes, size_t length) { return write(end, bytes, length); }

static ssize_t get(int end, void *bytes, size_t length) { return read(end, bytes, length); }

int main(int count, char **words)
{
	if (count != 5)
		return 2;
	int is_server = !strcmp(words[1], "server"), on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
	if (inet_pton(AF_INET, words[2], &at.sin_addr) != 1)
		return 2;
	int end = socket(AF_INET, SOCK_STREAM, 0);
	if (is_server) {
		setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (bind(end, (struct sockaddr *)&at, sizeof at) || listen(end, 8))
			return perror("listen"), 1;
		end = accept(end, NULL, NULL);
	} else if (connect(end, (struct sockaddr *)&at, sizeof at)) {
		return perror("connect"), 1;
	}
	setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	for (size_t left = strtoull(words[4], NULL, 10); left > 0;) {
		size_t length = left < WINDOW ? left : WINDOW;
		all(is_server ? get : put, end, length);
		all(is_server ? put : get, end, 1);
		left -= length;
	}
	return 0;
}
CODE
echo '#define WINDOW 250000 /* bytes */' >window.h
printf 'pair: pair.c window.h\n\tcc -O2 -o $@ pair.c\n' >Makefile
mkdir ci
cat >ci/pair.toml <<'PAIR'
server = "{tree}/pair server {host} {port} {bytes}"
client = "{tree}/pair client {host} {port} {bytes}"
ready = "tcp"

[set]
tree = "."
PAIR
git add .
git commit --quiet --message "Send bytes in windows"
git switch --quiet --create slow
echo '#define WINDOW 200000 /* bytes */' >window.h
git commit --quiet --all --message "Use less memory"
git switch --quiet --create same main
echo '#define WINDOW 250000 /* bytes of a window */' >window.h
git commit --quiet --all --message "Say what the bytes are of"

# What a runner gives to an action with these inputs; what the workflow leaves out has the default of action.yml.
DEADHEAT_PAIR="$(cd "$here" && input pair)"
DEADHEAT_BUILD="$(cd "$here" && input build)"
DEADHEAT_WORKLOAD="$(cd "$here" && input workload)"
DEADHEAT_PATHS="$(cd "$here" && input paths)"
DEADHEAT_MINUTES="${1:-$(cd "$here" && input minutes)}"
export DEADHEAT_PAIR DEADHEAT_BUILD DEADHEAT_WORKLOAD DEADHEAT_PATHS DEADHEAT_MINUTES
export DEADHEAT_BASE=main DEADHEAT_PROGRAM="$program"

failed=0
for branch in slow same; do
  git switch --quiet "$branch"
  export DEADHEAT_WORK="$work/$branch" GITHUB_OUTPUT="$work/$branch.outputs"
  begun=$SECONDS code=0
  "$here/scripts/action/program.sh"
  "$here/scripts/action/builds.sh"
  "$here/scripts/action/race.sh" || code=$?
  took=$((SECONDS - begun))
  echo
  cat "$DEADHEAT_WORK/comment.md" "$GITHUB_OUTPUT"
  echo "pull-request.sh: $branch: exit code $code after $took s"
  case "$branch $code" in
  "slow 5" | "same 0") ;;
  *) failed=1 ;;
  esac
  [ "$took" -le 600 ] || failed=1
done
exit "$failed"
