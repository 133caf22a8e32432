// Tables as text.

package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in columns. The first column is left-aligned, and all other columns are right-aligned.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write writes the table, one row per line.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, 0, len(t.Head))
	all := append([][]string{t.Head}, t.Rows...)
	for _, r := range all {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range all {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i == 0 {
				b.WriteString(c + pad)
			} else {
				b.WriteString("  " + pad + c)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	return nil
}

// Ns formats a time in a suitable unit.
func Ns(ns int64) string {
	if ns < 0 {
		return "-"
	}
	return scaled(uint64(ns), "ns", "us", "ms", "s")
}

// scaled formats n in the first unit that gives a number below 10,000, or else in the last unit. Units increase by
// factors of 1000.
func scaled(n uint64, units ...string) string {
	if n < 10_000 {
		return fmt.Sprintf("%d %s", n, units[0])
	}
	one, i := uint64(1000), 1
	for ; n >= 10_000*one && i < len(units)-1; i++ {
		one *= 1000
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(one), units[i])
}

// Percent formats a share.
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Bytes formats a size in decimal units.
func Bytes(n uint64) string { return scaled(n, "B", "kB", "MB", "GB") }
