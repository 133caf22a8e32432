package abi

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// limits holds the limits of abi.yaml, by name.
var limits = map[string]int{
	"K_ONE": KOne, "K_HALF": KHalf, "K_TWO": KTwo,
	"SHIFT_MAX": ShiftMax, "STRIDE_MAX": StrideMax, "OUT_H_MAX": OutHMax, "PLACES_MAX": PlacesMax,
	"TILE_REACH_MAX": TileReachMax, "ROW_BYTES_MAX": RowBytesMax, "RUN_BEATS_MAX": RunBeatsMax,
}

// A literal is a place where hw/rtl repeats a limit or code as a number. # in the pattern stands for that number:
// sized or not, or a name of abi_pkg.
type literal struct {
	limit   string
	file    string // "": any
	places  int    // number of places; 0: at least one; -1: any number, or none
	pattern string
	number  func(limit int) int // the number expected there; nil: the limit
}

func next(limit int) int { return limit + 1 }

// bits returns the width of a limit; all of its bits must be set.
func bits(limit int) int {
	n := 0
	for ; limit > 0; limit >>= 1 {
		n++
	}
	return n
}

var literals = []literal{
	{"SHIFT_MAX", "layer_fetch.sv", 1, `\bd\.shift > #`, nil},
	{"SHIFT_MAX", "layer_fetch.sv", 1, `\bd\.avg_shift > #`, nil},
	{"STRIDE_MAX", "layer_fetch.sv", 1, `\bd\.s_h > #`, nil},
	{"STRIDE_MAX", "layer_fetch.sv", 1, `\bd\.s_w > #`, nil},
	{"OUT_H_MAX", "layer_fetch.sv", 1, `\bd\.out_h > #`, nil},
	{"PLACES_MAX", "layer_fetch.sv", 1, `\bplaces > #`, nil},
	{"TILE_REACH_MAX", "layer_fetch.sv", -1, `\bmul_p_q < #\);`, next},
	{"TILE_REACH_MAX", "layer_fetch.sv", -1, `\bmul_b = 16'\(d\.s_h\);\s+want = #;`, nil},
	{"ROW_BYTES_MAX", "layer_fetch.sv", 1, `\bd\.in_row_bytes\[31:#\], d\.out_row_bytes\[31:[0-9]+\]\} != '0`, bits},
	{"ROW_BYTES_MAX", "layer_fetch.sv", 1, `\bd\.in_row_bytes\[31:[0-9]+\], d\.out_row_bytes\[31:#\]\} != '0`, bits},
	{"ROW_BYTES_MAX", "layer_fetch.sv", 1, `\bd\.res_row_bytes\[31:#\] != '0`, bits},
	{"RUN_BEATS_MAX", "layer_fetch.sv", 1, `\bRUN_BYTES = 32'\(# \* AXI_BYTES\)`, nil},
	{"K_TWO", "layer_fetch.sv", 1, `\bf\.k == # \|\| \(f\.k != `, next}, // one after the last code
	{"K_ONE", "layer_fetch.sv", 1, `\bf\.k != # && \(STACK == 0`, nil},
	{"K_TWO", "layer_fetch.sv", 1, `!is_gemm \|\| f\.k == # \|\| b_act_i`, nil},
	{"K_HALF", "", 0, `\bhalf = (?:STACK && )?(?:f\.k|k_i) == #(?: && !dw)?;`, nil},
	{"K_TWO", "", 0, `\bpair = (?:STACK && )?(?:f\.k|k_i) == #(?: && !dw)?;`, nil},
	{"K_HALF", "", -1, `\(f\.k == #\) \? d\.w_[a-z]+_h\b`, nil},
	{"K_TWO", "", -1, `\(f\.k == #\) \? d\.w_[a-z]+_2\b`, nil},
	{"K_HALF", "", -1, `\btc = \(f\.k == #\) \? \(two \? 16'\(T_C\) : 16'\(2 \* T_C\)\)`, nil},
	{"K_TWO", "", -1, `\(f\.k == # \|\| two\) \? 16'\(T_C / 2\)`, nil},
}

const operand = `((?:[0-9]+'s?[dhb])?[0-9A-F]+\b|(?:[0-9]+')?\(?abi_pkg::[A-Z_0-9]+\)?)`

var (
	comparedRE = regexp.MustCompile(`[<>] *[0-9]+'s?[dhb][0-9A-Fa-f]+|\b(?:f\.k|k_i) *[!=]= *[0-9]+'[dhb][0-9A-Fa-f]+`)
	sizedRE    = regexp.MustCompile(`^(?:[0-9]+'s?([dhb]))?([0-9A-Fa-f]+)$`)
	commentRE  = regexp.MustCompile(`//.*`)
)

