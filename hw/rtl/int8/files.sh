#!/usr/bin/env bash
# Makes the RTL of an int8 NPU: hw/rtl/int8/files.sh DIR
#
# Its modules are those of hw/rtl with what npu.patch changes, in DIR, and the units here; abi_pkg has the planned fields. Prints the
# files, packages first, from the repository's root. A patch that no longer fits hw/rtl is an error (status 1).
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
[[ $# == 1 ]] || { echo "usage: hw/rtl/int8/files.sh DIR" >&2; exit 2; }
command -v patch >/dev/null || { echo "hw/rtl/int8/files.sh: patch is missing: install the package patch" >&2; exit 5; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$root"
here=hw/rtl/int8
units=$(grep '^hw/' $here/files.f)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
mapfile -t changed < <(sed -n 's|^+++ b/||p' $here/npu.patch)
for f in "${changed[@]}"; do cp "hw/rtl/$f" "$new/"; done
if ! patch -s -p1 -F0 --no-backup-if-mismatch -d "$new" <$here/npu.patch >"$new/log"; then
  cat "$new/log" >&2
  echo "$here/npu.patch no longer fits hw/rtl: apply what changed there to it too" >&2
  exit 1
fi
for f in "${changed[@]}"; do
  # only what differs is written: builds look at times
  cmp -s "$new/$f" "$dir/$f" || cp "$new/$f" "$dir/$f"
done
{
  grep '_pkg\.sv$' <<<"$units"
  for f in $(grep '^hw/' hw/rtl/files.f); do
    name=${f##*/}
    case $name in
      *_pkg.sv | pe_array.sv | pe_group.sv | mac_chain.sv) ;;
      *) if [[ " ${changed[*]} " == *" $name "* ]]; then echo "${dir#"$root"/}/$name"; else echo "$f"; fi ;;
    esac
  done
  grep -v '_pkg\.sv$' <<<"$units"
}
