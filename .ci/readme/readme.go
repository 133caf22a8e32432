// Package readme extracts the commands of README files, so that tests can run them exactly as printed.
package readme

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Command is one line of a README that a reader is meant to type.
type Command struct {
	File  string
	Line  int
	Text  string   // without the trailing remark
	Shown []string // output lines shown below a "$ " command; the command must print them in this order
}

// begins is the pattern of an indented command: it starts with a program of the repository or an installed program.
var begins = regexp.MustCompile(`^ {4}(bin/|sluice |dse |make |sim/|hw/|hls/|go (run|test|build) |venv/|exports/|build/|python3 |verilator |tclsh )`)

// prompt starts a command line in a transcript. The lines after the command are its output.
const prompt = "    $ "

// remark matches a comment after a command.
var remark = regexp.MustCompile(`\s+# .*$`)

// Commands returns the commands of a README in order. Four spaces separate several commands on one line; a trailing
// backslash continues a line. In a transcript each command starts with "$ " and is alone on its line.
func Commands(file string, r io.Reader) ([]Command, error) {
	var out []Command
	lines := bufio.NewScanner(r)
	transcript := -1 // index of the transcript's last command
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		typed, isTyped := strings.CutPrefix(line, prompt)
		shown, indented := strings.CutPrefix(line, "    ")
		switch {
		case isTyped:
			transcript = len(out)
			out = append(out, Command{File: file, Line: n, Text: strings.TrimSpace(remark.ReplaceAllString(typed, ""))})
			continue
		case indented && transcript >= 0:
			out[transcript].Shown = append(out[transcript].Shown, shown)
			continue
		}
		if line != "" {
			transcript = -1
		}
		if !begins.MatchString(line) {
			continue
		}
		at := n
		for strings.HasSuffix(line, "\\") && lines.Scan() {
			n++
			line = strings.TrimSuffix(line, "\\") + strings.TrimSpace(lines.Text())
		}
		line = remark.ReplaceAllString(line, "")
		for text := range strings.SplitSeq(strings.TrimSpace(line), "    ") {
			if text = strings.TrimSpace(text); text != "" {
				out = append(out, Command{File: file, Line: at, Text: text})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// Blocks returns the indented blocks of a README without their indentation. A blank line inside a block does not end
// it.
func Blocks(r io.Reader) ([][]string, error) {
	var out [][]string
	inside := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line, indented := strings.CutPrefix(lines.Text(), "    ")
		switch {
		case !indented && line != "":
			inside = false
		case indented && !inside:
			out, inside = append(out, []string{line}), true
		case indented:
			out[len(out)-1] = append(out[len(out)-1], line)
		}
	}
	return out, lines.Err()
}

// Missing returns the block's first line that is not in the output, or "". The output must have the block's lines in
// order; spacing is ignored.
func Missing(block []string, output string) string {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	lines := strings.Split(output, "\n")
	for _, want := range block {
		for {
			if len(lines) == 0 {
				return want
			}
			line := lines[0]
			if lines = lines[1:]; words(line) == words(want) {
				break
			}
		}
	}
	return ""
}
