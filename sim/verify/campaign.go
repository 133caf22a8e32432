// A campaign of faults: the NPU must report each fault and serve the next start.

package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Campaign applies a number of faults to one configuration.
type Campaign struct {
	N        int // number of faults, at least one of each kind with a known ending
	Seed     uint64
	Only     string // only kinds of fault with this text in their names
	Coverage *Coverage
	Tally    Tally // receives the counts; can be nil

	Done, Networks, Starts, HardResets int
	Violations                         []string

	rig    *Rig
	rng    *rand.Rand
	sure   bool      // the fault must take effect
	lost   [4][2]int // number of missing responses since the last hard reset, by port and direction
	target int       // layer of the descriptor fault while it is planned
	addr   span      // range of ERROR_ADDR for this fault
}

// Tally counts endings, by kind of fault and by name of the ending.
type Tally map[string]map[string]int

// Add adds another tally.
func (t Tally) Add(o Tally) {
	for kind, endings := range o {
		if t[kind] == nil {
			t[kind] = map[string]int{}
		}
		for name, n := range endings {
			t[kind][name] += n
		}
	}
}

// KindCount contains the number of faults of one kind, by ending.
type KindCount struct {
	Name     string         `json:"name"`
	Directed bool           `json:"directed"` // the kind has a known ending
	N        int            `json:"n"`
	Endings  map[string]int `json:"endings"`
}

// Kinds returns the kinds that occurred, in the order of their table.
func (t Tally) Kinds() []KindCount {
	var out []KindCount
	for _, k := range kinds {
		endings := t[k.name]
		if endings == nil {
			continue
		}
		n := 0
		for _, v := range endings {
			n += v
		}
		out = append(out, KindCount{k.name, !k.wild, n, endings})
	}
	return out
}

// ErrKind reports that no kind of fault has the requested name.
var ErrKind = errors.New("no such kind of fault")

// faultsPerNet is the number of faults per network.
const faultsPerNet = 4

// MaxViolations is the number of violations that stops a campaign.
const MaxViolations = 10

// DirectedKinds returns the number of kinds with a known ending.
func DirectedKinds() int {
	n := 0
	for _, k := range kinds {
		if !k.wild {
			n++
		}
	}
	return n
}

// faultsInBlock is the number of faults per block.
const faultsInBlock = 4 * faultsPerNet

// drawn returns the kinds of a campaign. The first list contains each directed kind once, in random order. The second
// list contains the kinds for random draws. drawn increases N to at least the number of directed kinds.
func (c *Campaign) drawn() (order, all []*kind, err error) {
	for i := range kinds {
		k := &kinds[i]
		if !strings.Contains(k.name, c.Only) {
			continue
		}
		all = append(all, k)
		if k.wild { // drawn more often, because such kinds have more effects
			all = append(all, k, k, k)
		} else {
			order = append(order, k)
		}
	}
	if len(all) == 0 {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.name
		}
		return nil, nil, fmt.Errorf("%w: none has %q in its name; there are: %s", ErrKind, c.Only, strings.Join(names, ", "))
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650004))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	c.N = max(c.N, len(order))
	return order, all, nil
}

// Blocks returns the number of blocks of a campaign. The only possible error is ErrKind.
func (c *Campaign) Blocks() (int, error) {
	_, _, err := c.drawn()
	return (c.N + faultsInBlock - 1) / faultsInBlock, err
}

// Run runs all blocks on one rig.
func (c *Campaign) Run(ctx context.Context, r *Rig) error {
	blocks, err := c.Blocks()
	for b := 0; b < blocks && err == nil && len(c.Violations) < MaxViolations; b++ {
		err = c.Block(ctx, r, b)
	}
	return err
}

