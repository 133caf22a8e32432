#!/bin/sh
# Makes oip.pb.go and oip_grpc.pb.go of oip.proto. Needs protoc (Debian: protobuf-compiler), or python3 with grpcio-tools.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for tool in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
  go build -o "$bin/" "$tool"
done
protoc=${PROTOC:-protoc}
PATH="$bin:$PATH" $protoc -I. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative oip.proto
