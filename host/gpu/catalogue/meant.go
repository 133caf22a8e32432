package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// Meant is the network that a workload's name means: one of one's own, where there are any, else one
// of the catalogue.
func Meant(asked string, own []string) (string, error) {
	if slices.Contains(own, asked) {
		return asked, nil
	}
	if len(own) > 0 {
		return "", fmt.Errorf("no network %q in the kernel list; there are %s", asked, strings.Join(own, ", "))
	}
	all := Names()
	short, _, _ := strings.Cut(asked, "-imagenet")
	if slices.Contains(all, short) {
		return short, nil
	}
	var found []string
	for _, n := range all {
		if short != "" && strings.HasPrefix(n, short) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("network %q means %d of %s, expected one", asked, len(found), strings.Join(all, ", "))
	}
	return found[0], nil
}
