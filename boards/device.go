package boards

import (
	"regexp"
	"strings"
)

// Device is a device with its IDCODE.
type Device struct {
	Name   string `json:"name"`   // start of Vivado's part names: xc7z045, xczu7
	Family string `json:"family"` // Series7 or UltraScalePlus
	IDCode uint32 `json:"idcode"` // revision bits 31:28 are zero
}

// RevisionMask removes the silicon revision, because bitstreams do not depend on the revision.
const RevisionMask = 0x0FFFFFFF

// devices lists the IDCODEs of UG585 (Zynq-7000: PSS_IDCODE) and UG1085 (IDCODE values). U-Boot's tables agree. Parts
// for cars (xa) and defence (xq) have the same silicon.
var devices = []Device{
	{"xc7z007s", Series7, 0x03723093},
	{"xc7z010", Series7, 0x03722093},
	{"xc7z012s", Series7, 0x0373C093},
	{"xc7z014s", Series7, 0x03728093},
	{"xc7z015", Series7, 0x0373B093},
	{"xc7z020", Series7, 0x03727093},
	{"xc7z030", Series7, 0x0372C093},
	{"xc7z035", Series7, 0x03732093},
	{"xc7z045", Series7, 0x03731093},
	{"xc7z100", Series7, 0x03736093},
	{"xczu1", UltraScalePlus, 0x04688093},
	{"xczu2", UltraScalePlus, 0x04711093},
	{"xczu3", UltraScalePlus, 0x04710093},
	{"xczu4", UltraScalePlus, 0x04721093},
	{"xczu5", UltraScalePlus, 0x04720093},
	{"xck24", UltraScalePlus, 0x04714093},
	{"xck26", UltraScalePlus, 0x04724093},
	{"xczu6", UltraScalePlus, 0x04739093},
	{"xczu7", UltraScalePlus, 0x04730093},
	{"xczu9", UltraScalePlus, 0x04738093},
	{"xczu11", UltraScalePlus, 0x04740093},
	{"xczu15", UltraScalePlus, 0x04750093},
	{"xczu17", UltraScalePlus, 0x04759093},
	{"xczu19", UltraScalePlus, 0x04758093},
}

// DeviceByIDCode finds a device; the revision is ignored.
func DeviceByIDCode(id uint32) (Device, bool) {
	for _, d := range devices {
		if d.IDCode == id&RevisionMask {
			return d, true
		}
	}
	return Device{}, false
}

// Bare returns a part in lower case and without the prefix xc, xa or xq: 7z020clg400-1 for xa7z020clg400-1.
func Bare(part string) string {
	part = strings.ToLower(part)
	for _, prefix := range []string{"xc", "xa", "xq"} {
		if rest, ok := strings.CutPrefix(part, prefix); ok {
			return rest
		}
	}
	return part
}

// DeviceOf finds the device of a part, spelled as in Vivado or in a .bit header. The device's name must not be followed
// by a digit: xczu7 does not match xczu71.
func DeviceOf(part string) (found Device, ok bool) {
	bare := Bare(part)
	for _, d := range devices {
		rest, has := strings.CutPrefix(bare, Bare(d.Name))
		if has && (rest == "" || rest[0] < '0' || rest[0] > '9') {
			return d, true
		}
	}
	return Device{}, false
}

func deviceNames(family string) string {
	var names []string
	for _, d := range devices {
		if d.Family == family {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, " ")
}

var seriesRE = regexp.MustCompile(`^z-?7`)

// sameDevice compares a data sheet's name (Z7045, Z-7020, ZU7EV, XCK26) with the start of a part.
func sameDevice(device, part string) bool {
	name := seriesRE.ReplaceAllString(Bare(device), "7z")
	rest, ok := strings.CutPrefix(Bare(part), name)
	return ok && name != "" && (rest == "" || rest[0] == '-' || name[0] == '7' && (rest[0] < '0' || rest[0] > '9'))
}
