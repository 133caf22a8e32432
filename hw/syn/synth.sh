#!/usr/bin/env bash
# Synthesises a configuration with yosys 0.23 for Xilinx parts:
#
#   hw/syn/synth.sh CONFIG [--family xc7|xcup] [--top MODULE [--set NAME=VALUE]...] [--store]
#
# CONFIG is a name or a YAML file of hw/configs; --top takes another module than npu_top (it gets
# those of the configuration's parameters that it has, and those of --set). The result is
# build/syn/<config>-<family>[-<module>]/ with summary.json, netlist.v, netlist.json, stat.txt and yosys' log; its
# path is printed. yosys does not run where a hash over the module's RTL, the parameters, this flow
# and the version of yosys says that nothing has changed. --store puts the summary, without its
# memories, into hw/syn/results too. The array, and for xcup folded banks, are made of cells (hw/xilinx) where the
# module has the parameter CELLS; elsewhere yosys infers DSPs.
#
# Fails (status 1, each reason named) where yosys accepted what it does not understand, inferred a
# latch, put a memory of more than 64 words into LUTs or registers, or used other DSPs than the
# array's T_P * T_C and the pool's: see hw/syn/README.md. 2: usage, 5: a tool is missing.
# SLUICE_RTL names other RTL than that of hw/rtl/files.f and hw/xilinx, SLUICE_SYN another folder than build/syn (for tests).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

usage() {
  echo "usage: hw/syn/synth.sh CONFIG [--family xc7|xcup] [--top MODULE [--set NAME=VALUE]...] [--store]" >&2
  exit 2
}
config=
family=xc7
top=npu_top
store=
set=()
while (($#)); do
  case $1 in
    --family) (($# >= 2)) || usage; family=$2; shift 2 ;;
    --top) (($# >= 2)) || usage; top=$2; shift 2 ;;
    --set) [[ ${2:-} =~ ^[A-Z][A-Z0-9_]*=[0-9]+$ ]] || usage; set+=("$2"); shift 2 ;;
    --store) store=hw/syn/results; shift ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$1; shift ;;
  esac
done
[[ -n $config ]] || usage
[[ $top =~ ^[a-z][a-z0-9_]*$ ]] || usage
# The commands are those of `synth_xilinx` for the family, read off yosys 0.23 with `echo on`. Two
# of its stages are spelled out here, because they give wrong netlists as they are (README).
case $family in
  xc7)
    bram_map=brams_xc6v_map.v
    luts=2:2,3,6:5,10,20
    libmap="-lib +/xilinx/lutrams_xc5v.txt -lib +/xilinx/brams_xc4v.txt -D HAS_SIZE_36 -D HAS_CASCADE -D HAS_CONFLICT_BUG -D HAS_MIXWIDTH_SDP -no-auto-huge"
    ;;
  xcup)
    bram_map=brams_xcu_map.v
    luts=2:2,3,6:5,10,20,40
    libmap="-lib +/xilinx/lutrams_xcu.txt -lib +/xilinx/brams_xc4v.txt -D HAS_SIZE_36 -D HAS_MIXWIDTH_SDP -D HAS_ADDRCE -lib +/xilinx/urams.txt"
    ;;
  *) usage ;;
