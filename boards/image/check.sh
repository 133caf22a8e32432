#!/usr/bin/env bash
# Checks that the same sources give the same image, byte for byte: boards/image/check.sh BOARD [--fresh]
#
# Builds HEAD's image in two clones, in folders with different names, and compares every file's sha256. --fresh:
# each clone builds its own kernel and has its own Go cache (some 15 CPU-minutes). Otherwise they use this
# checkout's.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[[ ${1:-} && ( -z ${2:-} || ${2:-} == --fresh ) ]] || { echo "usage: boards/image/check.sh BOARD [--fresh]" >&2; exit 2; }
board=$1 fresh=${2:-}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export SLUICE_CACHE= # a cached result would be the same in both
sums=()
for name in one the-other-one; do
  clone=$work/$name
  git clone -q "$root" "$clone"
  if [[ $fresh ]]; then
    export GOCACHE=$work/cache-$name
  elif [[ -d $root/build/kernel ]]; then
    mkdir -p "$clone/build"
    cp -a "$root/build/kernel" "$clone/build/"
  fi
  (cd "$clone" && boards/image/build.sh "$board") >"$work/$name.log" 2>&1 || { tail -n 30 "$work/$name.log" >&2; exit 1; }
  # SHA256SUMS must match the files; otherwise equal lists would prove nothing
  (cd "$clone/build/image/$board" && sha256sum --quiet -c SHA256SUMS && [[ $(wc -l <SHA256SUMS) -ge 7 ]])
  sums+=("$(cat "$clone/build/image/$board/SHA256SUMS")")
  rm -rf "$clone/build/kernel"
done
if [[ ${sums[0]} != "${sums[1]}" ]]; then
  echo "boards/image/check.sh: $board: two clones, other bytes:" >&2
  diff <(echo "${sums[0]}") <(echo "${sums[1]}") >&2 || exit 1
fi
echo "$board: the same bytes twice${fresh:+, kernel and Go cache anew}"
echo "${sums[0]}"
