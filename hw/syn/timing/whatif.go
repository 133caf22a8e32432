package timing

import (
	"fmt"
	"strings"
)

// Longer is the table with every net so many times as long, and what one of more than 64 loads takes beyond that far
// times on top: what a figure rests on the calibration (which halves nets) and on what is no more than an estimate.
func (t *Table) Longer(nets, far float64) *Table {
	l := *t
	for _, d := range []*float64{&l.Net, &l.NetLog2, &l.NetIn} {
		*d *= nets
	}
	for _, d := range []*float64{&l.NetFar, &l.NetMost} {
		*d *= nets * far
	}
	return &l
}

// Graded are the tables of a family whose part is of the speed grade (-2), as their names say; all of the family's where none is, or none is known (0).
func Graded(family string, grade int) (list []*Table, found bool) {
	for _, t := range ByFamily(family) {
		if grade < 0 && strings.HasSuffix(t.Name, fmt.Sprint(grade)) {
			list = append(list, t)
		}
	}
	if list == nil {
		return ByFamily(family), grade == 0
	}
	return list, true
}
