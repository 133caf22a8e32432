#!/usr/bin/env bash
# Synthesises the designs of the figures in hw/syn/README.md, each with and without Stackable PEs and
# sample groups, and prints the figures:
#
#   hw/syn/overheads.sh [--store] [CONFIG-FAMILY-MODULE...]
#
# Without names: the arrays of the reference boards, and small as a whole. One yosys runs at a time; all
# take half an hour of CPU and 2.5 GB if nothing is built yet. The results are in build/syn/results;
# --store puts them into hw/syn/results, which `go run ./hw/syn/cmd/synfigures` prints.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

results=build/syn/results
store=()
runs=()
for arg in "$@"; do
  case $arg in
    --store) results=hw/syn/results; store=(--store) ;;
    [!-]*-*-*[!-]) runs+=("$arg") ;;
    *) echo "usage: hw/syn/overheads.sh [--store] [CONFIG-FAMILY-MODULE...]" >&2; exit 2 ;;
  esac
done
if ((${#runs[@]} == 0)); then runs=(zc706-xc7-pe_array zcu104-xcup-pe_array); fi
variants=build/syn/configs
mkdir -p "$variants" "$results"

synth() { # CONFIG FAMILY TOP
  local dir
  dir=$(hw/syn/synth.sh "$1" --family "$2" --top "$3" "${store[@]}")
  if ((${#store[@]} == 0)); then cp "$dir/summary.json" "$results/$(basename "$dir").json"; fi
}
for run in "${runs[@]}"; do
  IFS=- read -r config family top <<<"$run"
  synth "$config" "$family" "$top"
  # the same configuration without one or both: name | stack | fluid
  for v in "nofluid true false" "nostack false true" "plain false false"; do
    read -r suffix stack fluid <<<"$v"
    sed -E "s/^name: .*/name: $config-$suffix/; s/^(stack: +)[a-z]+/\1$stack/; s/^(fluid: +)[a-z]+/\1$fluid/" \
      "hw/configs/$config.yaml" >"$variants/$config-$suffix.yaml"
    synth "$variants/$config-$suffix.yaml" "$family" "$top"
  done
done
go run ./hw/syn/cmd/synfigures -dir "$results"
