#!/usr/bin/env bash
# builds.sh: second step of action.yml. Checks the revision DEADHEAT_BASE out to $DEADHEAT_WORK/base and the revision that is there to
# $DEADHEAT_WORK/head, and runs DEADHEAT_BUILD (make) in each. Both are fresh, and their names have the same length: a program's arguments and
# environment lie on its stack, and move what lies below it.
set -euo pipefail

work="${DEADHEAT_WORK:?DEADHEAT_WORK: a folder for the program, the builds and the results}"
base="${DEADHEAT_BASE:-}"
build="${DEADHEAT_BUILD:-make}"

# fail TEXT: what is wrong, and what would be right
fail() {
  echo "builds.sh: $1" >&2
  exit 2
}

git rev-parse --git-dir >/dev/null 2>&1 || fail "$PWD is in no clone of a repository; check it out in a step before (actions/checkout)"
# The first push of a branch has nothing before it.
if [ -z "${base//0/}" ]; then
  fail "there is no revision to compare with; write a branch, a tag or a commit, such as main (input: base)"
fi
if ! revision="$(git rev-parse --verify --quiet --end-of-options "$base^{commit}")"; then
  # A checkout of a job has one commit.
  git fetch --quiet --no-tags --depth 1 origin -- "$base" ||
    fail "\`$base\` is no revision here, and no branch, tag or commit at origin; write one that is, such as main (input: base)"
  revision="$(git rev-parse --verify FETCH_HEAD)"
fi
if [ "$revision" = "$(git rev-parse --verify HEAD)" ]; then
  echo "builds.sh: base and head are one revision, so no change is judged" >&2
fi
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  echo "builds.sh: changes here that are not committed are in neither build" >&2
fi
mkdir -p "$work"
for side in base head; do
  [ "$side" = base ] || revision="$(git rev-parse --verify HEAD)"
  rm -rf "${work:?}/$side"
  git worktree prune
  git worktree add --quiet --detach "$work/$side" "$revision"
  echo "builds.sh: $side is $revision"
  (cd "$work/$side" && bash -euo pipefail -c "$build") ||
    fail "\`$build\` failed in the tree of the $side, $revision; it has to build both revisions (input: build)"
done

# A linker writes a file in pieces, which lie apart in the page cache; a file that is copied lies there in few, and is faster. A race copies
# the programs that the pair names by a path, to another folder (docs/commands.md, Copies). That is not possible for libraries and programs
# that others start: they are found by paths that a build wrote into its programs (rpath), or beside them. So they are copied here, in their place.
for side in base head; do
  find "$work/$side" -type f \( -perm -u=x -o -name '*.so' -o -name '*.so.*' \) -print0 | while IFS= read -r -d '' file; do
    cp --preserve=all -- "$file" "$file.copied"
    mv -- "$file.copied" "$file"
  done
done
