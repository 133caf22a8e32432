// The names under which policies are asked for.

package sched

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknownPolicy is the error of a name that no policy has.
var ErrUnknownPolicy = errors.New("unknown policy")

// Options are the parameters that policies share.
type Options struct {
	BMax int // largest batch; 0: whatever the device allows
}

// Names lists the policies New knows.
func Names() []string { return []string{"fluid", "serial"} }

// New makes the policy with this name.
func New(name string, o Options) (Policy, error) {
	switch name {
	case "serial":
		return Serial{}, nil
	case "fluid":
		if o.BMax < 0 {
			return nil, fmt.Errorf("policy fluid: B_max is %d, it must not be negative", o.BMax)
		}
		var f Fluid
		f.BMax = o.BMax
		return f, nil
	}
	names := Names()
	slices.Sort(names)
	return nil, fmt.Errorf("%w %q; there are %s", ErrUnknownPolicy, name, strings.Join(names, ", "))
}
