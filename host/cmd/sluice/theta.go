// sluice tune-theta finds exit thresholds.

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/soft"
)

type thetaCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to tune, in place of --network and --config."`
	what
	Loss float64 `default:"0.015" help:"Allowed loss of accuracy against the last exit, as a share (the paper: 0.015)."`
	N    int     `default:"2000" short:"n" help:"Test images to tune on. As many others are held out and reported. --seed selects them, since images may be sorted by class."`
	Seed uint64  `default:"1" help:"Selects the images to tune on and those held out; the search itself is exhaustive on its grid."`
	Out  string  `default:"out/tune-theta" help:"Folder for summary.json."`
	JSON bool    `name:"json" help:"Print JSON."`
}

func (*thetaCmd) Help() string {
	return `Finds the thresholds with the least MACs whose accuracy stays within the loss: one threshold for
all exits, and one an exit. Confidences are those of the 16-bit network (golden executor).

Example:
  sluice tune-theta --network fashion --loss 0.005 --n 4000
  sluice tune-theta my.sluice --data photos`
}

type thetaDoc struct {
	cli.Header
	Theta     experiments.Theta `json:"theta"` // per exit
	Accuracy  float64           `json:"accuracy"`
	MACsShare float64           `json:"macs_share"`
	Images    int               `json:"images"`
	Loss      float64           `json:"loss"`
	LastExit  experiments.Tuned `json:"last_exit"`
	Uniform   experiments.Tuned `json:"uniform"`
	PerExit   experiments.Tuned `json:"per_exit"`
	HeldOut   struct {
		Images   int               `json:"images"`
		LastExit experiments.Tuned `json:"last_exit"`
		Uniform  experiments.Tuned `json:"uniform"`
		PerExit  experiments.Tuned `json:"per_exit"`
	} `json:"held_out"`
}

// halves selects n random images for tuning and n other images for testing.
func halves(images, n int, seed uint64) (tuned, held []int) {
	order := rand.New(rand.NewPCG(seed, 4)).Perm(images)
	return order[:n], order[n : 2*n]
}

func (c *thetaCmd) Run(e *cli.Env) error {
	if !(c.Loss >= 0 && c.Loss < 1) || c.N < 10 || c.N > 1<<20 {
		return cli.Errorf(cli.Usage, "--loss %g, --n %d: expected a share of 0..1 and at least 10 images", c.Loss, c.N)
	}
	c.file = c.Bundle
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	s, im, err := p.setup(e, &c.what, &soft.Memo{}, 2*c.N)
	if err != nil {
		return err
	}
	if slices.Contains(im.Labels, -1) {
		return cli.Errorf(cli.Usage, "images of %s without their classes say nothing of accuracy: --labels names them, or folders do", p.bundle.Network.Name)
	}
	macs := make([]int64, len(p.bundle.Network.Exits))
	for i, x := range p.bundle.Network.Exits {
		macs[i] = x.MACs
	}
	n := min(c.N, len(s.Exits)/2)
	tuned, others := halves(len(s.Exits), n, c.Seed)
	tuner := func(images []int) (*experiments.Tuner, error) {
		exits, labels := make([][]device.ExitResult, n), make([]int, n)
		for k, i := range images {
			exits[k], labels[k] = s.Exits[i], im.Labels[i]
		}
		return experiments.NewTuner(exits, labels, macs)
	}
	t, err := tuner(tuned)
	if err != nil {
		return cli.Errorf(cli.Input, "tune on images of %s: %w", p.bundle.Network.Name, err)
	}
	held, err := tuner(others)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	doc := thetaDoc{Header: cli.NewHeader("sluice-tune-theta/1", c.Seed, "estimated"), Images: n, Loss: c.Loss, LastExit: t.Last()}
	floor := doc.LastExit.Accuracy - c.Loss
	doc.Uniform = t.Uniform(floor)
	doc.PerExit = t.PerExit(floor, doc.Uniform)
	doc.Theta, doc.Accuracy, doc.MACsShare = doc.PerExit.Theta, doc.PerExit.Accuracy, doc.PerExit.MACsShare
	doc.HeldOut.Images = n
	doc.HeldOut.LastExit = held.Last()
	doc.HeldOut.Uniform = held.Measure(doc.Uniform.Theta)
	doc.HeldOut.PerExit = held.Measure(doc.PerExit.Theta)
	if err := e.Print(doc, c.Out, c.JSON, doc.print); err != nil || c.JSON {
		return err
	}
	if doc.PerExit.Accuracy < floor {
		return cli.Errorf(cli.Check, "no thresholds keep the accuracy")
	}
	return nil
}

func (doc *thetaDoc) print(w io.Writer) error {
	tab := report.Table{Head: []string{"thresholds", "theta", "accuracy", "MACs", "held-out accuracy", "MACs"}}
	add := func(name string, a, b experiments.Tuned) {
		th := ""
		for i, v := range a.Theta[:len(a.Theta)-1] {
			if i > 0 {
				th += " "
			}
			th += fmt.Sprintf("%.3g", v)
		}
		tab.Add(name, th, report.Percent(a.Accuracy), report.Percent(a.MACsShare), report.Percent(b.Accuracy), report.Percent(b.MACsShare))
	}
	add("none (last exit)", doc.LastExit, doc.HeldOut.LastExit)
	add("one for all", doc.Uniform, doc.HeldOut.Uniform)
	add("one an exit", doc.PerExit, doc.HeldOut.PerExit)
	fmt.Fprintf(w, "%d images, loss at most %s; as many held out (2 = never taken)\n\n", doc.Images, report.Percent(doc.Loss))
	return tab.Write(w)
}
