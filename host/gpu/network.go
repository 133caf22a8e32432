package gpu

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/sched"
)

// Network is a network for a simulated GPU, with the kernels for each batch size and the results at exits.
type Network struct {
	Name string
	// Program returns the program for a batch. The programs of all batches differ only in the grids of their kernels.
	Program func(batch int) (*kernel.Program, error)
	// Versions returns each kernel's versions. Padding chooses among them. If nil, padding uses the program's kernels.
	Versions func(batch int) ([][]kernel.Kernel, error)
	// Exit returns the result of a request at the end of a segment.
	Exit  func(id device.RequestID, segment int) device.ExitResult
	Input int64 // bytes per request
}

// NetworkName and Kind implement device.Artefact.
func (n *Network) NetworkName() string { return n.Name }

// Kind returns "module".
func (*Network) Kind() string { return "module" }

// loaded is a network on the device.
type loaded struct {
	*Network
	max     int
	pads    bool       // its kernels are profiled, for Mode.Pad or Mode.Beside
	batches []*batched // by batch - 1: each is built at its first use
	entries []int      // idem.Entries
}

type batched struct {
	*sim.Program
	heads []sched.Version   // by kernel: profile of the program's own version, for padding
	all   [][]sched.Version // by kernel: profiles of all versions; the field `as` contains the versions themselves
	as    [][]kernel.Kernel
	until []float64 // by kernel: ns from the program's start to the kernel's end, without other launches; nil: unknown
}

func load(n *Network, most int, m *Mode, p *sim.Params) (*loaded, error) {
	l := &loaded{Network: n, max: most, pads: m.Pad || m.Beside, batches: make([]*batched, most)}
	one, err := l.batch(1, p)
	if err != nil {
		return nil, err
	}
	l.entries = idem.Entries(one.Program.Program)
	return l, nil
}

func (l *loaded) batch(n int, p *sim.Params) (*batched, error) {
	if n < 1 || n > l.max {
		return nil, fmt.Errorf("%w: %s: batch %d, at most %d", device.ErrRequest, l.Name, n, l.max)
	}
	if b := l.batches[n-1]; b != nil {
		return b, nil
	}
	kp, err := l.Network.Program(n)
	if err != nil {
		return nil, err
	}
	prog, err := sim.Load(kp)
	if err != nil {
		return nil, err
	}
	if l.batches[0] != nil && len(kp.Kernels) != len(l.batches[0].Kernels) {
		return nil, fmt.Errorf("%w: %s has %d kernels at batch 1 and %d at %d", device.ErrRequest, l.Name, len(l.batches[0].Kernels), len(kp.Kernels), n)
	}
	for i := range kp.Kernels {
		if err := fits(l.Name, i, &kp.Kernels[i], p); err != nil {
			return nil, err
		}
	}
	b := &batched{Program: prog}
	if !l.pads {
		l.batches[n-1] = b
		return b, nil
	}
	var versions [][]kernel.Kernel
	if l.Versions != nil {
		if versions, err = l.Versions(n); err != nil {
			return nil, err
		}
	}
	for i := range kp.Kernels {
		as := []kernel.Kernel{kp.Kernels[i]}
		if i < len(versions) && as[0].Kind == kernel.Compute {
			as = append(as, versions[i]...)
		}
		for j := range as {
			if err := fits(l.Name, i, &as[j], p); err != nil {
				return nil, err
			}
		}
		as, all := Heads(as, p)
		b.heads = append(b.heads, Profile(&kp.Kernels[i], p))
		b.all, b.as = append(b.all, all), append(b.as, as)
	}
	l.batches[n-1] = b
	return b, nil
}

// restorable reports whether the program can resume after a stop inside kernel k.
func (l *loaded) restorable(k int) bool { return k >= len(l.entries) || l.entries[k] != idem.Never }

