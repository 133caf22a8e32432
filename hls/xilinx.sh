#!/usr/bin/env bash
# Fetches the vendor's own ap_int.h and hls_stream.h from PyPI's hls4ml (pinned by its hash in
# hls/requirements.txt), and prints their folder. Needs the Python environment (make setup).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
want=$(sha256sum hls/requirements.txt | cut -d' ' -f1)
dir=build/hls/vendor
if [[ ! -f $dir/hash || $(cat "$dir/hash") != "$want" ]]; then
  pip=build/venv/bin/pip
  [[ -x $pip ]] || { echo "hls/xilinx.sh: $pip is missing: run make setup" >&2; exit 5; }
  rm -rf "$dir"
  mkdir -p "$dir"
  build/venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --require-hashes -r hls/requirements.txt -d "$dir" >&2
  build/venv/bin/python -m zipfile -e "$dir"/hls4ml-*.whl "$dir"
  rm -f "$dir"/hls4ml-*.whl
  [[ -f $dir/hls4ml/templates/vivado/ap_types/ap_int.h ]] || { echo "hls/xilinx.sh: the wheel has no ap_int.h" >&2; exit 3; }
  echo "$want" >"$dir/hash"
fi
echo "$dir/hls4ml/templates/vivado/ap_types"
