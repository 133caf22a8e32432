#!/usr/bin/env bash
# C-simulation of the HLS kernel against golden, bit for bit, under sanitizers:
#
#   hls/test.sh [--seed N] [--full | --part PART]
#
# First the static check on LLVM's intermediate code (hls/check). Then a sample for CI: random networks on an odd array of
# each type, int8 built by g++ and int16 by clang++, both with -fsanitize=address,undefined, and 64 images end to end on
# `run`. --full is the RTL's suite: on each of its arrays at least 500 random layers with every bin of the coverage
# table, with both compilers, under -fsanitize=thread, and with the vendor's own headers; and the images under
# sanitizers. It consists of parts, which --full prints; a part that has passed on a commit is not repeated (.ci/once).
set -euo pipefail
cd "$(dirname "$0")/.."
. hls/tools.sh
usage() { echo "usage: hls/test.sh [--seed N] [--full | --part PART]" >&2; exit 2; }
seed=1
full=
part=
while (($#)); do
  case $1 in
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --full) full=1 ;;
    --part) part=${2:?--part needs a name}; shift ;;
    *) usage ;;
  esac
  shift
done
export TSAN_OPTIONS="suppressions=$PWD/hls/tsan.supp halt_on_error=1 ${TSAN_OPTIONS:-}"
out=out/hls
plain=(v5 v7 v8 v13)                                                 # odd arrays: every (k, s)
arrays=("${plain[@]}" v13x)                                         # with the options
int8=(v5-int8 v7-int8 v8-int8 v13-int8)                              # the same in int8
arrays+=("${int8[@]}" v5-post-int8)
boards=(run hls/configs/zc706-hls.yaml hls/configs/zcu104-hls.yaml)  # arrays of real designs
builds=('--sanitize' '--sanitize --cxx clang++-14' '--tsan --cxx clang++-14' '--xilinx')

file() { # NAME: prints the configuration's name or file
  case $1 in
    v5-post-int8) # as in `make test-verify`
      mkdir -p "$out"
      { sed "s/^name: .*/name: $1/" hw/configs/v5.yaml; printf 'post: true\ndepthwise: true\ntype: int8\n'; } >"$out/$1.yaml"
      echo "$out/$1.yaml"
      ;;
    *) if [[ -f hls/configs/$1.yaml ]]; then echo "hls/configs/$1.yaml"; else echo "$1"; fi ;;
  esac
}
# layers BINARY CONFIG N [FLAGS...]: random layers on one build.
layers() {
  local binary=$1 config=$2 n=$3
  shift 3
  SLUICE_COSIM=$binary bin/sluice verify --device hls --config "$(file "$config")" --n "$n" --images 0 --oracle 0 --orders 0 \
    --seed "$seed" --out "$out/$config-$(basename "$(dirname "$binary")")" "$@" | sed -n '/layers = golden/p;/mismatches/p'
}
# images BINARY ORDERS: 64 images end to end.
images() {
  SLUICE_COSIM=$1 bin/sluice verify --device hls --config run --n 0 --images 64 --oracle 0 --orders "$2" --seed "$seed" \
    --out "$out/images-$(basename "$(dirname "$1")")" | sed -n '/^images/p;/^orders/p;/mismatches/p'
}
# faults N: the kernel rejects what the RTL rejects, with the same error in the same layer. int8 has additional fields.
faults() {
  local config binary kinds
  for config in tiny tinyx v5-post-int8; do
    binary=$(hls/build.sh "$(file "$config")")
    kinds=(descriptor 'FBCB' 'slot' 'batch range' 'layer' 'weights too' 'register' 'soft reset' 'while busy')
    if [[ $config == *-int8 ]]; then kinds=(descriptor 'weights too'); fi
    for kind in "${kinds[@]}"; do
      SLUICE_COSIM=$binary bin/sluice faults --config "$(file "$config")" --kind "$kind" --n "$1" --seed "$seed" --out "$out/faults" | tail -1 |
        sed "s/^/$config, $kind: /"
    done
  done
}
words=()
split() { read -ra words <<<"$1"; } # splits the flags of a build

if [[ -n $full ]]; then
  run() { .ci/once "hls-$1" hls/test.sh --part "$1" --seed "$seed"; }
  for config in tiny tinyx small mid zc706 zcu104 "${arrays[@]}" "${boards[@]}"; do run "check-$(basename "$config" .yaml)"; done
  for config in "${arrays[@]}"; do
    run "layers-$config"
    for i in "${!builds[@]}"; do run "layers-$config-$i"; done
  done
  for config in "${boards[@]}"; do run "layers-$(basename "$config" .yaml)"; done
  for part in breaks shell coverage coverage-int8 faults images-0 images-1 images; do run "$part"; done
  exit 0
fi
case $part in
  '') ;;
  check-*)
    hlscheck -dependences "$(file "${part#check-}")"
    exit 0
    ;;
  layers-*-[0-9])
    config=${part#layers-}
    split "${builds[${part##*-}]}"
    binary=$(hls/build.sh "$(file "${config%-*}")" "${words[@]}")
    echo "${config%-*} ${words[*]}"
    layers "$binary" "${config%-*}" 130
    exit 0
    ;;
  layers-*)
    config=${part#layers-}
    binary=$(hls/build.sh "$(file "$config")")
    echo "$config"
    layers "$binary" "$config" 500
    exit 0
    ;;
  breaks) # every deliberate break of the kernel
    SLUICE_ALL=1 go test ./hls -count 1 -run '^TestBreaks$'
    exit 0
    ;;
  shell) # every number and width of memory ports
    SLUICE_ALL=1 go test ./hls/shell -count 1 -run '^TestPorts$'
    exit 0
    ;;
  coverage | coverage-int8)
    if [[ $part == *-int8 ]]; then plain=("${int8[@]}"); fi
    for config in "${plain[@]}"; do hls/build.sh "$config" >/dev/null; done
    bin/sluice verify --device hls --config "$(IFS=,; echo "${plain[*]}")" --n 500 --images 0 --oracle 0 --orders 0 --seed "$seed" \
      --require-coverage --out "$out/$part" | sed -n '/layers = golden/p;/mismatches/p;/coverage/p'
    exit 0
    ;;
  faults)
    faults 240
    exit 0
    ;;
  images-[01])
    split "${builds[${part#images-}]}"
    echo "run ${words[*]}, 64 images"
    images "$(hls/build.sh run "${words[@]}")" 0
    exit 0
    ;;
  images)
    echo "run, 64 images"
    images "$(hls/build.sh run)" 64
    exit 0
    ;;
  *) usage ;;
esac

hls/build.sh run >/dev/null &
built=$!
hlscheck -dependences tinyx
hlscheck v13x "$(file v5-post-int8)"
gcc=$(hls/build.sh "$(file v5-post-int8)" --sanitize)
clang=$(hls/build.sh v13x --sanitize --cxx clang++-14)
wait "$built"
echo "v5-post-int8, g++ -fsanitize=address,undefined"
layers "$gcc" v5-post-int8 60
echo "v13x, clang++ -fsanitize=address,undefined"
layers "$clang" v13x 60
# an open HLS tool, if it is installed
if command -v bambu >/dev/null; then hls/bambu.sh tiny; fi
faults 40
echo "run, 64 images"
images "$(hls/build.sh run)" 64
