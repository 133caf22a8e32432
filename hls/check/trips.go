package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Counted copies a kernel's files to a folder and adds counters to all loops with a stated trip count. A wrong trip
// count stops C-simulation (csim/trips.hpp). Line numbers do not change.
func Counted(dir, out string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no files", dir)
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		base, s := filepath.Base(f), newSource()
		lines := strings.Split(string(text), "\n")
		if _, err := s.scan(base, lines); err != nil {
			return err
		}
		for at, l := range s.loops[base] {
			if l.Trips == "" {
				continue
			}
			lines[at-1] = loopRE.ReplaceAllString(lines[at-1], fmt.Sprintf("${1}int sluice_trips_%d = 0; ${2}", at))
			lines[l.TripsLine-1] += fmt.Sprintf("\n#line %d\nsluice::trip(++sluice_trips_%d, %s, \"%v\");\n#line %d", l.TripsLine, at, l.Trips, l, l.TripsLine+1)
		}
		path, counted := filepath.Join(out, base), []byte(strings.Join(lines, "\n"))
		if was, err := os.ReadFile(path); err == nil && string(was) == string(counted) {
			continue
		}
		if err := os.WriteFile(path, counted, 0o666); err != nil {
			return err
		}
	}
	return nil
}
