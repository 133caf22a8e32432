// Package host_test enforces the import rules of the repository: who may import whom. The rules are those of the
// README; the test lists the imports with `go list`.
package host_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-npu/sluice/"

// leaves may be imported by all packages: they define what hardware and software share.
var leaves = []string{"hw/abi", "hw/configs", "boards", "bitstreams", "sim/vectors", "dse/files", "dse/plaintext", "host/names", "host/cli", "host/shard", "dse/rtl"}

// rules: a package (or with a trailing slash, everything below it) and what it may import besides the leaves and its
// own subtree. The longest matching rule applies.
var rules = map[string][]string{
	"hw":                         {},
	"hw/":                        {"hw"}, // the embedded RTL
	"sim/":                       {},
	"boards":                     {},
	"hw/vivado/":                 {"hw/vivado/"},
	"bitstreams":                 {"boards"},
	"hls/":                       {"hls"},
	"hls":                        {},
	"hls/shell":                  {"host/npu"}, // its test asks a process for its identity
	"dse/":                       {"dse/", "boards"},
	"dse/files":                  {},
	"dse/plaintext":              {},
	"dse/graph":                  {},
	"dse/onnx":                   {"dse/graph"},
	"dse/images":                 {},
	"dse/zoo":                    {"dse/graph", "dse/onnx", "dse/images"},
	"dse/alias":                  {"dse/graph"},
	"dse/quant":                  {"dse/graph", "dse/alias"}, // merged convolutions have the same shift
	"dse/cost":                   {},
	"dse/machine":                {"dse/cost", "dse/mapping"},                          // what the RTL refuses, the machine refuses
	"dse/counted":                {"dse/cost", "dse/machine", "dse/mapping", "hw/syn"}, // the RTL on which layers were counted
	"dse/mapping":                {"dse/cost"},
	"dse/resource":               {"boards", "hw", "hw/syn"}, // its law is fitted on runs in hw/syn's format
	"dse/lower":                  {"dse/cost", "dse/mapping", "dse/alias", "dse/graph"},
	"dse/search":                 {"dse/cost", "dse/mapping", "dse/lower", "dse/alias", "dse/graph", "dse/resource", "boards"}, // it does not simulate: a simulation is passed in
	"dse/report":                 {"dse/search", "dse/counted", "dse/cost", "dse/mapping", "dse/resource", "boards"},
	"dse/bundle":                 {"dse/cost", "dse/mapping", "dse/graph"}, // an FBCB entry is checked by the code that selects it; in graph: names of confidences
	"dse/golden":                 {"dse/bundle"},
	"dse/golden/int8":            {"dse/golden", "dse/quant", "dse/graph"}, // a network before it is a bundle
	"host/device":                {},                                       // neither a file format nor a number format of a network
	"host/predict":               {},
	"host/sched":                 {"host/predict", "host/device", "dse/bundle", "dse/graph"},
	"host/capacity":              {"dse/search", "dse/compile", "dse/quant", "dse/graph", "dse/bundle", "host/experiments/frame", "host/engine", "host/load", "host/sched", "host/soft", "host/device"}, // in dse: the search that calls it, and the compiler of its stand-in
	"host/drawn":                 {"host/sched", "host/device", "dse/bundle", "dse/graph"},
	"host/bandwidth":             {},
	"host/links":                 {},
	"host/names":                 {},
	"host/cli":                   {"hw"}, // a question has the RTL's hash
	"host/shard":                 {},
	"host/ingest":                {"host/bandwidth", "host/sched", "host/device", "dse/bundle", "dse/graph"},
	"host/jellyfish":             {"host/sched", "host/device", "host/bandwidth", "dse/bundle", "dse/graph"},
	"host/jellyfish/exact":       {"host/jellyfish"},
	"host/experiments/jellyfish": {"host/experiments/frame", "host/jellyfish", "host/jellyfish/exact", "host/bandwidth", "host/bandwidth/capture", "host/ingest", "host/links", "host/engine", "host/sched", "host/device", "dse/bundle"},
	"host/engine":                {"host/sched", "host/device", "dse/bundle", "dse/graph"},
	"host/load":                  {"host/sched", "host/device", "dse/bundle", "dse/graph"},
	"host/npu":                   {"host/device", "dse/bundle", "dse/graph"},
	"host/npu/uio":               {"host/npu"},
	"host/kit":                   {"host/device", "dse/bundle", "dse/graph"},
	"host/gpu":                   {"host/device", "dse/bundle", "dse/graph", "host/sched"}, // in sched: what a launching thread uses, sched.Pad
	"host/gpu/cuda":              {"host/gpu", "host/gpu/idem", "host/gpu/kernel", "host/gpu/sim", "host/sched", "host/device", "dse/bundle"},
	"host/gpu/cuda/bench":        {"host/gpu", "host/gpu/cuda", "host/gpu/params", "host/gpu/sim", "host/predict", "host/sched", "host/device", "dse/bundle", "dse/golden", "dse/randnet"}, // in predict: the model whose errors are measured; in golden: what results are compared with
	"host/gpu/bundled":           {"host/gpu", "host/gpu/cuda", "host/gpu/params", "host/device", "dse/bundle"},                                                                            // what computes results is passed in
	"host/board":                 {"host/kit", "host/npu", "host/npu/uio", "host/experiments", "host/engine", "host/device", "dse/bundle"},
	"host/soft":                  {"host/device", "dse/bundle", "dse/graph", "dse/golden", "dse/cost"},
	"host/report":                {"host/engine", "host/sched", "host/device", "dse/bundle", "dse/graph"},
	"sim/verify":                 {"dse/", "host/npu", "host/experiments", "host/engine", "host/sched", "host/drawn", "host/load", "host/device"}, // in host/npu: only the bus (TestVerifyHasNoDriver)
	"host/serve":                 {"host/engine", "host/sched", "host/device", "dse/bundle"},                                                      // functions that open devices are passed in
	"host/serve/oip":             {},
	"host/work":                  {}, // what runs a shard is passed in
	"host/serve/drive":           {"host/serve/oip"},
	"host/experiments/frame":     {},
	"host/experiments/fluid":     {"host/experiments", "host/experiments/frame", "host/report", "host/engine", "host/sched", "host/drawn", "host/load", "host/device", "dse/bundle", "dse/graph"},
	"host/experiments/seeb":      {"host/experiments/frame", "host/gpu", "host/gpu/catalogue", "host/gpu/kernel", "host/gpu/params", "host/engine", "host/sched", "host/drawn", "host/load", "host/device", "dse/bundle"},
	"host/experiments/seeb/real": {"host/experiments/seeb", "host/gpu/cuda", "host/gpu/cuda/bench", "host/engine", "host/sched", "host/device", "dse/bundle"},
	"host/experiments/reef":      {"host/experiments/frame", "host/gpu", "host/gpu/catalogue", "host/gpu/idem", "host/gpu/kernel", "host/gpu/params", "host/engine", "host/sched", "host/drawn", "host/load", "host/device", "dse/bundle"},
	"host/experiments/disb":      {"host/experiments/reef", "host/gpu", "host/gpu/catalogue", "host/gpu/cuda", "host/gpu/cuda/bench", "host/gpu/params", "host/sched", "host/device", "dse/bundle", "dse/recipe"},
	"host/experiments/strait":    {"host/experiments/frame", "host/gpu", "host/gpu/catalogue", "host/gpu/kernel", "host/gpu/params", "host/engine", "host/sched", "host/predict", "host/drawn", "host/load", "host/device", "dse/bundle"},
	"host/experiments/compose":   {"host/experiments/frame", "host/experiments/strait", "host/experiments/jellyfish", "host/jellyfish", "host/links", "host/gpu/params", "host/drawn", "host/device", "host/sched", "dse/bundle"},
	"host/experiments":           {"host/experiments/frame", "host/report", "host/engine", "host/sched", "host/drawn", "host/load", "host/device", "dse/bundle", "dse/graph"},
}

