#!/usr/bin/env bash
# Synthesises the designs of the stored runs anew and stores what yosys says of them now:
#
#   dse/resource/runs.sh [NAME...]
#
# Without names: all of runs/*.json, two to five minutes each for a whole design, seconds for an array.
# To add a design, name its configuration and module: dse/resource/runs.sh NAME-xc7[-pe_array].
# 5: a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in python3 yosys go; do
  command -v "$tool" >/dev/null || { echo "dse/resource/runs.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
runs=dse/resource/runs
names=("$@")
if ((${#names[@]} == 0)); then
  for f in "$runs"/*.json; do names+=("$(basename "$f" .json)"); done
fi
configs=build/syn/runs
mkdir -p "$configs"
for name in "${names[@]}"; do
  top=npu_top
  base=$name
  if [[ $name == *-pe_array ]]; then top=pe_array base=${name%-pe_array}; fi
  family=${base##*-}
  config=${base%-*}
  if [[ -f $runs/$name.json ]]; then
    # JSON is YAML: the design as it was
    python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["design"], open(sys.argv[2], "w"))' "$runs/$name.json" "$configs/$config.yaml"
    config=$configs/$config.yaml
  fi
  dir=$(hw/syn/synth.sh "$config" --family "$family" --top "$top" | tail -n 1)
  python3 - "$dir/summary.json" "$runs/$name.json" <<'EOF'
import json, sys
run = json.load(open(sys.argv[1]))
for key in ("memories", "cpu_seconds"):
    run.pop(key, None)
with open(sys.argv[2], "w") as f:
    json.dump(run, f, indent=2)
    f.write("\n")
EOF
  echo "$runs/$name.json"
done
