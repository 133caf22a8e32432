//go:build linux

package capture

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-npu/sluice/host/bandwidth"
)

// inside, if set, means that this process runs in a separate network namespace; its value is the rate of the link
// there in Mbit/s.
const inside = "SLUICE_TEST_LINK"

// frames are the requests of a client: sizes of the zoo's frames, with pauses in which the token bucket refills.
const (
	frame  = 56_000
	frames = 12
	pause  = 30 * time.Millisecond
)

// On a loopback link in a network namespace, shaped by a token bucket, the estimate is within 10 % of the true rate,
// both from a pcap file and live. Without skipping the first packets it is too high.
func TestShapedLink(t *testing.T) {
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: install the package iproute2", tool)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mbits := range []string{"7.5", "20", "50"} {
		t.Run(mbits, func(t *testing.T) {
			shaped(t, self, mbits)
		})
	}
}

// missed is the text with which TestInside reports a rate outside the bounds. The kernel shapes and time-stamps in
// real time: if the machine stalls, packets come late, in bursts, or not at all. Then the measurement is repeated; a
// wrong estimator fails again.
const (
	missed   = "beyond its bound"
	attempts = 5
)

func shaped(t *testing.T, self, mbits string) {
	for n := 1; ; n++ {
		cmd := exec.Command(self, "-test.run", "^TestInside$", "-test.v", "-test.timeout", "60s")
		cmd.Env = append(os.Environ(), inside+"="+mbits)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if uid := os.Getuid(); uid != 0 { // with a user namespace no root is needed
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err == nil {
			return
		}
		if n == attempts || !strings.Contains(string(out), missed) {
			t.Fatalf("in a network namespace (needs root, or user namespaces): %v, attempt %d", err, n)
		}
	}
}

// TestInside is the part of TestShapedLink that runs in the namespace.
func TestInside(t *testing.T) {
	text := os.Getenv(inside)
	if text == "" {
		return // not a test by itself
	}
	mbits, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "mtu", "1500"},
		{"ip", "link", "set", "lo", "up"},
		{"tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", text + "mbit", "burst", "10kb", "limit", "300kb"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	path := filepath.Join(t.TempDir(), "link.pcap")
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	live, err := Open("lo", Config{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	var seen []Transfer
	var taken atomic.Int64
	background.Go(func() {
		if _, err := live.Live(ctx, func(tr Transfer) { seen = append(seen, tr); taken.Add(1) }); err != nil {
			t.Errorf("live: %v", err)
		}
	})
	file, err := record(ctx, path, &background)
	if err != nil {
		t.Fatal(err)
	}
	background.Go(func() { serve(server) })
	if err := send(server.Addr().String()); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); taken.Load() < frames-1 && time.Since(begin) < 20*time.Second; { // a loaded machine is slow
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // wait until the last packets are captured
	stop()
	server.Close()
	background.Wait()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(how string, got []Transfer) {
		t.Helper()
		var e bandwidth.Estimator
		worst, rated := 0.0, 0
		for _, tr := range got {
			if tr.Rate == 0 {
				continue
			}
			rated++
			e.Add(tr.End.UnixNano(), tr.Rate)
			if off := e.Rate(tr.End.UnixNano())/(mbits*1e6) - 1; math.Abs(off) > math.Abs(worst) {
				worst = off
			}
		}
		t.Logf("%s: %d transfers, %d with a rate; the estimate is at worst %+.1f %% off %g Mbit/s", how, len(got), rated, 100*worst, mbits)
		if math.Abs(worst) > 0.1 || rated < frames-1 {
			t.Errorf("%s: %d transfers with a rate of %d, at worst %+.1f %% off: %s", how, rated, frames, 100*worst, missed)
		}
	}
	check("live", seen)
	check("pcap", read(t, path, Config{Port: port}))
	mean := 0.0
	all := read(t, path, Config{Port: port, Skip: -1})
	for _, tr := range all {
		mean += tr.Rate / 1e6 / float64(len(all))
	}
	t.Logf("without skipping: %+.1f %% in the mean", 100*(mean/mbits-1))
	if mean < 1.03*mbits {
		t.Errorf("without skipping the first packets the mean is %.2f Mbit/s, which is not too high: %s", mean, missed)
	}
}

func read(t *testing.T, path string, cfg Config) (out []Transfer) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Read(path, f, cfg, func(tr Transfer) { out = append(out, tr) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// record writes captured packets to a pcap file until ctx ends.
func record(ctx context.Context, path string, background *sync.WaitGroup) (*os.File, error) {
	s, err := Open("lo", Config{})
	if err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := pcapgo.NewWriterNanos(f)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		return nil, err
	}
	background.Go(func() {
		if err := s.packets(ctx, w.WritePacket); err != nil {
			fmt.Println("record:", err)
		}
	})
	return f, nil
}

// serve answers each request with a byte.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for {
			var n [4]byte
			if _, err := io.ReadFull(c, n[:]); err != nil {
				break
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(n[:]))); err != nil {
				break
			}
			if _, err := c.Write([]byte{1}); err != nil {
				break
			}
		}
		c.Close()
	}
}

// send plays a client: a frame, its answer, a pause.
func send(addr string) error {
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 4+frame)
	binary.BigEndian.PutUint32(b, frame)
	for range frames {
		if _, err := c.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, b[4:5]); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}
