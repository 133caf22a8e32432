#!/usr/bin/env bash
# Runs benches of units on their netlists, for both families: sim/netlist/units.sh [--seed N] [--n N]
#
# These units contain cells of hw/xilinx, or memories with packed output registers (hw/syn). hw/syn/synth.sh synthesises a
# small variant of each; its bench of sim/bench then drives the netlist with sim/cells instead of the RTL. Takes a minute
# and a half of CPU if nothing is built yet. Status 1: a bench fails, 2: usage, 5: a tool is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
run=()
while (($#)); do
  case $1 in
    --seed | --n) (($# >= 2)) || { echo "usage: sim/netlist/units.sh [--seed N] [--n N]" >&2; exit 2; }; run+=("$1" "$2"); shift 2 ;;
    *) echo "usage: sim/netlist/units.sh [--seed N] [--n N]" >&2; exit 2 ;;
  esac
done
for tool in verilator g++; do
  command -v $tool >/dev/null || { echo "sim/netlist/units.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
failed=0
# family | module | text that the netlist must contain | parameters
while IFS='|' read -r family module holds parameters; do
  set=() defines=()
  for p in $parameters; do set+=(--set "$p"); defines+=("-DP_$p"); done
  dir=$(SLUICE_SYN=build/netlist/units hw/syn/synth.sh small --family "$family" --top "$module" "${set[@]}" 2>/dev/null) || { echo "$family $module: no netlist" >&2; exit 1; }
  out=build/netlist/units/$family-$module
  mkdir -p "$out"
  if ! tr -d ' \n' <"$dir/netlist.v" | grep -qF -- "$holds"; then
    echo "sim/netlist/units.sh: $family $module: the netlist does not hold $holds" >&2
    failed=1
  fi
  hash=$(cat "$dir/netlist.v" sim/cells/*.v "sim/bench/$module"/*.cpp sim/bench/*.hpp sim/*.hpp sim/netlist/units.sh | sha256sum)
  if [[ $(cat "$out/hash" 2>/dev/null) != "$hash" ]]; then
    rm -rf "$out"
    mkdir -p "$out"
    { verilator --cc --top-module "$module" --Mdir "$out" -Wno-fatal -Wno-WIDTH -Wno-PINMISSING --x-assign fast --build -CFLAGS -O1 \
        --exe -o tb -CFLAGS "-std=c++17 -I$root/sim -I$root/sim/include ${defines[*]}" \
        "$dir/netlist.v" sim/cells/*.v "$root/sim/bench/$module/${module}_tb.cpp" && echo "$hash" >"$out/hash"; } >"$out/log" 2>&1 \
      || { tail -n 20 "$out/log" >&2; echo "sim/netlist/units.sh: $family $module does not build" >&2; exit 1; }
  fi
  printf '%s ' "$family"
  "$out/tb" "${run[@]}" || failed=1
done <<'UNITS'
xc7|mac_chain|.PCIN({\genblk1.gen_series7|LEN=4 ACC=36
xcup|mac_chain|.PCIN({\genblk1.genblk1.gen_ultrascale|LEN=4 ACC=36
xc7|act_buffer|.DOB_REG(32'd1)|NB=8 ABUF_WORDS=1536 IN_WORDS=4 TAG=5 Y_LANES=3 SPLIT=512
xcup|act_buffer|.OREG_A("TRUE")|NB=8 ABUF_WORDS=32 IN_WORDS=4 TAG=5 Y_LANES=3 FOLD=1
xc7|weight_ring|.REGCEAREGCE(move)|WIDTH=64 DEPTH=512
UNITS
exit $failed
