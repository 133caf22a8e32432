#!/usr/bin/env bash
# Proves what README.md says of units of the RTL, whatever comes: sim/formal/run.sh [--only PROPERTY] [UNIT...]
#
# yosys makes a circuit of a unit and of its properties (UNIT_props.sv), berkeley-abc, on which yosys' Debian package depends,
# finds an inductive invariant (pdr) that implies them all, or the cycle in which one is broken. --only asks for that
# property alone. What was proved is not proved again of the same files. SLUICE_FORMAL_TREE names another tree than this one for the RTL, to see that a break is found. Status 1
# where a property does not hold, with the counterexample's first cycles in build/formal; 5 where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
all="axi_read axi_write fairest mac_segment npu_regs ram read_ports skid spill stripe_cut write_ports"
only=
if [[ ${1:-} == --only ]]; then only=${2:-}; shift 2 || set -- --; fi
for unit in "$@"; do
  [[ " $all " == *" $unit "* ]] || { echo "usage: sim/formal/run.sh [--only PROPERTY] [UNIT...]; units: $all" >&2; exit 2; }
done
for unit in ${only:+${@:-$all}}; do
  grep -q "\b$only: assert" sim/formal/"$unit"_props.sv || { echo "sim/formal/run.sh: $unit has no property \"$only\"" >&2; exit 2; }
