// Warm-up runs each kernel once. It loads the multi-role kernel (several kernels in one launch) per register limit.

package cuda

import (
	"math"
	"unsafe"

	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// proxy is a variant of the multi-role kernel, compiled with a limit on its registers.
type proxy struct {
	function  driver.Function
	registers int // per thread
	resident  int // number of blocks that fit on an SM
}

// limits lists the limits on registers per thread for variants of the multi-role kernel. 0: no limit. Without a limit,
// ptxas uses 84 to 96 registers. The single-layer kernel uses 80 registers.
var limits = []int{0, 80, 64}

// proxy returns, among the variants of which enough blocks fit on the SMs, the variant with the most registers per
// thread. `enough` is the launch's number of blocks or, if fewer, the number of single-layer blocks that fit.
func (l *launcher) proxy(blocks, sms int) *proxy {
	want := min(l.resident, (blocks+sms-1)/max(1, sms))
	for i := range l.proxies { // most registers first
		if x := &l.proxies[i]; x.resident >= want {
			return x
		}
	}
	return &l.proxies[len(l.proxies)-1]
}

// held returns how many blocks fit on an SM, for a kernel with this number of registers per thread.
func (l *launcher) held(registers int) int {
	return l.cfg.Params.SM.Of(&kernel.Kernel{Threads: kernels.Threads, Regs: registers, Shared: kernels.SharedBytes})
}

// full returns how many blocks of the single-layer kernel fit on a number of SMs. Each block computes one tile after
// another, so more blocks would not make the kernel faster. They would only take time to start, and to leave when the
// launch is stopped.
func (l *launcher) full(sms int) int {
	if l.resident == 0 {
		return math.MaxInt32
	}
	return l.resident * max(1, sms)
}

// warm runs every kernel once without work, because the driver may delay loading a kernel until its first launch.
func (l *launcher) warm() (err error) {
	if l.cfg.Params != nil {
		own, err := l.lib.Registers(l.layer, l.dev)
		if err != nil {
			return err
		}
		l.resident = l.held(own)
	}
	at, _, free, err := l.scratch(1<<10, l.copies)
	if err != nil {
		return err
	}
	defer func() {
		if e := free(); err == nil {
			err = e
		}
	}()
	run := func(f driver.Function, args ...unsafe.Pointer) error {
		var a driver.Args
		defer a.Free()
		for i, p := range args {
			a.Set(i, p)
		}
		return l.lib.Launch(f, 1, kernels.Threads, l.copies, &a)
	}
	if err := l.lib.Fill(at, 0, 1<<8, l.copies); err != nil {
		return err
	}
	// A block leaves at once if its epoch differs from that in Control.
	roles := new(kernels.Roles)
	roles[0] = kernels.Layer{Slots: uint64(at), Control: uint64(at), Epoch: 1, InC: 1, OutW: 1, KW: 1, TilesP: 1, TilesC: 1, Blocks: 1, To: 1}
	if err := run(l.layer, unsafe.Pointer(&roles[0])); err != nil {
		return err
	}
	if err := run(l.padded, unsafe.Pointer(roles)); err != nil {
		return err
	}
	w := &[5]uint64{uint64(at), 0, 0, 0, 1} // no words and no time, so the kernel ends at once
	w[2] = w[0] + 512
	if err := l.once(kernels.EntryWhere, func(f driver.Function) error { return run(f, unsafe.Pointer(&w[0]), unsafe.Pointer(&w[1])) }); err != nil {
		return err
	}
	err = l.once(kernels.EntryStream, func(f driver.Function) error {
		return run(f, unsafe.Pointer(&w[0]), unsafe.Pointer(&w[1]), unsafe.Pointer(&w[2]), unsafe.Pointer(&w[3]), unsafe.Pointer(&w[4]))
	})
	if err != nil || !l.cfg.Mode.Pad {
		return err
	}
	return l.loadProxies(func(f driver.Function) error { return run(f, unsafe.Pointer(roles)) })
}

// once looks up a kernel and runs it once.
func (l *launcher) once(name string, run func(driver.Function) error) error {
	f, err := l.lib.Function(l.module, name)
	if err != nil {
		return err
	}
	return run(f)
}

// loadProxies loads the multi-role kernel once per register limit. It omits a limit if no more blocks fit on an SM than
// with the previous one.
func (l *launcher) loadProxies(run func(driver.Function) error) error {
	l.proxies = nil
	if l.counts.Proxies == nil {
		l.counts.Proxies = map[int]int{}
	}
	most := 0
	for i, limit := range limits {
		x := proxy{function: l.padded}
		if i > 0 {
			if !l.lib.Contextless() {
				break
			}
			m, err := l.lib.Load(l.cfg.Kernels, limit)
			if err != nil {
				return err
			}
			l.limited = append(l.limited, m)
			if x.function, err = l.lib.Function(m, kernels.EntryPadded); err != nil {
				return err
			}
		}
		var err error
		if x.registers, err = l.lib.Registers(x.function, l.dev); err != nil {
			return err
		}
		if x.resident = l.held(x.registers); x.resident <= most {
			continue // this lower limit allows no more blocks
		}
		most = x.resident
		if err := run(x.function); err != nil {
			return err
		}
		l.proxies = append(l.proxies, x)
	}
	if len(l.proxies) == 0 {
		return refuse("a block of several roles does not fit an SM of %+v", l.cfg.Params.SM)
	}
	return nil
}
