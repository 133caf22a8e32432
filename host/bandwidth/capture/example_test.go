package capture_test

import (
	"fmt"
	"os"

	"github.com/sluice-npu/sluice/host/bandwidth/capture"
)

// The rate of each request to port 80, from captured packets.
func ExampleRead() {
	file, err := os.Open("testdata/hand.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	seen, err := capture.Read(file.Name(), file, capture.Config{Port: 80}, func(t capture.Transfer) {
		fmt.Printf("%v: %d packets, %.1f Mbit/s\n", t.Client, t.Packets, t.Rate/1e6)
	})
	fmt.Println(seen.Packets, "packets", err)
	// Output:
	// 10.0.0.1:5000: 60 packets, 10.0 Mbit/s
	// 10.0.0.1:6000: 30 packets, 20.0 Mbit/s
	// 10.0.0.1:6000: 12 packets, 20.0 Mbit/s
	// 10.0.0.1:5000: 40 packets, 5.0 Mbit/s
	// 150 packets <nil>
}
