package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/capacity"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// target contains the flags that select the network and the board of a search.
type target struct {
	Network string `required:"" placeholder:"NAME|FILE.onnx" help:"Network of the zoo, or an ONNX file."`
	Board   string `required:"" placeholder:"NAME|FILE.yaml" help:"Board: ${boards}, or a file (boards/README.md)."`
	recipe.Import
	Backbone bool   `help:"Leave the early exits out: the whole network as one start."`
	Seed     uint64 `default:"1" help:"Seed of weights that the network lacks; times do not depend on it."`
	Mapping  string `law:"rtl" default:"rtl" enum:"rtl,all,basic" help:"Mappings: every <k, s>, tile and loop order that the design has (rtl; all is the same, since the RTL runs all of the FBCB), or k = 1, s = 1, rows outermost only (basic)."`
	place
	post bool // the search may include designs with the post stage
}

// given contains the values that the flags select.
type given struct {
	w    *search.Workload
	grid search.Grid
}

func (t *target) load() (*given, error) {
	b, err := boards.Load(t.Board)
	if err != nil {
		return nil, err
	}
	grid, err := t.grid(b)
	if err != nil {
		return nil, err
	}
	grid.Mapping = mappings(t.Mapping)
	t.post = t.post || grid.Template.Post
	w, err := t.workload()
	if err != nil {
		return nil, err
	}
	return &given{w, grid}, nil
}

func mappings(name string) mapping.Options {
	switch name {
	case "all":
		return mapping.Options{}
	case "basic":
		return mapping.Basic()
	}
	return mapping.RTL()
}

func (t *target) graph() (*graph.Graph, error) {
	g, err := t.Graph(t.Network, t.Seed, t.post)
	if err != nil || !t.Backbone {
		return g, err
	}
	return search.Backbone(g)
}

func (t *target) workload() (*search.Workload, error) {
	g, err := t.graph()
	if err != nil {
		return nil, err
	}
	return search.NewWorkload(g)
}

type sweepCmd struct {
	target
	With       []string  `law:"rtl" placeholder:"NETWORK=SHARE" help:"Further networks on the same design, and how many requests ask for each beside 1 for --network. --exits and --input-side are about --network alone."`
	Law        string    `default:"rtl" enum:"rtl,paper" help:"Law of cycles and memory: that of the hardware, or the paper's."`
	Objective  string    `default:"gops" enum:"gops,latency,throughput,gops-per-dsp,goodput,rate,cheapest" help:"What is best: GOP/s weighted over batch sizes; latency at B = 1, or samples a second weighted over batch sizes, both as --exit-rate has requests leave; GOP/s a DSP; requests in time a second; the highest rate of arrivals at which --max-violations holds; or the least --cost at which it holds."`
	Cost       string    `law:"rtl" objective:"cheapest" default:"dsp" enum:"dsp,lut,bram,energy" help:"Cheapest: what is saved. bram counts a URAM as eight; energy is pJ a sample by published energies of accesses (estimated, 45 nm)."`
	Weights    []float64 `objective:"gops,throughput,gops-per-dsp,cheapest by energy" placeholder:"W" help:"w_b of B = 1..8, eight numbers (default: all 1)."`
	ExitRate   []float64 `law:"rtl" objective:"latency,throughput,goodput,rate,cheapest" placeholder:"P" help:"Share of requests that leaves at each exit, of each network in turn (default: all at the last; where service is simulated, the paper's 0.051,0.169,0.09,0.69 for four exits)."`
	MaxLatency float64   `law:"rtl" placeholder:"MS" help:"Leave out designs on which a network takes longer at B = 1."`
	Workers    int       `shard:"here" default:"0" help:"Workers; 0: one a processor. The result does not depend on it."`
	TP         string    `law:"rtl" name:"tp" placeholder:"LO..HI" help:"T_P (default: all that the RTL builds)."`
	TC         string    `law:"rtl" name:"tc" placeholder:"LO..HI" help:"T_C."`
	TR         string    `law:"rtl" name:"tr" placeholder:"LO..HI" help:"T_R."`
	Exhaustive bool      `law:"rtl" help:"Leave nothing out, not even what cannot be better."`
	Formed     bool      `law:"paper" help:"Paper's law: windows formed on the way from the DRAM, in place of Toeplitz matrices read from it."`
	Finalists  int       `law:"rtl" objective:"gops" default:"0" placeholder:"N" help:"Gops: step through the RTL's registers (dse/machine) on so many of the designs within the law's error of the best, and say their order by it: some 0.3 s a million cycles, at every B that has a weight. One network."`
	Count      bool      `law:"rtl" objective:"gops" help:"Also count the --finalists on the RTL, built without MACs (simulated): minutes a design. Run it in the repository."`
	Shard      string    `law:"rtl" shard:"here" placeholder:"I/N" help:"Only shard I of N, or shards I-J/N, of the space; dse merge puts them together (host/shard/README.md)."`
	Resume     string    `law:"rtl" shard:"here" placeholder:"FILE|DIR" help:"Keep the state of the sweep here, and go on from it; with --shard, a folder of results."`
	Out        string    `shard:"here" placeholder:"FILE.json" help:"Also write the figures to a file."`
	CSV        string    `law:"rtl" shard:"here" name:"csv" placeholder:"FILE.csv" help:"Also write a line for every design that was evaluated."`
	budgetFlags
	axisFlags
	capacity.Flags
}

