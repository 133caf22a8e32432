# Sourced from the repository's root: its own commands, built where they are not, with the exit codes that are theirs (go run
# makes 1 of them all).
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
