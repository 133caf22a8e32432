//go:build unix

package driver

import "github.com/ebitengine/purego"

// Library is the driver's file name.
const Library = "libcuda.so.1"

// hipLibraries are AMD's, the newest first.
var hipLibraries = []string{"libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(h uintptr, name string) (uintptr, error) { return purego.Dlsym(h, name) }
