// Package oip is the wire format of the Open Inference Protocol over gRPC, generated from oip.proto.
package oip

//go:generate sh generate.sh
