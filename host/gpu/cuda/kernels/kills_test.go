package kernels_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda/built"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

var (
	seed  = flag.Uint64("kills.seed", 1, "of programs and kills")
	count = flag.Int("kills.n", 10_000, "kills under the address and undefined sanitizers; a tenth of them on tiles as a GPU's, a hundredth under the thread sanitizer")
)

// random returns a program in which some layers work in place: they add to their input or replace it. Its slot holds a
// few tensors of the same size, so that a kernel's input may be another's output.
func random(rng *rand.Rand, small bool) (layers []kernels.Layer, slot, blob []byte) {
	h, w, c := int32(3+rng.IntN(6)), int32(3+rng.IntN(6)), int32(4+rng.IntN(24))
	if small {
		h, w, c = 1+h/3, 1+w/3, 1+c/4
	}
	if rng.IntN(3) == 0 { // several elements per load
		c = max(8, c/8*8)
	}
	size := uint32(2 * h * w * c)
	tensors := uint32(3 + rng.IntN(3))
	slot = make([]byte, tensors*size)
	for i := 0; i < len(slot); i += 2 {
		binary.LittleEndian.PutUint16(slot[i:], uint16(rng.IntN(4001)-2000))
	}
	for range 3 + rng.IntN(8) {
		from, to := rng.Uint32N(tensors), rng.Uint32N(tensors)
		l := kernels.Layer{
			Stride: int64(len(slot)), InOffset: from * size, OutOffset: to * size, InRow: uint32(2 * w * c), OutRow: uint32(2 * w * c),
			InH: h, InW: w, InC: c, InPix: c, OutH: h, OutW: w, OutC: c, OutPix: c, KH: 1, KW: 1, SH: 1, SW: 1, Lo: -32768, Hi: 32767,
		}
		switch k := rng.IntN(4); {
		case k == 0: // over its own input: a block reads its own pixels alone, all of their channels
			l.OutOffset = l.InOffset
		case k == 1 && from != to: // a maximum
			l.Op, l.KH, l.KW, l.PadT, l.PadL = kernels.MaxPool, 3, 3, 1, 1
			if rng.IntN(2) == 0 { // a window in which a block looks at its epoch several times
				l.KH, l.KW, l.PadT, l.PadL = 7, 7, 3, 3
			}
		case k == 2 && from != to: // adds to the old content
			l.Residual, l.ResOffset, l.ResRow, l.ResPix, l.ResShift = 1, l.OutOffset, l.OutRow, c, 8
		case from == to:
			continue
		default:
			l.KH, l.KW, l.PadT, l.PadL = 3, 3, 1, 1
		}
		if l.Op == kernels.GEMM {
			for len(blob)%16 != 0 {
				blob = append(blob, 0)
			}
			l.Weights, l.Shift = uint64(len(blob)), 8
			wide := rng.IntN(3) == 0
			if wide {
				l.Shift = 18
			}
			for range l.OutC * l.KH * l.KW * l.InC {
				v := rng.IntN(129) - 64
				if wide {
					v = rng.IntN(65536)
				}
				blob = binary.LittleEndian.AppendUint16(blob, uint16(v))
			}
			for len(blob)%4 != 0 {
				blob = append(blob, 0)
			}
			l.Bias = uint64(len(blob))
			for range l.OutC {
				blob = binary.LittleEndian.AppendUint32(blob, uint32(rng.IntN(2001)-1000))
			}
		}
		l.Grid(1)
		l.Blocks = 1 + rng.Uint32N(3) // tiles of a block: kills.cpp has tiles of its own
		layers = append(layers, l)
	}
	return layers, slot, blob
}

// program is a result of random.
type program struct {
	layers     []kernels.Layer
	slot, blob []byte
}

// programs returns random programs of three layers or more.
func programs(n int, small bool) (all []program) {
	rng := rand.New(rand.NewPCG(*seed, 9))
	for range n {
		var p program
		for len(p.layers) < 3 {
			p.layers, p.slot, p.blob = random(rng, small)
		}
		all = append(all, p)
	}
	return all
}

