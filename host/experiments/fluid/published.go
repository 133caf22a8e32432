// The published values come only from text and tables, because values cannot be read from the figures' curves.

package fluid

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// table2 returns the published values of all claims, by ID.
var table2 = sync.OnceValue(func() map[string]float64 {
	out := map[string]float64{}
	claims, _ := frame.Book(book) // no error: the file is embedded, and every test reads it
	for _, c := range claims {
		if c.Published != nil {
			out[c.ID] = *c.Published
		}
	}
	return out
})

// Published returns the published value of a row, or nil if there is none. It ignores the setting's bandwidth.
func Published(setting Setting, policy, metric string) *float64 {
	setting.Bandwidth = 0
	of, is := map[string]struct {
		name  string
		scale float64
	}{"avg_ns": {"avg_ms", 1e6}, "violation_rate": {"violations", 1}}[metric]
	v, published := table2()["table2/"+setting.String()+"/"+policy+"/"+of.name]
	if !is || !published {
		return nil
	}
	return new(v * of.scale)
}

// HeldOut reports whether a row's setting was not used for tuning. The bandwidths were tuned to fluid's averages in two
// published rows of table II. The policy fluid+ was developed on the settings of developed(). None of these settings is
// held out, at any bandwidth.
func HeldOut(s Setting, policy string) bool {
	s.Bandwidth = 0
	if strings.HasPrefix(policy, "fluid+") {
		return !slices.Contains(developed(), s)
	}
	return s != stringent[0] && s != stringent[1]
}

// developed returns the settings on which fluid+ was developed.
func developed() []Setting {
	return slices.Concat(
		along(fig7Base, 5, 10, 15, 18, 20, 25), along(fig8Base, 20, 30, 35, 40, 50, 60), stringent,
		slos(Setting{Network: "resnet50", Board: "zc706", Rate: 15}, 150),
		slos(Setting{Network: "inceptionv3", Board: "zcu104", Rate: 35}, 100),
		[]Setting{{Network: "resnet50", Board: "zc706", Rate: 15, SLO: 400 * ms, Arrivals: "markov:dwell=1.3333:high=2.2:share=0.3333"}},
	)
}

// unseen returns settings that were reserved before the development of fluid+, so that fluid+ is not tuned to them.
func unseen() []Setting {
	at := func(network, board string, rate float64, slo int64, arrivals string) Setting {
		return Setting{Network: network, Board: board, Rate: rate, SLO: slo * ms, Arrivals: arrivals}
	}
	return []Setting{
		at("resnet50", "zcu104", 30, 100, ""),
		at("resnet50", "zcu104", 50, 150, ""),
		at("resnet50", "zcu104", 60, 200, ""),
		at("inceptionv3", "zc706", 10, 250, ""),
		at("inceptionv3", "zc706", 18, 400, ""),
		at("inceptionv3", "zc706", 22, 500, ""),
		at("resnet50", "zc706", 17, 300, "gamma:cv=2"),
		at("inceptionv3", "zcu104", 35, 200, "markov:dwell=0.5714:high=2.2:share=0.3333"),
		at("inceptionv3", "zcu104", 38, 150, "gamma:cv=2"),
		at("resnet50", "zc706", 30, 400, ""),
	}
}

// designPoint is a row of table I.
type designPoint struct {
	network, board string
	tr, tp, tc     float64
	dsp            float64 // share of the board's DSP slices
}

var table1Published = []designPoint{
	{"resnet50", "zc706", 4652, 7, 128, 0.9956},
	{"resnet50", "zcu104", 6832, 10, 172, 0.9953},
	{"inceptionv3", "zc706", 2742, 4, 225, 1.0},
	{"inceptionv3", "zcu104", 6832, 10, 172, 1.0},
}

// boardDSPs contains the number of DSP slices by board (FPGAs: Z7045, ZU7EV).
var boardDSPs = map[string]float64{"zc706": 900, "zcu104": 1728}