// commands connect everything.
func command(pkg string) bool { return strings.Contains(pkg, "/cmd/") || pkg == "hw/abi/gen" }

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, l)
	}
}

func ruleFor(pkg string) (string, bool) {
	best, found := "", false
	for r := range rules {
		if (r == pkg || strings.HasPrefix(pkg, strings.TrimSuffix(r, "/")+"/")) && len(r) >= len(best) {
			best, found = r, true
		}
	}
	return best, found
}

func allowed(rule, pkg, imported string) bool {
	base := strings.TrimSuffix(rule, "/")
	if imported == pkg || (!strings.HasSuffix(rule, "/") && strings.HasPrefix(imported, base+"/")) {
		return true
	}
	if slices.Contains(leaves, imported) {
		return true
	}
	for _, a := range rules[rule] {
		if imported == a || (strings.HasSuffix(a, "/") && strings.HasPrefix(imported, a)) {
			return !command(imported)
		}
	}
	return false
}

// TestWalls checks the imports of packages; their tests may import more, but never a command.
func TestWalls(t *testing.T) {
	pkgs := list(t)
	if len(pkgs) < 10 {
		t.Fatalf("go list names %d packages only", len(pkgs))
	}
	for _, p := range pkgs {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if rest, ok := strings.CutPrefix(imp, module); ok && command(rest) && !strings.HasPrefix(rest, pkg) && !command(pkg) {
				t.Errorf("%s imports the command %s", pkg, rest)
			}
		}
		if command(pkg) || pkg == "host" {
			continue
		}
		rule, ok := ruleFor(pkg)
		if !ok {
			t.Errorf("%s has no rule: say in host/walls_test.go what it may import", pkg)
			continue
		}
		for _, imp := range p.Imports {
			rest, ok := strings.CutPrefix(imp, module)
			if ok && !allowed(rule, pkg, rest) {
				t.Errorf("%s imports %s, which the wall %q forbids", pkg, rest, rule)
			}
		}
	}
}

// TestStatic: the boards' program, built with -tags static, has no driver of a GPU in it, and the usual one has.
func TestStatic(t *testing.T) {
	for _, tags := range []string{"static", ""} {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, module+"host/cmd/sluice").Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		there := strings.Contains(string(out), module+"host/gpu/cuda") || strings.Contains(string(out), "purego")
		if there != (tags == "") {
			t.Errorf("with the tags %q: a GPU's driver is there: %v", tags, there)
		}
	}
}

// TestVerifyHasNoDriver: the verification of the hardware works directly on the bus, so that no driver hides a fault.
func TestVerifyHasNoDriver(t *testing.T) {
	files, err := filepath.Glob("../sim/verify/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	bus := []string{
		"BusError", "Cosim", "CosimOpts", "CosimInfo", "CosimKind", "CosimRTL", "CosimShell", "CosimHLS", "Bus", "ErrNoIRQ", "FindCosim", "HardResetter", "OpenCosim", "Play", "PortStats", "RespSLVERR",
		"Fault", "FaultDir", "FaultKind", "FaultRead", "FaultWrite", "FaultNever", "FaultDelay", "FaultSLVERR", "FaultDECERR", "AnyPort", "MemoryTiming",
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "npu" && !slices.Contains(bus, s.Sel.Name) {
					t.Errorf("%s uses npu.%s, which is not of the bus", name, s.Sel.Name)
				}
			}
			return true
		})
	}
}
