package serve

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestNames: the names of a request's objects are not stored; storing them took twenty times the memory of the request.
func TestNames(t *testing.T) {
	var names strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&names, `"%d":0,`, i)
	}
	all := `{` + names.String() + `"y":0}`
	for _, document := range []string{all, `{"x":` + all + `}`, `{"inputs":[{"name":"input","datatype":"FP32","shape":[784],"data":` + all + `}]}`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decode([]byte(document), ""); err != nil && !strings.Contains(err.Error(), "expected numbers") {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 5*uint64(len(document)) {
			t.Errorf("%.40s: %d bytes of JSON took %d: expected at most five times as many", document, len(document), took)
		}
	}
}
