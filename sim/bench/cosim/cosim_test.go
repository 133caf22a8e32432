// Package cosim_test tests the command npu_cosim with a stand-in for the NPU that copies memory (standin.sv): every
// width and number of ports, vectors with correct and wrong expectations, windows into the DRAM file, traces, sockets,
// and the free-running mode.
package cosim_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

const root = "../../.."

// build builds the stand-in for a configuration and returns the binary's path.
func build(t *testing.T, config string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("verilator"); err != nil {
		t.Fatalf("%v: install the package verilator", err)
	}
	cmd := exec.Command("sim/kept.sh", append([]string{config}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "SLUICE_CHECK=1",
		"SLUICE_RTL=hw/rtl/abi_pkg.sv hw/rtl/spill.sv hw/rtl/fairest.sv hw/rtl/axi_read.sv hw/rtl/axi_write.sv sim/bench/cosim/standin.sv")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sim/kept.sh %s: %v\n%s", config, err, errs.String())
	}
	path, err := filepath.Abs(filepath.Join(root, strings.TrimSpace(string(out))))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command and returns exit code and output.
func run(t *testing.T, name string, args ...string) (int, string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

const window = 1 << 18

// copies returns vectors in which every port copies beats from one half of memory to the other.
func copies(rng *rand.Rand, d configs.Design, base uint64, beats int, spoil bool) []vectors.Record {
	const stride = window / 8
	n := beats * d.AXIBytes
	src, dst := base+uint64(rng.IntN(64)*16), base+window/2+uint64(rng.IntN(64)*16)
	reg := func(off, v uint32) vectors.Record { return vectors.RegWrite{Off: off, Val: v} }
	rec := []vectors.Record{
		vectors.Meta{JSON: []byte(`{"what":"copy"}`)},
		vectors.RegExpect{Off: abi.RegID, Mask: 0xFFFFFFFF, Val: abi.ID},
		vectors.RegExpect{Off: abi.RegDesignHash0, Mask: 0xFFFFFFFF, Val: uint32(d.Hash())},
		vectors.RegRefused{Off: abi.RegID, Val: 1},
		reg(abi.RegDescBaseLo, uint32(src)), reg(abi.RegSlotBaseLo, uint32(dst)),
		reg(abi.RegSlotStride, stride), reg(abi.RegBatch, uint32(beats)),
	}
	var expect []vectors.Record
	for p := range d.NAXI {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		rec = append(rec, vectors.MemWrite{Addr: src + uint64(p)*stride, Data: data})
		want := bytes.Clone(data)
		if spoil && p == d.NAXI-1 {
			want[n-1] ^= 0x80
		}
		expect = append(expect, vectors.MemExpect{Addr: dst + uint64(p)*stride, Data: want})
	}
	rec = append(rec, vectors.Run{MaxCycles: 10}, reg(abi.RegCtrl, 1), vectors.Run{MaxCycles: 100000, ExpectIRQ: true},
		vectors.RegExpect{Off: abi.RegError, Mask: 0xFFFFFFFF}, reg(abi.RegIRQStatus, 1), vectors.Run{MaxCycles: 5})
	return append(rec, expect...)
}

func dramFile(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dram")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, records []vectors.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.slvec")
	if err := vectors.WriteFile(path, records); err != nil {
		t.Fatal(err)
	}
	return path
}

// Four ports of 8 bytes, two of 16, one of 8: all widths of a port.
func TestPorts(t *testing.T) {
	for _, config := range []string{"zc706", "zcu104", "tiny"} {
		t.Run(config, func(t *testing.T) {
			d, err := configs.Load(config)
			if err != nil {
				t.Fatal(err)
			}
			bin := build(t, config)
			rng := rand.New(rand.NewPCG(1, uint64(d.NAXI)))
			dram := dramFile(t, window+8192)
			for _, beats := range []int{1, 2, 7, 100, 256} {
				args := []string{"--dram", dram, "--offset", "8192", "--base", "0x10000000", "--size", fmt.Sprint(window)}
				v := write(t, copies(rng, d, 0x10000000, beats, false))
				code, out := run(t, bin, append(args, "--play", v)...)
				if code != 0 || !strings.Contains(out, ": ok") {
					t.Fatalf("%d beats: status %d: %s", beats, code, out)
				}
				// A repeated run takes the same cycles; less bandwidth or a longer latency takes more.
				_, again := run(t, bin, append(args, "--play", v)...)
				if out != again {
					t.Errorf("%d beats: %q, then %q", beats, out, again)
				}
				_, slow := run(t, bin, append(args, "--play", v, "--latency", "300")...)
				if slow == out {
					t.Errorf("%d beats: latency does not matter: %q", beats, slow)
				}
			}
			// Bytes before the window are unchanged.
			raw, err := os.ReadFile(dram)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(raw[:8192], make([]byte, 8192)) || len(raw) != window+8192 {
				t.Errorf("the file of %d bytes has changed outside of the window", len(raw))
			}
			// Wrong expectations in a file are reported, with their place.
			v := write(t, copies(rng, d, 0x10000000, 9, true))
			code, out := run(t, bin, "--dram", dram, "--base", "0x10000000", "--size", fmt.Sprint(window), "--play", v)
			if code != 1 || !strings.Contains(out, "memory at 0x") {
				t.Errorf("spoilt: status %d: %s", code, out)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	bin := build(t, "tiny")
	dram := dramFile(t, 8192)
	good := write(t, []vectors.Record{vectors.Run{MaxCycles: 1}})
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, raw[:len(raw)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	outside := write(t, []vectors.Record{vectors.MemWrite{Addr: 1 << 63, Data: []byte("abc")}})
	meta := func(json string) string {
		return write(t, []vectors.Record{vectors.MemWrite{Addr: 4096, Data: []byte("a")}, vectors.Meta{JSON: []byte(json)}})
	}
	elsewhere := meta(`{"of":{"base":7},"a\"":"base", "base" : 4096}`)
	baseless := meta(`{"base":"0x1000"}`)
	design := write(t, []vectors.Record{vectors.RegExpect{Off: abi.RegDesignHash1, Mask: 1<<32 - 1, Val: 1}})
	registers := write(t, []vectors.Record{vectors.RegExpect{Off: abi.RegABIHash0, Mask: 1<<32 - 1, Val: 1}})
	register := write(t, []vectors.Record{vectors.RegExpect{Off: 3}})
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{0, "npu_cosim --dram", []string{"--help"}},
		{2, "--dram is missing", nil},
		{2, "exactly one", []string{"--dram", dram}},
		{2, "exactly one", []string{"--dram", dram, "--fd", "3", "--play", good}},
		{2, "is no number", []string{"--dram", dram, "--play", good, "--base", "x"}},
		{2, "40 bits", []string{"--dram", dram, "--play", good, "--base", "0x10000000000"}},
		{2, "unknown", []string{"--what"}},
		{2, "--bandwidth: expected 1/65536 to 4096", []string{"--dram", dram, "--play", good, "--bandwidth", "0"}},
		{2, "--bandwidth: expected 1/65536 to 4096", []string{"--dram", dram, "--play", good, "--bandwidth", "1e-9"}},
		{2, "--bandwidth: expected 1/65536 to 4096", []string{"--dram", dram, "--play", good, "--bandwidth", "nan"}},
		{2, "out of range", []string{"--dram", dram, "--play", good, "--latency", "99999999"}},
		{3, "No such file", []string{"--dram", dram + "x", "--play", good}},
		{3, "multiple of 4096", []string{"--dram", dram, "--play", good, "--offset", "1"}},
		{3, "shorter than --offset", []string{"--dram", dram, "--play", good, "--offset", "8192"}},
		{3, "too short", []string{"--dram", dram, "--play", good, "--size", "8193"}},
		{3, "cut short", []string{"--dram", dram, "--play", cut}},
		{3, "cannot be opened", []string{"--dram", dram, "--play", cut + "x"}},
		{3, "no regular file", []string{"--dram", dram, "--play", "."}},
		{3, "begin at 0x1000 (META's base), not at 0x0", []string{"--dram", dram, "--play", elsewhere}},
		{0, ": ok", []string{"--dram", dram, "--play", elsewhere, "--base", "4096"}},
		{3, "base is no whole number", []string{"--dram", dram, "--play", baseless}},
		{1, ": the file is of another design", []string{"--dram", dram, "--play", design}},
		{1, ": the file is of other registers", []string{"--dram", dram, "--play", registers}},
		{3, "no register's", []string{"--dram", dram, "--play", register}},
		{1, "outside of memory", []string{"--dram", dram, "--play", outside}},
		{4, "does not trace", []string{"--dram", dram, "--play", good, "--trace", cut}},
		{4, "", []string{"--dram", dram, "--socket", "/does/not/exist"}},
		{0, ": ok", []string{"--dram", dram, "--play", good, "--bandwidth", "15.3", "--latency", "0x64"}},
	} {
		code, out := run(t, bin, c.args...)
		if code != c.code || !strings.Contains(out, c.text) {
			t.Errorf("%q: status %d, expected %d with %q: %s", c.args, code, c.code, c.text, out)
		}
	}
}

// The C++ reader rejects the same files as the Go reader.
func TestSameRefusals(t *testing.T) {
	bin := build(t, "tiny")
	dram := dramFile(t, 8192)
	rng := rand.New(rand.NewPCG(4, 4))
	good, err := os.ReadFile(write(t, []vectors.Record{
		vectors.Meta{JSON: []byte("{}")}, vectors.Run{MaxCycles: 1}, vectors.MemWrite{Addr: 0, Data: []byte("abcd")},
	}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "v")
	for i := range 150 {
		b := bytes.Clone(good)
		switch i % 3 {
		case 0:
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		case 1:
			b = b[:rng.IntN(len(b))]
		case 2:
			b = append(b, byte(i))
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, goErr := vectors.Read(bytes.NewReader(b))
		code, out := run(t, bin, "--dram", dram, "--play", path)
		if goErr == nil || code != 3 {
			t.Fatalf("file %d: Go says %v, C++ %d: %s", i, goErr, code, out)
		}
	}
}

func TestTrace(t *testing.T) {
	bin := build(t, "tiny", "--trace")
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	fst := filepath.Join(t.TempDir(), "a.fst")
	v := write(t, copies(rand.New(rand.NewPCG(1, 1)), d, 0, 20, false))
	if code, out := run(t, bin, "--dram", dramFile(t, window), "--play", v, "--trace", fst); code != 0 {
		t.Fatalf("status %d: %s", code, out)
	}
	if st, err := os.Stat(fst); err != nil || st.Size() < 1000 {
		t.Errorf("the trace: %v", err)
	}
}

// On its own socket, free-running: the clock advances by itself, and the interrupt is reported.
func TestFreeRun(t *testing.T) {
	bin := build(t, "tiny")
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(bin, "--dram", dramFile(t, window), "--socket", socket, "--free-run")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var conn net.Conn
	var err error
	for range 6000 {
		if conn, err = net.Dial("unixpacket", socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	receive := func() (op, irq uint32, cycles uint64) {
		t.Helper()
		var b [64]byte
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(b[:]); err != nil || n != len(b) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if status := binary.LittleEndian.Uint32(b[8:]); status != 0 {
			t.Fatalf("status %d: %s", status, b[24:])
		}
		return binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:])
	}
	send := func(words ...uint32) {
		t.Helper()
		b := make([]byte, 64)
		for i, v := range words {
			binary.LittleEndian.PutUint32(b[4*i:], v)
		}
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	call := func(words ...uint32) (irq uint32, cycles uint64) {
		t.Helper()
		send(words...)
		op, irq, cycles := receive()
		if op != words[0] {
			t.Fatalf("answer to %d is %d", words[0], op)
		}
		return irq, cycles
	}
	call(1, 0, 0x43504E53, 1)
	_, c0 := call(9, 0, 0)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, c1 := call(9, 0, 0); c1 > c0 {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("the clock stands at %d", c1)
		}
	}
	for off, v := range map[uint32]uint32{abi.RegDescBaseLo: 0, abi.RegSlotBaseLo: window / 2, abi.RegSlotStride: 0, abi.RegBatch: 5} {
		call(3, 0, off, v)
	}
	_, began := call(3, 0, abi.RegCtrl, 1)
	if op, irq, at := receive(); op != 12 || irq != 1 || at <= began {
		t.Errorf("event %d, interrupt %d at %d", op, irq, at)
	}
	if irq, _ := call(3, 0, abi.RegIRQStatus, 1); irq != 0 {
		t.Error("the interrupt stays")
	}
	// In this mode too, a run ends with the interrupt.
	call(3, 0, abi.RegCtrl, 1)
	for irq := uint32(0); irq == 0; {
		send(4, 0, 100000, 0, 0)
		for op := uint32(0); op != 4; {
			op, irq, _ = receive()
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process: %v", err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}
