#!/usr/bin/env bash
# Breaks the RTL as sim/mutants.txt says, one break at a time in a copy, and expects the bench to
# fail: sim/mutants.sh [BENCH...]. Two at a time. Status 1 where a break goes unnoticed, changes
# nothing or does not build.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export SLUICE_BENCH_RUNTIME=${SLUICE_BENCH_RUNTIME:-$root/build/bench/runtime}

# one LINE: the break in that line of the table.
one() {
  local bench file expression work said
  IFS='|' read -r bench file expression < <(sed -n "$1p" sim/mutants.txt)
  bench=${bench// /}
  file=${file// /}
  expression=${expression# }
  mkdir -p build/mutants
  work=$(mktemp -d "build/mutants/$bench-XXXXXX")  # several of this script may run
  cp -r hw sim "$work/"
  sed -i "$expression" "$work/$file"
  if cmp -s "$file" "$work/$file"; then
    echo "mutants: $bench: changes nothing: $expression" >&2
    return 1
  fi
  # a break may leave a signal unused: that is not what is to be noticed
  export SLUICE_BENCH_FLAGS=-Wno-fatal
  if (cd "$work" && timeout 300 sim/bench.sh -x -j 1 "$bench" >log 2>&1); then
    echo "mutants: $bench: not noticed: $expression" >&2
    return 1
  fi
  said=$(grep -m1 -E 'FAILED|%Error|Assertion' "$work/log" | cut -c1-110) || true
  if grep -q 'does not build' "$work/log" || [[ -z $said ]]; then
    echo "mutants: $bench: does not build: $expression" >&2
    return 1
  fi
  echo "mutants: $bench: noticed: $said"
  rm -rf "$work"
}
if [[ ${1:-} == --one ]]; then
  one "$2"
  exit
fi

lines=()
n=0
while IFS='|' read -r bench _; do
  n=$((n + 1))
  bench=${bench// /}
  [[ -z $bench || $bench == \#* ]] && continue
  if (($#)) && [[ " $* " != *" $bench "* ]]; then continue; fi
  lines+=("$n")
done <sim/mutants.txt
status=0
printf '%s\n' "${lines[@]}" | xargs -P 2 -L 1 "$root/sim/mutants.sh" --one || status=1
echo "mutants: ${#lines[@]} breaks tried"
exit $status