// write writes programs to a file for kills.cpp. It counts kernels that resume from an earlier kernel.
func write(t *testing.T, name string, all []program) (groups int, looks int64) {
	t.Helper()
	var out bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	put(uint32(len(all)))
	for i := range all {
		layers, slot, blob := all[i].layers, all[i].slot, all[i].blob
		p := &kernel.Program{Memory: int64(len(slot))}
		for i := range layers {
			p.Kernels = append(p.Kernels, layers[i].Kernel(fmt.Sprint(i)))
			looks += int64(layers[i].TilesP*layers[i].TilesC) * layers[i].Looks()
		}
		entries := idem.Entries(p)
		put([]uint32{uint32(len(layers)), uint32(len(slot)), uint32(len(blob))})
		put(layers)
		for i, e := range entries {
			put(int32(e))
			if e != idem.Never && e < i {
				groups++
			}
		}
		out.Write(slot)
		out.Write(blob)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return groups, looks
}

// build compiles kills.cpp. Compiling is half of the time of these tests. So code that runs once is optimised less, and
// clang, which needs a third of g++'s time, builds the one with the address sanitizer.
func build(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	sources := []string{"src/kills.cpp", "src/kernels.hpp", "src/cpu.hpp", "src/entries_cpu.hpp"}
	command := append([]string{compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-pthread"}, flags...)
	bin, err := built.Of(filepath.Join("..", "..", "..", "..", "build", "kills"), "kills", "", sources, append(command, sources[0], "-o")...)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// deepest returns layers with elements that make each part of a sum as large as possible: as deep as allowed, or deep
// enough for the lower parts to overflow. Their shifts keep the bits that an overflow would change.
func deepest() (all []program) {
	for _, x := range []struct {
		in, w int16
		half  int32
		shift int32
	}{{-32768, -32768, kernels.MaxDepth / 2, 33}, {255, 255, 17 << 10, 18}, {-32513, 255, 17 << 10, 25}, {255, -32513, 17 << 10, 25}} {
		half := x.half
		l := kernels.Layer{
			InRow: 4 * uint32(half), OutRow: 2, OutOffset: 4 * uint32(half), InH: 1, InW: 2, InC: half, InPix: half, OutH: 1, OutW: 1, OutC: 1, OutPix: 1,
			KH: 1, KW: 2, SH: 1, SW: 1, Shift: x.shift, Lo: -32768, Hi: 32767, Bias: 4 * uint64(half),
		}
		l.Grid(1)
		l.Blocks = 1
		p := program{layers: []kernels.Layer{l}}
		for range 2 * half {
			p.slot = binary.LittleEndian.AppendUint16(p.slot, uint16(x.in))
			p.blob = binary.LittleEndian.AppendUint16(p.blob, uint16(x.w))
		}
		p.slot, p.blob = append(p.slot, make([]byte, 16)...), append(p.blob, make([]byte, 16)...)
		l.Stride = int64(len(p.slot))
		p.layers[0].Stride = l.Stride
		all = append(all, p)
	}
	return all
}

// TestTensor emulates tensor cores on the CPU, with the values of each thread as in PTX's manual. Results of random and
// deepest layers equal the CPU's own products, without an overflow.
func TestTensor(t *testing.T) {
	dir := t.TempDir()
	all, one := filepath.Join(dir, "all"), filepath.Join(dir, "one")
	deep := deepest()
	write(t, one, deep[1:2])
	write(t, all, append(deep, programs(10, false)...))
	hash := func(name string, flags ...string) string {
		t.Helper()
		out, err := exec.Command(build(t, "g++", flags...), name, "1", "0", "epoch").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out[:16])
	}
	emulated := []string{"-O2", "-DTENSOR", "-fsanitize=signed-integer-overflow", "-fno-sanitize-recover=all"}
	want := hash(all, "-O2")
	if got := hash(all, emulated...); got != want {
		t.Errorf("tensor cores leave %s, expected %s", got, want)
	}
	if *count <= 10_000 { // nightly
		return
	}
	if got := hash(one, "-O1", "-DTENSOR", "-fwrapv", "-DNO_CARRY"); got == hash(one, "-O2") {
		t.Error("sums that do not carry come out right: the deepest layers show nothing")
	}
}

var said = regexp.MustCompile(`^[0-9a-f]{16} (\d+) kills in (\d+) runs of \d+ programs of (\d+) looks, (\d+) that no block saw, (\d+) went back over whole kernels, (\d+) not counted: (\d+) differ\n$`)

// TestKills stops random programs at any place on the CPU build, restores them and compares their memory, also with
// sanitizers: no byte may differ. With a boolean instead of the epoch, or a group that is one kernel short, memories must
// differ. Most runs use small tiles, which allow more kills per second.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	big, small := filepath.Join(dir, "big"), filepath.Join(dir, "small")
	groups, looks := write(t, big, programs(60, false))
	more, _ := write(t, small, programs(200, true))
	t.Logf("seed %d, %d and %d kernels are taken up from one before them", *seed, groups, more)
	if groups < 8 || more < 8 {
		t.Fatalf("%d and %d kernels are taken up from one before them: the programs show nothing", groups, more)
	}
	run := func(t *testing.T, bin, programs, mode string, n int) (kills, seen, back, differ int) {
		t.Helper()
		out, err := exec.Command(bin, programs, strconv.FormatUint(*seed, 10), strconv.Itoa(n), mode).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s: %s", mode, out)
		m := said.FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("it says %q", out)
		}
		var v [7]int
		for i := range m[1:] {
			v[i], _ = strconv.Atoi(m[i+1])
		}
		return v[0], v[2], v[4], v[6]
	}
	none := func(t *testing.T, bin, programs, mode string, n int) (looks int) {
		t.Helper()
		kills, looks, back, differ := run(t, bin, programs, mode, n)
		if kills < n || back == 0 || differ != 0 {
			t.Errorf("%s: %d kills of %d, %d went back, %d differ", mode, kills, n, back, differ)
		}
		return looks
	}
	if seen := none(t, build(t, "g++", "-O2"), big, "epoch", *count/10); int64(seen) != looks {
		t.Errorf("undisturbed, blocks look %d times at their epoch, expected %d", seen, looks)
	}
	t.Run("address,undefined", func(t *testing.T) {
		bin := build(t, "clang++-14", "-O1", "-DSMALL_TILES", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
		none(t, bin, small, "epoch", *count)
		for _, mode := range []string{"boolean", "short"} {
			if _, _, _, differ := run(t, bin, small, mode, *count/30); differ == 0 {
				t.Errorf("%s: nothing differs", mode)
			}
		}
	})
	t.Run("thread", func(t *testing.T) { // the sanitizer goes by order, not by chance, and its threads wait for each other
		none(t, build(t, "g++", "-O1", "-DSMALL_TILES", "-fsanitize=thread"), small, "threads", *count/100)
	})
}
