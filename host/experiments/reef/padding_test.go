package reef

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/sched"
)

// profiled are the kernels of REEF's networks on the MI50, ResNet-152 and VGG-19 for images of a side (0: 224).
func profiled(t *testing.T, side int) map[string][]sched.Version {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	nets := map[string][]sched.Version{}
	for _, n := range five() {
		s := catalogue.Spec{Network: n}
		if n == "resnet152" || n == "vgg19" {
			s.Side = side
		}
		prog, err := catalogue.Program(s, f.Machine())
		if err != nil {
			t.Fatal(err)
		}
		for i := range prog.Kernels {
			if k := &prog.Kernels[i]; k.Kind == kernel.Compute {
				nets[n] = append(nets[n], gpu.Profile(k, &p))
			}
		}
	}
	return nets
}

const units = 60 // of the MI50

// refusal is the reason why a best-effort kernel cannot pad a real-time one.
type refusal int

const (
	full   refusal = iota // no unit is left
	dense                 // rule 2: a unit holds fewer of its blocks
	slow                  // rule 1: its blocks take as long as the real-time kernel, or longer
	padded                // nothing does
	refusals
)

// refused tells which of sched.Pad's conditions fails first.
func refused(rt, be *sched.Version) refusal {
	switch {
	case rt.Reserve(units) >= units:
		return full
	case be.Occupancy < rt.Waves(units):
		return dense
	case len(sched.Pad(rt, units, [][]sched.Version{{*be}}, nil)) == 0:
		return slow
	}
	return padded
}

// reading is a way to read section 5.2. With waves, needed and blocks it is the way of sched.Pad and of the
// publication's own code (SJTU-IPADS/reef-artifacts, src/reef/server/scheduler.cpp, dynamic_kernel_padding).
type reading struct {
	// waves: a kernel of more blocks than units keeps as many as it needs in as many waves, and not all.
	waves bool
	// needed: in rule 2, the real-time kernel's occupancy is the number of blocks per unit that its waves need, not the
	// number that a unit could hold.
	needed bool
	// blocks: as many blocks of a best-effort kernel run as padding as there is room and time for; the rest run later.
	blocks bool
}

// gain estimates the share of a GPU that a best-effort network gets beside a real-time one if both always have
// requests. It uses only the kernels' profiles, without a simulation.
func (r reading) gain(rts, bes []sched.Version) float64 {
	const between = 2000 // ns from a kernel to the next
	var now, done float64
	head, left := 0, bes[0].Blocks
	for round := range 40 {
		if round == 20 { // by now it has reached the kernel at which it gets stuck, if there is one
			now, done = 0, 0
		}
		for i := range rts {
			rt, be := &rts[i], &bes[head]
			now += float64(rt.KernelNs) + between
			waves := max(1, min((rt.Blocks+units-1)/units, rt.Occupancy))
			free, need := units-min(units, rt.Blocks), rt.Occupancy
			if r.waves {
				free = units - min(units, (rt.Blocks+waves-1)/waves)
			}
			if r.needed {
				need = waves
			}
			per := min(be.Occupancy, rt.Occupancy)
			for per > 0 && be.At(per) >= rt.KernelNs {
				per--
			}
			if free <= 0 || be.Occupancy < need || per == 0 {
				continue
			}
			if r.blocks {
				left -= free * per * int(rt.KernelNs/be.At(per))
			} else if be.Units(per) <= free {
				left = 0
			}
			if left <= 0 {
				done += float64(be.KernelNs) + between
				head = (head + 1) % len(bes)
				left = bes[head].Blocks
			}
		}
	}
	return done / now
}

