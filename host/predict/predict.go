// Package predict estimates the time of a batch on a shared device. Link estimates how long the batch's input waits for
// the link. Model estimates how much other batches slow down the batch's kernels. Every completed batch updates both.
//
// Model is from Strait, section 3.2. Other batches use the device's resources while the batch runs. The average of this
// use over the batch's run (Exposure) is the pressure on the batch. The slowdown grows exponentially with the pressure,
// and depends on the priority:
//
//	I = k b^LR(m_avg, m_self) + C           (equation 4)
//	Intf = 1 + I coeff(priority)            (equation 5)
//	T = Intf T_isolated                     (equation 6, as a time and not as a delay)
//
// Linear is a linear regression as in gpulets (USENIX ATC 2022), without training at run time. Nothing in this package
// reads a clock. Only fits and checkpoints allocate memory.
package predict

// Time is ns since the start of the run.
type Time = int64

// Resources of a device.
const (
	L1      = iota // level-1 cache
	L2             // level-2 cache
	DRAM           //
	Tensor         // tensor cores
	FMA            // multiply-add pipes
	Threads        // resident threads
	Resources
)

// Use is the busy share of each resource, 0..1. A sum over batches can exceed 1. The share is zero if the device does
// not have the resource, or if the share was not measured.
type Use [Resources]float64

// Plus returns the sum of u and o.
func (u Use) Plus(o Use) Use {
	for i := range u {
		u[i] += o[i]
	}
	return u
}

// Minus returns u minus o. Shares that rounding errors make negative become zero.
func (u Use) Minus(o Use) Use {
	for i := range u {
		u[i] = max(0, u[i]-o[i])
	}
	return u
}

// Times returns u multiplied by f.
func (u Use) Times(f float64) Use {
	for i := range u {
		u[i] *= f
	}
	return u
}

// Peak returns the largest share.
func (u Use) Peak() float64 {
	p := 0.0
	for _, v := range u {
		p = max(p, v)
	}
	return p
}

// self returns the compute and memory use of a batch, which determine its sensitivity to other batches. The publication
// uses tensor cores and the L2 cache. If a device lacks these, FMA pipes and DRAM replace them.
func (u *Use) self() (compute, memory float64) {
	return max(u[Tensor], u[FMA]), max(u[L2], u[DRAM])
}

// Exposure records how other batches use the device while a batch runs. The zero value is a record that has not begun.
type Exposure struct {
	Began Time // start of the batch
	since Time
	now   Use
	sum   Use // integral of the use over time, in ns
}

// Begin starts the record at the batch's start.
func (e *Exposure) Begin(now Time, others Use) { *e = Exposure{Began: now, since: now, now: others} }

// Change records that the use by other batches changed to the value `others`.
func (e *Exposure) Change(now Time, others Use) {
	if dt := now - e.since; dt > 0 {
		e.sum = e.sum.Plus(e.now.Times(float64(dt)))
		e.since = now
	}
	e.now = others
}

// Mean returns the average use from Began to now. If no time has passed, Mean returns the present use.
func (e *Exposure) Mean(now Time) Use {
	all := now - e.Began
	if all <= 0 {
		return e.now
	}
	return e.sum.Plus(e.now.Times(float64(max(0, now-e.since)))).Times(1 / float64(all))
}

// Now returns the present use by other batches.
func (e *Exposure) Now() Use { return e.now }