// budgetFlags contains the flags that limit the resources of designs.
type budgetFlags struct {
	MaxDSP  int `law:"rtl" name:"max-dsp" placeholder:"N" help:"At most so many DSPs."`
	MaxBRAM int `law:"rtl" name:"max-bram" placeholder:"N" help:"BRAM36."`
	MaxURAM int `law:"rtl" name:"max-uram" placeholder:"N" help:"URAMs."`
	MaxLUT  int `law:"rtl" name:"max-lut" placeholder:"N" help:"LUTs."`
	MaxFF   int `law:"rtl" name:"max-ff" placeholder:"N" help:"Registers."`
	spare
	ClockMargin float64 `law:"rtl" placeholder:"SHARE" help:"By which the clock is slower than the board's (and than --clock)."`
}

// spare contains the flag for the share of the board that designs must not use.
type spare struct {
	Margin *float64 `law:"rtl" placeholder:"SHARE" help:"Share of every resource that is left free, for placement and routing (default: 0.2; 0 on a board with published designs, which are ranked among all that fit it)."`
}

// routable is the default margin. AMD's guide to timing closure (UG949) recommends to use at most 80 % of the DSPs and
// block RAMs of a device.
const routable = 0.2

// share returns the margin for a board.
func (s *spare) share(b boards.Board) float64 {
	switch {
	case s.Margin != nil:
		return *s.Margin
	case len(b.Published) > 0:
		return 0
	}
	return routable
}

// axisFlags contains the flags for the parameters that the grid varies in addition to <T_R, T_P, T_C>.
type axisFlags struct {
	Clock     []float64 `law:"rtl" placeholder:"MHZ" help:"Axis: clocks. The DRAM stays as fast in seconds."`
	Bandwidth []float64 `law:"rtl" placeholder:"BYTES" help:"Axis: bytes a cycle of the DRAM, at the board's clock."`
	NPorts    []int     `law:"rtl" name:"ports" placeholder:"N" help:"Axis: memory ports."`
	PortBytes []int     `law:"rtl" placeholder:"N" help:"Axis: bytes of a port, 8 or 16."`
	WLoad     []int     `law:"rtl" placeholder:"N" help:"Axis: W_LOAD, PEs whose weights are loaded a cycle."`
	Drain     []int     `law:"rtl" placeholder:"N" help:"Axis: DRAIN, words drained a cycle at most."`
	Ring      []int     `law:"rtl" placeholder:"BEATS" help:"Axis: beats of the ring of weights."`
	Depthwise []string  `law:"rtl" placeholder:"off,on" enum:"off,on" help:"Axis: whether the unit for depthwise convolutions is built (default: as the board's reference has it)."`
	Post      []string  `law:"rtl" placeholder:"off,on" enum:"off,on" help:"Axis: whether products of maps and curves are built."`
	Type      []string  `law:"rtl" placeholder:"int16,int8" enum:"int16,int8" help:"Axis: of maps and weights. int8 has two MACs a DSP and chains of up to 30; its RTL is for simulation alone, which counted its cycles; of the two designs synthesised whole LUTs are estimated 8.9 and 4.3 % too low."`
	ABuf      []int     `law:"rtl" name:"abuf" placeholder:"WORDS" help:"Axis: words of a bank of the activation buffer at most; 0 is all that the memory has left (cheapest by bram looks at 1024, 2048, 4096 and so on)."`
}

