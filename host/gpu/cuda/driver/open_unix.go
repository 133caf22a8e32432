//go:build unix

package driver

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is the driver's file name.
const Library = "libcuda.so.1"

// hipLibraries are AMD's, the newest first.
var hipLibraries = []string{"libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}

const nvmlLibrary = "libnvidia-ml.so.1"

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(h uintptr, name string) (uintptr, error) { return purego.Dlsym(h, name) }

// setenv sets what the C library's environment does not have: Go's own is another.
func setenv(name, value string) error {
	if _, ok := os.LookupEnv(name); ok {
		return nil
	}
	at, err := purego.Dlsym(purego.RTLD_DEFAULT, "setenv")
	if err != nil {
		return err
	}
	n, v := append([]byte(name), 0), append([]byte(value), 0)
	code, _, _ := purego.SyscallN(at, uintptr(unsafe.Pointer(&n[0])), uintptr(unsafe.Pointer(&v[0])), 0)
	runtime.KeepAlive(n)
	runtime.KeepAlive(v)
	if int32(code) != 0 {
		return fmt.Errorf("setenv answers %d", int32(code))
	}
	return nil
}
