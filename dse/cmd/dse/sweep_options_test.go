package main

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/cli"
)

// A network with a function or a product can be swept if the axis post has designs for it. Otherwise it is rejected,
// and the error names the operator.
func TestSweepWithPost(t *testing.T) {
	args := []string{"sweep", "--network", "../../onnx/testdata/ops/post_composed.onnx", "--board", "zcu104", "--tp", "4", "--tc", "16", "--tr", "64"}
	if code, stdout, stderr := call(append(args, "--post", "off,on")...); code != cli.OK || !strings.Contains(stdout, "poston") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := call(args...); code != cli.Input || !strings.Contains(stderr, "a design with post: true runs") {
		t.Errorf("without: exit code %d: %s", code, stderr)
	}
}
