#!/usr/bin/env bash
# The campaign of CAMPAIGN.md: host/work/campaign.sh DIR. Two workers on this machine and a hub for each question; one that has
# an answer in DIR is not asked again. Prints a row for each. Needs `make build` and jq.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: host/work/campaign.sh DIR" >&2; exit 2; }
command -v jq >/dev/null || { echo "campaign.sh: jq is missing: install the package jq" >&2; exit 5; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
cd "$1"
export PATH=$root/bin:$PATH
at=127.0.0.1:14222
trap 'kill $(jobs -p) 2>/dev/null; wait; echo "CPU time of this script, then of all it started:"; times' EXIT
for w in 1 2; do GOMAXPROCS=1 sluice work join nats://$at --dir "worker$w" 2>>"worker$w.log" & done
for n in googlenet squeezenet1_1 densenet121; do gunzip -c "$root/dse/zoo/testdata/exports/$n.script.onnx.gz" >$n.onnx; done
for memories in "zc706 22 zcu104 30" "zc706 15.3 zcu104 22" "zc706 24 zcu104 45"; do
  for network in resnet50 squeezenet1_1.onnx googlenet.onnx inceptionv3 mobilenetv2 densenet121.onnx; do
    read -ra ask <<<"$memories"
    for ((k = 0; k < 4; k += 2)); do
      board=${ask[k]} bytes=${ask[k + 1]} name=${network%.onnx}-$board-$bytes
      if ! [[ -e $name.json ]]; then
        sluice work hub --listen $at --resume "$name" --shards 2 -- dse sweep --network "$network" --board "$board" --bytes-per-cycle "$bytes" --margin 0.2 >"$name.log" 2>&1
        dse merge "$name" --out "$name.json" >"$name.txt"
        rm -rf "$name/.hub"
      fi
      jq -r --arg n "$name" '.best as $b | "| \($n) | <\($b.TR), \($b.TP), \($b.TC)> | \($b.value*10|round/10) | \(1e9/$b.point.latency_b1_ns*10|round/10) | \(.within|length) |"' "$name.json"
    done
  done
done
