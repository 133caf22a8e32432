package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// Meant returns the network to which a name in a workload refers. It searches the list `own` first, then the catalogue.
// The name may be the full name, the part before "-imagenet", or a unique prefix.
func Meant(asked string, own []string) (string, error) {
	if slices.Contains(own, asked) {
		return asked, nil
	}
	short, _, _ := strings.Cut(asked, "-imagenet")
	for _, names := range [][]string{own, Names()} {
		if slices.Contains(names, short) {
			return short, nil
		}
		var found []string
		for _, n := range names {
			if short != "" && strings.HasPrefix(n, short) {
				found = append(found, n)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return "", fmt.Errorf("network %q means %d of %s, expected one", asked, len(found), strings.Join(names, ", "))
		}
	}
	if len(own) > 0 {
		return "", fmt.Errorf("network %q is neither in the kernel list (%s) nor in the catalogue (%s)", asked, strings.Join(own, ", "), strings.Join(Names(), ", "))
	}
	return "", fmt.Errorf("network %q is none of %s", asked, strings.Join(Names(), ", "))
}
