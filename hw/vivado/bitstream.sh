#!/usr/bin/env bash
# Builds a bitstream with Vivado: hw/vivado/bitstream.sh BOARD CONFIG
#
# Both are names or YAML files. The result is build/bitstream/<board>-<config>, with the names inside the files: npu.bit,
# npu.bin, npu.yaml (the manifest, to be committed as bitstreams/<board>-<config>.yaml), npu.xsa, reports. Results of an
# earlier build are removed first. Begin with the configuration `small`. DEBUG=1 adds an ILA. Vivado is not available
# here, so this has never run.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
[[ $# -eq 2 ]] || { echo "usage: hw/vivado/bitstream.sh BOARD CONFIG" >&2; exit 2; }
board=$1 config=$2
# rejects a design that cannot be built, before it creates a folder
name=$(go run ./hw/vivado/block/cmd/boardblock name "$board" "$config")
out=${BUILD:-build}/bitstream/$name
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
go run ./hw/vivado/ip/cmd/boardip -board "$board" -config "$config" -out "$out/ip"
go run ./hw/vivado/block/cmd/boardblock tcl "$board" "$config" >"$out/build.tcl"
command -v vivado >/dev/null || {
  echo "hw/vivado/bitstream.sh: vivado is missing: install Vivado (written for 2022.2 and later, never run in any) and source its settings64.sh; what it would run is in ${out#"$root/"}" >&2
  exit 5
}
vivado -mode batch -nojournal -log "$out/package.log" -source "$out/ip/package_ip.tcl" -tclargs "$root" "$out/repository"
vivado -mode batch -nojournal -log "$out/build.log" -source "$out/build.tcl" -tclargs "$out/repository" "$out/vivado" "${DEBUG:-0}"
go run ./hw/vivado/block/cmd/boardblock manifest "$board" "$config" "$out/vivado" >"$out/manifest"
[[ ! -e $out/vivado/npu.xsa ]] || cp "$out/vivado/npu.xsa" "$out/"
cp "$out/vivado/npu.bit" "$out/"
mv "$out/manifest" "$out/npu.yaml"
go run ./host/cmd/sluice bitstream verify "$out/npu.bit" --board "$board"
go run ./host/cmd/sluice bitstream bin "$out/npu.bit" --out "$out/npu.bin"
