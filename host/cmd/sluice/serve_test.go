package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/serve/drive"
	"github.com/sluice-npu/sluice/hw/configs"
)

var addresses = regexp.MustCompile(`^ready: tiny:1 on (\S+); http (\S+), grpc (\S+), status (\S+)\n$`)

// ready starts serving on free ports, and returns their addresses once it answers; stop ends it.
func ready(t *testing.T, c *serveCmd) (at []string, stop func() error) {
	t.Helper()
	c.HTTP, c.GRPC, c.Metrics, c.Policy, c.Queue, c.Grace = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "fluid", 6, 1<<40
	c.MaxBytes, c.MaxMemory, c.MaxSamples, c.MaxConns = 1<<26, 1<<30, 64, 16
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := c.Run(&cli.Env{Ctx: ctx, Stdout: in, Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)})
		in.CloseWithError(fmt.Errorf("it has ended: %w", err))
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if at = addresses.FindStringSubmatch(line); err != nil || at == nil || at[1] != c.Device {
		t.Fatalf("%s says %q, %v: expected %v", c.Device, line, err, addresses)
	}
	return at, func() error { end(); return <-ended }
}

// TestServeDevices: the command serves on soft, on the Verilated RTL and on a simulated GPU. Both interfaces give the
// same exits and classes on every device, and it ends when it is stopped.
func TestServeDevices(t *testing.T) {
	if out, err := exec.Command("../../../sim/build.sh", "tiny").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.sluice")
	if err := bundle.WriteFile(path, b); err != nil {
		t.Fatal(err)
	}
	const n = 6
	seen := map[string][]string{}
	for _, device := range []string{"soft", "cosim", "gpu-sim:mi50"} {
		at, stop := ready(t, &serveCmd{Models: []string{path}, Device: device})
		for _, url := range []string{"http://" + at[2], "grpc://" + at[3]} {
			s, err := drive.Dial(url, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := drive.Run(t.Context(), s, &drive.Load{Model: "tiny", Clients: 2, N: n, Seed: 5})
			if err != nil || sum.OnTime != n {
				t.Fatalf("%s, %s: %+v, %v: expected %d answers", device, url, sum, err, n)
			}
			for _, r := range sum.Results {
				seen[device] = append(seen[device], fmt.Sprintf("%d: exits %v, classes %v", r.ID, r.Exits, r.Classes))
			}
			s.Close()
		}
		if err := stop(); err != nil {
			t.Errorf("%s: %v", device, err)
		}
	}
	for device, answers := range seen {
		if a, b := fmt.Sprint(seen["soft"]), fmt.Sprint(answers); a != b {
			t.Errorf("soft answers\n%s\n%s\n%s", a, device, b)
		}
	}
}

// TestServeBadFiles: one bad file in the repository is listed. It ends the command only if that is requested, or if
// there is no other model.
func TestServeBadFiles(t *testing.T) {
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		t.Fatal(err)
	}
	bad, cut, stats := t.TempDir(), t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(bad, "cut.sluice"), filepath.Join(cut, "cut.sluice"), filepath.Join(stats, "stats.sluice")} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(bundle.WriteFile(filepath.Join(cut, "tiny.sluice"), b), bundle.WriteFile(filepath.Join(stats, "tiny.sluice"), b)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir    string
		strict bool
		serves bool
	}{{cut, false, true}, {cut, true, false}, {stats, false, true}, {stats, true, false}, {bad, false, false}, {bad + "/none", false, false}} {
		cmd := serveCmd{Models: []string{c.dir}, Strict: c.strict, Device: "soft", HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Metrics: "127.0.0.1:0", Policy: "fluid", Queue: 8, Grace: 1 << 40, MaxBytes: 1 << 26, MaxMemory: 1 << 30, MaxSamples: 64, MaxConns: 16}
		ctx, stop := context.WithCancel(t.Context())
		out, in := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- cmd.Run(&cli.Env{Ctx: ctx, Stdout: in, Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)})
			in.Close()
		}()
		line, _ := bufio.NewReader(out).ReadString('\n')
		stop()
		if err := <-ended; (err == nil) != c.serves || addresses.MatchString(line) != c.serves {
			t.Errorf("%s, strict %v: %q, %v: expected that it serves: %v", c.dir, c.strict, line, err, c.serves)
		}
	}
}
