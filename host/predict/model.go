package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Parameters of the model, by index in Params.
const (
	pK       = iota               // scaling factor k
	pLogB                         // natural logarithm of the base b
	pC                            // additive constant C
	pOther                        // by resource from here: weight of its use by other batches
	pCompute = pOther + Resources // weight of the batch's own compute use
	pMemory  = pCompute + 1       // weight of the batch's own memory use
	pCoeff   = pMemory + 1        // by priority from here: its coefficient
	nParams  = pCoeff + Priorities
)

// Priorities is the number of priorities in the model: low and high.
const Priorities = 2

// Params are the model's parameters.
type Params [nParams]float64

// Hyperparameters of the publication.
const (
	Rate  = 0.0075
	Beta1 = 0.7
	Beta2 = 0.9
	Delta = 0.5 // error above which the Huber loss is linear
	tiny  = 1e-8
)

// maxExponent prevents an overflow of the slowdown before the parameters are trained. e^6 is about 400.
const maxExponent = 6

// Model computes Strait's equations 4 and 5. It is trained with Adam. The same updates result in the same model.
type Model struct {
	P     Params
	m, v  Params // Adam's moments
	steps int64
}

// NewModel returns an untrained model. Its first predictions tend to be too large, because a needless rejection costs
// less than a batch that makes others miss their deadlines.
func NewModel() *Model {
	m := &Model{}
	m.P[pK], m.P[pLogB], m.P[pC] = 1, 1, -1
	for i := range Resources {
		m.P[pOther+i] = 0.5
	}
	m.P[pCompute], m.P[pMemory] = 0.1, 0.1
	for i := range Priorities {
		m.P[pCoeff+i] = 1
	}
	return m
}

// Null returns a model that predicts no interference. It must not be updated.
func Null() *Model {
	m := NewModel()
	m.P[pK], m.P[pC] = 0, 0
	return m
}

// place returns the index of a priority's coefficient.
func place(priority int) int { return pCoeff + min(max(priority, 0), Priorities-1) }

// value computes equations 4 and 5 and the terms of the gradient.
func (p *Params) value(others, own *Use, priority int) (intf, i, power, pressure float64, bent bool) {
	compute, memory := own.self()
	pressure = p[pCompute]*compute + p[pMemory]*memory
	for r, v := range others {
		pressure += p[pOther+r] * v
	}
	exponent := p[pLogB] * pressure
	if exponent > maxExponent {
		exponent, bent = maxExponent, true
	}
	power = math.Exp(exponent)
	i = p[pK]*power + p[pC]
	return 1 + i*p[place(priority)], i, power, pressure, bent
}

// Interference returns the predicted slowdown of a batch: its time beside the other batches, divided by its time alone.
// The result is at least 1.
func (m *Model) Interference(others, own Use, priority int) float64 {
	intf, _, _, _, _ := m.P.value(&others, &own, priority)
	return max(1, intf)
}

// Gradient returns the slowdown, without the lower limit 1, and its derivatives with respect to all parameters.
func (m *Model) Gradient(others, own Use, priority int) (intf float64, g Params) {
	p := &m.P
	intf, i, power, pressure, bent := p.value(&others, &own, priority)
	c := p[place(priority)]
	g[pK], g[pC] = c*power, c
	g[place(priority)] = i
	if bent {
		return intf, g
	}
	g[pLogB] = c * p[pK] * power * pressure
	by := c * p[pK] * power * p[pLogB]
	compute, memory := own.self()
	g[pCompute], g[pMemory] = by*compute, by*memory
	for r, v := range others {
		g[pOther+r] = by * v
	}
	return intf, g
}

// Huber returns the Huber loss of an error, and its derivative.
func Huber(e float64) (loss, slope float64) {
	if a := math.Abs(e); a > Delta {
		return Delta * (a - Delta/2), math.Copysign(Delta, e)
	}
	return e * e / 2, e
}

