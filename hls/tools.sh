# Sourced from the repository's root: runs the repository's commands, built if necessary, with their own exit codes (go run
# would turn all of them into 1).
sluice_tool() { # PACKAGE ARGS...
  local package=$1
  shift
  mkdir -p build
  (
    flock 7
    go build -o bin/ "$package"
  ) 7>build/tools.lock || return
  "bin/$(basename "$package")" "$@"
}
hwconfig() { sluice_tool ./hw/configs/cmd/hwconfig "$@"; }
hlscheck() { sluice_tool ./hls/cmd/hlscheck "$@"; }
