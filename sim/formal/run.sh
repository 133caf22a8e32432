#!/usr/bin/env bash
# Proves npu_regs_props.sv for npu_regs, for good: sim/formal/run.sh
#
# By temporal induction, for QUIET 0 and 1, with the SAT solver that is in yosys (as its Debian package has it, some
# 20 CPU-seconds each; yosys-smtbmc with z3 had not ended its first step after minutes). SLUICE_REGS names another
# npu_regs.sv, to see that a break is found. Status 1 where a property does not hold, with the first cycles of the
# counterexample in build/formal; 5 where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
if (($#)); then echo "usage: sim/formal/run.sh" >&2; exit 2; fi
command -v yosys >/dev/null || { echo "sim/formal/run.sh: yosys is missing: install the package yosys" >&2; exit 5; }
regs=${SLUICE_REGS:-hw/rtl/npu_regs.sv}
out=${SLUICE_FORMAL:-build/formal}
mkdir -p "$out"
n=$(grep -c ': assert' sim/formal/npu_regs_props.sv)
for quiet in 0 1; do
  log=$out/npu_regs-$quiet.log
  yosys -q -l "$log" -p "
    read_verilog -sv -formal hw/rtl/abi_pkg.sv $regs sim/formal/npu_regs_props.sv
    chparam -set QUIET $quiet npu_regs_props
    prep -flatten -nordff -top npu_regs_props
    async2sync; dffunmap; opt_clean; check -assert
    chformal -early; memory_map; techmap; opt -fast
    select -assert-count $n t:\$assert
    sat -prove-asserts -set-assumes -tempinduct -seq 1 -maxsteps 8 -verify" >"$out/npu_regs-$quiet.err" 2>&1 || {
    grep -m1 -A40 'Time Signal Name' "$log" >"$out/npu_regs-$quiet.txt" || true
    tail -n 2 "$out/npu_regs-$quiet.err" >&2
    echo "formal: FAILED: npu_regs, QUIET = $quiet: $out/npu_regs-$quiet.txt has the counterexample" >&2
    exit 1
  }
  grep -q 'Induction step proven: SUCCESS' "$log" || { echo "formal: FAILED: npu_regs, QUIET = $quiet: no proof in $log" >&2; exit 1; }
  echo "formal: npu_regs, QUIET = $quiet: $n properties hold, by induction"
done
