package timing

import (
	"fmt"
	"strings"
)

// Longer is the table with nets of up to 64 loads so many times as long (2: without the calibration, which halves them), and what a net of more
// takes beyond that far times: what a figure rests on the calibration, and on what is no more than an estimate.
func (t *Table) Longer(nets, far float64) *Table {
	l := *t
	for _, d := range []*float64{&l.Net, &l.NetLog2, &l.NetIn} {
		*d *= nets
	}
	l.NetFar *= far
	l.NetMost += l.net(64) - t.net(64)
	l.NetMost *= max(far, 1)
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
