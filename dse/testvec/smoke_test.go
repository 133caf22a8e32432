package testvec

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

func TestSmoke(t *testing.T) {
	d, err := configs.Load(os.Getenv("CFG"))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(os.Getenv("NV"))
	for i := range n {
		seed := uint64(i + 100)
		net, err := randnet.New(seed, d, randnet.Options{Residual: true, MaxPool: true, AvgPool: true, Groups: true, Concat: true, Exits: true, MaxMACs: 200000})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		rec, err := FromBundle(net.Bundle, rng, 1+int(seed%8), Layout{Base: 0x10000000, Limit: 4000000})
		if err != nil {
			t.Fatal(err)
		}
		if err := vectors.WriteFile(fmt.Sprintf("/tmp/w/smoke/%s-%d.vec", d.Name, seed), rec); err != nil {
			t.Fatal(err)
		}
		for l, dd := range net.Bundle.Layers {
			t.Logf("%d: layer %d %s %dx%dx%d(%d) -> %dx%dx%d(%d) k%dx%d s%d,%d p%d,%d res %v fb %+v", seed, l, dd.Op, dd.InH, dd.InW, dd.InC, dd.InPix, dd.OutH, dd.OutW, dd.OutC, dd.OutPix, dd.KH, dd.KW, dd.SH, dd.SW, dd.PadT, dd.PadL, dd.Residual, net.Bundle.FBCB[l][int(seed%8)])
		}
	}
}
