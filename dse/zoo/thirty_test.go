package zoo

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The README states how many networks were tried, and on how many photographs.
func TestThirty(t *testing.T) {
	content, err := os.ReadFile("thirty.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Agree map[string]struct {
			Agrees bool `json:"agrees"`
			Images int  `json:"images"`
		} `json:"agree"`
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		t.Fatal(err)
	}
	agree, on := 0, map[int]int{}
	for _, r := range doc.Agree {
		on[r.Images]++
		if r.Agrees {
			agree++
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("%d of the %d tried", agree, len(doc.Agree)),
		fmt.Sprintf("(%d rows of the table on four photographs, %d on two)", on[4], on[2]),
	} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not say %q; photographs by rows: %v", want, on)
		}
	}
}
