// Package onnxpb contains the messages of the ONNX format, generated from onnx.proto with protoc 3.21 and protoc-gen-go
// v1.36.11 (go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11).
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative onnx.proto
