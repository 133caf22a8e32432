// What the benches of GPUs, Strait and Jellyfish print and check of their statements.

package main

import (
	"fmt"
	"io"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/verdict"
)

// printStatements prints a line a statement, a note in its last column, and how many hold.
func printStatements(w io.Writer, all []verdict.Statement, note func(*verdict.Statement) string) {
	for i := range all {
		s := &all[i]
		half := ""
		if s.CI95 != nil {
			half = fmt.Sprintf("± %.3g", *s.CI95)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Mean(), half, s.Number(), s.Verdict, note(s))
	}
	fmt.Fprintln(w, verdict.Count(all))
}

// standing says whether a statement's verdict was fitted, and survives when assumed parameters change.
func standing(s *verdict.Statement) (note string) {
	if s.Fitted {
		note = "fitted"
	}
	if len(s.Changed) > 0 {
		note += fmt.Sprintf(" changes with %d of the assumed parameters", len(s.Changed))
	}
	return note
}

// checkStatements is the error of --check, where some do not hold.
func checkStatements(all []verdict.Statement) error {
	open := 0
	for i := range all {
		if all[i].Verdict != verdict.Holds {
			open++
		}
	}
	if open > 0 {
		return cli.Errorf(cli.Check, "%d of %d statements do not hold, or are not decided", open, len(all))
	}
	return nil
}
