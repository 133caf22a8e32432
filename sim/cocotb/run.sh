#!/usr/bin/env bash
# Tests the NPU's top for block designs with an independent AXI4-Lite master and AXI memories:
#
#   sim/cocotb/run.sh BOARD CONFIG [--seed N] [--n N] [--macs N] [--quiet 0|1]
#
# Generates the board's top of the configuration (hw/vivado/ip) and test vectors (dse vectors: --n networks of at most
# --macs MACs), builds the top with Verilator if its sources have changed, and plays the vectors through cocotb
# and cocotbext-axi, with random pauses on every channel of every port (npu_test.py). BOARD and CONFIG are names or YAML
# files. Logs are in build/cocotb. Status 1: a check fails, 3: a file is rejected, 5: a tool is missing.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/../.."
. hls/tools.sh # sluice_tool
usage() { echo "usage: sim/cocotb/run.sh BOARD CONFIG [--seed N] [--n N] [--macs N] [--quiet 0|1]" >&2; exit 2; }
(($# >= 2)) || usage
board=$1 config=$2 seed=1 n=2 macs=3000 quiet=1
shift 2
while (($#)); do
  [[ ${2:-} =~ ^[0-9]+$ ]] || usage
  case $1 in
    --seed) seed=$2 ;;
    --n) n=$2 ;;
    --macs) macs=$2 ;;
    --quiet) quiet=$2 ;;
    *) usage ;;
  esac
  shift 2
done
# paths are relative to the user's folder
if [[ $board == */* || $board == *.yaml ]] && [[ $board != /* ]]; then board=$here/$board; fi
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
what="$(basename "$board" .yaml) $(basename "$config" .yaml), QUIET $quiet, seed $seed"
for tool in verilator go g++; do
  command -v "$tool" >/dev/null || { echo "sim/cocotb/run.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
venv=$PWD/build/venv/bin
"$venv/python" -c 'import cocotb, cocotbext.axi' 2>/dev/null || { echo "sim/cocotb/run.sh: cocotb is missing: make setup (sim/requirements.txt)" >&2; exit 5; }
config-of() { "$venv/cocotb-config" "$@"; }
libpython=$(config-of --libpython) || libpython=  # status 1 without a libpython
[[ -f $libpython ]] || { echo "sim/cocotb/run.sh: Python's shared library is missing: install the package libpython3-dev" >&2; exit 5; }

out=$PWD/build/cocotb/$(basename "$board" .yaml)-$(basename "$config" .yaml)-$quiet
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
rm -rf "$out/ip"  # a design with another name may be there
sluice_tool ./hw/vivado/ip/cmd/boardip -board "$board" -config "$config" -out "$out/ip" >/dev/null
top=$(basename "$out"/ip/*.v .v)
rm -rf "$out/vectors"
sluice_tool ./dse/cmd/dse vectors --config "$config" --n "$n" --seed "$seed" --max-macs "$macs" --out "$out/vectors" >/dev/null

# Python drives variables of a module without ports. Verilator overwrites the ports of a top in every evaluation, so
# values that VPI writes to ports would be lost.
{
  echo "module npu_bench #("
  sed -nE 's/^ *(parameter .*)$/  \1/p' "$out/ip/$top.v"
  echo ");"
  sed -nE 's/^ *input +wire +(.*[^,]),?$/  reg \1 = 0;/p; s/^ *output +wire +(.*[^,]),?$/  wire \1;/p' "$out/ip/$top.v"
  echo "  $top #("
  sed -nE 's/^ *parameter +([A-Z_]+) *=.*$/    .\1(\1)/p' "$out/ip/$top.v" | paste -sd,
  echo "  ) u_top ("
  sed -nE 's/^ *(input|output) +wire +(\[[^]]*\] )?([A-Za-z0-9_]+),?$/    .\3(\3)/p' "$out/ip/$top.v" | paste -sd,
  echo "  );"
  echo "endmodule"
} >"$out/npu_bench.v"

mapfile -t sources < <(grep '^hw/' hw/rtl/files.f)
sources+=(hw/xilinx/*.sv sim/cells/{dsp48e1,dsp48e2,uram288}.v "$out/ip/$top.v" "$out/npu_bench.v")
libs=$(config-of --lib-dir) # not built into the process, which is kept for other clones
printf '`verilator_config\npublic_flat_rw -module "npu_bench" -var "*"\n' >"$out/public.vlt"
main=$(config-of --share)/lib/verilator/verilator.cpp
hash=$( (verilator --version; g++ --version | head -1; config-of --version; echo "$quiet"; cat "${sources[@]}" "$main" sim/cocotb/run.sh) | sha256sum | cut -d' ' -f1)
if [[ ! -x $out/sim/npu || ! -f $out/hash || $(<"$out/hash") != "$hash" ]]; then
  rm -rf "$out/sim" "$out/hash"
  mkdir "$out/sim"
  if ! .ci/cache get "cocotb-$hash" "$out/sim"; then
    if ! verilator --cc --exe --build -j 2 --vpi --prefix Vtop --top-module npu_bench --Mdir "$out/sim" -o npu -O3 -Wno-fatal -Werror-USERFATAL \
        "-GQUIET=$quiet" -MAKEFLAGS "OPT_FAST=-O1 OPT_SLOW=-O0" "$out/public.vlt" "${sources[@]}" "$main" \
        -LDFLAGS "-L$libs -lcocotbvpi_verilator" >"$out/build.log" 2>&1; then
      tail -n 30 "$out/build.log" >&2
      exit 1
    fi
    .ci/cache put "cocotb-$hash" "$out/sim/npu" || true
  fi
  echo "$hash" >"$out/hash"
fi

rm -f "$out/results.xml"
(cd "$out" && env MODULE=npu_test TOPLEVEL=npu_bench TOPLEVEL_LANG=verilog RANDOM_SEED="$seed" COCOTB_RESULTS_FILE="$out/results.xml" \
  LIBPYTHON_LOC="$libpython" LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONPATH="$OLDPWD/sim/cocotb:$("$venv/python" -c 'import site; print(site.getsitepackages()[0])')" \
  VECTORS="$out/vectors" QUIET="$quiet" sim/npu) >"$out/run.log" 2>&1 || true
said=$(grep -oE 'cocotb: .*' "$out/run.log") || true  # the log may have no such line
if [[ -n $said ]]; then sed "s|^cocotb:|cocotb: $what:|" <<<"$said"; fi
if ! [[ -f $out/results.xml ]] || grep -q '<failure\|<error' "$out/results.xml" || ! grep -q '<testcase' "$out/results.xml"; then
  tail -n 25 "$out/run.log" >&2
  echo "cocotb: $what: FAILED" >&2
  exit 1
fi
