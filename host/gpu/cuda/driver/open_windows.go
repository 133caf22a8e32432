package driver

import (
	"os"
	"syscall"
)

// Library is the file name of NVIDIA's driver.
const Library = "nvcuda.dll"

// hipLibraries are the file names of AMD's driver, newest first.
var hipLibraries = []string{"amdhip64_6.dll", "amdhip64.dll"}

const nvmlLibrary = "nvml.dll"

func open(path string) (uintptr, error) {
	h, err := syscall.LoadLibrary(path)
	return uintptr(h), err
}

func symbol(h uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(h), name)
}

func setenv(name, value string) error {
	if _, ok := os.LookupEnv(name); ok {
		return nil
	}
	return os.Setenv(name, value)
}
