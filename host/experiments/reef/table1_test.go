package reef

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

//go:embed testdata/distilbert-kernels.csv
var distilbert string

// Table 1's counts under other rules than the catalogue's, as stated in the causes of the failing claims.
func TestTable1(t *testing.T) {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	count := func(network, style string, of func(name string) int) (n int) {
		p, err := catalogue.Program(catalogue.Spec{Network: network, Style: style}, f.Machine())
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Kernels {
			n += of(p.Kernels[i].Name)
		}
		return n
	}
	one := func(string) int { return 1 }
	has := func(prefixes ...string) func(string) int {
		return func(name string) int {
			for _, p := range prefixes {
				if strings.HasPrefix(name, p) {
					return 1
				}
			}
			return 0
		}
	}
	r := csv.NewReader(strings.NewReader(distilbert))
	r.Comment = '#'
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	six, around := 0, 0
	for _, l := range lines[1:] {
		n, err := strconv.Atoi(l[1])
		if err != nil {
			t.Fatal(err)
		}
		six += n
		around += n % 6 // before the first layer
	}
	residual, plain := 0, 0
	for _, k := range publicKernels() {
		if k.network == "vgg19" {
			if strings.Contains(k.name, "conv2d") {
				plain++
			}
			if strings.Contains(k.name, "add_add") || strings.Contains(k.name, "fused_add_nn") || strings.Contains(k.name, "multiply") {
				residual++
			}
		}
	}
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	for id, say := range map[string]string{
		"table1/vgg19/tvm":          fmt.Sprintf("%d convolutions and %d sums of a ResNet-50", plain, residual),
		"table1/bert-base/tvm":      fmt.Sprintf("%d kernels for six layers, %d for twelve", six, 2*(six-around)+around),
		"table1/resnet152/pytorch":  fmt.Sprintf("sums apart make %d", count("resnet152", "tvm", func(n string) int { return 1 + has("conv1x1_relu_add")(n) })),
		"table1/resnet152/tensorrt": fmt.Sprintf("%d convolutions", count("resnet152", "pytorch", has("conv"))),
		"table1/yolov3/tensorrt":    fmt.Sprintf("nothing fused makes %d", count("yolov3", "pytorch", one)),
		"table1/yolov3/tvm":         fmt.Sprintf("nothing fused makes %d", count("yolov3", "pytorch", one)),
		"table1/yolov3/pytorch":     fmt.Sprintf("norms apart make %d", count("yolov3", "pytorch", func(n string) int { return 1 + has("relu")(n) })),
		"table1/vgg19/pytorch":      fmt.Sprintf("biases apart make %d", count("vgg19", "pytorch", func(n string) int { return 1 + has("conv", "dense")(n) })),
	} {
		found := false
		for i := range claims {
			if s := claims[i].Judge([]float64{-1, -1}); s.ID == id {
				found = true
				if !strings.Contains(s.Cause+s.Evidence, say) {
					t.Errorf("%s does not say %q: %s; %s", id, say, s.Cause, s.Evidence)
				}
			}
		}
		if !found {
			t.Errorf("no claim %s", id)
		}
	}
}