esac
for tool in yosys go; do
  command -v "$tool" >/dev/null || { echo "hw/syn/synth.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
tool=$(yosys -V)
if [[ $tool != "Yosys 0.23 "* ]]; then
  echo "hw/syn/synth.sh: this flow is written for and checked with Yosys 0.23; here is $tool" >&2
  exit 5
fi
datadir=$(dirname "$(dirname "$(command -v yosys)")")/share/yosys/xilinx
[[ -f $datadir/$bram_map ]] || { echo "hw/syn/synth.sh: $datadir/$bram_map is missing: reinstall the package yosys" >&2; exit 5; }

if [[ -n ${SLUICE_RTL:-} ]]; then
  read -ra rtl <<<"$SLUICE_RTL"
else
  mapfile -t rtl < <(grep '^hw/' hw/rtl/files.f)
  rtl+=(hw/xilinx/*.sv)
fi
# Packages first; the modules are elaborated once their parameters are known.
ordered=()
for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv ]]; then ordered+=("$f"); fi; done
top_file=
for f in "${rtl[@]}"; do if [[ $(basename "$f") == "$top.sv" ]]; then top_file=$f; fi; done
[[ -n $top_file ]] || { echo "hw/syn/synth.sh: there is no module $top" >&2; exit 2; }

flags=$(go run ./hw/configs/cmd/hwconfig -verilator "$config")
if [[ $family == xcup ]]; then flags+=" -GCELLS=2"; else flags+=" -GCELLS=1"; fi
params=
for p in $flags; do
  p=${p#-G}
  # word by word: a parameter the top does not have is not an error of the configuration
  if grep -Eq "^ *parameter .*\b${p%%=*} *=" "$top_file"; then params+=" $p"; fi
done
for p in ${set[@]+"${set[@]}"}; do params="$(sed -E "s/ ${p%%=*}=[^ ]+//" <<<"$params") $p"; done

name=$(basename "$config" .yaml)
dir=${SLUICE_SYN:-build/syn}/$name-$family
if [[ $top != npu_top ]]; then dir+=-$top; fi
mkdir -p "$dir"
sources=$(go run ./hw/syn/cmd/synreport -hash -top "$top" "${ordered[@]}")
hash=$( (printf '%s\n' "$tool" "$family" "$top" "$params" "$sources"
  cat "$datadir/$bram_map" hw/syn/synth.sh hw/syn/pack.go) | sha256sum | cut -d' ' -f1)
report() {
  rm -f "$dir/summary.json"
  go run ./hw/syn/cmd/synreport -config "$config" -family "$family" -top "$top" -tool "$tool" \
    -sources "$sources" -dir "$dir" ${store:+-store "$store"} >&2
  echo "$dir"
}
# One build of a folder at a time; whoever waited finds it done.
exec 9>"$dir/lock"
flock 9
if [[ -f $dir/netlist.v && -f $dir/netlist.json && -f $dir/hash && $(cat "$dir/hash") == "$hash" ]]; then
  report
  exit
fi
rm -f "$dir"/{hash,summary.json,netlist.v,netlist.json,stat.txt,mem.txt,words.txt,packed.txt}

# The map writes a memory's upper parity bits (four of a 72-bit word) from the lower ones.
mkdir -p "$dir/map"
cp "$datadir/brams_defs.vh" "$dir/map/"
sed 's/PORT_W_WIDTH == 71/PORT_W_WIDTH == 72/' "$datadir/$bram_map" >"$dir/map/$bram_map"
if cmp -s "$datadir/$bram_map" "$dir/map/$bram_map"; then
  echo "hw/syn/synth.sh: $datadir/$bram_map is not the one of Yosys 0.23" >&2
  exit 5
fi
# The top's own defaults are set, in a copy: with -chparam yosys stops at an assertion of its own
# where it has to elaborate the top twice (pe_array).
edit=(-e '')
for p in $params; do edit+=(-e "s/^( *parameter .*\\b${p%%=*} *= *)[^ ,]+/\\1${p#*=}/"); done
sed -E "${edit[@]}" "$top_file" >"$dir/$top.sv"
for p in $params; do
  if ! grep -Eq "^ *parameter .*\\b${p%%=*} *= *${p#*=}( |,|\$)" "$dir/$top.sv"; then
    echo "hw/syn/synth.sh: $top_file: cannot set $p" >&2
    exit 1
  fi
done
synth="synth_xilinx -family $family -top $top -flatten -noiopad -noclkbuf -run"
{
  # what the chains of cells need to be elaborated; synth_xilinx reads it once more
  echo "read_verilog -lib +/xilinx/cells_sim.v +/xilinx/cells_xtra.v"
  # -noautowire: a name that is not declared is an error, not a wire of one bit
  for f in "${ordered[@]}"; do
    if [[ $f == "$top_file" ]]; then f=$dir/$top.sv; fi
    if [[ $f == *_pkg.sv ]]; then echo "read_verilog -sv -noautowire $f"; else echo "read_verilog -sv -defer -noautowire $f"; fi
  done
  echo "hierarchy -check -top $top"
  echo "$synth begin:map_memory"
  # what the checks need of the memories, before they are gone
  echo "tee -q -o $dir/mem.txt dump t:\$mem_v2"
  echo "tee -q -o $dir/words.txt select -list w:*"
  echo "memory_libmap -logic-cost-rom 0.015625 $libmap"
  echo "techmap -map +/xilinx/lutrams_xc5v_map.v"
  echo "techmap -map $dir/map/$bram_map"
  if [[ $family == xcup ]]; then echo "techmap -map +/xilinx/urams_map.v"; fi
  echo "$synth map_ffram:map_luts"
  echo "opt_expr -mux_undef -noclkinv"
  echo "abc -luts $luts"
  echo "clean"
  echo "techmap -map +/xilinx/ff_map.v"
  # the chains found here are said to have no clock enable, whatever is at E
  echo "xilinx_srl -fixed -minlen 3"
  echo "setparam -set ENPOL 1 t:\$__XILINX_SHREG_"
  echo "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6"
  echo "xilinx_dffopt"
  echo "opt_lut_ins -tech xilinx"
  echo "clean"
  echo "hierarchy -check"
  echo "check -noinit -assert"
  # for the timing estimate (hw/syn/timing): with the lines of the RTL that registers come from. yosys knows no output registers
  # of memories: they are packed there.
  echo "select $top"
  echo "json -o $dir/netlist.json"
  echo "exec -q -expect-return 0 -- go run ./hw/syn/cmd/synreport -pack $dir/netlist.json -top $top"
  echo "design -reset"
  echo "read_json $dir/netlist.json"
  echo "tee -q -o $dir/stat.txt stat -tech xilinx"
  # one net a bit: a simulator then sees no loops through the parts of a vector
  echo "splitnets"
  echo "clean"
  echo "write_verilog -noattr $dir/netlist.v"
} >"$dir/run.ys"
if ! yosys -q -l "$dir/log" -s "$dir/run.ys" >"$dir/messages" 2>&1; then
  grep -v 'with list of registers' "$dir/messages" | tail -n 20 >&2
  echo "hw/syn/synth.sh: yosys fails on $config for $family; the whole log is $dir/log" >&2
  exit 1
fi
# DSPs that hold the register of their sum, as the array's chains do
{ grep -cE "\\.PREG\\((1'h1|32'd1|32'sd1)\\)" "$dir/netlist.v" || true; } >"$dir/packed.txt"
echo "$hash" >"$dir/hash"
report