// apply sets the budget and the axes of a grid.
func (c *sweepCmd) apply(g *search.Grid) error {
	g.Budget = search.Budget{DSP: c.MaxDSP, BRAM36: c.MaxBRAM, URAM: c.MaxURAM, LUT: c.MaxLUT, FF: c.MaxFF, Margin: c.share(g.Board)}
	g.Axes = search.Axes{
		ClockMHz: slices.Clone(c.Clock), BytesPerCycle: c.Bandwidth, NAXI: c.NPorts, AXIBytes: c.PortBytes, WLoad: c.WLoad, Drain: c.Drain,
		WRingBeats: c.Ring, ABufWords: c.ABuf, Depthwise: onOff(c.Depthwise), Post: onOff(c.Post), Type: c.Type,
	}
	for _, p := range []struct {
		flag   string
		values []int
		most   int
	}{{"ports", c.NPorts, g.Board.Ports.Most()}, {"port-bytes", c.PortBytes, g.Board.Ports.AXIBytes}} {
		for _, v := range p.values {
			if v > p.most {
				return fmt.Errorf("--%s: %w: %d, the board %s has %d", p.flag, search.ErrGrid, v, g.Board.Name, p.most)
			}
		}
	}
	if !(c.ClockMargin >= 0) || c.ClockMargin >= 1 {
		return fmt.Errorf("--clock-margin: %w: %v, must be at least 0 and less than 1", search.ErrGrid, c.ClockMargin)
	}
	if c.ClockMargin > 0 {
		if len(g.Axes.ClockMHz) == 0 {
			g.Axes.ClockMHz = []float64{g.Template.ClockMHz}
		}
		for i := range g.Axes.ClockMHz {
			g.Axes.ClockMHz[i] *= 1 - c.ClockMargin
		}
	}
	if search.Objective(c.Objective) == search.Cheapest && search.Cost(c.Cost) == search.CostBRAM && len(c.ABuf) == 0 {
		g.Axes.ABufWords = []int{1024, 2048, 4096, 8192, 16384, 32768, 0}
	}
	for _, r := range []struct {
		flag, text string
		to         *search.Range
	}{{"tp", c.TP, &g.TP}, {"tc", c.TC, &g.TC}, {"tr", c.TR, &g.TR}} {
		if r.text == "" {
			continue
		}
		lo, hi, ok := strings.Cut(r.text, "..")
		if !ok {
			hi = lo
		}
		var err error
		if r.to.Lo, err = strconv.Atoi(lo); err == nil {
			r.to.Hi, err = strconv.Atoi(hi)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w: %q, expected LO..HI", r.flag, search.ErrGrid, r.text)
		}
	}
	return g.Check()
}

// onOff converts the values of an on/off axis.
func onOff(names []string) (built []bool) {
	for _, n := range names {
		built = append(built, n == "on")
	}
	return built
}

// read returns an error for flags that the objective ignores, because the user expects them to have an effect.
func (c *sweepCmd) read(e *cli.Env) error {
	if c.Law == "paper" && c.Objective != string(search.GOPS) {
		return usage("--objective %s: the paper's law knows gops only", c.Objective)
	}
	if c.Finalists < 0 {
		return usage("--finalists is %d, must be 0 or more", c.Finalists)
	}
	if c.Finalists > 0 && len(c.With) > 0 {
		return usage("--finalists is for one network: --with does not go with it")
	}
	if c.Workers < 0 {
		return usage("--workers is %d, must be 0 (one a processor) or more", c.Workers)
	}
	if c.BytesPerCycle != 0 && len(c.Bandwidth) > 0 {
		return usage("--bytes-per-cycle and --bandwidth: one of them says how fast the DRAM is")
	}
	objective := c.Objective
	if objective == string(search.Cheapest) {
		objective += " by " + c.Cost
	}
	if err := e.Unread(cli.Choice{Tag: "objective", Chosen: objective}, cli.Choice{Tag: "law", Chosen: c.Law}); err != nil {
		return err
	}
	if c.Count && c.Finalists == 0 {
		return usage("--count counts the --finalists: say how many")
	}
	if c.Count && c.Mapping == "basic" {
		return usage("--count counts what dse compile makes: --mapping basic does not go with it")
	}
	if _, err := os.Stat("sim/build.sh"); c.Count && err != nil {
		return fmt.Errorf("--count: sim/build.sh is not here: run it in the repository's root")
	}
	return nil
}

