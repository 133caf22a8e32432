package timing

import (
	"fmt"
	"strings"
)

// Longer returns a table with longer net delays, which shows how much a figure depends on them. The parameters are
// factors: nets for the delay of up to 64 loads (2 undoes the calibration), far for the extra delay of more loads.
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

// Graded returns the tables of a family for a speed grade, such as -2. If there is no such table, or grade is 0
// (unknown), it returns all tables of the family.
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
