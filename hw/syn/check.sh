#!/usr/bin/env bash
# Checks the flow itself on modules of a few lines (testdata): hw/syn/check.sh. Bad modules are rejected
# with the right reason, and code that yosys 0.23 alone gets wrong is mapped correctly, for both families.
# Takes less than a minute of CPU. Status 1: a check fails, 2: usage.
set -euo pipefail
(($# == 0)) || { echo "usage: hw/syn/check.sh" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
count=0

synth() { # FILE FAMILY
  SLUICE_SYN=$tmp SLUICE_RTL=$1 hw/syn/synth.sh small --family "$2" --top "$(basename "$1" .sv)" >"$tmp/out" 2>&1
}
fail() {
  cat "$tmp/out" >&2
  echo "hw/syn/check.sh: $*" >&2
  failed=1
}
refused() { # MODULE TEXT
  count=$((count + 1))
  if synth "hw/syn/testdata/refused/$1.sv" xc7; then
    fail "$1 is accepted"
  elif ! grep -qF -- "$2" "$tmp/out"; then
    fail "$1 is not refused for \"$2\""
  fi
}
holds() { # MODULE FAMILY TEXT: the netlist holds TEXT, spaces aside
  count=$((count + 1))
  if ! synth "hw/syn/testdata/mended/$1.sv" "$2"; then
    fail "$1 is refused for $2"
  elif ! tr -d ' \n' <"$tmp/small-$2-$1/netlist.v" | grep -qF -- "$3"; then
    fail "the netlist of $1 for $2 does not hold $3"
  fi
}

refused latchy "Latch inferred"
refused deep "memory mem of 128 words went to lutram"
refused torn "memory mem of 128 words went to ff"
refused structs "implicitly declared"
for family in xc7 xcup; do
  holds shift "$family" ".CE(en_i)"
done
holds wide xc7 ".DIPBDIP({wdata_i[71],wdata_i[62],wdata_i[53],wdata_i[44]})"
holds wide xcup ".DINPBDINP({wdata_i[71],wdata_i[62],wdata_i[53],wdata_i[44]})"
# a folded bank of 16K x 16 is one URAM of 4K rows
count=$((count + 1))
if ! SLUICE_SYN=$tmp SLUICE_RTL=hw/rtl/ram_fold.sv hw/syn/synth.sh small --family xcup --top ram_fold --set CELLS=0 >"$tmp/out" 2>&1; then
  fail "ram_fold is refused"
elif ! tr -d ' \n' <"$tmp/small-xcup-ram_fold/summary.json" | grep -qF '"uram":1,' ||
  ! tr -d ' \n' <"$tmp/small-xcup-ram_fold/summary.json" | grep -qF '"words":4096,"width":64,"in":"uram"'; then
  fail "ram_fold is not one URAM of 4096 x 64"
fi
if ((failed == 0)); then echo "synthesis flow: $count modules as expected"; fi
exit $failed
