// Package onnxpb holds the messages of the ONNX format, generated from onnx.proto.
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative onnx.proto
