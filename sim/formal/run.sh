#!/usr/bin/env bash
# Proves mac_segment_props.sv for mac_segment and npu_regs_props.sv for npu_regs, for good: sim/formal/run.sh
#
# By temporal induction with the SAT solver that is in yosys (as its Debian package has it; yosys-smtbmc with z3 had not
# ended npu_regs' first step after minutes). mac_segment: 4 cells for DSP48E1, 8 for DSP48E2, a second each; and that 5 and 9
# have a counterexample. npu_regs: for QUIET 0 and 1, some 20 CPU-seconds each. SLUICE_FORMAL_TREE names another tree than
# this one for the RTL, to see that a break is found. Status 1 where a property does not hold, with the first cycles of the
# counterexample in build/formal; 5 where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
if (($#)); then echo "usage: sim/formal/run.sh" >&2; exit 2; fi
command -v yosys >/dev/null || { echo "sim/formal/run.sh: yosys is missing: install the package yosys" >&2; exit 5; }
tree=${SLUICE_FORMAL_TREE:-.}
out=${SLUICE_FORMAL:-build/formal}
mkdir -p "$out"

# segment CELLS DSP48E2: is the proof's status; the log's last lines say more
segment() {
  local log=$out/mac_segment-$1.log
  yosys -q -l "$log" -p "
    read_verilog -sv -formal $tree/hw/rtl/int8/mac_segment.sv sim/formal/mac_segment_props.sv
    chparam -set CELLS $1 -set DSP48E2 $2 mac_segment_props
    hierarchy -check -top mac_segment_props; rename -top mac_segment_props; proc; flatten
    connect -set u_segment.gen_mac.p_q[0] before; connect -set u_segment.gen_mac.m_q[1] product
    prep -flatten -nordff -top mac_segment_props
    async2sync; dffunmap; opt_clean; check -assert
    chformal -early; techmap; opt -fast
    select -assert-count 2 t:\$assert
    sat -prove-asserts -set-assumes -tempinduct -seq 1 -maxsteps 2 -verify" >"$out/mac_segment-$1.err" 2>&1 \
    && grep -q 'Induction step proven: SUCCESS' "$log"
}
for kind in "4 0 DSP48E1" "8 1 DSP48E2"; do
  read -r most dsp48e2 name <<<"$kind"
  if ! segment "$most" "$dsp48e2"; then
    tail -n 2 "$out/mac_segment-$most.err" >&2
    echo "formal: FAILED: mac_segment, $most cells for $name: no proof in $out/mac_segment-$most.log" >&2
    exit 1
  fi
  if segment $((most + 1)) "$dsp48e2" || ! grep -q 'model found for base case: FAIL' "$out/mac_segment-$((most + 1)).log"; then
    tail -n 2 "$out/mac_segment-$((most + 1)).err" >&2
    echo "formal: FAILED: mac_segment, $((most + 1)) cells for $name: no counterexample in $out/mac_segment-$((most + 1)).log" >&2
    exit 1
  fi
  echo "formal: mac_segment for $name: $most cells are exact, by induction; $((most + 1)) are not"
done

n=$(grep -c ': assert' sim/formal/npu_regs_props.sv)
for quiet in 0 1; do
  log=$out/npu_regs-$quiet.log
  yosys -q -l "$log" -p "
    read_verilog -sv -formal hw/rtl/abi_pkg.sv $tree/hw/rtl/npu_regs.sv sim/formal/npu_regs_props.sv
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
