#!/usr/bin/env bash
# Builds and runs the benches of modules: sim/bench.sh [--seed N] [--n N] [-x] [-j N] [MODULE...]
#
# A bench is a folder sim/bench/<module>/ with <module>_tb.cpp (its top is the module), `files` (the
# RTL and checkers that it needs, one per line, from the repository's root) and optionally `args` (a
# line of verilator flags per variant; the C++ gets each -GNAME=VALUE as P_NAME). A folder without
# `files` is plain C++ without RTL. Default: all modules.
#   --n N   amount of random traffic (0: the bench's default)
#   -j N    benches that run in parallel (default 2)
#   -x      stops at the first failure
# Status 1: a bench fails, 2: usage.
#
# A variant is built only if the content of its inputs has changed. All variants share one verilator
# runtime with precompiled headers; parsing these took half of the time. SLUICE_BENCH_RUNTIME is the
# runtime's folder, SLUICE_BENCH_FLAGS adds verilator flags.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
runtime=${SLUICE_BENCH_RUNTIME:-$root/build/bench/runtime}
cxx=(g++ -std=c++17 -O1 -fno-strict-aliasing)

usage() {
  echo "usage: sim/bench.sh [--seed N] [--n N] [-x] [-j N] [MODULE...]   (--n 0: each bench's default)" >&2
  exit 2
}
# number FLAG TEXT MIN MAX: ends with an error if the text is not a number in MIN..MAX as the benches read it.
number() {
  if ! [[ $2 =~ ^(0[xX][0-9a-fA-F]{1,15}|0[0-7]{0,20}|[1-9][0-9]{0,17})$ ]] || (($2 < $3 || $2 > $4)); then
    echo "sim/bench.sh: $1 $2: expected a number, $3 to $4" >&2
    exit 2
  fi
}
for tool in verilator g++ flock xargs; do
  command -v "$tool" >/dev/null || { echo "sim/bench.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done
vroot=$(verilator --getenv VERILATOR_ROOT)
vinc=(-isystem "$vroot/include" -isystem "$vroot/include/vltstd")

# The verilated library and the headers of models and benches, built once for all variants.
stamp="$(verilator --version) ${cxx[*]} $("${cxx[0]}" -dumpversion) $(cat sim/bench.sh sim/bench/*.hpp sim/include/*.hpp | sha256sum)"
build_runtime() {
  mkdir -p "$runtime"
  exec 8>"$runtime/lock"
  flock 8
  if [[ ! -f $runtime/stamp || $(cat "$runtime/stamp") != "$stamp" ]]; then
    for f in verilated verilated_threads; do
      "${cxx[@]}" "${vinc[@]}" -c "$vroot/include/$f.cpp" -o "$runtime/$f.o"
    done
    printf '#include "%s"\n' verilated.h >"$runtime/model.hpp"
    printf '#include "%s"\n' verilated.h bench/unit.hpp >"$runtime/unit.hpp"
    for f in model unit; do
      "${cxx[@]}" "${vinc[@]}" -Isim -Isim/include -x c++-header "$runtime/$f.hpp" -o "$runtime/$f.hpp.gch"
    done
    echo "$stamp" >"$runtime/stamp"
  fi
  exec 8>&-
}

# one MODULE VARIANT ARGS...: builds and runs one variant; prints all output at its end.
one() {
  local module=$1 i=$2
  shift 2
  local dir=sim/bench/$module out=build/bench/$module-$i
  local files=() variants=("") flags=() vflags=() cflags=() status=0
  mapfile -t files < <(grep -v '^\s*\(#\|$\)' "$dir/files" 2>/dev/null || true)
  if [[ -f $dir/args ]]; then mapfile -t variants < <(grep -v '^\s*\(#\|$\)' "$dir/args"); fi
  read -ra flags <<<"${variants[$i]}"
  while ((${#flags[@]})); do
    case ${flags[0]} in
      -CFLAGS) cflags+=("${flags[1]}"); flags=("${flags[@]:2}"); continue ;;
      -G*) cflags+=("-DP_$(sed "s/^-G//; s/=1'b/=/" <<<"${flags[0]}")") ;;
    esac
    vflags+=("${flags[0]}")
    flags=("${flags[@]:1}")
  done

  local hash
  hash=$( (echo "${vflags[*]} ${cflags[*]} ${cxx[*]} ${SLUICE_BENCH_FLAGS:-}"; echo "$stamp"; cat sim/bench.sh "${files[@]}" \
    "$dir/${module}_tb.cpp" sim/*.hpp sim/bench/*.hpp sim/include/*.hpp) | sha256sum | cut -d' ' -f1)
  # Other calls may run benches in this tree: one build per folder at a time.
  mkdir -p build/bench
  exec 9>"build/bench/.lock-$module-$i"
  flock 9
  if [[ ! -x $out/tb || ! -f $out/hash || $(cat "$out/hash") != "$hash" ]]; then
    rm -rf "$out"
    mkdir -p "$out"
    local keep=bench-$module-$i-$hash kept=
    if .ci/cache get "$keep" "$out"; then kept=1; else build_runtime; fi
    if [[ -n $kept ]]; then
      : # built before, perhaps in another clone
    elif [[ ! -f $dir/files ]]; then
      if ! "${cxx[@]}" -Wall -Wextra -Werror -Isim -Isim/include "${cflags[@]}" \
          "$dir/${module}_tb.cpp" -o "$out/tb" >"$out/build.log" 2>&1; then
        { cat "$out/build.log"; echo "$module: does not build"; } >&2
        return 1
      fi
    elif ! {
      verilator --cc --assert -Wall --top-module "$module" --Mdir "$out" "${vflags[@]}" ${SLUICE_BENCH_FLAGS:-} "${files[@]}" \
        && (cd "$out" && for f in V*.cpp; do echo "#include \"$f\""; done >all.cpp) \
        && "${cxx[@]}" -Winvalid-pch -Werror=invalid-pch -include "$runtime/model.hpp" "${vinc[@]}" -isystem "$out" -c "$out/all.cpp" -o "$out/all.o" \
        && "${cxx[@]}" -Winvalid-pch -Wall -Wextra -Werror -include "$runtime/unit.hpp" "${vinc[@]}" -isystem "$out" -Isim -Isim/include \
          "${cflags[@]}" -c "$dir/${module}_tb.cpp" -o "$out/tb.o" \
        && "${cxx[0]}" "$out/tb.o" "$out/all.o" "$runtime"/verilated*.o -o "$out/tb" -pthread
    } >"$out/build.log" 2>&1; then
      { cat "$out/build.log"; echo "$module: does not build (${variants[$i]})"; } >&2
      return 1
    fi
    if [[ -z $kept ]]; then .ci/cache put "$keep" "$out/tb" || true; fi
    echo "$hash" >"$out/hash"
  fi
  "$out/tb" "$@" >"$out/run.log" 2>&1 || { echo "$module: failed (${variants[$i]})" >>"$out/run.log"; status=1; }
  cat "$out/run.log"
  return $status
}

if [[ ${1:-} == --one ]]; then
  shift
  if one "$@"; then exit 0; fi
  exit "${SLUICE_BENCH_FAIL:-1}"
fi

run=()
modules=()
jobs=2
fail=1
while (($#)); do
  case $1 in
    --seed | --n)
      (($# > 1)) || usage
      if [[ $1 == --n ]]; then number "$1" "$2" 0 $((1 << 31)); else number "$1" "$2" 0 999999999999999999; fi
      run+=("$1" "$2")
      shift 2
      ;;
    -j)
      (($# > 1)) || usage
      number -j "$2" 1 1000
      jobs=$2
      shift 2
      ;;
    -x) fail=255; shift ;;  # which stops xargs
    -*) usage ;;
    *) modules+=("$1"); shift ;;
  esac
done
if ((${#modules[@]} == 0)); then
  for tb in sim/bench/*/*_tb.cpp; do
    dir=$(basename "$(dirname "$tb")")
    if [[ $(basename "$tb") == "${dir}_tb.cpp" ]]; then modules+=("$dir"); fi
  done
fi

list=()
for module in "${modules[@]}"; do
  [[ -f sim/bench/$module/${module}_tb.cpp ]] || { echo "sim/bench.sh: there is no bench $module" >&2; exit 2; }
  n=1
  if [[ -f sim/bench/$module/args ]]; then n=$(grep -vc '^\s*\(#\|$\)' "sim/bench/$module/args"); fi
  for ((i = 0; i < n; i++)); do list+=("$module $i${run[*]:+ ${run[*]}}"); done
done
export SLUICE_BENCH_FAIL=$fail
printf '%s\n' "${list[@]}" | xargs -P "$jobs" -L 1 "$root/sim/bench.sh" --one || exit 1
