//go:build unix

package driver

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is the file name of NVIDIA's driver.
const Library = "libcuda.so.1"

// hipLibraries are the file names of AMD's driver, newest first.
var hipLibraries = []string{"libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}

const nvmlLibrary = "libnvidia-ml.so.1"

// open opens a library. It locks the goroutine to a thread, because each thread has its own dlerror.
func open(path string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil && !strings.Contains(err.Error(), path) { // some C libraries do not name the file
		err = fmt.Errorf("%s: %w", path, err)
	}
	return h, err
}

// symbol returns the address of a function. Like the function open, it locks the goroutine to a thread.
func symbol(h uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(h, name)
}

// setenv sets a variable in the C library's environment, which is separate from Go's.
func setenv(name, value string) error {
	if _, ok := os.LookupEnv(name); ok {
		return nil
	}
	at, err := symbol(purego.RTLD_DEFAULT, "setenv")
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
