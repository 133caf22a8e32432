package catalogue_test

import (
	"math"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

var machine = catalogue.Machine{MACs: 110, Bandwidth: 1024, SMs: 60}

// Every network in every style is a program that can resume wherever it is stopped. For the networks of table 1, groups
// are as short as section 6.4 of REEF reports (nine kernels), except for GPT-2: there each layer has fourteen kernels,
// and the last one overwrites the layer's input with a sum.
func TestPrograms(t *testing.T) {
	table1 := map[string]bool{"resnet152": true, "vgg19": true, "yolov3": true, "bert-base": true, "gpt2": true}
	for _, n := range catalogue.Names() {
		for _, style := range []string{"tvm", "tensorrt", "pytorch"} {
			for _, exits := range []int{1, 4} {
				p, err := catalogue.Program(catalogue.Spec{Network: n, Style: style, Exits: exits, Batch: exits}, machine)
				if err != nil {
					t.Errorf("%s, %s: %v", n, style, err)
					continue
				}
				if len(p.Exits) != exits && n != "vit-b" && n != "bert-base" && n != "roberta" && n != "distilbert" && n != "gpt2" || len(p.Exits) > exits {
					t.Errorf("%s, %s: %d exits, asked for %d", n, style, len(p.Exits), exits)
				}
				longest := 0
				for i, e := range idem.Entries(p) {
					if e == idem.Never {
						t.Errorf("%s, %s: kernel %d (%s) cannot be taken up again", n, style, i, p.Kernels[i].Name)
						continue
					}
					longest = max(longest, i-e+1)
				}
				if style == "tvm" && longest != 1 || table1[n] && longest > 9 && !(n == "gpt2" && longest <= 15) {
					t.Errorf("%s, %s: a group of %d kernels", n, style, longest)
				}
			}
		}
	}
}

// The share of kernels that cannot be repeated alone is that of table 1, within a kernel and a half, if the network has
// enough kernels that could work in place.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		network, style string
		idem, all      float64
	}{
		{"resnet152", "pytorch", 145, 211},
		{"vgg19", "pytorch", 45, 81},
		{"yolov3", "pytorch", 569, 572},
		{"bert-base", "pytorch", 165, 238},
		{"gpt2", "pytorch", 258, 294},
		{"vgg19", "tensorrt", 30, 30},
		{"yolov3", "tensorrt", 153, 175},
		{"bert-base", "tensorrt", 161, 173},
		{"gpt2", "tensorrt", 136, 148},
	} {
		p, err := catalogue.Program(catalogue.Spec{Network: c.network, Style: c.style}, machine)
		if err != nil {
			t.Fatal(err)
		}
		n := float64(len(p.Kernels))
		if got, want := float64(repeatable(p)), c.idem/c.all*n; math.Abs(got-want) > 1.5 {
			t.Errorf("%s, %s: %v of %v kernels can be run again, table 1 says %v of %v", c.network, c.style, got, n, c.idem, c.all)
		}
	}
}

// repeatable counts the kernels that can be repeated by themselves.
func repeatable(p *kernel.Program) (n int) {
	for i := range p.Kernels {
		if idem.Entries(&kernel.Program{Kernels: p.Kernels[i : i+1]})[0] == 0 {
			n++
		}
	}
	return n
}

// MACs equal the published values of the networks (in 1e9 at batch 1) within 3 %.
func TestMACs(t *testing.T) {
	for n, want := range map[string]float64{
		"resnet34": 3.66, "resnet50": 4.09, "resnet152": 11.5, "vgg19": 19.6, "inceptionv3": 5.7, "densenet201": 4.3,
		"mobilenetv2": 0.30, "yolov3": 32.9, "vit-b": 17.5, "convnext-b": 15.4, "bert-base": 11.2, "distilbert": 5.6, "yolov8n": 4.35,
	} {
		got, err := catalogue.MACs(n)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got/want/1e9-1) > 0.03 {
			t.Errorf("%s has %.3f GMACs, expected %v", n, got/1e9, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, s := range []catalogue.Spec{{Network: "lenet"}, {Network: "vgg19", Style: "jax"}, {Network: "vgg19", Batch: 1 << 20}, {Network: "vgg19", Side: 3}, {Network: "vgg19", Exits: 100}} {
		if p, err := catalogue.Program(s, machine); err == nil {
			t.Errorf("%+v: %d kernels", s, len(p.Kernels))
		}
	}
}
