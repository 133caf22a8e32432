package reef_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

func bed(t *testing.T) *reef.Bed {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	return reef.NewBed(f, "tvm")
}

// The systems have the order that their mechanisms imply, over 100 ms of DISB C.
func TestOrder(t *testing.T) {
	b := bed(t)
	w := reef.DISB()[2]
	got := map[string]*reef.Outcome{}
	for _, s := range []string{"rt-only", "seq", "streams", "reset", "reef"} {
		o, err := b.Run(context.Background(), s, w, 100e6, 1)
		if err != nil {
			t.Fatal(err)
		}
		got[s] = o
	}
	if r := got["reef"].RT; r > 1.05 || r < 1 {
		t.Errorf("reef: real-time tasks take %.3f of their time alone", r)
	}
	if r := got["streams"].RT; r < 2 {
		t.Errorf("streams: real-time tasks take %.3f of their time alone beside five clients", r)
	}
	if got["seq"].Throughput > 1.01 || got["reef"].Throughput < got["seq"].Throughput || got["streams"].Throughput < got["reef"].Throughput {
		t.Errorf("throughput: seq %.3f, reef %.3f, streams %.3f", got["seq"].Throughput, got["reef"].Throughput, got["streams"].Throughput)
	}
	// With six streams on four hardware queues, two queues are shared by two streams. There, two device queues of four
	// kernels are emptied one after the other, in at most 3 + 2 (20 + 3 x 3.7) + 3 us. With a queue for each stream it
	// takes half of that.
	if got["reef"].Preemptions == 0 || got["reef"].PreemptP99 > 69 {
		t.Errorf("reef: %d preemptions, %.1f us", got["reef"].Preemptions, got["reef"].PreemptP99)
	}
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	o, err := reef.NewBed(f.With("hardware_queues", 16), "tvm").Run(context.Background(), "reef", w, 100e6, 1)
	if err != nil || o.Preemptions == 0 || o.PreemptP99 > 40 || got["reef"].PreemptP99 <= o.PreemptP99 {
		t.Errorf("reef with hardware queues for all: %d preemptions, %.1f us; with four %.1f us; %v", o.Preemptions, o.PreemptP99, got["reef"].PreemptP99, err)
	}
}

// Equal seeds give equal runs, others do not.
func TestSeed(t *testing.T) {
	b := bed(t)
	run := func(seed uint64) reef.Outcome {
		o, err := b.Run(context.Background(), "streams", reef.DISB()[4], 30e6, seed)
		if err != nil {
			t.Fatal(err)
		}
		return *o
	}
	if a, c := run(1), run(1); !reflect.DeepEqual(a, c) {
		t.Errorf("%+v and %+v", a, c)
	}
	if a, c := run(1), run(2); reflect.DeepEqual(a, c) {
		t.Error("two seeds, one run")
	}
}
