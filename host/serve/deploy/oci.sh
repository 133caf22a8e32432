#!/usr/bin/env bash
# An OCI image from scratch that holds sluice alone: host/serve/deploy/oci.sh [amd64|arm64] [FILE]
#
# Writes an archive (OCI image layout, default build/oci/sluice-ARCH.tar) for `skopeo copy oci-archive:FILE docker://...`,
# `podman load -i FILE` or `ctr images import FILE`. Same sources, same bytes. It serves /models on all addresses: what is in
# front of a container says who may call.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$root"
arch=${1:-amd64}
[[ $# -le 2 && $arch =~ ^(amd64|arm64)$ ]] || { echo "usage: host/serve/deploy/oci.sh [amd64|arm64] [FILE]" >&2; exit 2; }
out=${2:-build/oci/sluice-$arch.tar}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout blobs=$work/layout/blobs/sha256
mkdir -p "$(dirname "$out")" "$blobs" "$work/root"/{bin,models,tmp}
GOARCH=$arch GOOS=linux CGO_ENABLED=0 go build -tags static -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o "$work/root/bin/sluice" ./host/cmd/sluice
chmod 1777 "$work/root/tmp"
chmod 755 "$work/root"/{,bin,models,bin/sluice}
pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf - .; }
blob() { # takes stdin in; prints digest and size
  cat >"$work/blob"
  local sum
  sum=$(sha256sum "$work/blob" | cut -d' ' -f1)
  mv "$work/blob" "$blobs/$sum"
  printf '"digest":"sha256:%s","size":%d' "$sum" "$(stat -c %s "$blobs/$sum")"
}
pack "$work/root" >"$work/layer.tar"
diff=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
layer=$(gzip -9n <"$work/layer.tar" | blob)
kind=application/vnd.oci.image
config=$(blob <<END
{"created":"1970-01-01T00:00:00Z","architecture":"$arch","os":"linux","config":{"User":"65534:65534","ExposedPorts":{"8000/tcp":{},"8001/tcp":{},"8002/tcp":{}},"Env":["PATH=/bin"],"Entrypoint":["/bin/sluice"],"Cmd":["serve","/models","--http=0.0.0.0:8000","--grpc=0.0.0.0:8001","--metrics=0.0.0.0:8002"],"WorkingDir":"/tmp","StopSignal":"SIGTERM"},"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"host/serve/deploy/oci.sh"}]}
END
)
manifest=$(blob <<END
{"schemaVersion":2,"mediaType":"$kind.manifest.v1+json","config":{"mediaType":"$kind.config.v1+json",$config},"layers":[{"mediaType":"$kind.layer.v1.tar+gzip",$layer}]}
END
)
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[{"mediaType":"%s.manifest.v1+json",%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"latest"}}]}' \
  $kind $kind "$manifest" "$arch" >"$layout/index.json"
pack "$layout" >"$out"
echo "$out: $(($(stat -c %s "$out") / 1000)) kB, $(grep -o 'sha256:[0-9a-f]*' "$layout/index.json" | head -1)"