// own reports whether one of the networks is not in the zoo.
func (c *sweepCmd) own() bool {
	return recipe.Own(c.Network) || slices.ContainsFunc(c.With, func(x string) bool {
		name, _, _ := strings.Cut(x, "=")
		return recipe.Own(name)
	})
}

// mixed returns the first network combined with the networks of --with.
func (c *sweepCmd) mixed(first *search.Workload) (*search.Workload, error) {
	ws, shares := []*search.Workload{first}, []float64{1}
	for _, x := range c.With {
		name, text, ok := strings.Cut(x, "=")
		share, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("--with: %w: %q, expected NETWORK=SHARE", search.ErrWeights, x)
		}
		t := c.target
		t.Network, t.Import = name, recipe.Import{}
		w, err := t.workload()
		if err != nil {
			return nil, err
		}
		ws, shares = append(ws, w), append(shares, share)
	}
	return search.Mix(ws, shares)
}

type sweepSpace struct {
	Grid      string            `json:"grid"`
	Designs   int               `json:"designs"`
	Refused   map[string]int    `json:"refused"`
	RefusedAs map[string]string `json:"refused_as"` // one example for each reason
	Unmapped  int               `json:"unmapped"`
	TooMany   int               `json:"too_many"` // part of Unmapped: the network has more than L_MAX layers
	Searched  int               `json:"searched"`
}

type sweepBest struct {
	TR      int                 `json:"TR"`
	TP      int                 `json:"TP"`
	TC      int                 `json:"TC"`
	Mapping any                 `json:"mapping"`
	Value   float64             `json:"value"`
	Point   *search.Point       `json:"point,omitempty"`
	Paper   *search.PaperResult `json:"paper,omitempty"`
	ByB     [abi.BMax]float64   `json:"gops_by_batch"`
}

type sweepDoc struct {
	cli.Header
	Network string `json:"network"`
	Board   string `json:"board"`
	// Device is the content of the board's file. All designs fit this device.
	Device    boards.Board `json:"device"`
	Law       string       `json:"law"`
	Objective string       `json:"objective"`
	Optimal   string       `json:"optimal"`
	Space     int64        `json:"space"` // number of legal mappings, over all designs, layers and batch sizes
	Grid      sweepSpace   `json:"grid"`
	Evaluated int64        `json:"evaluated"` // number of mappings that the law evaluated; the others cannot be better
	CPUS      float64      `json:"cpu_s"`     // user and system time of the command in seconds
	Rate      float64      `json:"evaluations_per_s"`
	// Band is the error band of the law of cycles. The paper's law has no band.
	Band   *counted.Stated `json:"cycles_band,omitempty"`
	Best   sweepBest       `json:"best"`
	Pareto any             `json:"pareto"`
	Ranks  any             `json:"published_rank"`
	// Within lists the designs that differ from the best design by less than the band of the law or of the cost.
	Within    []search.Point `json:"within"`
	Finalists []finalist     `json:"finalists,omitempty"`
	// Slow is the serving result if the best design needs more cycles than the law computes. The difference is the law's
	// band.
	Slow   *search.Served `json:"served_if_slower,omitempty"`
	Energy *energyDoc     `json:"energy,omitempty"`
}

// Run searches the space, and prints the best designs.
func (c *sweepCmd) Run(e *cli.Env) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.read(e); err != nil {
		return err
	}
	weights, err := weightsOf(c.Weights)
	if err != nil {
		return err
	}
	c.post = slices.Contains(c.Post, "on")
	in, err := c.load()
	if err != nil {
		return err
	}
	doc := sweepDoc{
		Header: newHeader("sweep", c.Seed), Network: in.w.Name, Board: in.grid.Board.Name, Device: in.grid.Board, Law: c.Law, Objective: c.Objective,
		Optimal: "optimal in this space",
	}
	if c.Law == "paper" {
		return c.paper(ctx, e, in, weights, doc)
	}
	return c.rtl(ctx, e, in, weights, doc)
}

