#!/usr/bin/env bash
# Builds a board's kernel and module: boards/kernel/build.sh arm|arm64
#
# From Debian's linux-source-6.1, allnoconfig and the fragments beside this script. The result is
# build/kernel/<arch>: kernel (zImage or Image), <board>.dtb with symbols, the modules. Nothing is built if a hash over
# package, fragments and compiler is unchanged and all results exist. The modules have their own hash and are built in
# the saved part of the tree: two files instead of 600. Both architectures share the sources; files that neither needs
# are not unpacked.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

case ${1:-} in
  arm) cross=arm-linux-gnueabihf- image=zImage trees=zynq-zc706.dtb name=zc706 ;;
  arm64) cross=aarch64-linux-gnu- image=Image trees=xilinx/zynqmp-zcu104-revC.dtb name=zcu104 ;;
  *) echo "usage: boards/kernel/build.sh arm|arm64" >&2; exit 2 ;;
esac
arch=$1
source=/usr/src/linux-source-6.1.tar.xz
need() { [[ -e $1 ]] || command -v "$1" >/dev/null || { echo "boards/kernel/build.sh: $1 is missing: install the package $2" >&2; exit 5; }; }
need $source linux-source-6.1
need ${cross}gcc "gcc-${cross%-}"
need flex flex; need bison bison; need bc bc; need make make; need xz xz-utils

out=$root/build/kernel/$arch
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
unpacked=$(dpkg-query -W -f '${Version}' linux-source-6.1)
key=$( (echo "$unpacked"; ${cross}gcc --version | head -1
  sed '/^#/d' boards/kernel/{common,$arch}.config | sort; sed '/^#/d' "$0" | sed '/^: modules/,$d') | sha256sum | cut -d' ' -f1)
files=(boards/kernel/Kbuild boards/kernel/*.c boards/kernel/*.h)
module=$( (cat "${files[@]}"; echo "$key") | sha256sum | cut -d' ' -f1)
built() { [[ -s $out/kernel && -s $out/$name.dtb && -s $out/sluice_dma.ko && -s $out/sluice_fpga.ko && $(cat "$out/module.key" 2>/dev/null) == "$module" ]]; }
if ! built && .ci/cache get "kernel-$arch-$module" "$out"; then :; fi
if built; then
  echo "$out"
  exit 0
fi
# A calling make passes on its flags and a jobserver that is closed here, which would cause a warning.
unset MAKEFLAGS MFLAGS MAKELEVEL
run() { make -s -C "$src" O="$out/tree" ARCH=$arch CROSS_COMPILE=$cross \
  KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=sluice KBUILD_BUILD_HOST=sluice DTC_FLAGS=-@ "$@"; }
src=$root/build/kernel/src
sources() { # once for both architectures
  exec 8>"$root/build/kernel/lock"
  flock 8
  local names=('Documentation/[!K]*' 'samples/*.[ch]' 'sound/*.[ch]' tools/testing tools/perf) d
  for d in alpha arc csky hexagon ia64 loongarch m68k microblaze mips nios2 openrisc parisc powerpc riscv s390 sh sparc um x86 xtensa; do names+=("arch/$d/*.[chS]" "arch/$d/boot" "arch/$d/configs"); done
  for d in gpu infiniband media staging; do names+=("drivers/$d/*.[ch]"); done
  for d in btrfs ceph cifs ext2 ext4 f2fs gfs2 jffs2 ksmbd nfs nfsd nilfs2 ntfs ntfs3 ocfs2 reiserfs ubifs udf ufs xfs; do names+=("fs/$d/*.[ch]"); done
  if [[ $(cat "$src/.unpacked" 2>/dev/null) != "$unpacked" || ! -s $src/Makefile ]]; then
    rm -rf "$src"
    mkdir -p "$src"
    printf 'linux-source-6.1/%s\n' "${names[@]}" |
      tar -xJf $source -C "$src" --strip-components 1 --wildcards --exclude-from=/dev/stdin
    echo "$unpacked" >"$src/.unpacked"
  fi
  flock -u 8
}
# whole checks that the tree is complete: an interrupted copy or a cleaned tree is not.
whole() {
  local f
  for f in kernel $name.dtb tree/{.config,Module.symvers,include/generated/autoconf.h,scripts/mod/modpost}; do
    [[ -s $out/$f ]] || { echo "boards/kernel/build.sh: build/kernel/$arch/$f is gone: building anew" >&2; return 1; }
  done
}
sources
if [[ $(cat "$out/key" 2>/dev/null) != "$key" ]] || ! whole; then
  rm -rf "$out"/{src,tree,key,module.key}
  mkdir -p "$out/tree"
  began=$SECONDS
  cat boards/kernel/{common,$arch}.config >"$out/fragment"
  run KCONFIG_ALLCONFIG="$out/fragment" allnoconfig >"$out/log" 2>&1 || { tail -n 30 "$out/log" >&2; exit 1; }
  grep '^CONFIG_' "$out/fragment" | while read -r line; do
    grep -qx "$line" "$out/tree/.config" || { echo "boards/kernel/build.sh: the kernel knows no $line" >&2; exit 1; }
  done
  run -j"$(nproc)" $image $trees modules >>"$out/log" 2>&1 || { tail -n 30 "$out/log" >&2; exit 1; }
  cp "$out/tree/arch/$arch/boot/$image" "$out/kernel"
  cp "$out/tree/arch/$arch/boot/dts/$trees" "$out/$name.dtb"
  # What the modules are not built with goes.
  find "$out/tree" \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) ! -path '*/scripts/*' ! -name 'module.lds*' -delete
  rm -f "$out"/tree/vmlinux* "$out/tree/arch/$arch"/boot/{Image,zImage}
  echo "$key" >"$out/key"
  times >"$out/times" # second line: of what has ended
  cpu=$(awk -F'[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$out/times")
  echo "kernel for $arch: $(($(stat -c %s "$out/kernel") / 1024)) KiB, built in $((SECONDS - began)) s, $cpu CPU-s (uncached)"
fi
: modules
rm -rf "$out/module"
mkdir "$out/module"
cp "${files[@]}" "$out/module/"
run M="$out/module" W=1 modules >"$out/module.log" 2>&1 || { tail -n 30 "$out/module.log" >&2; exit 1; }
! grep -i 'warning' "$out/module.log" || { echo "boards/kernel/build.sh: the modules have warnings" >&2; exit 1; }
for m in "$out"/module/*.ko; do ${cross}strip --strip-debug -o "$out/$(basename "$m")" "$m"; done
echo "$module" >"$out/module.key"
.ci/cache put "kernel-$arch-$module" "$out"/{kernel,"$name.dtb",module.key} "$out"/*.ko || true
echo "$out"
