package zoo

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// thirty.md states the number of networks tried, the number and size of photographs, which networks deviate, and how
// many are known by their operators alone; the README states how many agree.
func TestThirty(t *testing.T) {
	content, err := os.ReadFile("thirty.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Agree map[string]struct {
			Agrees bool    `json:"agrees"`
			Images int     `json:"images"`
			Side   int     `json:"side"` // zero: the network's own
			Worst  float64 `json:"worst"`
			Half   float64 `json:"float16"` // error of float16; zero: not measured
			Why    string  `json:"why"`     // reason for rejection
		} `json:"agree"`
		Survey map[string]struct {
			Needs []any `json:"needs"`
		} `json:"survey"`
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("thirty.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	said := func(text []byte, name, want string) {
		t.Helper()
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
	agree, small, asked, farther, on := 0, 0, 0, 0, map[int]int{}
	for name, r := range doc.Agree {
		said(table, "thirty.md", "| "+name+" |")
		if r.Why != "" {
			said(table, "thirty.md", strings.TrimPrefix(name, "timm:"))
			continue
		}
		on[r.Images]++
		if r.Side != 0 {
			small++
		}
		if r.Agrees {
			agree++
			continue
		}
		said(table, "thirty.md", fmt.Sprintf("%s %.1f", strings.TrimPrefix(name, "timm:"), 100*r.Worst))
		if r.Half > 0 {
			asked++
		}
		if r.Half >= r.Worst {
			farther++
		}
	}
	supported, alone := 0, 0
	for name, s := range doc.Survey {
		if len(s.Needs) == 0 {
			supported++
			if _, compared := doc.Agree[name]; !compared {
				alone++
			}
		}
	}
	for _, want := range []string{
		fmt.Sprintf("%d of the %d tried", agree, len(doc.Agree)),
		fmt.Sprintf("(%d rows of the table on four photographs, %d on two)", on[4], on[2]),
		fmt.Sprintf("%d at 96 x 96", small),
		fmt.Sprintf("in %d of the %d that were asked", farther, asked),
		fmt.Sprintf("%d consist of supported operators", supported),
		fmt.Sprintf("%d are counted by their operators alone", alone),
	} {
		said(table, "thirty.md", want)
	}
	said(readme, "README.md", fmt.Sprintf("%d of the %d tried", agree, len(doc.Agree)))
}
