//go:build linux

package work

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var slurm = flag.String("slurm", "", "folder of the commands whose shards Slurm on this machine computes (make slurm)")

// cluster is Slurm on one machine: munge, the controller, and a node that may be lost.
type cluster struct {
	t    *testing.T
	dir  string
	node *exec.Cmd
}

func (c *cluster) start(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		c.t.Fatalf("%v: install the packages slurm-wlm and munge", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(c.dir, "slurm.conf"))
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if name == "slurmd" { // processes on the node end with it; a shell collects the processes that it leaves
		cmd.Path, cmd.Args = "/bin/bash", append([]string{"bash", "-c", `"$0" "$@" & wait $!`, path}, args...)
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		}
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && c.t.Failed() {
			c.t.Logf("%s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	return cmd
}

// client runs a command of Slurm.
func (c *cluster) client(args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(c.dir, "slurm.conf"))
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, said.String())
	}
	return string(out), err
}

func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.client(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// newCluster starts Slurm with its files in a folder, on loopback addresses.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ = strings.Cut(name, ".")
	at := func(name string) string { return filepath.Join(c.dir, name) }
	port := func() string { addr := free(t); return addr[strings.LastIndexByte(addr, ':')+1:] }
	conf := strings.NewReplacer("DIR", c.dir, "USER", me.Username, "HOST", name, "CONTROL", port(), "NODE", port()).Replace(`ClusterName=sluice
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=CONTROL
SlurmUser=USER
SlurmdUser=USER
AuthInfo=socket=DIR/munge.socket,cred_expire=10
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
UnkillableStepTimeout=300
KillWait=2
NodeName=HOST NodeAddr=127.0.0.1 Port=NODE CPUs=4 RealMemory=65536
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
`)
	for path, text := range map[string]string{"slurm.conf": conf, "munge.key": strings.Repeat("sluice", 20)} {
		if err := os.WriteFile(at(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"state", "spool", "log"} {
		if err := os.Mkdir(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.start("munged", "--foreground", "--force", "--key-file", at("munge.key"), "--socket", at("munge.socket"), "--pid-file", at("munge.pid"), "--log-file", at("munge.log"), "--seed-file", at("munge.seed"))
	await(t, "munge", func() bool { _, err := os.Stat(at("munge.socket")); return err == nil })
	c.start("slurmctld", "-D", "-f", at("slurm.conf"))
	c.node = c.start("slurmd", "-D", "-f", at("slurm.conf"))
	await(t, "a node", func() bool {
		out, err := c.client("sinfo", "-h", "-o", "%t")
		return err == nil && strings.TrimSpace(out) == "idle"
	})
	return c
}

// running are the shards of a folder that are being computed, and their processes.
func running(t *testing.T, dir string) map[int]int {
	t.Helper()
	out := map[int]int{}
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path) // it may have ended
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		n := len(args)
		if n < 4 || args[n-1] != dir || args[n-2] != "--resume" || args[n-4] != "--shard" {
			continue
		}
		i, _, _ := strings.Cut(args[n-3], "/")
		shard, err1 := strconv.Atoi(i)
		pid, err2 := strconv.Atoi(strings.Split(path, "/")[2])
		if err1 == nil && err2 == nil {
			out[shard] = pid
		}
	}
	return out
}

// Both commands' shards in two array jobs: a process is killed, and the script does its shard again; a task is killed,
// and the node is lost. A result is truncated. The jobs are submitted again, and the folders merge to the document of
// one process.
func TestSlurmItself(t *testing.T) {
	if *slurm == "" {
		t.Skip("nightly runs it: make slurm")
	}
	bin, err := filepath.Abs(*slurm)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	all := []asks{
		sweep("--network=fashion", "--workers=1"),
		verify("--config=tiny", "--seed=3"),
	}
	var dirs, scripts []string
	for _, a := range all {
		dir := filepath.Join(t.TempDir(), "shards")
		script := filepath.Join(t.TempDir(), "script")
		text := say(t, command(bin, append([]string{"sluice", "work", "script", "--slurm", "--shards=64", "--resume", dir, "--"}, a.args...)...))
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		dirs, scripts = append(dirs, dir), append(scripts, script)
	}
	submit := func(k int) string {
		return strings.TrimSpace(c.must("sbatch", "--parsable", "--output", filepath.Join(c.dir, "log", "%A_%a"), scripts[k]))
	}
	ended := func() {
		await(t, "all jobs to end", func() bool { out, err := c.client("squeue", "-h"); return err == nil && out == "" })
	}
	jobs := []string{submit(0), submit(1)}
	killed := make([]int, len(all)) // a shard of each, by its task
	for k, dir := range dirs {
		var again int
		await(t, "a process to be killed", func() bool {
			for shard, pid := range running(t, dir) {
				again = shard
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
			return false
		})
		await(t, "a task to be killed", func() bool {
			for shard := range running(t, dir) {
				if shard == again {
					continue
				}
				killed[k] = shard
				_, err := c.client("scancel", "--signal=KILL", "--full", fmt.Sprintf("%s_%d", jobs[k], shard))
				return err == nil
			}
			return false
		})
		await(t, "the shard whose process was killed", func() bool { return !left(t, dir)[again] })
		log := filepath.Join(c.dir, "log", fmt.Sprintf("%s_%d", jobs[k], again))
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "Killed") {
			t.Errorf("%s: shard %d: %v: %s: expected that it was killed, and done again", all[k].name, again, err, text)
		}
	}
	var lost []int
	await(t, "the node to be lost", func() bool {
		for _, dir := range dirs {
			for shard := range running(t, dir) {
				lost = append(lost, shard)
			}
		}
		return len(lost) > 0 && c.node.Process.Kill() == nil
	})
	_ = c.node.Wait() // it was killed
	for _, dir := range dirs {
		if r := running(t, dir); len(r) != 0 {
			t.Errorf("the node is lost, and runs shards %v", r)
		}
	}
	c.node = c.start("slurmd", "-D", "-f", filepath.Join(c.dir, "slurm.conf"))
	ended()
	for k, dir := range dirs {
		t.Logf("%s: task %d was killed, the node had %v, left are %v", all[k].name, killed[k], lost, left(t, dir))
		if is := left(t, dir); len(is) > 1 || len(is) == 1 && !is[killed[k]] {
			t.Errorf("%s: shards %v are left, expected at most %d, whose task was killed: what a lost node had is requeued", all[k].name, is, killed[k])
		}
		truncate(t, dir)
		submit(k)
	}
	ended()
	for k, dir := range dirs {
		if is := left(t, dir); len(is) != 0 {
			t.Errorf("%s: shards %v are left", all[k].name, is)
		}
		all[k].same(t, bin, dir)
	}
	if t.Failed() {
		logs, err := filepath.Glob(filepath.Join(c.dir, "log", "*"))
		slices.Sort(logs)
		for _, log := range logs {
			if text, _ := os.ReadFile(log); len(text) > 0 {
				t.Logf("%s: %s (%v)", log, text, err)
			}
		}
	}
}
