package estimate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxReport bounds a report of synthesis.
const maxReport = 16 << 20

// ErrReport is wrapped where a file is no report of synthesis.
var ErrReport = errors.New("no csynth.xml")

// Read takes the loops of one report of the vendor's synthesis (csynth.xml, or FUNCTION_csynth.xml): a loop
// that the model knows takes its II and its depth from there. It answers how many.
func (m *Model) Read(file string, r io.Reader) (int, error) {
	fail := func(d *xml.Decoder, what string) error {
		line, _ := d.InputPos()
		return fmt.Errorf("%w: %s:%d: %s", ErrReport, file, line, what)
	}
	dec := xml.NewDecoder(io.LimitReader(r, maxReport+1))
	var path []string
	top, value, n := "", "", 0
	found := map[string]Loop{} // by the path of the loop's element
	names := map[string]string{}
	for {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fail(dec, err.Error())
		}
		if dec.InputOffset() > maxReport {
			return 0, fail(dec, fmt.Sprintf("longer than %d bytes", maxReport))
		}
		switch t := t.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); len(path) > 64 {
				return 0, fail(dec, "elements deeper than 64")
			}
			if len(path) == 1 && path[0] != "profile" {
				return 0, fail(dec, "expected an element profile, found "+path[0])
			}
			value = ""
		case xml.CharData:
			value += string(t)
		case xml.EndElement:
			at := strings.Join(path, "/")
			text := strings.TrimSpace(value)
			value = ""
			path = path[:len(path)-1]
			if at == "profile/UserAssignments/TopModelName" {
				top = text
			}
			rest, ok := strings.CutPrefix(at, "profile/PerformanceEstimates/SummaryOfLoopLatency/")
			if !ok {
				continue
			}
			parts := strings.Split(rest, "/")
			if len(parts) < 2 {
				continue
			}
			key, leaf := strings.Join(parts[:len(parts)-1], "/"), parts[len(parts)-1]
			l := found[key]
			v, err := strconv.Atoi(text)
			switch leaf {
			case "PipelineII":
				if err != nil || v < 1 || v > 1<<20 {
					return 0, fail(dec, "PipelineII: expected 1 or more, found "+strconv.Quote(text))
				}
				l.II = v
			case "PipelineDepth":
				if err != nil || v < 1 || v > 1<<20 {
					return 0, fail(dec, "PipelineDepth: expected 1 or more, found "+strconv.Quote(text))
				}
				l.Depth = v
			case "Name":
				names[key] = text
			default:
				continue
			}
			found[key] = l
		}
	}
	if top == "" {
		return 0, fmt.Errorf("%w: %s: expected profile/UserAssignments/TopModelName", ErrReport, file)
	}
	for key, l := range found {
		if l.II == 0 || l.Depth == 0 {
			continue
		}
		label := names[key]
		if label == "" {
			label = key[strings.LastIndex(key, "/")+1:]
		}
		for name := range m.Loops {
			function, own, _ := strings.Cut(name, ".")
			if own != label {
				continue
			}
			// a pipelined loop is a module of its own, and functions that are inlined go by who calls them
			for _, f := range callers(function) {
				if top == f || strings.HasPrefix(top, f+"_Pipeline_") {
					l.Reported = true
					m.Loops[name] = l
					n++
				}
			}
		}
	}
	return n, nil
}

// callers are the names under which a function's loops are reported.
func callers(function string) []string {
	switch function {
	case "load_run":
		return []string{function, "load_rows"}
	case "form_pass", "form_taps":
		return []string{function, "form_rows"}
	case "pool":
		return []string{function, "multiply"}
	case "keep_run":
		return []string{function, "keep_out"}
	case "write_run":
		return []string{function, "write_out"}
	}
	return []string{function}
}