// The effect of padding (host/gpu/RESULTS.md shows these lines): why kernels of figure 23's pairs cannot pad, and the
// effect of each part of the publication's way to select blocks, and of its images.
func TestPaddingRefused(t *testing.T) {
	raw, err := os.ReadFile("../../gpu/RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	say := func(format string, a ...any) {
		line := fmt.Sprintf(format, a...)
		t.Log(line)
		if !strings.Contains(string(raw), line) {
			t.Errorf("host/gpu/RESULTS.md does not show %q", line)
		}
	}
	nets := profiled(t, 0)
	var n [refusals]int
	all := 0
	for _, rt := range five() {
		for _, be := range five() {
			for i := range nets[rt] {
				for j := range nets[be] {
					n[refused(&nets[rt][i], &nets[be][j])]++
					all++
				}
			}
		}
	}
	percent := func(r refusal) float64 { return 100 * float64(n[r]) / float64(all) }
	say("no unit left %.1f %%, too long %.1f %%, fewer to a unit %.1f %%, padded %.1f %%",
		percent(full), percent(slow), percent(dense), percent(padded))
	for _, side := range []int{0, 64} {
		nets := profiled(t, side)
		used := func(network string) float64 {
			sum, time := 0.0, 0.0
			for _, v := range nets[network] {
				sum, time = sum+float64(v.KernelNs)*min(1, float64(v.Blocks)/units), time+float64(v.KernelNs)
			}
			return 100 * sum / time
		}
		say("%.0f and %.0f %% for %d x %[3]d", used("resnet152"), used("vgg19"), cmp.Or(side, 224))
		for _, r := range []reading{{}, {waves: true, needed: true}, {blocks: true}, {true, true, true}} {
			sum, most, none := 0.0, 0.0, 0
			for _, rt := range five() {
				for _, be := range five() {
					g := r.gain(nets[rt], nets[be])
					sum, most = sum+g, max(most, g)
					if g < 0.001 {
						none++
					}
				}
			}
			var how []string
			for _, x := range []struct {
				on   bool
				name string
			}{{r.waves && r.needed, "waves"}, {r.blocks, "blocks"}, {side > 0, "64 x 64"}} {
				if x.on {
					how = append(how, x.name)
				}
			}
			if len(how) == 0 {
				how = []string{"as it is"}
			}
			say("| %s | %.1f %% | %.0f %% | %d |", strings.Join(how, ", "), 100*sum/25, 100*most, none)
		}
	}
}

// published are the kernels of REEF's networks (public.go) as it profiles them.
func published() map[string][]sched.Version {
	nets := map[string][]sched.Version{}
	for _, k := range publicKernels() {
		nets[k.network] = append(nets[k.network], sched.Version{
			Name: k.name, Blocks: k.blocks, Threads: k.threads, Shared: k.shared, KernelNs: int64(1000 * k.us),
			BlockNs: int64(1000 * k.per[0]), FullNs: int64(1000 * k.per[len(k.per)-1]), Occupancy: len(k.per),
		})
	}
	return nets
}

// pads estimates the share of a GPU that a best-effort network gets beside a real-time one if both always have
// requests. sched.Pad selects the blocks, and only the kernels' profiles are used.
func pads(rts, bes []sched.Version) (gain float64) {
	const between = 2000 // ns from a kernel to the next
	var now, done float64
	head, from := 0, 0
	for round := range 40 {
		if round == 20 { // by now it has reached the kernel at which it gets stuck, if there is one
			now, done = 0, 0
		}
		for i := range rts {
			now += float64(rts[i].KernelNs) + between
			be := bes[head]
			be.Done = from
			for _, p := range sched.Pad(&rts[i], units, [][]sched.Version{{be}}, nil) {
				if from += p.Blocks; from == be.Blocks {
					done += float64(be.KernelNs) + between
					head, from = (head+1)%len(bes), 0
				}
			}
		}
	}
	return done / now
}

// The effect of padding with the publication's own kernels (host/gpu/RESULTS.md shows it).
func TestPublishedKernels(t *testing.T) {
	raw, err := os.ReadFile("../../gpu/RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	nets := published()
	if r, v := len(nets["resnet152"]), len(nets["vgg19"]); r != 207 || v != 71 {
		t.Errorf("%d and %d kernels, table 1 has 207 and 71", r, v)
	}
	for _, rt := range []string{"resnet152", "vgg19"} {
		for _, be := range []string{"resnet152", "vgg19"} {
			line := fmt.Sprintf("| %s | %s | %.1f %% |", rt, be, 100*pads(nets[rt], nets[be]))
			t.Log(line)
			if !strings.Contains(string(raw), line) {
				t.Errorf("host/gpu/RESULTS.md does not show %q", line)
			}
		}
	}
}