// part returns which share of the program's time the first n kernels take if no other launch runs.
func (b *batched) part(n int, p *sim.Params) float64 {
	if b.until == nil {
		sum := 0.0
		for i := range b.Kernels {
			sum += took(&b.Kernels[i], p)
			b.until = append(b.until, sum)
		}
	}
	if n == 0 {
		return 0
	}
	return b.until[n-1] / b.until[len(b.until)-1]
}

// took returns how many ns a kernel or copy takes alone, from its fetch by the command processor to its end.
func took(k *kernel.Kernel, p *sim.Params) float64 {
	ns := float64(p.DispatchNs)
	switch k.Kind {
	case kernel.Upload:
		ns += float64(p.LinkNs) + float64(k.Bytes)/p.Up
	case kernel.Fetch:
		ns += float64(p.LinkNs) + float64(k.Bytes)/p.Down
	case kernel.Memset:
		ns += float64(k.Bytes) / p.Bandwidth
	default:
		v := Profile(k, p)
		ns += float64(v.KernelNs)
	}
	return max(1, ns)
}

// fits returns an error if a kernel's blocks do not fit on any SM, because such a kernel would wait for ever.
func fits(network string, i int, k *kernel.Kernel, p *sim.Params) error {
	if k.Kind != kernel.Compute || p.SM.Of(k) > 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: kernel %d (%s): a block of %d threads, %d registers each and %d bytes of shared memory does not fit a multiprocessor of %d threads, %d registers, %d bytes",
		kernel.ErrProgram, network, i, k.Name, k.Threads, k.Regs, k.Shared, p.SM.Threads, p.SM.Regs, p.SM.Shared)
}

// Heads returns the Pareto-optimal versions of a kernel and their profiles. Padding selects one of these versions.
func Heads(as []kernel.Kernel, p *sim.Params) (kernels []kernel.Kernel, profiles []sched.Version) {
	all := make([]sched.Version, len(as))
	for i := range as {
		all[i] = Profile(&as[i], p)
	}
	if len(as) == 1 {
		return as, all
	}
	kept := sched.Prune(all)
	for i := range as {
		if slices.Contains(kept, all[i]) {
			kernels, profiles = append(kernels, as[i]), append(profiles, all[i])
		}
	}
	return kernels, profiles
}

// Profile computes the profile that a profiler would measure if the kernel ran alone.
func Profile(k *kernel.Kernel, p *sim.Params) sched.Version {
	v := sched.Version{Name: k.Name, Blocks: k.Blocks, Threads: k.Threads, Regs: k.Regs, Shared: k.Shared}
	if k.Kind != kernel.Compute {
		return v
	}
	v.Occupancy = p.SM.Of(k)
	v.BlockNs = int64(max(k.BlockNs, float64(k.Bytes)/p.Bandwidth)) // the blocks share the DRAM bandwidth
	v.FullNs = int64(k.BlockNs * max(1, float64(v.Occupancy)*k.Issue))
	alone := *p
	alone.LaunchNs, alone.TransferNs, alone.DispatchNs = 0, 0, 0
	g, err := sim.New(alone)
	if err != nil {
		return v
	}
	one := *k
	one.Reads, one.Writes = nil, nil
	prog, err := sim.Load(&kernel.Program{Kernels: []kernel.Kernel{one}, Exits: []int{0}})
	if err != nil {
		return v
	}
	g.Launch(g.Stream(0), &sim.Item{Parts: []sim.Part{{Program: prog, Memory: prog.Memory(0)}}})
	for g.Next() != sim.Never {
		g.Advance(sim.Never-1, nil)
	}
	v.KernelNs = g.Now()
	return v
}

// sms returns the SMs of units.
func (d *Device) sms(u device.Units) (s sim.Set) {
	if u.Empty() {
		return sim.All(d.p.SMs)
	}
	for i := range device.MaxUnits {
		if u.Has(i) {
			for j := i * d.p.Unit; j < min((i+1)*d.p.Unit, d.p.SMs); j++ {
				s[j/64] |= 1 << (j % 64)
			}
		}
	}
	return s
}
