package jellyfish

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
)

// Clients in a file have the file's links and times, and the server gets the rate of each client's own link.
func TestOwnClients(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slow.txt")
	if err := os.WriteFile(file, []byte("4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	clients, err := NewOwn(1).Clients("c.csv", strings.NewReader("\ufeffname,rate,slo_ms,link,start_s\ngate, 15, 150, steps, 0\n# none\nyard,10,250,"+file+",2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(clients) != 2 || clients[0].Name != "gate" || clients[0].Rate != 15 || clients[0].SLO != 150e6 || clients[1].Start != 2e9 {
		t.Fatalf("%+v", clients)
	}
	zoo, err := jellyfish.NewZoo(jellyfish.Synthetic(1)[:3])
	if err != nil {
		t.Fatal(err)
	}
	sys, err := NamedOf(zoo, "jellyfish+")
	if err != nil {
		t.Fatal(err)
	}
	o, err := Run(context.Background(), &Setting{Zoo: zoo, Workers: 2, Clients: clients, Ns: 6e9, Seed: 1}, sys, Assume())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{20e6, 4e6} {
		c := &o.Clients[i]
		if c.Link < 0.98*want || c.Link > 1.02*want || c.Frames == 0 || c.OnTime == 0 || c.Accuracy <= 0 || c.P50 > c.P99 {
			t.Errorf("%s: %+v over %g bits/s", clients[i].Name, c, want)
		}
	}
	if n := o.Clients[1].Frames; n < 38 || n > 40 {
		t.Errorf("%d frames of a client that sends 10 a second for 4 s", n)
	}
	if o.Frames != o.Clients[0].Frames+o.Clients[1].Frames || int(o.Summary.Requests) != o.Frames || int(o.Summary.OnTime) != o.OnTime {
		t.Errorf("%d frames, %+v, %+v", o.Frames, o.Summary, o.Clients)
	}
	if _, err := NamedOf(zoo, "jelly"); err == nil || !strings.Contains(err.Error(), "there are jellyfish, jellyfish+, b-l,") {
		t.Error(err)
	}
}

func bad() map[string]string {
	const head = "name,rate,slo_ms,link,start_s\n"
	return map[string]string{
		"":                                  "c.csv: empty, a header is expected",
		"name,rate\n":                       `c.csv:1: "name,rate", expected name,rate,slo_ms,link,start_s`,
		head:                                "c.csv: no client",
		head + "a,15,150,steps\n":           "c.csv:2: 4 fields, expected 5",
		head + "a,1.5,150,steps,0\n":        `c.csv:2: rate: "1.5", expected a whole number`,
		head + "a,0,150,steps,0\n":          `rate: "0", expected 1 to 10000`,
		head + "a,15,0,steps,0\n":           `slo_ms: "0"`,
		head + "a,15,NaN,steps,0\n":         `slo_ms: "NaN"`,
		head + "a,15,150,steps,-1\n":        `start_s: "-1"`,
		head + ",15,150,steps,0\n":          "name: one is expected",
		head + "a\x1b[2J,15,150,steps,0\n":  `c.csv:2: name: "a\x1b[2J", expected characters that can be printed`,
		head + "a,15,150,nowhere.txt,0\n":   `c.csv:2: trace of a link "nowhere.txt": neither steps, wifi or lte nor a file`,
		head + "a,5,9,lte,0\na,5,9,lte,0\n": `c.csv:3: name: "a" is a duplicate`,
	}
}

func TestBadClients(t *testing.T) {
	for text, says := range bad() {
		_, err := NewOwn(1).Clients("c.csv", strings.NewReader(text))
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
}

func FuzzClients(f *testing.F) {
	for text := range bad() {
		f.Add(text)
	}
	f.Add("name,rate,slo_ms,link,start_s\na,15,150,steps,0\nb,1,9,wifi,3.5\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := NewOwn(1).Clients("fuzz", strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrSetup) {
				t.Fatalf("%v is no ErrSetup", err)
			}
			return
		}
		for _, c := range all {
			var none *links.Trace
			if c.Name == "" || c.Rate < 1 || c.SLO < 1 || c.Start < 0 || c.Trace == none {
				t.Fatalf("%+v", c)
			}
		}
	})
}
