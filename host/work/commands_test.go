package work

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/host/shard"
)

const root = "../.."

// built is a folder with the commands.
func built(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin+"/", "./host/cmd/sluice", "./dse/cmd/dse")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// asks is a command of 64 shards. process matches the parts of its document that depend on how it was searched, not on
// what was found (README of host/shard).
type asks struct {
	name    string
	args    []string
	out     string // name of the document in the folder of --out
	process *regexp.Regexp
}

func sweep(args ...string) asks {
	return asks{"sweep", append([]string{"dse", "sweep", "--board=zc706"}, args...), "", regexp.MustCompile(`(?m)^ *"(searched|evaluated|cpu_s|evaluations_per_s)": .*\n`)}
}

func verify(args ...string) asks {
	return asks{"verify", append([]string{"sluice", "verify", "--images=0", "--oracle=0", "--orders=0", "--n=1024"}, args...), "summary.json", nil}
}

// command is a process of the commands in the root of the repository, where simulators are.
func command(bin string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
	cmd.Dir = root
	return cmd
}

func say(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v: %s%s", cmd.Args, err, out.String(), said.String())
	}
	return out.String()
}

// same checks that a folder merges to the document of one process, byte for byte.
func (a *asks) same(t *testing.T, bin, dir string) {
	t.Helper()
	var texts [2][]byte
	for i, args := range [][]string{a.args, {a.args[0], "merge", dir}} {
		out := filepath.Join(t.TempDir(), "out")
		say(t, command(bin, append(args, "--out", out)...))
		text, err := os.ReadFile(filepath.Join(out, a.out))
		if err != nil {
			t.Fatal(err)
		}
		if a.process != nil {
			if n := len(a.process.FindAll(text, -1)); n != 4 {
				t.Errorf("%v: %d lines about the process, expected 4", args, n)
			}
			text = a.process.ReplaceAll(text, nil)
		}
		texts[i] = text
	}
	if len(texts[0]) < 1000 || !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("%s: merged:\n%s\nof one process:\n%s", a.name, texts[1], texts[0])
	}
}

// await waits for something.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 minutes", what)
		}
	}
}

// left returns the shards that lack a result.
func left(t *testing.T, dir string) map[int]bool {
	t.Helper()
	var q *shard.Question
	await(t, "the question", func() (ok bool) {
		var err error
		q, err = shard.Asked(dir)
		return err == nil
	})
	missing, _, err := shard.Lacks(dir, q)
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

// truncate cuts one result of a folder in half, and returns its shard.
func truncate(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "0*-of-00064.*"))
	if err != nil || names == nil {
		t.Fatalf("no results in %s: %v", dir, err)
	}
	info, err := os.Stat(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(names[0], info.Size()/2); err != nil {
		t.Fatal(err)
	}
	i, err := strconv.Atoi(filepath.Base(names[0])[:5])
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// The shards of both commands on two workers. A worker is killed, then the hub. While the hub is away, a result in its
// folder is truncated. When it is back, a message is lost, and a result arrives truncated.
func TestCommands(t *testing.T) {
	bin := built(t)
	for _, a := range []asks{
		sweep("--network=tiny", "--tp=4..7", "--tc=16..40", "--tr=64..128", "--max-dsp=500"),
		verify("--device=soft", "--config=tiny,v5", "--network=tiny", "--seed=3"),
	} {
		t.Run(a.name, func(t *testing.T) {
			dir, addr := filepath.Join(t.TempDir(), "shards"), free(t)
			run := func(args ...string) *exec.Cmd {
				cmd := command(bin, append([]string{"sluice", "work"}, args...)...)
				said := &bytes.Buffer{}
				cmd.Stderr = said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					if t.Failed() {
						t.Logf("%v: %s", args, said)
					}
				})
				return cmd
			}
			kill := func(cmd *exec.Cmd) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // it was killed
			}
			join := func() *exec.Cmd { return run("join", "nats://"+addr, "--dir", t.TempDir()) }
			ask := append([]string{"hub", "--listen", addr, "--ack=2s", "--shards=64", "--resume", dir, "--"}, a.args...)
			hub, one, other := run(ask...), join(), join()
			await(t, "four results", func() bool { return len(left(t, dir)) <= 60 })
			kill(one)
			await(t, "eight results", func() bool { return len(left(t, dir)) <= 56 })
			kill(hub)
			kill(other) // so that shards are left
			if is := left(t, dir); !is[62] || !is[63] || !is[64] {
				t.Fatalf("shards %v are left: the hub was killed too late", is)
			}
			cut := truncate(t, dir)
			if !left(t, dir)[cut] {
				t.Fatalf("shard %d is truncated, and has a result", cut)
			}
			hub = run(ask...)
			nc, err := Connect("nats://"+addr, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			q, err := shard.Asked(dir)
			if err != nil {
				t.Fatal(err)
			}
			var in *queue
			await(t, "the queue", func() bool {
				if in, err = find(t.Context(), nc); err == nil {
					in, err = in.stores(t.Context(), short(q))
				}
				return err == nil
			})
			lose := func(i string) bool {
				m, err := in.stream.GetLastMsgForSubject(t.Context(), subject+short(q)+"."+i)
				return err == nil && in.stream.DeleteMsg(t.Context(), m.Sequence) == nil
			}
			await(t, "a message to be lost", func() bool { return lose("63") })
			half := jetstream.ObjectMeta{Name: "64", Metadata: map[string]string{nameKey: "00064-of-00064." + strings.Repeat("0", 64)}}
			if _, err := in.results.Put(t.Context(), half, strings.NewReader("{")); err != nil {
				t.Fatal(err)
			}
			join()
			join()
			if err := hub.Wait(); err != nil {
				t.Fatalf("hub: %v", err)
			}
			if n := len(left(t, dir)); n != 0 {
				t.Fatalf("%d shards are left", n)
			}
			a.same(t, bin, dir)
		})
	}
}
