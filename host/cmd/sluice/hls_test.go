package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
)

// With the same arrivals and the table's clock, the HLS kernel and the RTL give the same exits, classes, logits,
// endings and actions.
func TestRunOnHLS(t *testing.T) {
	if out, err := exec.Command("../../../hls/build.sh", "tiny").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	type doc struct {
		Runs []struct {
			Policy    string
			Exits     []int
			Results   json.RawMessage
			Reference referenceDoc
			MACUtil   *float64 `json:"mac_util"`
			Cycles    *uint64  `json:"cycles"`
			Bytes     *uint64  `json:"bytes"`
		}
	}
	build := t.TempDir()
	docs := map[string]doc{}
	for _, dev := range []string{"cosim", "hls"} {
		var out, log bytes.Buffer
		code := realMain([]string{
			"run", "--device", dev, "--clock", "table", "--network", "tiny", "--config", "tiny", "-n", "24", "--seed", "5",
			"--build", build, "--out", t.TempDir(), "--json",
		}, &out, &log)
		var d doc
		if code != 0 || json.Unmarshal(out.Bytes(), &d) != nil || len(d.Runs) == 0 {
			t.Fatalf("%s: exit %d: %s%s", dev, code, out.String(), log.String())
		}
		docs[dev] = d
	}
	for i, rtl := range docs["cosim"].Runs {
		hls := docs["hls"].Runs[i]
		if !bytes.Equal(rtl.Results, hls.Results) {
			t.Errorf("%s: results of cosim\n%s\nof hls\n%s", rtl.Policy, rtl.Results, hls.Results)
		}
		var results []resultDoc
		if err := json.Unmarshal(hls.Results, &results); err != nil || len(results) != 24 || results[0].Logits == "" {
			t.Errorf("%s: %d results, %v", rtl.Policy, len(results), err)
		}
		if hls.Reference.Results+hls.Reference.Actions != 0 || rtl.Reference.Results != 0 {
			t.Errorf("%s: against soft by the table: hls %+v, cosim %+v", rtl.Policy, hls.Reference, rtl.Reference)
		}
		if rtl.MACUtil == nil || *rtl.MACUtil <= 0 || rtl.Cycles == nil || *rtl.Cycles == 0 || rtl.Bytes == nil || *rtl.Bytes == 0 {
			t.Errorf("%s: cosim's utilisation, cycles, traffic: %v, %v, %v", rtl.Policy, rtl.MACUtil, rtl.Cycles, rtl.Bytes)
		}
		if hls.MACUtil != nil || hls.Cycles != nil || hls.Bytes != nil { // uncounted values are null, not 0
			t.Errorf("%s: hls' utilisation, cycles, traffic: %v, %v, %v", rtl.Policy, hls.MACUtil, hls.Cycles, hls.Bytes)
		}
	}
	// The kernel has no clock: an image's time is the table's, as on the soft device.
	bundles, err := filepath.Glob(filepath.Join(build, "bundles", "tiny-tiny-*.sluice"))
	if err != nil || len(bundles) != 1 {
		t.Fatalf("%v, %v: expected one bundle", bundles, err)
	}
	var told [2]classifyDoc
	for i, dev := range []string{"soft", "hls"} {
		var out, log bytes.Buffer
		if code := realMain([]string{
			"classify", bundles[0], filepath.Join(zoo.DefaultData, "t10k-images-idx3-ubyte.gz"), "--device", dev, "--theta", "0.9", "-n", "4", "--json",
		}, &out, &log); code != 0 || json.Unmarshal(out.Bytes(), &told[i]) != nil || len(told[i].Images) != 4 {
			t.Fatalf("classify on %s: exit %d: %s%s", dev, code, out.String(), log.String())
		}
	}
	if d := cmp.Diff(told[0].Images, told[1].Images); d != "" || told[1].Images[0].Ns <= 0 || told[1].Label != "estimated" || !told[1].Golden {
		t.Errorf("classify on hls: times %s, held to golden %v, %d ns; unlike soft: %s", told[1].Label, told[1].Golden, told[1].Images[0].Ns, d)
	}
	var out, log bytes.Buffer
	if code := realMain([]string{
		"run", "--device", "hls", "--network", "tiny", "--config", "tiny", "-n", "2", "--policy", "serial", "--build", build, "--out", t.TempDir(),
	}, &out, &log); code != 0 {
		t.Fatalf("exit %d: %s", code, log.String())
	}
	for _, row := range []string{"MAC utilisation", "DRAM traffic", "cycles"} {
		if !regexp.MustCompile(`(?m)^` + row + `\s+-\s*$`).MatchString(out.String()) {
			t.Errorf("no row %s with a dash:\n%s", row, out.String())
		}
	}
}

// A clock that the device does not have is rejected.
func TestRunOnHLSMeasured(t *testing.T) {
	var out, log bytes.Buffer
	if code := realMain([]string{"run", "--device", "hls", "--clock", "measured"}, &out, &log); code != cli.Usage {
		t.Errorf("exit %d: %s", code, log.String())
	}
}