done
for tool in yosys berkeley-abc; do
  command -v $tool >/dev/null || { echo "sim/formal/run.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
tree=${SLUICE_FORMAL_TREE:-.}
out=${SLUICE_FORMAL:-build/formal}
mkdir -p "$out"

# broken NAME LOG WHAT: tells what yosys said last, and ends
broken() {
  tail -n 2 "$2" >&2
  echo "formal: $3" >&2
  exit 1
}

# prove NAME PARAMETERS FILE...: all properties of NAME's unit (a name is a unit, or a unit-configuration) with these parameters,
# NAME=VALUE each; the files are of hw/rtl, or have a folder. $cut are signals that may have any value; $by is what ABC
# proves with. $registers: memories are read as registers, which the properties can name.
prove() {
  local name=$1 parameters=$2 top=${1%%-*}_props frame
  local log=$out/$name.log files=() f n
  for f in "${@:3}"; do if [[ $f == */* ]]; then files+=("$f"); else files+=("$tree/hw/rtl/$f"); fi; done
  n=$(grep -c ': assert' "sim/formal/$top.sv")
  local key
  key=$(cat "${files[@]}" "sim/formal/$top.sv" sim/formal/run.sh <(yosys -V; echo "$only") | sha256sum)
  if [[ $(cat "$out/$name.proved" 2>/dev/null) == "$key" ]]; then echo "formal: $name: proved before, of the same files"; return; fi
  yosys -q -l "$log" -p "
    read_verilog -sv -formal ${registers:+-mem2reg} ${files[*]} sim/formal/$top.sv
    chparam $(sed -E 's/(\w+)=(\w+)/-set \1 \2/g' <<<"$parameters") $top
    hierarchy -check -top $top; rename -top $top; proc; flatten; check -assert
    ${cut:+cutpoint $cut}
    async2sync; dffunmap; opt_clean; chformal -early; opt -nodffe -nosdff
    select -assert-count $n t:\$assert
    ${only:+select -assert-count 1 $top/$only; chformal -assert -remove $top/$only %n}
    wreduce; opt_clean; memory_collect; memory_map; write_rtlil $out/$name.il
    techmap; opt_clean; dffunmap; setundef -undriven -anyseq; setundef -anyseq; aigmap; opt_clean
    write_aiger -zinit $out/$name.aig" >"$out/$name.err" 2>&1 || broken "$name" "$out/$name.err" "$name does not build"
  berkeley-abc -c "read_aiger $out/$name.aig; fold; strash; orpos; ${by:-pdr}" >"$out/$name.abc" 2>&1 || true
  if grep -qE '^(Property proved|Networks are equivalent)' "$out/$name.abc"; then
    echo "$key" >"$out/$name.proved"
    rm "$out/$name".{il,aig}
    echo "formal: $name: ${only:-$n properties} hold with ${parameters// /, }, by induction"
    return
  fi
  # an induction that fails names no cycle
  if grep -q '^Networks are UNDECIDED' "$out/$name.abc"; then
    berkeley-abc -c "read_aiger $out/$name.aig; fold; strash; orpos; bmc3 -F 30 -T 400" >"$out/$name.abc" 2>&1 || true
  fi
  frame=$(sed -nE 's/.*asserted in frame ([0-9]+).*/\1/p' "$out/$name.abc")
  [[ -n $frame ]] || broken "$name" "$out/$name.abc" "$name: undecided"
  # which, and how
  yosys -q -l "$out/$name.txt" -p "read_rtlil $out/$name.il
    sat -prove-asserts -set-assumes -tempinduct-baseonly -seq 1 -maxsteps $((frame + 1)) -show-ports -show-regs" >/dev/null 2>&1 || true
  broken "$name" "$out/$name.abc" "FAILED: $name: ${only:-a property} does not hold in cycle $frame: $out/$name.txt has the signals"
}

unit_axi_read() { local by="scorr; pdr"; prove axi_read "N=2 MAX_OUT=2" spill.sv fairest.sv axi_read.sv; }
unit_axi_write() {
  local by="scorr; pdr"
  prove axi_write "MAX_BURST=2 MAX_OUT=2" spill.sv axi_write.sv
  prove axi_write-with_data "MAX_BURST=2 MAX_OUT=2 WITH_DATA=1" spill.sv axi_write.sv
}
# Over ports that do what is proved of axi_read and axi_write, with queues of a few words.
# few FILE EXPRESSION...: a copy of the RTL with those, of which each has to change it
few() {
  local file=$out/$1 was expression
  cp "$tree/hw/rtl/$1" "$file"
  for expression in "${@:2}"; do
    was=$(<"$file")
    sed -i "$expression" "$file"
    [[ $was != "$(<"$file")" ]] || { echo "formal: $1: $expression changes nothing" >&2; exit 1; }
  done
}
# ports_of UNIT: its head, and in place of the rest what its file here has
ports_of() { { sed '/^);/q' "$tree/hw/rtl/axi_$1.sv"; cat "sim/formal/port_$1.sv"; } >"$out/port_$1.sv"; }
ports="abi_pkg.sv fifo.sv fairest.sv stripe_cut.sv"
unit_read_ports() {
  local by="bmc3 -F 2; ind -F 2" registers=1
  ports_of read
  few read_ports.sv 's/ DEPTH = .*;/ DEPTH = 4;/' 's/DEPTH(64)/DEPTH(4)/'
  prove read_ports "STRIPE=4" $ports "$out/port_read.sv" "$out/read_ports.sv"
}
unit_write_ports() {
  local by="bmc3 -F 2; ind -F 2" registers=1
  ports_of write
  few write_ports.sv 's/DEPTH(32)/DEPTH(4)/' 's/DEPTH(16)/DEPTH(2)/' 's/ MAX_OUT = 16;/ MAX_OUT = 2;/'
  prove write_ports "STRIPE=4" $ports "$out/port_write.sv" "$out/write_ports.sv"
}
unit_skid() { prove skid "WIDTH=2" level.sv fifo.sv skid.sv; }
unit_spill() { prove spill "WIDTH=4" spill.sv; }
unit_fairest() {
  prove fairest-3 "N=3 W=3" fairest.sv
  prove fairest-4 "N=4 W=3" fairest.sv
}
unit_stripe_cut() {
  prove stripe_cut-4 "AW=8 WORDS=4" stripe_cut.sv
  prove stripe_cut-1 "AW=4 WORDS=1" stripe_cut.sv
}
unit_ram() {
  local reg
  for reg in 0 1; do
    prove ram-fold-$reg "DEEP=0 WIDTH=2 DEPTH=20 OUT_REG=$reg" ram_1r1w.sv ram_fold.sv ram_deep.sv
    prove ram-deep-$reg "DEEP=1 WIDTH=2 DEPTH=13 OUT_REG=$reg" ram_1r1w.sv ram_fold.sv ram_deep.sv
  done
}
unit_npu_regs() {
  local quiet cut="w:u_regs.cnt_q w:u_regs.time_q"
  for quiet in 0 1; do prove npu_regs-$quiet "QUIET=$quiet" abi_pkg.sv npu_regs.sv; done
}

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
unit_mac_segment() {
  local kind most dsp48e2 name
  for kind in "4 0 DSP48E1" "8 1 DSP48E2"; do
    read -r most dsp48e2 name <<<"$kind"
    segment "$most" "$dsp48e2" || broken mac_segment "$out/mac_segment-$most.err" \
      "FAILED: mac_segment, $most cells for $name: no proof in $out/mac_segment-$most.log"
    if segment $((most + 1)) "$dsp48e2" || ! grep -q 'model found for base case: FAIL' "$out/mac_segment-$((most + 1)).log"; then
      broken mac_segment "$out/mac_segment-$((most + 1)).err" \
        "FAILED: mac_segment, $((most + 1)) cells for $name: no counterexample in $out/mac_segment-$((most + 1)).log"
    fi
    echo "formal: mac_segment for $name: $most cells are exact, by induction; $((most + 1)) are not"
  done
}

for unit in ${*:-$all}; do unit_"$unit"; done