// Block runs a block on a rig. On a newly opened rig, the result depends only on the block's number. Block adds wrong
// behaviour of the hardware to Violations. An error comes from the bus or the context, or is ErrKind.
func (c *Campaign) Block(ctx context.Context, r *Rig, block int) error {
	order, all, err := c.drawn()
	if err != nil {
		return err
	}
	c.rig, c.rng = r, rand.New(rand.NewPCG(c.Seed, 0x736c756963650004^uint64(block+1)<<16))
	if c.Tally == nil {
		c.Tally = Tally{}
	}
	r.net = nil
	for i := block * faultsInBlock; i < min((block+1)*faultsInBlock, c.N); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := all[c.rng.IntN(len(all))]
		c.sure = i < len(order)
		if c.sure {
			k = order[i]
		}
		err := c.one(ctx, k, i%faultsPerNet == 0)
		for errors.Is(err, errNoPlace) && !c.sure { // with a large memory some kinds of fault are seldom possible
			err = c.one(ctx, all[c.rng.IntN(len(all))], false)
		}
		if err != nil {
			if !errors.Is(err, errCheck) {
				return fmt.Errorf("%s, fault %d (%s), seed %d: %w", c.rig.design.Name, i, k.name, c.Seed, err)
			}
			c.Violations = append(c.Violations, fmt.Sprintf("%s, fault %d of seed %d: %v", k.name, i, c.Seed, err))
			if len(c.Violations) >= MaxViolations {
				return nil
			}
			r.net = nil
			if err := c.reset(ctx); err != nil {
				return err
			}
		}
		c.Done++
	}
	return nil
}

// errNoPlace reports that the kind of fault was not possible in any drawn network.
var errNoPlace = errors.New("no place for the fault")

// reset resets the hardware to power-on.
func (c *Campaign) reset(ctx context.Context) error {
	c.HardResets++
	c.lost, c.rig.late = [4][2]int{}, 0
	if err := c.rig.bus.ClearFaults(); err != nil {
		return err
	}
	if err := c.rig.bus.HardReset(); err != nil {
		return err
	}
	if c.rig.net == nil {
		return nil
	}
	c.rig.restore() // restores descriptors and weights
	return c.rig.load(ctx)
}

// one applies one fault, and then runs the start without a fault.
func (c *Campaign) one(ctx context.Context, k *kind, fresh bool) error {
	r := c.rig
	var p *plan
	for range attempts {
		if fresh || r.net == nil {
			if err := r.draw(ctx, c.rng); err != nil {
				return err
			}
			c.Networks++
			c.Starts++
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
	e, what, err := c.runFault(ctx, k, p)
	if err != nil {
		return err
	}
	c.Starts++
	count := c.Tally[k.name]
	if count == nil {
		count = map[string]int{}
		c.Tally[k.name] = count
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
	case !ofBus(e.code) && e.port != 0:
		return fail("%v names port %d, expected none", e.code, e.port)
	}
	// The HLS kernel and the RTL split a tensor into different runs, so their first runs outside the slot can differ.
	exact := e.code != abi.ErrDescAddress || r.bus.Info().Kind == npu.CosimRTL
	if want, known := p.addresses(k, e.code); known && exact && (e.addr < want[0] || e.addr > want[1]) {
		return fail("%v names address %#x, expected %#x..%#x", e.code, e.addr, want[0], want[1])
	}
	c.Coverage.hit(covErrors, e.code.String(), 1)

	// The next start follows without a reset.
	next, err := r.run(ctx, r.good(), r.trial.cycles+2*rigWatchdog)
	if err != nil {
		return err
	}
	c.Starts++
	if what := r.wrong(next); what != "" {
		return fail("ended with %v, but the next start went wrong: %s", e.code, what)
	}
	c.Coverage.hit(covErrors, next.code.String(), 1)
	for _, l := range c.lost {
		if max(l[0], l[1]) >= 3 {
			return c.reset(ctx)
		}
	}
	return nil
}

// addresses returns the allowed range of ERROR_ADDR for an error code: 0 for a code without an address. If known is
// false, every address is allowed.
func (p *plan) addresses(k *kind, code abi.ErrCode) (at span, known bool) {
	if ofBus(code) || code == abi.ErrDescAddress {
		return p.addr, !k.wild
	}
	return span{}, true
}

// ofBus reports whether an error is a bus response to a port.
func ofBus(code abi.ErrCode) bool {
	switch code {
	case abi.ErrReadSLVERR, abi.ErrReadDECERR, abi.ErrWriteSLVERR, abi.ErrWriteDECERR:
		return true
	}
	return false
}

// runFault runs the start with the fault, then removes the fault. The second result describes a violation, or is "".
func (c *Campaign) runFault(ctx context.Context, k *kind, p *plan) (e ending, what string, err error) {
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
		what = r.strayWrites(begin, false)
	case e.code == abi.ErrNone:
		what = r.wrong(e)
	default:
		what = r.strayWrites(begin, true)
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
