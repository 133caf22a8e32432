#!/usr/bin/env bash
# Breaks the RTL as listed in sim/mutants.txt, one break at a time in a copy, and expects the bench to
# fail: sim/mutants.sh [--check] [BENCH...]. Two run in parallel. Status 1: a break is not noticed, changes
# nothing or does not build, 2: there is no such bench. --check only checks, in seconds, that every break
# changes its file and has its bench. Besides the benches of modules there are:
#   npu, npu:CONFIG        the whole NPU of `tiny`, or of CONFIG, under random faults
#   checked                the whole NPU of `tiny` under random layers; an assertion of sim/checkers must fail
#   formal:UNIT/PROPERTY   a property of sim/formal, which must have a counterexample
#   timing:MODULE          `make timing` of a unit of zc706 that lacks a register
#
# A noticed break is not repeated while its line, the RTL and the bench's sources (for the whole NPU sim/verify
# and its imports) are unchanged (build/mutants/noticed). So a stopped run can be continued.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export SLUICE_CACHE= # a break is built only once
export SLUICE_BENCH_RUNTIME=${SLUICE_BENCH_RUNTIME:-$root/build/bench/runtime}

# break_of N: reads the fields of line N
break_of() {
  IFS='|' read -r bench file expression < <(sed -n "$1p" sim/mutants.txt)
  bench=${bench// /}
  file=${file// /}
  expression=${expression# }
}

# npu_of CONFIG WORK [NAME=VALUE...]: builds the whole NPU of a configuration with the break, under its own name,
# and sets cosim to its path
npu_of() {
  local name=mutant-$$  # lower case
  sed "s/^name: .*/name: $name/" "hw/configs/$1.yaml" >"$2/$name.yaml"
  if ! cosim=$(env "${@:3}" SLUICE_RTL="$(grep '^hw/' hw/rtl/files.f | sed "s|^|$2/|" | tr '\n' ' ')" sim/build.sh "$2/$name.yaml" 2>"$2/log"); then
    echo "does not build" >>"$2/log"
    return 1
  fi
}

# whole WORK CONFIG: runs random faults on the NPU of a configuration
whole() {
  local cosim status=0
  npu_of "$2" "$1" || return 1
  SLUICE_COSIM=$root/$cosim timeout 300 bin/sluice faults --config "$2" --n 100 --seed 1 --out "$1/faults" >>"$1/log" 2>&1 || status=1
  rm -rf "$(dirname "$cosim")"
  return $status
}

# checked WORK: runs random layers on the NPU of tiny with all checkers
checked() {
  local cosim status=0
  npu_of tiny "$1" SLUICE_CHECK=1 || return 1
  SLUICE_COSIM=$root/$cosim timeout 300 bin/sluice verify --config tiny --checked tiny --n 40 --images 0 --oracle 0 --orders 0 \
    --seed 1 --out "$1/verify" >>"$1/log" 2>&1 || status=1
  rm -rf "$(dirname "$cosim")"
  if ((status)) && ! grep -q 'Assertion failed' "$1/log"; then return 0; fi  # only golden noticed it, which does not count
  return $status
}

# timed WORK MODULE: synthesises a unit with the break, and compares its longest path with the stored figure
timed() {
  local work=$1 status=0
  SLUICE_RTL="$(grep '^hw/' hw/rtl/files.f | sed "s|^|$work/|" | tr '\n' ' ')" SLUICE_SYN=$work/syn \
    go run ./hw/syn/cmd/timing -out '' -all -only "zc706/$2" >"$work/log" 2>&1 || status=$?
  # go run turns every status into 1
  if ((status)) && ! grep -q 'the clock is lost' "$work/log"; then echo "does not build" >>"$work/log"; fi
  return $status
}

# watcher prints the check that must notice breaks of the whole NPU.
watcher() {
  local dirs
  mapfile -t dirs < <(go list -deps -f '{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}' ./sim/verify)
  find "${dirs[@]}" host/cmd/sluice -maxdepth 1 -name '*.go' ! -name '*_test.go' -print0 | sort -z | xargs -0 cat sim/build.sh
}

# one LINE: tries the break in that line of the table.
one() {
  local bench file expression work said stamp
  break_of "$1"
  stamp=build/mutants/noticed/$( (sed -n "$1p" sim/mutants.txt
    cat hw/rtl/*.sv hw/xilinx/*.sv sim/checkers/*.sv sim/bench.sh sim/bench/*.hpp sim/*.hpp sim/include/*.hpp
    if [[ $bench == npu || $bench == npu:* || $bench == checked ]]; then watcher; fi
    [[ $file != hw/*/int8/* ]] || cat hw/*/int8/*.sv
    [[ $bench != timing:* ]] || cat hw/syn/synth.sh hw/syn/*.go hw/syn/{timing,cmd/timing}/*.go hw/syn/results/timing/*
    cat "sim/bench/$bench"/* sim/cosim/* sim/cells/*.v sim/formal/* 2>/dev/null || true) | sha256sum | cut -d' ' -f1)
  if [[ -e $stamp ]]; then
    echo "mutants: $bench: noticed before: $expression"
    return 0
  fi
  mkdir -p build/mutants/noticed
  work=$(mktemp -d "build/mutants/${bench//[:\/]/-}-XXXXXX")  # this script may run several times in parallel
  cp -r hw sim "$work/"
  sed -i "$expression" "$work/$file"
  if cmp -s "$file" "$work/$file"; then
    echo "mutants: $bench: changes nothing: $expression" >&2
    return 1
  fi
  # a break may leave a signal unused; the linter's warning must not count as noticed
  export SLUICE_BENCH_FLAGS=-Wno-fatal
  if [[ $bench == npu || $bench == npu:* ]]; then
    local config=${bench#npu}
    config=${config#:}
    if whole "$work" "${config:-tiny}"; then
      echo "mutants: $bench: not noticed: $expression" >&2
      return 1
    fi
  elif [[ $bench == checked ]]; then
    if checked "$work"; then
      echo "mutants: $bench: no checker notices: $expression" >&2
      return 1
    fi
  elif [[ $bench == formal:* ]]; then
    local unit=${bench#formal:} only=()
    [[ $unit != */* ]] || only=(--only "${unit#*/}")
    if SLUICE_FORMAL_TREE=$work SLUICE_FORMAL=$work/formal timeout 600 sim/formal/run.sh "${only[@]}" "${unit%%/*}" >"$work/log" 2>&1; then
      echo "mutants: $bench: not noticed: $expression" >&2
      return 1
    fi
  elif [[ $bench == timing:* ]]; then
    if timed "$work" "${bench#*:}"; then
      echo "mutants: $bench: not noticed: $expression" >&2
      return 1
    fi
  elif (cd "$work" && timeout 300 sim/bench.sh -x -j 1 "$bench" >log 2>&1); then
    echo "mutants: $bench: not noticed: $expression" >&2
    return 1
  fi
  local what='FAILED|%Error|Assertion|violation|VIOLATION|^sluice:|stored are'
  if [[ $bench == checked ]]; then what='Assertion failed'; fi
  said=$(grep -m1 -E "$what" "$work/log" | sed 's/.*Assertion failed/Assertion failed/' | cut -c1-110) || true
  if grep -q 'does not build' "$work/log" || [[ -z $said ]]; then
    echo "mutants: $bench: does not build, or says nothing: $expression" >&2
    return 1
  fi
  echo "mutants: $bench: noticed: $said"
  touch "$stamp"
  rm -rf "$work"
}
if [[ ${1:-} == --one ]]; then
  one "$2"
  exit
fi

benches=$(sed -nE 's/^ *([^#| /]+)(\/[^| ]*)? *\|.*/\1/p' sim/mutants.txt | sort -u)
usage() {
  { echo "usage: sim/mutants.sh [--check] [BENCH...]"; echo "benches: $(paste -sd' ' <<<"$benches")"; } >&2
  exit 2
}
check=
if [[ ${1:-} == --check ]]; then
  check=1
  shift
fi
for name in "$@"; do
  grep -qxF -- "$name" <<<"$benches" || { echo "sim/mutants.sh: there is no $name" >&2; usage; }
done
lines=()
n=0
while IFS='|' read -r bench _; do
  n=$((n + 1))
  bench=${bench// /}
  [[ -z $bench || $bench == \#* ]] && continue
  if (($#)) && [[ " $* " != *" ${bench%%/*} "* ]]; then continue; fi
  lines+=("$n")
done <sim/mutants.txt
status=0
if [[ -n $check ]]; then
  for n in "${lines[@]}"; do
    break_of "$n"
    if [[ $bench == timing:* && ! -f hw/rtl/${bench#*:}.sv ]] || [[ $bench == npu:* && ! -f hw/configs/${bench#*:}.yaml ]] || [[ $bench != npu && $bench != npu:* && $bench != checked && $bench != formal:* && $bench != timing:* && ! -f sim/bench/$bench/${bench}_tb.cpp ]]; then
      echo "sim/mutants.txt:$n: there is no bench $bench" >&2
      status=1
    elif [[ $bench == formal:*/* ]] && ! grep -qw "${bench#*/}: assert" "sim/formal/$(cut -d/ -f1 <<<"${bench#*:}")_props.sv"; then
      echo "sim/mutants.txt:$n: there is no property ${bench#*/}" >&2
      status=1
    elif ! broken=$(sed "$expression" "$file" 2>&1); then
      echo "sim/mutants.txt:$n: $broken" >&2
      status=1
    elif [[ $broken == "$(<"$file")" ]]; then
      echo "sim/mutants.txt:$n: changes nothing: $expression" >&2
      status=1
    fi
  done
  if ((status == 0)); then echo "mutants: ${#lines[@]} breaks, each changes its file"; fi
  exit $status
fi
if [[ " $* " == *" npu"[\ :]* || " $* " == *" checked "* || $# -eq 0 ]]; then go build -o bin/ ./host/cmd/sluice; fi
printf '%s\n' "${lines[@]}" | xargs -P 2 -L 1 "$root/sim/mutants.sh" --one || status=1
echo "mutants: ${#lines[@]} breaks tried"
exit $status