func weightsOf(v []float64) (search.Weights, error) {
	w := search.Uniform()
	if len(v) == 0 {
		return w, nil
	}
	if len(v) != abi.BMax {
		return w, fmt.Errorf("--weights: %w: %d numbers, expected %d", search.ErrWeights, len(v), abi.BMax)
	}
	copy(w[:], v)
	return w, w.Check()
}

func (c *sweepCmd) rtl(ctx context.Context, e *cli.Env, in *given, weights search.Weights, doc sweepDoc) error {
	o, err := c.options(in, weights)
	if err != nil {
		return err
	}
	progress, finish := bar(e, "sweep")
	o.Progress = progress
	r, err := c.search(ctx, e, in, o)
	finish()
	if err != nil || r == nil {
		if _, missing := os.Stat(c.Resume); c.Resume != "" && missing == nil && errors.Is(err, search.ErrInterrupted) {
			err = fmt.Errorf("%w (go on with --resume %s)", err, c.Resume)
		}
		if short := capacity.Shortest(err); short != nil { // one line, instead of one line for each design
			return short
		}
		return err
	}
	doc.Space, doc.Evaluated = r.Space, r.Evaluated
	doc.Grid = sweepSpace{r.Grid, r.Designs, r.Refused, r.RefusedAs, r.Unmapped, r.TooMany, r.Searched}
	doc.Best = sweepBest{TR: r.Best.TR, TP: r.Best.TP, TC: r.Best.TC, Mapping: r.Mapping, Value: r.Best.Value, Point: &r.Best, ByB: r.Best.ByB}
	doc.Pareto, doc.Ranks, doc.Within = r.Pareto, r.Ranks, r.Within
	band, err := counted.Of(r.Best.Design, c.Network, c.own())
	if err != nil {
		return err
	}
	doc.Band = &band
	exits := o.Exits
	if o.Objective.Simulated() {
		exits = capacity.ExitRates(in.w, c.ExitRate)
	}
	if doc.Energy, err = energyOf(in, o, r.Best.Design, exits); err != nil {
		return err
	}
	if o.Service != nil {
		if doc.Slow, err = slower(ctx, o, r.Best, band.Mean); err != nil {
			return err
		}
	}
	count, err := c.counter(e.Stderr)
	if err != nil {
		return err
	}
	if doc.Finalists, err = finalists(ctx, in.w, r.Within[:min(c.Finalists, len(r.Within))], weights, in.grid.Mapping, count); err != nil {
		return err
	}
	doc.cpu()
	if c.CSV != "" {
		if err := c.writeCSV(c.CSV, r); err != nil {
			return err
		}
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	c.print(e.Stdout, in, r, doc)
	return nil
}

// search searches the whole space or a shard of it. If it wrote the result of a shard, it returns nil.
func (c *sweepCmd) search(ctx context.Context, e *cli.Env, in *given, o search.Options) (*search.Result, error) {
	shards, over, err := e.Shard(c.Shard, c.Resume)
	if err != nil || over {
		return nil, err
	}
	if shards == nil {
		return search.Sweep(ctx, in.w, in.grid, o)
	}
	o.State, o.Progress = "", nil // each shard has its own progress
	var all []*search.Slice
	for s, err := range shard.Units(shards, "slices", shards.Of(), func(i int) (*search.Slice, error) {
		return search.SweepSlice(ctx, in.w, in.grid, o, i, shards.Of())
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if over, err := shards.Finish(); err != nil || over {
		return nil, err
	}
	return search.Join(ctx, in.w, in.grid, o, all)
}

// references returns the board's reference design if the grid contains the design's DRAM and clock. It also returns the
// published points for the network, although they do not fit real memories.
func references(in *given) []configs.Design {
	var out []configs.Design
	ref, axes := in.grid.Template, in.grid.Axes
	has := func(axis []float64, v float64) bool { return axis == nil || slices.Contains(axis, v) }
	if ref.Name == in.grid.Board.Name && has(axes.BytesPerCycle, ref.DRAM.BytesPerCycle) && has(axes.ClockMHz, ref.ClockMHz) { // otherwise no design of the grid has its DRAM and clock
		out = append(out, ref)
	}
	for _, p := range in.grid.Board.Published {
		if !strings.HasPrefix(in.w.Name, p.Network) {
			continue
		}
		d, _ := in.grid.At(p.TR, p.TP, p.TC) // the sweep reports why the point is infeasible
		d.Name = "published"
		out = append(out, d)
	}
	return out
}

func (d *sweepDoc) cpu() {
	d.CPUS = cpuSeconds()
	if d.CPUS > 0 {
		d.Rate = float64(d.Evaluated) / d.CPUS
	}
}

// bar shows the progress. When the total is known, it also shows the remaining time.
func bar(e *cli.Env, name string) (progress func(done, total int), finish func()) {
	var set func(int)
	end := func() {}
	return func(done, total int) {
		if set == nil {
			set, end = e.Progress(name, total)
		}
		set(done)
	}, func() { end() }
}

// tooMany returns a note about designs for which the network has too many layers.
func tooMany(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; on %d the network has more than L_MAX = %d layers", n, abi.LMax)
}

func (c *sweepCmd) print(w io.Writer, in *given, r *search.Result, doc sweepDoc) {
	fmt.Fprintf(w, "%s on %s: %s\n\n", in.w.Name, in.grid.Board.Name, r.Grid)
	fmt.Fprintf(w, "%d designs (%d more of the grid refused: %s; on %d a layer does not fit%s), %d mappings of layers and batches\n",
		r.Designs, total(r.Refused), reasons(r.Refused), r.Unmapped-r.TooMany, tooMany(r.TooMany), r.Space)
	for _, why := range slices.Sorted(maps.Keys(r.RefusedAs)) {
		fmt.Fprintf(w, "refused by %s, as %s\n", why, r.RefusedAs[why])
	}
	fmt.Fprintln(w, calibration(doc.Device.Family, slices.Contains(c.Type, configs.TypeInt8) || in.grid.Template.Int8()))
	fmt.Fprintf(w, "%d evaluated by the law on %d designs, the others proved no better; %.2f s of user and system time, %.2f M evaluations/s, %.0f M mappings settled a second, %d workers\n",
		r.Evaluated, r.Searched, doc.CPUS, doc.Rate/1e6, float64(r.Space)/doc.CPUS/1e6, workers(c.Workers))
	fmt.Fprintln(w, "cycles are those of what dse compile makes, with the tensors that it keeps on chip")
	fmt.Fprintln(w)
	b := r.Best
	fmt.Fprintf(w, "optimal in this space by %s: <T_R, T_P, T_C> = <%d, %d, %d> of %s, %s (estimated; %s)\n", c.Objective, b.TR, b.TP, b.TC, typeOf(b.Design), c.valueText(b.Value), doc.Band)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "B\t1\t2\t3\t4\t5\t6\t7\t8\t")
	row := "GOP/s"
	peak := "% of peak"
	for _, v := range b.ByB {
		row += fmt.Sprintf("\t%.1f", v)
		peak += fmt.Sprintf("\t%.1f", 100*v/peakGOPS(b.Design))
	}
	fmt.Fprintf(t, "%s\t\n%s\t\n", row, peak)
	_ = t.Flush()
	c.printWithin(w, r, doc)
	printFinalists(w, doc.Finalists)
	if len(r.Pareto) > 0 {
		c.printFront(w, r)
	}
	for _, k := range r.Ranks {
		if k.Rank == 0 {
			fmt.Fprintf(w, "\n%s: infeasible: %s", k.Design.Name, strings.ReplaceAll(k.Infeasible, "\n", "; "))
			continue
		}
		fmt.Fprintf(w, "\n%s <%d, %d, %d>: rank %d of %d, %s", k.Design.Name, k.Design.TR, k.Design.TP, k.Design.TC, k.Rank, k.Of, valueText(c.Objective, k.Value))
	}
	fmt.Fprintln(w)
}

func (c *sweepCmd) printFront(w io.Writer, r *search.Result) {
	const all = 16 // if there are more points, every 8th is printed
	step, note := 1, ""
	if len(r.Pareto) > all {
		step, note = 8, "; every 8th"
	}
	fmt.Fprintf(w, "\nPareto front, %d points (GOP/s up, latency at B = 1 and DSPs down)%s:\n", len(r.Pareto), note)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "T_R\tT_P\tT_C\ttype\tDSP\tBRAM36\tGOP/s\tms at B=1\t")
	for i, p := range r.Pareto {
		if i%step == 0 || i == len(r.Pareto)-1 {
			fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%d\t%.1f\t%.1f\t%.2f\t\n", p.TR, p.TP, p.TC, typeOf(p.Design), p.DSP, p.BRAM36, p.GOPS, float64(p.B1NS)/1e6)
		}
	}
	_ = t.Flush()
}

func typeOf(d configs.Design) string { return cmp.Or(d.Type, configs.TypeInt16) }

func peakGOPS(d configs.Design) float64 { return 2 * float64(d.MACs()) * d.ClockMHz / 1000 }

func valueText(objective string, v float64) string {
	switch search.Objective(objective) {
	case search.Latency:
		return fmt.Sprintf("%.3f ms at B = 1", -v/1e6)
	case search.Throughput:
		return fmt.Sprintf("%.2f samples/s weighted over B", v)
	case search.Rate:
		return fmt.Sprintf("%.2f requests a second", v)
	case search.GOPSPerDSP:
		return fmt.Sprintf("%.4f GOP/s a DSP", v)
	case search.Goodput:
		return fmt.Sprintf("%.2f requests in time a second", v)
	}
	return fmt.Sprintf("%.1f GOP/s weighted over B", v)
}

func workers(n int) int {
	if n == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

func reasons(m map[string]int) string {
	if len(m) == 0 {
		return "none"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}

func (c *sweepCmd) paper(ctx context.Context, e *cli.Env, in *given, weights search.Weights, doc sweepDoc) error {
	bandwidths := in.grid.Board.DRAM.BytesPerCycle
	if c.BytesPerCycle != 0 {
		bandwidths = []float64{c.BytesPerCycle}
	}
	type at struct {
		BytesPerCycle float64              `json:"bytes_per_cycle"`
		Best          cost.PaperPoint      `json:"best"`
		Value         float64              `json:"value"`
		Front         []search.PaperResult `json:"front"`
		Ranks         []search.PaperRank   `json:"ranks"`
	}
	var all []at
	for i, bpc := range bandwidths {
		p, err := search.NewPaperSpace(in.w, in.grid.Board, in.grid.Template, search.PaperOptions{Weights: weights, BytesPerCycle: bpc, Formed: c.Formed})
		if err != nil {
			return err
		}
		r, err := p.Sweep(ctx)
		if err != nil {
			return err
		}
		doc.Space += r.Space
		doc.Evaluated += r.Evaluated
		all = append(all, at{bpc, r.Best.PaperPoint, r.Best.Value, r.Front, r.Ranks})
		if i == 0 {
			doc.Grid = sweepSpace{Grid: r.Grid, Designs: r.Designs, Searched: r.Designs}
			doc.Best = sweepBest{TR: r.Best.TR, TP: r.Best.TP, TC: r.Best.TC, Mapping: r.Best.Mapping, Value: r.Best.Value, ByB: r.Best.ByB}
			doc.Pareto = r.Front
		}
	}
	doc.Ranks = all
	doc.cpu()
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	w := e.Stdout
	fmt.Fprintf(w, "%s on %s by the paper's law (analytical, without the hardware's memories): %s\n\n", in.w.Name, doc.Board, doc.Grid.Grid)
	fmt.Fprintf(w, "%d designs, %d mappings evaluated, %.2f s of user and system time\n", doc.Grid.Designs, doc.Evaluated, doc.CPUS)
	for _, a := range all {
		fmt.Fprintf(w, "\n%g bytes/cycle: optimal in this space <%d, %d, %d>, %.1f GOP/s weighted over B (estimated)\n", a.BytesPerCycle, a.Best.TR, a.Best.TP, a.Best.TC, a.Value)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "published for\tpoint\tT_R by the law\tDSP % (printed)\tBRAM % (printed)\trank\tGOP/s\treproduced")
		for _, k := range a.Ranks {
			why := "yes"
			if !k.Reproduced {
				why = "no: " + k.Why
			}
			p := k.Published
			fmt.Fprintf(t, "%s\t<%d, %d, %d>\t%d\t%.2f (%.2f)\t%.2f (%.2f)\t%d of %d\t%.1f\t%s\n", p.Network, p.TR, p.TP, p.TC, k.TR,
				k.DSPPercent, p.DSPPercent, k.BRAMPercent, p.BRAMPercent, k.Rank, k.Of, k.Value, why)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
