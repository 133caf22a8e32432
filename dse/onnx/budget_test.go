package onnx

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// A file of a few kilobytes cannot make this program allocate gigabytes: Import rejects it by the total size of its
// tensors, before it allocates any of them.
func TestBudget(t *testing.T) {
	head := func(b *builder, last string) *builder {
		return b.op("GlobalAveragePool", "pool", in(last)).op("Flatten", "flat", in("pool")).outputs("flat")
	}
	// 40 maps of 2^26 elements: each is allowed, their float32 would be 10 GiB a worker.
	maps := build(1, 4, 4096, 4096)
	last := "x"
	for i := range 40 {
		maps.op("Neg", fmt.Sprint("r", i), in(last)).op("MaxPool", fmt.Sprint("m", i), in(fmt.Sprint("r", i)), intsAttr("kernel_shape", 1, 1))
		last = fmt.Sprint("r", i)
	}
	// 2,000 scalings of 65,535 channels by one number: tables of 2 GB.
	channels := build(1, 65535, 1, 1).tensor(&onnxpb.TensorProto{Name: proto.String("k"), DataType: proto.Int32(typeFloat), FloatData: []float32{2}})
	lastC := "x"
	for i := range 2000 {
		channels.op("Mul", fmt.Sprint("s", i), in(lastC, "k"))
		lastC = fmt.Sprint("s", i)
	}
	// One initializer of 2^20 weights that lie outside the file, read by 300 convolutions; and the same drawn
	// from a seed.
	shared := func(seeded bool) *builder {
		b := build(1, 1024, 1, 1)
		if seeded {
			b.seeded().tensor(&onnxpb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(typeFloat), Dims: []int64{1024, 1024, 1, 1}})
		} else {
			b.tensor(&onnxpb.TensorProto{
				Name: proto.String("w"), DataType: proto.Int32(typeFloat), Dims: []int64{1024, 1024, 1, 1}, DataLocation: onnxpb.TensorProto_EXTERNAL.Enum(),
				ExternalData: []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String("nowhere")}},
			})
		}
		last := "x"
		for i := range 300 {
			b.op("Conv", fmt.Sprint("c", i), in(last, "w"))
			last = fmt.Sprint("c", i)
		}
		return head(b, last)
	}
	for name, b := range map[string]*builder{
		"maps": head(maps, last), "channels": head(channels, lastC), "shared weights": shared(false), "drawn weights": shared(true),
	} {
		t.Run(name, func(t *testing.T) {
			content := b.bytes(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Import(strings.NewReader(string(content)), Options{})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("a file of %d bytes: %v, expected %v", len(content), err, ErrTooLarge)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 128 {
				t.Errorf("a file of %d bytes made %d MiB before it was refused", len(content), made)
			}
		})
	}
}