// differences lists the places where hw/rtl differs from the limits.
func differences(rtl map[string]string, limits map[string]int) (out []string) {
	matched := map[string]map[int]bool{} // by file: positions of numbers that are on the list
	found, held := map[int]int{}, map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(rtl)) {
		text := commentRE.ReplaceAllString(rtl[file], "")
		matched[file] = map[int]bool{}
		for n, l := range literals {
			if l.file != "" && l.file != file {
				continue
			}
			want := limits[l.limit]
			if l.number != nil {
				want = l.number(want)
			}
			for _, at := range regexp.MustCompile(strings.Replace(l.pattern, "#", operand, 1)).FindAllStringSubmatchIndex(text, -1) {
				found[n]++
				held[l.limit] = held[l.limit] || file == "layer_fetch.sv"
				matched[file][at[2]] = true
				if number := text[at[2]:at[3]]; !says(number, l.limit, want, l.number == nil) {
					line := 1 + strings.Count(text[:at[2]], "\n")
					out = append(out, fmt.Sprintf("hw/rtl/%s:%d: %s, expected %d: hw/abi/abi.yaml's limit %s is %d", file, line, number, want, l.limit, limits[l.limit]))
				}
			}
		}
		for _, at := range comparedRE.FindAllStringIndex(text, -1) {
			what := text[at[0]:at[1]]
			number := what[strings.LastIndex(what, " ")+1:]
			switch {
			case matched[file][at[1]-len(number)]:
				continue
			case file == "layer_fetch.sv":
			case !strings.Contains(what, "k"):
				continue
			default: // another unit uses k in a way that is not on the list
				if says(number, "", limits["K_ONE"], true) || says(number, "", limits["K_HALF"], true) || says(number, "", limits["K_TWO"], true) {
					continue
				}
			}
			out = append(out, fmt.Sprintf("hw/rtl/%s:%d: %q is on no list: a limit of hw/abi/abi.yaml (limits_test.go)?", file, 1+strings.Count(text[:at[0]], "\n"), what))
		}
	}
	for n, l := range literals {
		if l.places > 0 && found[n] != l.places || l.places == 0 && found[n] == 0 {
			out = append(out, fmt.Sprintf("hw/rtl/%s: %s (%s) is there %d times", l.file, l.pattern, l.limit, found[n]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if !held[name] {
			out = append(out, fmt.Sprintf("hw/rtl/layer_fetch.sv: no number there is held to the limit %s", name))
		}
	}
	return out
}

// says reports whether a literal, or a name of abi_pkg, is the expected number.
func says(text, name string, want int, itself bool) bool {
	if _, inside, ok := strings.Cut(text, "("); ok {
		text = strings.TrimSuffix(inside, ")")
	}
	if of, ok := strings.CutPrefix(text, "abi_pkg::"); ok {
		return itself && of == name
	}
	g := sizedRE.FindStringSubmatch(text)
	if g == nil {
		return false
	}
	base := map[string]int{"": 10, "d": 10, "h": 16, "b": 2}[g[1]]
	n, err := strconv.ParseInt(g[2], base, 64)
	return err == nil && n == int64(want)
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../rtl/*.sv")
	if err != nil || len(files) == 0 {
		t.Fatalf("hw/rtl: %d files, %v", len(files), err)
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if base := filepath.Base(f); base != "abi_pkg.sv" {
			out[base] = string(text)
		}
	}
	return out
}

// TestLimits: the numbers in hw/rtl are abi.yaml's limits and codes.
func TestLimits(t *testing.T) {
	for _, d := range differences(sources(t), limits) {
		t.Error(d)
	}
}

// TestLimitsChanged: changing any limit only in abi.yaml is noticed, and so is changing any of the numbers only in
// hw/rtl.
func TestLimitsChanged(t *testing.T) {
	text, err := os.ReadFile("abi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\nlimits:\n")
	section, _, _ = strings.Cut(section, "\n\n")
	names := regexp.MustCompile(`(?m)^  - \{name: (\w+),`).FindAllStringSubmatch(section, -1)
	if len(names) != len(limits) {
		t.Fatalf("abi.yaml has %d limits, this test %d", len(names), len(limits))
	}
	rtl := sources(t)
	for _, g := range names {
		name := g[1]
		if _, ok := limits[name]; !ok {
			t.Errorf("the limit %s is not in this test", name)
			continue
		}
		other := maps.Clone(limits)
		other[name] = 2*other[name] + 1
		if d := differences(rtl, other); len(d) == 0 || !strings.Contains(strings.Join(d, "\n"), "limit "+name+" is") {
			t.Errorf("%s is %d in the source and hw/rtl is not refused: %q", name, other[name], d)
		}
	}
	digits := regexp.MustCompile(`[0-9A-F]+$`)
	for _, l := range literals {
		re := regexp.MustCompile(strings.Replace(l.pattern, "#", operand, 1))
		for file, text := range rtl {
			if l.file != "" && l.file != file {
				continue
			}
			for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
				number := text[at[2]:at[3]]
				if strings.Contains(number, "abi_pkg::") {
					continue
				}
				wrong := maps.Clone(rtl)
				wrong[file] = text[:at[2]] + digits.ReplaceAllString(number, "0001") + text[at[3]:]
				if strings.HasSuffix(number, "'d1") {
					wrong[file] = text[:at[2]] + digits.ReplaceAllString(number, "0") + text[at[3]:]
				}
				if len(differences(wrong, limits)) == 0 {
					t.Errorf("hw/rtl/%s: %s changed, and nothing is noticed", file, text[at[0]:at[1]])
				}
			}
		}
	}
}
