#!/usr/bin/env bash
# Synthesises the designs of the stored runs anew and stores what yosys says of them now:
#
#   dse/resource/runs.sh [fit/NAME|held/NAME...]
#
# Without names: those of runs/ that are of other RTL than hw/rtl (a second call goes on where one stopped), four to
# seven minutes each for a whole design, seconds to two minutes for an array or a unit alone. To add a design, name a configuration, with or without a folder (hw/configs or a
# file), and what the run is for: dse/resource/runs.sh held/CONFIG-xc7[-MODULE].
# 5: a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in python3 yosys go; do
  command -v "$tool" >/dev/null || { echo "dse/resource/runs.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
runs=dse/resource/runs
names=("$@")
if ((${#names[@]} == 0)); then
  stale=$(go run ./dse/resource/cmd/storerun -stale)
  if [[ -z $stale ]]; then echo "dse/resource/runs.sh: all runs are of this RTL"; exit; fi
  mapfile -t names <<<"$stale"
fi
configs=build/syn/runs
mkdir -p "$configs"
for name in "${names[@]}"; do
  role=${name%%/*}
  name=${name#*/}
  [[ $role == fit || $role == held ]] || { echo "dse/resource/runs.sh: $role/$name: neither fit nor held" >&2; exit 2; }
  top=npu_top
  base=$name
  if [[ $name =~ ^(.*-(xc7|xcup))-([a-z_]+)$ ]]; then base=${BASH_REMATCH[1]} top=${BASH_REMATCH[3]}; fi
  family=${base##*-}
  config=${base%-*}
  name=$(basename "$name")
  if [[ -f $runs/$role/$name.json ]]; then
    # JSON is YAML: the design as it was
    python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["design"], open(sys.argv[2], "w"))' "$runs/$role/$name.json" "$configs/$config.yaml"
    config=$configs/$config.yaml
  elif [[ $config == */* ]]; then
    config+=.yaml
  fi
  read -ra set < <(go run ./dse/resource/cmd/storerun -params "$top" -config "$config" -family "$family")
  dir=$(hw/syn/synth.sh "$config" --family "$family" --top "$top" ${set[@]+"${set[@]}"} | tail -n 1)
  go run ./dse/resource/cmd/storerun -dir "$dir" -out "$runs/$role/$name.json"
  echo "$runs/$role/$name.json"
done
