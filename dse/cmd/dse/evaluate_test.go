package main

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/evaluate"
)

// int8 and int16 each have a row with their comparison with float and onnxruntime, and each warning names the type.
func TestPrintEvaluation(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	r := &evaluate.Report{
		Images: 1, Labelled: true, Oracle: true, Clipped: 0.5,
		Saturated: []evaluate.Saturation{{Layer: "a", Share: 0.25}}, SaturatedInt8: []evaluate.Saturation{{Layer: "b", Share: 0.125}},
		Exits: []evaluate.Exit{{
			Name: "y", Int16: of(0.01), Float: of(0.02), Onnxruntime: of(0.03), AgreeFloat: of(0.04), AgreeOracle: of(0.05), FloatOracle: of(0.06),
			MeanFloat: 0.07, WorstFloat: 0.08, MeanOracle: of(0.09), WorstOracle: of(0.1), Int8: of(0.11), AgreeInt8: of(0.12), MeanInt8: of(0.13), WorstInt8: of(0.14),
			AgreeInt8Oracle: of(0.15), MeanInt8Oracle: of(0.16), WorstInt8Oracle: of(0.17),
		}},
		Int8: &evaluate.Int8{Bound: of(1), Apart: of(0.003), Layers: []evaluate.LayerLoss{{Layer: "c", Bits: 8, Anew: 3}}},
	}
	var b strings.Builder
	if err := printEvaluation(&b, r); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"y int8 11.00 % 12.00 % 15.00 % 13.00 % 14.00 % 16.00 % 17.00 % y int16 1.00 % 4.00 % 5.00 % 7.00 % 8.00 % 9.00 % 10.00 % y float 2.00 % 6.00 % y onnxruntime 3.00 %",
		"int16: 50.00 % of the input's", "int16: 1 layers", "int8: 1 layers have results beyond what their scales hold, which saturate, most of all b (12.5 %",
		"int8: 1 layers have channels whose weights are not the file's codes, but quantised anew: c (3 channels)",
		"0.3 % of the calibration's images have another class (asked: at most 100 %)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
