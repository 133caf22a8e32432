//go:build qemu

// These tests boot machines: make test-qemu (go test -tags qemu ./boards/qemu).

package qemu

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/serve/drive"
)

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// script runs a script of the repository and returns the last line of its output.
func script(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// images holds the results of opts by board: an image is built once for all tests.
var images = map[string]Opts{}

// opts builds a board's image and the simulator of its RTL.
func opts(t *testing.T, board string) Opts {
	t.Helper()
	if o, made := images[board]; made {
		return o
	}
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(script(t, "boards/image/build.sh", board, "tiny", "fashion"))
	plugin, err := Build(root(t))
	if err != nil {
		t.Fatal(err)
	}
	o := Opts{
		Board: b, Image: filepath.Join(root(t), "build", "image", board), Plugin: plugin,
		Cosim: filepath.Join(root(t), script(t, "sim/build.sh", "tiny")),
	}
	images[board] = o
	return o
}

// run is one run of sluice board as the console shows it.
type run struct {
	text string
	code int
	doc  served
}

type served struct {
	Requests, Errors, Results, Preemptions, Merges, Faults, Resets, Retries, Launches, Hangs int

	Differ     int `json:"results_differ"`
	Interrupts int
	Stale      int
	Starts     int
	Ended      int
	OnTime     int `json:"on_time"`
	Late       int
	Abandoned  bool
	Ticks      uint64
	Cycles     uint64
}

var end = regexp.MustCompile(`(?m)^SLUICE-END (\S+) (\d+)\n`)

// boot boots and splits the console at the ends of the runs. A last run that serves does not end: it is called, then
// the guest is switched off.
func boot(t *testing.T, o Opts) []run {
	t.Helper()
	text, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var runs []run
	at := 0
	for _, m := range end.FindAllStringSubmatchIndex(text, -1) {
		r := run{text: text[at:m[0]]}
		fmt.Sscan(text[m[4]:m[5]], &r.code)
		if i := strings.Index(r.text, `{"schema":"sluice-board-serve/1"`); i >= 0 {
			line, _, _ := strings.Cut(r.text[i:], "\n")
			if err := json.Unmarshal([]byte(line), &r.doc); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
		}
		runs = append(runs, r)
		at = m[1]
	}
	want := len(o.Run)
	if o.Call != nil {
		want--
	}
	if len(runs) != want {
		t.Fatalf("%d runs have ended, expected %d\n%s", len(runs), want, text)
	}
	return runs
}

// A high threshold: few requests leave early, so that batches are filled up and merged.
const serve = "serve,--json,-n,16,--rate,2,--theta,0.95,--watchdog,10s"

// golden fails unless a run served all n requests with golden's results and one interrupt per start.
func golden(t *testing.T, r run, n int) {
	t.Helper()
	d := r.doc
	if r.code != 0 || d.Requests != n || d.Results != n || d.Differ != 0 || d.Errors != 0 {
		t.Errorf("exit code %d: %+v\n%s", r.code, d, r.text)
	}
	if d.Starts == 0 || d.Starts != d.Ended || d.Interrupts-d.Stale != d.Starts {
		t.Errorf("%d starts, %d ended, %d interrupts, %d of them without a cause", d.Starts, d.Ended, d.Interrupts, d.Stale)
	}
	if d.Ticks < d.Cycles || d.Cycles == 0 {
		t.Errorf("TIME counted %d cycles, %d of them in starts", d.Ticks, d.Cycles)
	}
}

// TestBoards: both images find all parts of the board and serve with golden's results, with preemption and merging,
// also in real time. They continue after a process was killed while the NPU ran, and reject a bundle for another
// design. Last, sluice serve is called from outside. On one image sluice run serves the same bundle, and our module
// passes a bitstream to the kernel's FPGA manager, which reports that QEMU has no PL.
func TestBoards(t *testing.T) {
	for board, around := range map[string][]string{
		"zc706":  {"FCLK0 36.111 MHz; not judged", "FPGA_RST_CTRL 0x", "HP0 64/64 bit; not judged"},
		"zcu104": {"PL0 0.000 MHz; not judged", "pl_resetn0 0; not judged", "HP0 128/128 bit; not judged"},
	} {
		t.Run(board, func(t *testing.T) {
			o := opts(t, board)
			o.Overlay = otherKit(t)
			o.Run = []string{"doctor", serve, "serve,--die-at,3", serve + ",--real,--slo,1000,--rate,1", "serve,--kit,/kit-other"}
			if board == "zc706" {
				bitstream(t, o.Overlay)
				o.Run = append(o.Run, "sluice,run,/kit/bundle.sluice,--device,uio,--label,simulated,--clock-mhz,150,--noise,-n,8,--policy,fluid,--slo,1000x,--out,/tmp/out,--json",
					"sluice,bitstream,load,/fpga/npu.bit,--board,zc706")
			}
			o.Run = append(o.Run, "sluice,serve,/kit/bundle.sluice,--device,uio,--label,simulated,--clock-mhz,150,--http,0.0.0.0:8000,--grpc,0.0.0.0:8001,--metrics,0.0.0.0:8002")
			o.Ports = []int{8000, 8001, 8002}
			o.Call = func(ctx context.Context, at map[int]string) error { return call(ctx, t, o.Image, at) }
			runs := boot(t, o)
			for _, want := range append(around, "ok      uio ", "ok      npu ", "ok      memory ", "write-combined", "ok      access       no access was refused",
				"ok      registers ", "ok      design ", "ok      interrupt ") {
				if runs[0].code != 0 || !strings.Contains(runs[0].text, want) {
					t.Errorf("doctor: exit code %d, expected %q\n%s", runs[0].code, want, runs[0].text)
				}
			}
			golden(t, runs[1], 16)
			if d := runs[1].doc; d.Preemptions == 0 || d.Merges == 0 {
				t.Errorf("%d preemptions, %d merges", d.Preemptions, d.Merges)
			}
			if runs[2].code != 128+9 {
				t.Errorf("the run that kills itself: exit code %d\n%s", runs[2].code, runs[2].text)
			}
			golden(t, runs[3], 16)
			if !runs[3].doc.Abandoned {
				t.Error("the start that the killed process left was not found")
			}
			if r := runs[4]; r.code != 4 || !strings.Contains(r.text, "is for another design or ABI: design hash") {
				t.Errorf("another design's bundle: exit code %d\n%s", r.code, r.text)
			}
			t.Logf("%s: %+v", board, runs[1].doc)
			if board != "zc706" {
				return
			}
			var doc struct {
				Schema, Label, Device, Clock string
				Reference                    struct {
					Results int `json:"results_differ"`
				}
				Results []struct{ Exit int }
			}
			text := runs[5].text
			if err := json.Unmarshal([]byte(text[max(0, strings.Index(text, "{")):strings.LastIndex(text, "}")+1]), &doc); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if runs[5].code != 0 || doc.Schema != "sluice-run/1" || doc.Label != "simulated" || doc.Device != "uio" || doc.Clock != "real" ||
				len(doc.Results) != 8 || doc.Reference.Results != 0 {
				t.Errorf("sluice run: exit code %d: %+v\n%s", runs[5].code, doc, text)
			}
			for _, r := range doc.Results {
				if r.Exit < 0 {
					t.Errorf("sluice run: a request without a result: %+v", doc)
				}
			}
			for _, want := range []string{"Timeout waiting for PCFG_INIT", "the FPGA manager refused: write /dev/sluice-fpga"} {
				if r := runs[6]; r.code != 4 || !strings.Contains(r.text, want) {
					t.Errorf("sluice bitstream load: exit code %d, expected %q\n%s", r.code, want, r.text)
				}
			}
		})
	}
}

// call sends requests to an image's server over the emulated network, by REST and gRPC, and expects golden's answers.
func call(ctx context.Context, t *testing.T, image string, at map[int]string) error {
	k, err := kit.Read(filepath.Join(image, "kit"))
	if err != nil {
		return err
	}
	const n = 4
	for i, url := range []string{"http://" + at[8000], "grpc://" + at[8001]} {
		s, err := drive.Dial(url, "", nil)
		if err != nil {
			return err
		}
		defer s.Close()
		m, err := s.Describe(ctx, "bundle")
		if err != nil {
			return err
		}
		m.Inputs[0].Datatype = "INT16" // the kit's inputs are words
		for j := range n {
			var words []byte
			for _, w := range k.Inputs[j] {
				words = binary.LittleEndian.AppendUint16(words, uint16(w))
			}
			q := &drive.Question{Model: m, ID: uint64(n*i + j), Batch: 1, Data: [][]byte{words}}
			if j%2 == 0 {
				q.Theta = "2" // to the last exit
			}
			r := s.Infer(ctx, q)
			if !expected(r, k.Exits[j], j%2 == 0) {
				t.Errorf("%s, input %d: %+v: expected one of golden's %+v, the last where no exit may be taken", url, j, r, k.Exits[j])
			}
		}
	}
	resp, err := http.Get("http://" + at[8002] + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if want := `label="simulated"`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("metrics: %v, expected %s\n%s", err, want, text)
	}
	return nil
}

// expected reports whether a reply is one of golden's answers; with last set, the last exit's.
func expected(r drive.Reply, golden []device.ExitResult, last bool) bool {
	if r.Ending != drive.Answered || len(r.Exits) != 1 || len(r.Classes) != 1 {
		return false
	}
	exit := r.Exits[0]
	return exit >= 0 && exit < len(golden) && r.Classes[0] == golden[exit].Class && (!last || exit == len(golden)-1)
}

// bitstream adds a stored bitstream, and a manifest for it, to files.
func bitstream(t *testing.T, files map[string][]byte) {
	t.Helper()
	bit, err := os.ReadFile(filepath.Join(root(t), "bitstreams", "testdata", "xc7z045.bit"))
	if err != nil {
		t.Fatal(err)
	}
	files["fpga/npu.bit"] = bit
	files["fpga/npu.yaml"] = fmt.Appendf(nil, `board: zc706
config: small
part: xc7z045ffg900-2
design_hash: 0123456789abcdef
abi_hash: fedcba9876543210
tool: "2022.2"
sha256: %x
timing: {clock_mhz: 150, wns_ns: 0.12, whs_ns: 0.03}
utilisation: {dsp: 64, bram36: 40.5, uram: 0, lut: 21000, ff: 18000}
status: built
`, sha256.Sum256(bit))
}

// otherKit returns the files of a kit for another design.
func otherKit(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	script(t, "go", "run", "./host/cmd/sluice", "kit", "--config", "v8", "--network", "tiny", "--n", "1", "--out", dir)
	files := map[string][]byte{}
	for _, name := range []string{"bundle.sluice", "images.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files["kit-other/"+name] = data
	}
	return files
}

// TestNoDevice: a machine whose device tree knows no NPU says so.
func TestNoDevice(t *testing.T) {
	o := opts(t, "zc706")
	image := t.TempDir()
	for _, name := range []string{"kernel", "initramfs.cpio.gz"} {
		if err := os.Symlink(filepath.Join(o.Image, name), filepath.Join(image, name)); err != nil {
			t.Fatal(err)
		}
	}
	// the kernel's device tree, without our overlay
	if err := os.Symlink(filepath.Join(root(t), "build", "kernel", "arm", "zc706.dtb"), filepath.Join(image, "qemu.dtb")); err != nil {
		t.Fatal(err)
	}
	o.Image, o.Cosim = image, ""
	o.Run = []string{"doctor", serve}
	runs := boot(t, o)
	for _, r := range runs {
		if r.code != 4 || !strings.Contains(r.text, "no such device: there is no UIO device") {
			t.Errorf("exit code %d\n%s", r.code, r.text)
		}
	}
}

// TestNoInterrupt: the interrupt line never rises. Every start is reported as a hang by the NPU's own clock. Its requests
// are retried once and then fail, and the message says that only the interrupt is missing.
func TestNoInterrupt(t *testing.T) {
	o := opts(t, "zc706")
	o.Device = []string{"mute=1"}
	o.Run = []string{"serve,--json,-n,2,--slo,1000,--watchdog,4ms"}
	r := boot(t, o)[0]
	if r.code != 4 || r.doc.Errors != 2 || r.doc.Hangs < 2 || r.doc.Resets < 2 || r.doc.Retries == 0 || r.doc.Interrupts != 0 {
		t.Errorf("exit code %d: %+v\n%s", r.code, r.doc, r.text)
	}
	if !strings.Contains(r.text, "the NPU has ended, and its interrupt does not arrive") {
		t.Errorf("no word of the interrupt\n%s", r.text)
	}
}

// TestSpurious: the interrupt line pulses without a cause, and memory answers one read of the NPU with an error. The
// NPU's memory is cached, so every Sync is an ioctl of the module. QEMU has no caches and cannot show a missing Sync;
// TestRTLBehindCaches of host/npu/uio does.
func TestSpurious(t *testing.T) {
	o := opts(t, "zcu104")
	o.Tree = "qemu-cached.dtb"
	o.Device = []string{"spurious_ns=20000000", "slverr=300"}
	o.Run = []string{"doctor", serve}
	runs := boot(t, o)
	if want := "ok      memory       128 MiB at 0x50000000, cached"; runs[0].code != 0 || !strings.Contains(runs[0].text, want) {
		t.Errorf("doctor: exit code %d, expected %q\n%s", runs[0].code, want, runs[0].text)
	}
	r := runs[1]
	golden(t, r, 16)
	if r.doc.Stale == 0 || r.doc.Faults != 1 || r.doc.Retries == 0 {
		t.Errorf("%d interrupts without a cause, %d faults, %d retries", r.doc.Stale, r.doc.Faults, r.doc.Retries)
	}
}
