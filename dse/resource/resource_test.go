package resource

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
)

// The law of memories is yosys' own answer on some 480 shapes of each family.
func TestPlaceIsYosys(t *testing.T) {
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		f, err := os.Open("testdata/shapes-" + family + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n := 0
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "#") {
				continue
			}
			var width, words int
			var want Blocks
			if _, err := fmt.Sscan(sc.Text(), &width, &words, &want.BRAM18, &want.BRAM36, &want.URAM, &want.LUTRAM); err != nil {
				t.Fatal(err)
			}
			n++
			if got := Place(family, words, width); got != want {
				t.Errorf("%s: %d words of %d bits: %+v, yosys %+v", family, words, width, got, want)
			}
		}
		if n < 150 {
			t.Errorf("%s: %d shapes only", family, n)
		}
	}
}