// A survey names everything that is missing at once, continues after an operator that keeps shapes, and says where it
// could not continue.
func TestSurvey(t *testing.T) {
	// A survey draws some of a tensor's numbers, and repeats them for the others.
	want := (&constant{name: "w", elems: surveyed}).draw(Options{}, kernel, 4)
	for _, n := range []int{1, surveyed, surveyed + 1, 5*surveyed + 3} {
		for i, v := range (&constant{name: "w", elems: n}).draw(Options{survey: true}, kernel, 4) {
			if v == 0 || v != want[i%surveyed] {
				t.Fatalf("element %d of %d is %v", i, n, v)
			}
		}
	}
	ask := func(b *builder) *Survey {
		t.Helper()
		s, err := SurveyOf(strings.NewReader(string(b.bytes(t))), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ask(good()); len(s.Needs) != 0 || !s.Whole || s.Ops["Conv"] == 0 {
		t.Errorf("a good network: %+v", s)
	}
	gate := good().op("Sigmoid", "gate", in("c")).op("Mul", "gated", in("c", "gate")).op("Sigmoid", "twice", in("gated")).
		op("GlobalAveragePool", "pooled", in("twice")).op("Flatten", "out", in("pooled")).outputs("out")
	s := ask(gate)
	if len(s.Needs) != 0 || s.Post["Mul"] != 1 || s.Post["Sigmoid"] != 2 || !s.Whole {
		t.Errorf("a gate: %+v", s)
	}
	if s := ask(good().op("Exp", "power", in("c")).op("Relu", "out", in("power")).outputs("out")); len(s.Needs) != 1 || !strings.Contains(s.Needs[0].Why, "grows faster than a line") {
		t.Errorf("a power: %+v", s)
	}
	// a reason quotes no names of the file
	edge := good().op("Pad", "edge\"d", in("c"), intsAttr("pads", 0, 0, 1, 1, 0, 0, 1, 1), stringAttr("mode", "edge")).op("GlobalAveragePool", "out", in("edge\"d")).outputs("out")
	if s := ask(edge); len(s.Needs) != 1 || s.Needs[0].Why != `attribute "mode": wrong or unsupported attribute: "edge", only "constant" is supported` {
		t.Errorf("a Pad by its edge: %+v", s.Needs)
	}
	sum := good().op("GlobalAveragePool", "few", in("c")).op("Flatten", "constant", in("few")).op("Add", "sum", in("c", "constant")).outputs("sum")
	if s := ask(sum); len(s.Needs) != 1 || strings.Contains(s.Needs[0].Why, `"`) {
		t.Errorf("a sum of two that differ: %+v", s.Needs)
	}
	turned := good().op("Transpose", "t", in("c")).op("Relu", "after", in("t")).op("Sin", "e", in("after")).outputs("e")
	if s := ask(turned); s.Whole || len(s.Needs) != 2 || s.Needs[0].Op != "Sin" || s.Needs[1].Op != "Transpose" {
		t.Errorf("behind an operator that changes shapes: %+v", s)
	}
	// NaN and infinity are errors of a value, not of an operator, in small and in large tensors
	for _, c := range []struct {
		tensor string
		value  float64
	}{{"w", math.Inf(1)}, {"m", math.NaN()}, {"n", math.NaN()}, {"n", math.Inf(-1)}} {
		b := good()
		for _, x := range b.m.Graph.Initializer {
			if x.GetName() == c.tensor {
				x.FloatData[7] = float32(c.value)
			}
		}
		s := ask(b)
		if len(s.Needs) != 1 || s.Needs[0].Op != "values" || !strings.Contains(s.Needs[0].Why, fmt.Sprintf("tensor %q: not a finite number: element 7 is %v", c.tensor, c.value)) {
			t.Errorf("%v in %s: %+v", c.value, c.tensor, s.Needs)
		}
		if _, err := b.load(t, Options{}); !errors.Is(err, ErrValue) {
			t.Errorf("%v in %s: %v", c.value, c.tensor, err)
		}
	}
	// numbers of a type that nothing reads do not matter
	coded := good().tensor(&onnxpb.TensorProto{Name: proto.String("codes"), DataType: proto.Int32(17), Dims: []int64{2}, RawData: []byte{1, 2}}).
		weight("scale").op("DequantizeLinear", "d", in("codes", "scale")).op("Add", "sum", in("c", "d")).op("GlobalAveragePool", "out", in("sum")).outputs("out")
	if s := ask(coded); s.Whole || len(s.Needs) != 1 || s.Needs[0].Op != "DequantizeLinear" {
		t.Errorf("weights in an 8-bit float: %+v", s)
	}
	if _, err := coded.load(t, Options{}); !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "codes") {
		t.Errorf("weights in an 8-bit float: %v", err)
	}
	// two names that are one when they are shown
	alike := good().weight("m\n", 1).weight(`m\n`, 1)
	if _, err := alike.load(t, Options{}); !errors.Is(err, ErrDuplicate) || !strings.Contains(err.Error(), `m\\n`) {
		t.Errorf("%v", err)
	}
	if _, err := SurveyOf(strings.NewReader("no model"), Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
}
