// Package predict estimates how long a batch will take on a shared device: how long its input waits for the link
// (Link), and how much slower its kernels run beside others (Model). Both learn from every batch that ends.
//
// The model is Strait's, section 3.2. Other batches use the device's resources. Their use, averaged over the time in
// which they run beside the batch (Exposure), is the pressure on it. The slowdown grows exponentially with the
// pressure, and differs between priorities:
//
//	I = k b^LR(m_avg, m_self) + C           (equation 4)
//	Intf = 1 + I coeff(priority)            (equation 5)
//	T = Intf T_isolated                     (equation 6, as a time and not as a delay)
//
// Linear is a model that does not learn, after gpulets (USENIX ATC 2022): a linear regression. Nothing here reads a
// clock, and only Fit and checkpoints allocate.
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

// Use is the share of each resource that is busy, 0..1. A sum over batches may exceed 1. The share is zero if the
// device does not have the resource, or if it was not measured.
type Use [Resources]float64

// Plus returns the sum of u and o.
func (u Use) Plus(o Use) Use {
	for i := range u {
		u[i] += o[i]
	}
	return u
}

// Minus returns the difference of u and o. It is at least zero, since floating-point sums leave small remainders.
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

// self returns the part of a batch's own use that determines its sensitivity: compute and memory. The publication
// uses tensor cores and the L2 cache; a device without these has the FMA pipes and the DRAM.
func (u *Use) self() (compute, memory float64) {
	return max(u[Tensor], u[FMA]), max(u[L2], u[DRAM])
}

// Exposure records, over time, how other batches use the device while a batch runs. With the zero value, the record has
// not begun.
type Exposure struct {
	Began Time // start of the batch
	since Time
	now   Use
	sum   Use // integral over ns
}

// Begin starts the record at the batch's start.
func (e *Exposure) Begin(now Time, others Use) { *e = Exposure{Began: now, since: now, now: others} }

// Change records a change of the others' use.
func (e *Exposure) Change(now Time, others Use) {
	if dt := now - e.since; dt > 0 {
		e.sum = e.sum.Plus(e.now.Times(float64(dt)))
		e.since = now
	}
	e.now = others
}

// Mean returns the average over the time until now. If no time has passed, it returns the present use.
func (e *Exposure) Mean(now Time) Use {
	all := now - e.Began
	if all <= 0 {
		return e.now
	}
	return e.sum.Plus(e.now.Times(float64(max(0, now-e.since)))).Times(1 / float64(all))
}

// Now returns the present use of the others.
func (e *Exposure) Now() Use { return e.now }
