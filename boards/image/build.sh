#!/usr/bin/env bash
# Builds what a board boots: boards/image/build.sh BOARD [CONFIG [NETWORK]]
#
# The result is build/image/<board>/: kernel, board.dtb (the kernel's device tree and our overlay, npu.dtbo),
# board-cached.dtb (the same with the NPU's memory cached),
# initramfs.cpio.gz (u-root, sluice, the modules, the kit of CONFIG and NETWORK), qemu.dtb (board.dtb
# without devices that QEMU's machine lacks), kit/, boot.cmd and boot.scr for U-Boot, boot.bif for bootgen,
# SHA256SUMS. The same sources give the same bytes. The initramfs must stay below 16 MB.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

[[ $# -ge 1 && $# -le 3 ]] || { echo "usage: boards/image/build.sh BOARD [CONFIG [NETWORK]]" >&2; exit 2; }
[[ $1 == zc706 || $1 == zcu104 ]] || { echo "boards/image/build.sh: $1: images exist for zc706 and zcu104 (of other boards the cost and the block design are known, not kernel and device tree)" >&2; exit 2; }
board=$1 config=${2:-tiny} network=${3:-fashion}
need() { command -v "$1" >/dev/null || { echo "boards/image/build.sh: $1 is missing: install the package $2" >&2; exit 5; }; }
need go golang; need dtc device-tree-compiler; need fdtoverlay device-tree-compiler; need cpio cpio; need mkimage u-boot-tools
limit=$((16 * 1000 * 1000))

values=$(go run ./boards/cmd/boardtree shell "$board")
eval "$values"
boards/kernel/build.sh "$arch"
kernel=build/kernel/$arch
out=build/image/$board
mkdir -p "$out"
exec 9>"$out/lock"
flock 9

target=(env GOOS=linux GOARCH="$goarch" GOARM=7 CGO_ENABLED=0)
# u-root and its commands: the same for every image of an architecture
base=build/image/base-$arch.cpio
key=$( (go version; cat boards/image/go.mod boards/image/go.sum boards/image/tools.go; sed -n '/^# u-root/,/^# ours/p' "$0") | sha256sum | cut -d' ' -f1)
if [[ $(cat "$base.key" 2>/dev/null) != "$key" ]] && ! .ci/cache get "base-$arch-$key" build/image; then
  (cd boards/image && go build -o "$root/build/u-root" github.com/u-root/u-root)
  commands=$(sed -n 's|.*_ "\(github.com/u-root/u-root/cmds/.*\)"|\1|p' boards/image/tools.go)
  # shellcheck disable=SC2086
  # u-root asks its own build for Go's folder, which -trimpath takes out
  (cd boards/image && GOROOT=$(go env GOROOT) "${target[@]}" "$root/build/u-root" -defaultsh=gosh -initcmd=init \
    -uinitcmd='/bin/sluice board start' -skip-ldd -o "$root/$base" $commands) >"$base.log" 2>&1 || { tail -n 20 "$base.log" >&2; exit 1; }
  echo "$key" >"$base.key"
  .ci/cache put "base-$arch-$key" "$base" "$base.key" || true
fi
# ours
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/bin "$tree"/lib/modules "$tree"/kit
"${target[@]}" go build -tags static -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o "$tree/bin/sluice" ./host/cmd/sluice
cp "$kernel"/*.ko "$tree/lib/modules/"
go run ./host/cmd/sluice kit --config "$config" --network "$network" --out "$tree/kit"
# The bundle's metadata names the program that made it; all else depends on its content only.
find "$tree" -exec touch -h -d @0 {} +
find "$tree" -type d -exec chmod 755 {} +
find "$tree" -type f -exec chmod 644 {} +
chmod 755 "$tree/bin/sluice"
{ cat "$base"; (cd "$tree" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc); } \
  | gzip -9n >"$out/initramfs.cpio.gz"

rm -rf "$out/kit"
cp -r "$tree/kit" "$out/kit" # for use on the workstation
cp "$kernel/kernel" "$out/kernel"
# dtc cannot know the cells of the nodes that an overlay changes.
tree() { # overlay, its file, suffix of the tree's file after "board"
  go run ./boards/cmd/boardtree "$1" "$board" >"$out/$2.dtso"
  dtc -q -@ -I dts -O dtb -o "$out/$2.dtbo" "$out/$2.dtso"
  fdtoverlay -i "$kernel/$board.dtb" -o "$out/board$3.dtb" "$out/$2.dtbo"
  boards/qemu/tree.sh "$arch" "$out/board$3.dtb" "$out/qemu$3.dtb"
}
tree overlay npu ""
tree overlay-cached npu-cached -cached

load=booti; [[ $arch == arm ]] && load=bootz
cat >"$out/boot.cmd" <<END
# U-Boot: loads kernel, device tree and initramfs from the first partition of the SD card. npu.bin is
# what \`sluice bitstream bin\` makes of npu.bit; without it the PL stays empty, and doctor says so. sluice_args is for ip=dhcp and the like.
setenv bootargs "console=ttyPS0,115200 clk_ignore_unused uio_pdrv_genirq.of_id=generic-uio sluice.board=$board sluice.label=measured sluice.clock_mhz=$clock_mhz \${sluice_args}"
if load mmc 0:1 \${kernel_addr_r} npu.bin; then fpga load 0 \${kernel_addr_r} \${filesize}; fi
load mmc 0:1 \${kernel_addr_r} kernel
load mmc 0:1 \${fdt_addr_r} board.dtb
load mmc 0:1 \${ramdisk_addr_r} initramfs.cpio.gz
$load \${kernel_addr_r} \${ramdisk_addr_r}:\${filesize} \${fdt_addr_r}
END
SOURCE_DATE_EPOCH=0 mkimage -A "$arch" -T script -C none -n "sluice $board" -d "$out/boot.cmd" "$out/boot.scr" >/dev/null
go run ./boards/cmd/boardtree bif "$board" >"$out/boot.bif"
(cd "$out" && sha256sum kernel board.dtb board-cached.dtb initramfs.cpio.gz boot.scr qemu.dtb qemu-cached.dtb >SHA256SUMS)
size=$(stat -c %s "$out/initramfs.cpio.gz")
echo "$out: initramfs $((size / 1000)) kB, kernel $(($(stat -c %s "$out/kernel") / 1000)) kB, kit $config/$network"
((size < limit)) || { echo "boards/image/build.sh: the initramfs is $size bytes, expected less than $limit" >&2; exit 1; }
