// sluice faults: whatever happens to an NPU, it says so, and serves the next start.

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type faultsCmd struct {
	Config string `default:"tiny" help:"Configurations of the hardware, separated by commas."`
	N      int    `default:"150" short:"n" help:"Faults in all, at least one of each kind whose ending is known on each configuration."`
	Kind   string `help:"Only kinds whose name contains this."`
	Seed   uint64 `default:"1" help:"Seed of everything drawn."`
	Out    string `default:"out/faults" help:"Folder for summary.json."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (*faultsCmd) Help() string {
	return `Random faults over random starts of random networks, on the registers of the Verilated NPU.

Where the right ending is known (most kinds), the error code, and the layer or port it names, must be
that. Random bits in descriptors and FBCB entries may end in any error or do no harm. In every case
the start ends within its cycles plus twice the watchdog; memory that is not the batch's own stays as
it was; a start that reports no error has golden's results; and the next good start, without any
reset, has them too. A port has four IDs to lose answers on; after three the NPU gets a hard reset.

Example:
  sluice faults --config tiny,v7 --n 2000 --seed 42`
}

type kindDoc struct {
	Name     string         `json:"name"`
	Directed bool           `json:"directed"` // the ending is known
	N        int            `json:"n"`
	Endings  map[string]int `json:"endings"`
}

type faultsDoc struct {
	header
	Configs    []string  `json:"configs"`
	Faults     int       `json:"faults"`
	Networks   int       `json:"networks"`
	Starts     int       `json:"starts"`
	HardResets int       `json:"hard_resets"` // after three lost answers on one port and direction
	Kinds      []kindDoc `json:"kinds"`
	Coverage   *coverage `json:"coverage"`
	Violations []string  `json:"violations"`
}

// Run implements the command.
func (c *faultsCmd) Run(e *env) error {
	if c.N < 1 || c.N > 1e6 {
		return coded(codeUsage, fmt.Errorf("--n %d: expected 1..1000000", c.N))
	}
	designs, err := loadDesigns(c.Config)
	if err != nil {
		return err
	}
	doc := &faultsDoc{header: header{"sluice-faults/1", version, c.Seed, "simulated"}, Coverage: newCoverage(designs), Violations: []string{}}
	tally := map[string]map[string]int{}
	for i, d := range designs {
		f := campaign{
			design: d, n: (c.N*(i+1))/len(designs) - (c.N*i)/len(designs), seed: c.Seed + uint64(i)<<32, only: c.Kind,
			cov: doc.Coverage, tally: tally,
		}
		if err := f.run(e); err != nil {
			return err
		}
		doc.Configs = append(doc.Configs, d.Name)
		doc.Faults += f.done
		doc.Networks += f.networks
		doc.Starts += f.starts
		doc.HardResets += f.hardResets
		doc.Violations = append(doc.Violations, f.violations...)
	}
	for _, k := range kinds {
		if t := tally[k.name]; t != nil {
			doc.Kinds = append(doc.Kinds, kindDoc{k.name, !k.wild, total(t), t})
		}
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if !c.JSON {
		if err := doc.print(e.stdout); err != nil {
			return err
		}
	}
	if len(doc.Violations) > 0 {
		return coded(codeCheck, fmt.Errorf("faults, seed %d: %s", c.Seed, strings.Join(doc.Violations, "\n  ")))
	}
	return nil
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

func (d *faultsDoc) print(w io.Writer) error {
	var s strings.Builder
	for _, k := range d.Kinds {
		known := "  "
		if k.Directed {
			known = "= "
		}
		fmt.Fprintf(&s, "%-28s %6d  %s", k.Name, k.N, known)
		var names []string
		for name := range k.Endings {
			names = append(names, name)
		}
		slices.Sort(names)
		for i, name := range names {
			if i > 0 {
				s.WriteString(", ")
			}
			fmt.Fprintf(&s, "%s %d", name, k.Endings[name])
		}
		s.WriteByte('\n')
	}
	fmt.Fprintf(&s, "\n%d faults on %s over %d networks, %d starts, %d hard resets; %d violations, seed %d\n",
		d.Faults, strings.Join(d.Configs, ", "), d.Networks, d.Starts, d.HardResets, len(d.Violations), d.Seed)
	_, err := io.WriteString(w, s.String())
	return err
}

// campaign is a number of faults on one configuration.
type campaign struct {
	design configs.Design
	n      int
	seed   uint64
	only   string
	cov    *coverage
	tally  map[string]map[string]int // may be nil

	done, networks, starts, hardResets int
	violations                         []string

	rig    *rig
	rng    *rand.Rand
	sure   bool      // the fault must strike
	lost   [4][2]int // answers that never come, by port and direction, since the last hard reset
	target int       // layer of the descriptor fault that is being drawn
}

// faultsPerNet is how many faults a network sees.
const faultsPerNet = 4

// maxViolations ends a campaign early.
const maxViolations = 10

// directedKinds is how many kinds have a known ending.
func directedKinds() int {
	n := 0
	for _, k := range kinds {
		if !k.wild {
			n++
		}
	}
	return n
}

func (c *campaign) run(e *env) error {
	rig, err := openRig(e.ctx, c.design, c.design.Name)
	if err != nil {
		return err
	}
	defer rig.close()
	return c.on(e, rig)
}

// on runs the campaign on a rig.
func (c *campaign) on(e *env, r *rig) error {
	c.rig, c.rng = r, rand.New(rand.NewPCG(c.seed, 0x736c756963650004))
	if c.tally == nil {
		c.tally = map[string]map[string]int{}
	}
	var order []*kind // each directed kind once, then at random
	var all []*kind
	for i := range kinds {
		k := &kinds[i]
		if !strings.Contains(k.name, c.only) {
			continue
		}
		all = append(all, k)
		if k.wild { // there is more to find
			all = append(all, k, k, k)
		} else {
			order = append(order, k)
		}
	}
	if len(all) == 0 {
		return coded(codeUsage, fmt.Errorf("no kind of fault has %q in its name", c.only))
	}
	c.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	c.n = max(c.n, len(order))
	set, done := e.progress("faults on "+c.design.Name, c.n)
	defer done()
	for i := range c.n {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		k := all[c.rng.IntN(len(all))]
		c.sure = i < len(order)
		if c.sure {
			k = order[i]
		}
		err := c.one(e.ctx, k, i%faultsPerNet == 0)
		for errors.Is(err, errNoPlace) && !c.sure { // large memories leave little room for some
			err = c.one(e.ctx, all[c.rng.IntN(len(all))], false)
		}
		if err != nil {
			if !errors.Is(err, errCheck) {
				return coded(codeDevice, fmt.Errorf("%s, fault %d (%s), seed %d: %w", c.design.Name, i, k.name, c.seed, err))
			}
			c.violations = append(c.violations, fmt.Sprintf("%s, fault %d of seed %d: %v", k.name, i, c.seed, err))
			if len(c.violations) == maxViolations {
				return nil
			}
			r.net = nil
			if err := c.reset(e.ctx); err != nil {
				return coded(codeDevice, err)
			}
		}
		c.done++
		set(c.done)
	}
	return nil
}

// errNoPlace is a kind of fault that no network drawn has a place for.
var errNoPlace = errors.New("no place for the fault")

// reset puts the hardware back to power-on.
func (c *campaign) reset(ctx context.Context) error {
	c.hardResets++
	c.lost = [4][2]int{}
	if err := c.rig.bus.ClearFaults(); err != nil {
		return err
	}
	if err := c.rig.bus.HardReset(); err != nil {
		return err
	}
	if c.rig.net == nil {
		return nil
	}
	c.rig.restore() // descriptors and weights lie where loading writes them
	return c.rig.load(ctx)
}

// one does one fault and the good start after it.
func (c *campaign) one(ctx context.Context, k *kind, fresh bool) error {
	r := c.rig
	var p *plan
	for range attempts {
		if fresh || r.net == nil {
			if err := r.draw(ctx, c.rng); err != nil {
				return err
			}
			c.networks++
			c.starts++
		}
		if p = k.plan(c); p != nil {
			break
		}
		fresh = true
	}
	if p == nil {
		return fmt.Errorf("%w in %d networks", errNoPlace, attempts)
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s; %s: %s", errCheck, r.where(), p.what, fmt.Sprintf(format, args...))
	}
	e, what, err := c.suffer(ctx, k, p)
	if err != nil {
		return err
	}
	c.starts++
	count := c.tally[k.name]
	if count == nil {
		count = map[string]int{}
		c.tally[k.name] = count
	}
	count[e.String()]++
	switch {
	case what != "":
		return fail("%s", what)
	case e.hangs:
		return fail("no end after %d cycles", e.cycles)
	case p.codes != nil && !slices.Contains(p.codes, e.code):
		return fail("ended with %v in layer %d, port %d; expected %v", e.code, e.layer, e.port, p.codes)
	case e.code != abi.ErrNone && p.layer >= 0 && e.layer != p.layer:
		return fail("%v names layer %d, expected %d", e.code, e.layer, p.layer)
	case e.code != abi.ErrNone && p.port >= 0 && e.port != p.port:
		return fail("%v names port %d, expected %d", e.code, e.port, p.port)
	}
	c.cov.hit(covErrors, e.code.String(), 1)

	// The next one, without any help.
	next, err := r.run(ctx, r.good(), r.trial.cycles+2*rigWatchdog)
	if err != nil {
		return err
	}
	c.starts++
	if what := r.wrong(next); what != "" {
		return fail("ended with %v, but the next start went wrong: %s", e.code, what)
	}
	c.cov.hit(covErrors, next.code.String(), 1)
	for _, l := range c.lost {
		if max(l[0], l[1]) >= 3 {
			return c.reset(ctx)
		}
	}
	return nil
}

// suffer runs the start that the fault strikes and puts everything back. what is a violation.
func (c *campaign) suffer(ctx context.Context, k *kind, p *plan) (e ending, what string, err error) {
	r := c.rig
	r.restore()
	g := r.good()
	if p.before != nil {
		if what, err = p.before(&g); what != "" || err != nil {
			return e, what, err
		}
	}
	begin := slices.Clone(r.mem[:r.used])
	began, err := r.start(g)
	if err != nil {
		return e, "", err
	}
	if p.during != nil {
		if err := r.bus.Step(p.at); err != nil {
			return e, "", err
		}
		if what, err = p.during(); err != nil {
			return e, "", err
		}
	}
	limit := r.trial.cycles + 2*rigWatchdog
	if k.wild {
		limit = 16 * (r.trial.cycles + rigWatchdog)
	}
	e, err = r.finish(ctx, began, limit)
	if err != nil {
		return e, "", err
	}
	switch {
	case what != "" || e.hangs:
	case k.wild || p.moved && e.code != abi.ErrNone:
		what = r.strayed(begin, false)
	case e.code == abi.ErrNone:
		what = r.wrong(e)
	default:
		what = r.strayed(begin, true)
	}
	if err := r.bus.ClearFaults(); err != nil {
		return e, what, err
	}
	r.restore()
	if p.after != nil {
		err = p.after()
	}
	return e, what, err
}

// plan is one fault to be.
type plan struct {
	what  string        // for people
	codes []abi.ErrCode // the start ends with one of these; nil: with any
	layer int           // that ERROR names; -1: any
	port  int
	moved bool // outputs may lie elsewhere in their slots

	before func(*regs) (violation string, err error) // registers and memory, before the start
	at     uint64                                    // cycle of the start in which during is done
	during func() (violation string, err error)
	after  func() error // puts back what is neither memory nor written by a start
}

// kind is a kind of fault.
type kind struct {
	name string
	wild bool // may end in anything, and may write anything into the batch's own slots
	plan func(*campaign) *plan
}

var kinds = []kind{
	{"read SLVERR", false, busFault(npu.FaultRead, npu.FaultSLVERR, abi.ErrReadSLVERR)},
	{"read DECERR", false, busFault(npu.FaultRead, npu.FaultDECERR, abi.ErrReadDECERR)},
	{"write SLVERR", false, busFault(npu.FaultWrite, npu.FaultSLVERR, abi.ErrWriteSLVERR)},
	{"write DECERR", false, busFault(npu.FaultWrite, npu.FaultDECERR, abi.ErrWriteDECERR)},
	{"read never answered", false, busFault(npu.FaultRead, npu.FaultNever, abi.ErrWatchdog)},
	{"write never answered", false, busFault(npu.FaultWrite, npu.FaultNever, abi.ErrWatchdog)},
	{"read answered too late", false, busFault(npu.FaultRead, npu.FaultDelay, abi.ErrWatchdog)},
	{"write answered too late", false, busFault(npu.FaultWrite, npu.FaultDelay, abi.ErrWatchdog)},
	{"slow answers", false, slow},

	{"descriptor magic", false, descriptor(abi.ErrDescMagic, func(c *campaign, raw []byte, _ *abi.Desc) string {
		raw[3] ^= byte(1 + c.rng.IntN(255))
		return "MAGIC"
	})},
	{"descriptor reserved bits", false, descriptor(abi.ErrDescMagic, reservedBit)},
	{"descriptor operator", false, descriptor(abi.ErrDescOp, func(c *campaign, raw []byte, _ *abi.Desc) string {
		raw[0] = raw[0]&0xF0 | byte(len(abi.Ops())+c.rng.IntN(16-len(abi.Ops())))
		return "OP"
	})},
	{"descriptor sizes", false, descriptor(abi.ErrDescShape, badSize)},
	{"descriptor products", false, descriptor(abi.ErrDescShape, badProduct)},
	{"descriptor shifts", false, descriptor(abi.ErrDescShift, badShift)},
	{"descriptor alignment", false, descriptor(abi.ErrDescAddress, badAlignment)},
	{"tensor leaves its slot", false, moved(descriptor(abi.ErrDescAddress, leaves))},
	{"weights too short", false, weights(-1)},
	{"weights too long", false, weights(1)},

	{"FBCB entry", false, badEntry},
	{"FBCB tile", false, badTile},
	{"layer range", false, func(c *campaign) *plan {
		first := 1 + c.rng.IntN(abi.LMax-1)
		last := c.rng.IntN(first)
		if c.rng.IntN(2) == 0 { // the nearest miss
			last = first - 1
		}
		return start(fmt.Sprintf("layers %d..%d", first, last), abi.ErrLayerRange, func(g *regs) {
			g.layers = uint32(first)<<abi.RegLayersFirstLSB | uint32(last)<<abi.RegLayersLastLSB
		})
	}},
	{"layers beyond the network", false, func(c *campaign) *plan {
		n := len(c.rig.net.Bundle.Layers)
		last := n + c.rng.IntN(abi.LMax-n)
		p := start(fmt.Sprintf("layers %d..%d", n, last), abi.ErrDescMagic, func(g *regs) {
			g.layers = uint32(n)<<abi.RegLayersFirstLSB | uint32(last)<<abi.RegLayersLastLSB
		})
		p.layer = n
		return p
	}},
	{"batch range", false, func(c *campaign) *plan {
		b := c.rng.IntN(16 - abi.BMax)
		if b > 0 {
			b += abi.BMax
		}
		return start(fmt.Sprintf("a batch of %d", b), abi.ErrBatchRange, func(g *regs) { g.batch = uint32(b) })
	}},
	{"slot out of range", false, func(c *campaign) *plan {
		i, s := c.rng.IntN(len(c.rig.trial.table)), uint32(testvec.Slots+c.rng.IntN(abi.RegSlotTableMask+1-testvec.Slots))
		return start(fmt.Sprintf("slot %d at %d", s, i), abi.ErrSlotRange, func(g *regs) { g.table[i] = s })
	}},
	{"slot twice", false, func(c *campaign) *plan {
		n := len(c.rig.trial.table)
		if n < 2 {
			return nil
		}
		i := c.rng.IntN(n)
		j := (i + 1 + c.rng.IntN(n-1)) % n
		return start(fmt.Sprintf("the slot of %d at %d too", i, j), abi.ErrSlotRange, func(g *regs) { g.table[j] = g.table[i] })
	}},
	{"registers while busy", false, whileBusy},
	{"start while busy", false, startWhileBusy},
	{"register bits", false, registerBits},
	{"soft reset", false, softReset},
	{"soft reset while idle", false, softResetIdle},

	{"random descriptor bits", true, randomDescriptor},
	{"random FBCB bits", true, randomEntry},
	{"two bus faults", true, twoFaults},
}

// start is a fault of the registers of a start.
func start(what string, code abi.ErrCode, change func(*regs)) *plan {
	return &plan{what: what, codes: []abi.ErrCode{code}, layer: -1, port: -1, before: func(g *regs) (string, error) {
		change(g)
		return "", nil
	}}
}

// burst picks a port with traffic in a direction, and one of its bursts.
func (c *campaign) burst(dir npu.FaultDir) (port int, first uint32, ok bool) {
	counts := c.rig.trial.reads
	if dir == npu.FaultWrite {
		counts = c.rig.trial.writes
	}
	var ports []int
	for p, n := range counts {
		if n > 0 {
			ports = append(ports, p)
		}
	}
	if len(ports) == 0 {
		return 0, 0, false
	}
	port = ports[c.rng.IntN(len(ports))]
	return port, 1 + uint32(c.rng.Uint64N(counts[port])), true
}

func busFault(dir npu.FaultDir, fault npu.FaultKind, code abi.ErrCode) func(*campaign) *plan {
	return func(c *campaign) *plan {
		port, first, ok := c.burst(dir)
		if !ok {
			return nil
		}
		f := npu.Fault{Port: uint8(port), Dir: dir, Kind: fault, First: first, Count: 1}
		p := &plan{codes: []abi.ErrCode{code}, layer: -1, port: port}
		if code == abi.ErrWatchdog {
			p.port = -1
		}
		switch {
		case fault == npu.FaultDelay: // while others still make progress, it may be in time after all
			f.Delay = rigWatchdog + uint32(c.rng.IntN(rigWatchdog/2))
			p.codes = append(p.codes, abi.ErrNone)
		case dir == npu.FaultRead && !c.sure && c.rng.IntN(3) == 0: // the burst may be shorter than that
			f.Beat = uint8(1 + c.rng.IntN(min(c.rig.design.MaxBurst, 255)))
			p.codes = append(p.codes, abi.ErrNone)
		}
		p.what = fmt.Sprintf("port %d, burst %d of direction %d, kind %d from beat %d, delay %d", port, first, dir, fault, f.Beat, f.Delay)
		p.before = func(*regs) (string, error) { return "", c.rig.bus.AddFault(f) }
		if code == abi.ErrWatchdog {
			p.after = func() error {
				c.lost[port][dir-npu.FaultRead]++
				return nil
			}
		}
		return p
	}
}

// slow answers do no harm.
func slow(c *campaign) *plan {
	dir := []npu.FaultDir{npu.FaultRead, npu.FaultWrite}[c.rng.IntN(2)]
	port, first, ok := c.burst(dir)
	if !ok {
		return nil
	}
	f := npu.Fault{Port: uint8(port), Dir: dir, Kind: npu.FaultDelay, First: first, Count: uint32(1 + c.rng.IntN(4)), Delay: uint32(1 + c.rng.IntN(rigWatchdog/8))}
	return &plan{
		what:  fmt.Sprintf("port %d, %d bursts of direction %d from %d on, %d cycles late", port, f.Count, dir, first, f.Delay),
		codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) { return "", c.rig.bus.AddFault(f) },
	}
}

// layer picks a layer of the trial.
func (c *campaign) layer() int {
	t := &c.rig.trial
	return t.first + c.rng.IntN(t.last-t.first+1)
}

// entry is the FBCB entry of a layer in the trial.
func (c *campaign) entry(l int) abi.FBCB {
	return c.rig.net.Bundle.FBCB[l][len(c.rig.trial.table)-1]
}

// raw is a layer's descriptor in memory.
func (c *campaign) raw(l int) []byte { return c.rig.mem[l*abi.DescBytes:][:abi.DescBytes] }

// descriptor is a fault of one descriptor: change does it, on the bytes or on the decoded fields,
// and says what it did ("": there is no place for it here).
func descriptor(code abi.ErrCode, change func(c *campaign, raw []byte, d *abi.Desc) string) func(*campaign) *plan {
	return func(c *campaign) *plan {
		l := c.layer()
		c.target = l
		before := slices.Clone(c.rig.image[l*abi.DescBytes:][:abi.DescBytes])
		d := c.rig.net.Bundle.Layers[l]
		raw := slices.Clone(before)
		what := change(c, raw, &d)
		if what == "" {
			return nil
		}
		if d != c.rig.net.Bundle.Layers[l] {
			enc, err := d.Encode()
			if err != nil {
				return nil
			}
			copy(raw, enc[:])
		}
		return &plan{
			what: fmt.Sprintf("layer %d, %s", l, what), codes: []abi.ErrCode{code}, layer: l, port: -1,
			before: func(*regs) (string, error) {
				copy(c.raw(l), raw)
				return "", nil
			},
		}
	}
}

// moved is a fault after which outputs may lie elsewhere in their slots: what fits is written.
func moved(f func(*campaign) *plan) func(*campaign) *plan {
	return func(c *campaign) *plan {
		p := f(c)
		if p != nil {
			p.moved = true
		}
		return p
	}
}

func reservedBit(c *campaign, raw []byte, _ *abi.Desc) string {
	var at []int
	for w, mask := range abi.DescReserved {
		for bit := range 32 {
			if mask>>bit&1 != 0 {
				at = append(at, 32*w+bit)
			}
		}
	}
	i := at[c.rng.IntN(len(at))]
	raw[i/8] |= 1 << (i % 8)
	return fmt.Sprintf("bit %d of word %d", i%32, i/32)
}

// change is one way to spoil a descriptor.
type change struct {
	what string
	do   func()
}

// pick does one of the changes.
func (c *campaign) pick(all []change) string {
	if len(all) == 0 {
		return ""
	}
	x := all[c.rng.IntN(len(all))]
	x.do()
	return x.what
}

func badSize(c *campaign, _ []byte, d *abi.Desc) string {
	all := []change{
		{"IN_H 0", func() { d.InH = 0 }},
		{"IN_W 0", func() { d.InW = 0 }},
		{"IN_C 0", func() { d.InC = 0 }},
		{"OUT_H 0", func() { d.OutH = 0 }},
		{"OUT_W 0", func() { d.OutW = 0 }},
		{"OUT_C 0", func() { d.OutC = 0 }},
		{"K_H 0", func() { d.KH = 0 }},
		{"K_W 0", func() { d.KW = 0 }},
		{"S_H 0", func() { d.SH = 0 }},
		{"S_W 0", func() { d.SW = 0 }},
		{"S_H 16", func() { d.SH = 16 }},
		{"S_W 255", func() { d.SW = 255 }},
		{"IN_PIX below IN_C", func() { d.InPix = d.InC - 1 }},
		{"OUT_PIX below OUT_C", func() { d.OutPix = d.OutC - 1 }},
		{"BIAS_COUNT", func() { d.BiasCount ^= 1 << 15 }},
	}
	if d.Op == abi.OpGEMM {
		all = append(all,
			change{"OUT_C beyond C_MAX", func() {
				d.OutC = uint16(c.rig.design.CMax + 1)
				d.OutPix, d.ResPix, d.BiasCount = d.OutC, d.OutC, d.OutC
			}},
			change{"AVG_TABLE of a GEMM", func() { d.AvgTable = true }},
		)
	} else {
		all = append(all,
			change{"a residual of a pool", func() { d.Residual = true }},
			change{"OUT_C of a pool", func() { d.OutC++; d.OutPix++ }},
		)
	}
	if d.Residual {
		all = append(all, change{"RES_PIX below OUT_C", func() { d.ResPix = d.OutC - 1 }})
	}
	return c.pick(all)
}

func badProduct(c *campaign, _ []byte, d *abi.Desc) string {
	all := []change{
		{"IN_ROW", func() { d.InRow ^= 1 << c.rng.IntN(24) }},
		{"KWC", func() { d.KWC ^= 1 << c.rng.IntN(24) }},
		{"STEP_ROW", func() { d.StepRow ^= 1 << c.rng.IntN(24) }},
		{"STEP_COL", func() { d.StepCol ^= 1 << c.rng.IntN(24) }},
		{"PAD_COL", func() { d.PadCol ^= 1 << c.rng.IntN(24) }},
		{"IN_ROW_BYTES", func() { d.InRowBytes = uint32(c.rng.IntN(2 * int(d.InW) * int(d.InPix))) }},
		{"OUT_ROW_BYTES", func() { d.OutRowBytes ^= 1 << c.rng.IntN(32) }},
	}
	if d.Residual {
		all = append(all, change{"RES_ROW_BYTES", func() { d.ResRowBytes ^= 1 << c.rng.IntN(32) }})
	}
	return c.pick(all)
}

func badShift(c *campaign, _ []byte, d *abi.Desc) string {
	all := []change{{"SHIFT", func() { d.Shift = uint8(48 + c.rng.IntN(16)) }}}
	if d.Op == abi.OpAvgPool {
		all = append(all,
			change{"AVG_SHIFT 0", func() { d.AvgShift = 0 }},
			change{"AVG_SHIFT", func() { d.AvgShift = uint8(48 + c.rng.IntN(16)) }})
	}
	return c.pick(all)
}

// packed are the fields of the weights that a layer's entry reads.
func packed(d *abi.Desc, k cost.K) (offset, size *uint32) {
	switch k {
	case cost.KHalf:
		return &d.WOffsetH, &d.WBytesH
	case cost.K2:
		return &d.WOffset2, &d.WBytes2
	}
	return &d.WOffset1, &d.WBytes1
}

func badAlignment(c *campaign, raw []byte, d *abi.Desc) string {
	all := []change{
		{"IN_OFFSET odd", func() { d.InOffset++ }},
		{"OUT_OFFSET odd", func() { d.OutOffset++ }},
		{"RES_OFFSET odd", func() { d.ResOffset++ }},
		{"BIAS_OFFSET", func() { d.BiasOffset += 4 }},
	}
	if d.Op == abi.OpGEMM {
		offset, size := packed(d, cost.K(c.entry(c.layerOf(raw)).K))
		all = append(all,
			change{"W_OFFSET", func() { *offset += 1 << c.rng.IntN(4) }},
			change{"W_BYTES", func() { *size += 1 << c.rng.IntN(4) }})
	}
	return c.pick(all)
}

// layerOf finds the layer that a descriptor is of.
func (c *campaign) layerOf(raw []byte) int {
	for l := c.rig.trial.first; l < c.rig.trial.last; l++ {
		if string(c.rig.image[l*abi.DescBytes:][:abi.DescBytes]) == string(raw) {
			return l
		}
	}
	return c.rig.trial.last
}

func leaves(c *campaign, _ []byte, d *abi.Desc) string {
	stride := uint32(c.rig.stride())
	all := []change{
		{"OUT_OFFSET", func() { d.OutOffset = stride - 2*uint32(c.rng.IntN(int(d.OutC))) }},
		{"OUT_OFFSET, far", func() { d.OutOffset = 1<<31 + 2*c.rng.Uint32N(1<<29) }},
		{"OUT_OFFSET, -2", func() { d.OutOffset = ^uint32(1) }},
	}
	if !c.entry(c.target).KeepIn { // else it is not looked at
		all = append(all,
			change{"IN_OFFSET", func() { d.InOffset = stride - 2*uint32(c.rng.IntN(int(d.InC))) }},
			change{"IN_OFFSET, far", func() { d.InOffset = 1<<31 + 2*c.rng.Uint32N(1<<29) }})
	}
	if d.Residual {
		all = append(all, change{"RES_OFFSET", func() { d.ResOffset = stride - 2*uint32(c.rng.IntN(int(d.OutC))) }})
	}
	return c.pick(all)
}

// weights is a stream of another length than the layer's, by whole beats.
func weights(sign int) func(*campaign) *plan {
	return func(c *campaign) *plan {
		l := c.layer()
		d := c.rig.net.Bundle.Layers[l]
		if d.Op != abi.OpGEMM {
			return nil
		}
		_, size := packed(&d, cost.K(c.entry(l).K))
		most := 16
		if sign < 0 {
			most = int(*size / abi.WeightAlign)
		}
		by := sign * abi.WeightAlign * (1 + c.rng.IntN(most))
		*size += uint32(by)
		enc, err := d.Encode()
		if err != nil {
			return nil
		}
		codes := []abi.ErrCode{abi.ErrDescShape}
		if c.entry(l).Order { // the ring may not keep so much
			codes = append(codes, abi.ErrFBCBRange)
		}
		return &plan{
			what: fmt.Sprintf("layer %d, W_BYTES %+d", l, by), codes: codes, layer: l, port: -1,
			before: func(*regs) (string, error) {
				copy(c.raw(l), enc[:])
				return "", nil
			},
		}
	}
}

// fbcb is a fault of one FBCB entry.
func (c *campaign) fbcb(l int, v uint32, codes []abi.ErrCode, layer int) *plan {
	batch := len(c.rig.trial.table)
	write := func(v uint32) error {
		if err := c.rig.bus.WriteReg(abi.RegFBCBAddr, abi.FBCBAddr(l, batch)); err != nil {
			return err
		}
		return c.rig.bus.WriteReg(abi.RegFBCBData, v)
	}
	right, err := c.entry(l).Encode()
	if err != nil {
		return nil
	}
	return &plan{
		what: fmt.Sprintf("layer %d, FBCB entry %#08x instead of %#08x", l, v, right), codes: codes, layer: layer, port: -1,
		before: func(*regs) (string, error) { return "", write(v) },
		after:  func() error { return write(right) },
	}
}

func badEntry(c *campaign) *plan {
	l := c.layer()
	e, d, batch := c.entry(l), &c.rig.net.Bundle.Layers[l], len(c.rig.trial.table)
	all := []change{
		{"", func() { e.KeepIn = !e.KeepIn }},
		{"", func() { e.OnChip, e.KeepOut = true, false }},
		{"", func() { e.TileB = 0 }},
		{"", func() { e.TileB = e.BR + 1 }},
		{"", func() { e.TileRows = 0 }},
		{"", func() { e.BR = 0 }},
		{"", func() { e.BR = uint8(batch + 1) }},
	}
	if d.OutH < 1<<12-1 {
		all = append(all, change{"", func() { e.TileRows = d.OutH + 1 }})
	}
	if d.Op != abi.OpGEMM {
		all = append(all, change{"", func() { e.K = 1 + uint8(c.rng.IntN(3)) }}, change{"", func() { e.Order = true }})
	} else if d.WBytes1 > 0 && d.WBytes1%abi.WeightAlign == 0 {
		all = append(all, change{"", func() { e.K = 3 }})
	}
	if (batch+1)/2 > 2 {
		all = append(all, change{"", func() { e.BR = 1 + uint8(c.rng.IntN((batch+1)/2-1)) }})
	}
	c.pick(all)
	v, err := e.Encode()
	if err != nil {
		return nil
	}
	return c.fbcb(l, v, []abi.ErrCode{abi.ErrFBCBRange}, l)
}

// badTile asks for a tile that only memory is too small for.
func badTile(c *campaign) *plan {
	l := c.layer()
	d, batch := &c.rig.net.Bundle.Layers[l], len(c.rig.trial.table)
	e := c.entry(l)
	e.TileB, e.TileRows = e.BR, min(d.OutH, 1<<12-1)
	if mapping.Check(c.rig.design, cost.GeomOf(d), batch, e) == nil {
		return nil
	}
	v, err := e.Encode()
	if err != nil {
		return nil
	}
	return c.fbcb(l, v, []abi.ErrCode{abi.ErrTileRange}, l)
}

// cycle picks a cycle of the trial, with room for what follows.
func (c *campaign) cycle(room uint64) uint64 {
	if c.rig.trial.cycles <= room {
		return 0
	}
	return c.rng.Uint64N(c.rig.trial.cycles - room)
}

// refused writes a register that must answer an error while busy tells.
func (c *campaign) refused(off, v uint32) (string, error) {
	err := c.rig.bus.WriteReg(off, v)
	var refused *npu.BusError
	switch {
	case errors.As(err, &refused) && refused.Resp == npu.RespSLVERR:
		return "", nil
	case err == nil || refused != nil:
		return fmt.Sprintf("a write of %#x to register %#03x was answered with %v, expected SLVERR", v, off, err), nil
	}
	return "", err
}

// busyOK are the registers that may be written while a start runs (hw/abi, busy: ok).
var busyOK = []uint32{abi.RegScratch0, abi.RegScratch1, abi.RegCtrl, abi.RegIRQStatus, abi.RegIRQEnable}

func whileBusy(c *campaign) *plan {
	const writes = 8
	var offs []uint32
	for len(offs) < writes {
		off := uint32(4 * c.rng.IntN(0x400))
		if c.rng.IntN(4) > 0 { // most of them real
			off = abi.RegLayers + 4*uint32(c.rng.IntN(int(abi.RegSlotTable+4*abi.RegSlotTableCount-abi.RegLayers)/4))
		}
		if !slices.Contains(busyOK, off) {
			offs = append(offs, off)
		}
	}
	values := make([]uint32, writes)
	for i := range values {
		values[i] = c.rng.Uint32() >> c.rng.IntN(32)
	}
	return c.atWork(fmt.Sprintf("registers %03x written", offs), 3*writes, func() (string, error) {
		for i, off := range offs {
			if what, err := c.refused(off, values[i]); what != "" || err != nil {
				return what, err
			}
		}
		return "", nil
	})
}

func startWhileBusy(c *campaign) *plan {
	bits := []uint32{
		abi.RegCtrlStartMask, abi.RegCtrlClearCountersMask, abi.RegCtrlStartMask | abi.RegCtrlSoftResetMask, abi.RegCtrlStartMask | abi.RegCtrlClearCountersMask,
		8 << c.rng.IntN(29),
	}
	v := bits[c.rng.IntN(len(bits))]
	return c.atWork(fmt.Sprintf("CTRL written with %#x", v), 3, func() (string, error) { return c.refused(abi.RegCtrl, v) })
}

// atWork does something harmless in the middle of a start.
func (c *campaign) atWork(what string, cycles uint64, do func() (string, error)) *plan {
	p := &plan{what: what, codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1, at: c.cycle(cycles + 16)}
	p.what += fmt.Sprintf(" in cycle %d", p.at)
	p.during = do
	return p
}

// registerBits sets bits that registers do not have, before a start.
func registerBits(c *campaign) *plan {
	all := [][2]uint32{
		{abi.RegLayers, abi.RegLayersMask},
		{abi.RegBatch, abi.RegBatchMask},
		{abi.RegNSlot, abi.RegNSlotMask},
		{abi.RegDescBaseHi, abi.RegDescBaseHiMask},
		{abi.RegWeightBaseHi, abi.RegWeightBaseHiMask},
		{abi.RegSlotBaseHi, abi.RegSlotBaseHiMask},
		{abi.RegFBCBAddr, abi.RegFBCBAddrMask},
		{abi.RegFBCBData, ^uint32(abi.FBCBReserved)},
		{abi.RegIRQEnable, abi.RegIRQEnableMask},
		{abi.RegSlotTable + 4*uint32(c.rng.IntN(abi.RegSlotTableCount)), abi.RegSlotTableMask},
		{abi.RegCtrl, abi.RegCtrlMask},
		{abi.RegStatus, 0},
		{abi.RegID, 0},
		{abi.RegErrorAddr, 0},
		{abi.CounterLo(c.rng.IntN(abi.CntCount)), 0},
	}
	x := all[c.rng.IntN(len(all))]
	v := c.rng.Uint32()
	for v&^x[1] == 0 {
		v = c.rng.Uint32()
	}
	return &plan{
		what: fmt.Sprintf("register %03x written with %#x", x[0], v), codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) { return c.refused(x[0], v) },
	}
}

func softReset(c *campaign) *plan {
	p := &plan{codes: []abi.ErrCode{abi.ErrSoftReset}, layer: -1, port: -1, at: c.cycle(16)}
	p.what = fmt.Sprintf("soft reset in cycle %d", p.at)
	p.during = func() (string, error) { return "", c.rig.bus.WriteReg(abi.RegCtrl, abi.RegCtrlSoftResetMask) }
	return p
}

func softResetIdle(c *campaign) *plan {
	return &plan{
		what: "soft reset before the start", codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) {
			if err := c.rig.bus.WriteReg(abi.RegCtrl, abi.RegCtrlSoftResetMask); err != nil {
				return "", err
			}
			s, err := c.rig.bus.ReadReg(abi.RegStatus)
			if s&abi.RegStatusBusyMask != 0 {
				return "busy after a soft reset without a start", err
			}
			return "", err
		},
	}
}

// randomDescriptor flips up to four bits, or puts anything into one word.
func randomDescriptor(c *campaign) *plan {
	l := c.layer()
	raw := slices.Clone(c.rig.image[l*abi.DescBytes:][:abi.DescBytes])
	p := &plan{layer: -1, port: -1}
	if c.rng.IntN(4) == 0 {
		w := c.rng.IntN(abi.DescBytes / 4)
		v := c.rng.Uint32() >> c.rng.IntN(32)
		binary.LittleEndian.PutUint32(raw[4*w:], v)
		p.what = fmt.Sprintf("layer %d, word %d of the descriptor %#x", l, w, v)
	} else {
		p.what = fmt.Sprintf("layer %d, bits of the descriptor flipped:", l)
		for range 1 + c.rng.IntN(4) {
			i := c.rng.IntN(8 * len(raw))
			raw[i/8] ^= 1 << (i % 8)
			p.what += fmt.Sprintf(" %d.%d", i/32, i%32)
		}
	}
	p.before = func(*regs) (string, error) {
		copy(c.raw(l), raw)
		return "", nil
	}
	return p
}

// randomEntry flips bits of an entry, or draws all of it.
func randomEntry(c *campaign) *plan {
	l := c.layer()
	v, err := c.entry(l).Encode()
	if err != nil {
		return nil
	}
	if c.rng.IntN(2) == 0 {
		v ^= 1 << c.rng.IntN(32)
		v ^= 1 << c.rng.IntN(32)
	} else {
		v = c.rng.Uint32()
	}
	return c.fbcb(l, v&^abi.FBCBReserved, nil, -1)
}

// twoFaults are two errors of the bus, on any ports and directions.
func twoFaults(c *campaign) *plan {
	var faults [2]npu.Fault
	what := "bus faults:"
	for i := range faults {
		dir := []npu.FaultDir{npu.FaultRead, npu.FaultWrite}[c.rng.IntN(2)]
		port, first, ok := c.burst(dir)
		if !ok {
			return nil
		}
		k := []npu.FaultKind{npu.FaultSLVERR, npu.FaultDECERR}[c.rng.IntN(2)]
		faults[i] = npu.Fault{Port: uint8(port), Dir: dir, Kind: k, First: first, Count: uint32(c.rng.IntN(3))}
		what += fmt.Sprintf(" (port %d, direction %d, kind %d, %d from burst %d on)", port, dir, k, faults[i].Count, first)
	}
	return &plan{
		what: what, codes: []abi.ErrCode{abi.ErrReadSLVERR, abi.ErrReadDECERR, abi.ErrWriteSLVERR, abi.ErrWriteDECERR}, layer: -1, port: -1,
		before: func(*regs) (string, error) {
			return "", errors.Join(c.rig.bus.AddFault(faults[0]), c.rig.bus.AddFault(faults[1]))
		},
	}
}