// Update trains the model with a batch's slowdown: one step of Adam on the Huber loss. It ignores infinities and NaN.
func (m *Model) Update(others, own Use, priority int, actual float64) {
	intf, g := m.Gradient(others, own, priority)
	_, slope := Huber(intf - actual)
	if math.IsNaN(slope) || math.IsInf(actual, 0) {
		return
	}
	m.steps++
	m1, m2 := 1-math.Pow(Beta1, float64(m.steps)), 1-math.Pow(Beta2, float64(m.steps))
	for i := range g {
		d := slope * g[i]
		m.m[i] += (1 - Beta1) * (d - m.m[i])
		m.v[i] += (1 - Beta2) * (float64(d*d) - m.v[i])
		m.P[i] -= Rate * (m.m[i] / m1) / (math.Sqrt(m.v[i]/m2) + tiny)
	}
	m.bound()
}

// bound limits the parameters so that the slowdown does not decrease if other batches use more of a resource.
func (m *Model) bound() {
	p := &m.P
	p[pK] = min(max(p[pK], 1e-3), 50)
	p[pLogB] = min(max(p[pLogB], 1e-2), 4)
	p[pC] = min(max(p[pC], -50), 50)
	for i := range Resources {
		p[pOther+i] = min(max(p[pOther+i], 0), 20)
	}
	for _, i := range []int{pCompute, pMemory} { // negative weights are valid: high own use can reduce the slowdown
		p[i] = min(max(p[i], -20), 20)
	}
	for i := range Priorities {
		p[pCoeff+i] = min(max(p[pCoeff+i], 0.05), 10)
	}
}

// ErrCheckpoint is wrapped by errors about a checkpoint.
var ErrCheckpoint = errors.New("checkpoint of an interference model")

// version is the checkpoint's format.
const version = "sluice-interference/1"

type checkpoint struct {
	Schema string    `json:"schema"`
	Steps  int64     `json:"steps"`
	Params []float64 `json:"params"`
	Mean   []float64 `json:"mean"`
	Square []float64 `json:"square"`
}

// Save writes the model's state.
func (m *Model) Save(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(checkpoint{version, m.steps, m.P[:], m.m[:], m.v[:]}); err != nil {
		return fmt.Errorf("write a %w: %w", ErrCheckpoint, err)
	}
	return nil
}

// maxCheckpoint is the largest size of a checkpoint in bytes.
const maxCheckpoint = 1 << 16

// Load reads a saved model. from is the name of the source for error messages. Updates of the loaded and of the saved
// model have exactly the same results.
func Load(from string, r io.Reader) (*Model, error) {
	fail := func(format string, a ...any) (*Model, error) {
		return nil, fmt.Errorf("%w %s: %s", ErrCheckpoint, from, fmt.Sprintf(format, a...))
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxCheckpoint+1))
	if err != nil {
		return fail("%v", err)
	}
	if len(raw) > maxCheckpoint {
		return fail("more than %d bytes", maxCheckpoint)
	}
	var c checkpoint
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return fail("%v", err)
	}
	if d.More() {
		return fail("something stands behind it")
	}
	if c.Schema != version || c.Steps < 0 {
		return fail("schema %q after %d steps; %q is expected", c.Schema, c.Steps, version)
	}
	m := &Model{steps: c.Steps}
	for _, part := range []struct {
		name string
		from []float64
		to   *Params
		most float64 // limit: gradients of bounded parameters are below 1e9
	}{{"params", c.Params, &m.P, 1e6}, {"mean", c.Mean, &m.m, 1e9}, {"square", c.Square, &m.v, 1e18}} {
		if len(part.from) != nParams {
			return fail("%s has %d numbers, %d are expected", part.name, len(part.from), nParams)
		}
		for i, v := range part.from {
			if math.Abs(v) > part.most || part.name == "square" && v < 0 {
				return fail("%s[%d] is %g", part.name, i, v)
			}
			part.to[i] = v
		}
	}
	was := m.P
	m.bound()
	if was != m.P {
		return fail("its parameters are out of bounds")
	}
	return m, nil
}
