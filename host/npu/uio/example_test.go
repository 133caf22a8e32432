package uio_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/host/npu/uio"
)

// Which UIO device is the NPU, as the kernel describes it in sysfs. Here sysfs is a copy of a board's.
func ExampleFind() {
	sys, err := os.MkdirTemp("", "uio")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(sys)
	device := filepath.Join(sys, "class", "uio", "uio0")
	if err := os.MkdirAll(filepath.Join(device, "maps", "map0"), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	for name, text := range map[string]string{"name": "npu", "maps/map0/addr": "0xa0000000", "maps/map0/size": "0x10000"} {
		if err := os.WriteFile(filepath.Join(device, name), []byte(text+"\n"), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	d, err := uio.Find(uio.Opts{Sys: sys})
	fmt.Printf("%s: %d bytes of registers at %#x, %v\n", d.Path, d.Bytes, d.Addr, err)
	_, err = uio.Find(uio.Opts{Sys: sys, Name: "other"})
	fmt.Println(errors.Is(err, uio.ErrNoDevice))
	// Output:
	// /dev/uio0: 65536 bytes of registers at 0xa0000000, <nil>
	// true
}
