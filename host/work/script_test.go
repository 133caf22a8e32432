package work

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/host/shard"
)

func script(t *testing.T, shards int, program string) *Script {
	t.Helper()
	q := shard.NewQuestion("dse", "1")
	q.Args, q.Shards = []string{"sweep", "--board=input:" + strings.Repeat("0", 64) + "/it's mine.yaml"}, shards
	return &Script{Question: &q, Dir: "/shared/a b", Program: program, Cores: 2, Memory: 3, Retries: 3, Image: "image", Claim: "claim"}
}

// The array job's tasks do each shard once, a killed one again, and one that cannot work only once.
func TestSlurm(t *testing.T) {
	dir := t.TempDir()
	program, said := filepath.Join(dir, "dse"), filepath.Join(dir, "said")
	text := `#!/bin/bash
echo "$@" >>` + said + `
case $* in
  *4/2500*) [ -e ` + dir + `/killed ] || { touch ` + dir + `/killed; exit 137; } ;;
  *5/2500*) exit 3 ;;
esac
`
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	job := script(t, 2500, program).Slurm()
	if !strings.Contains(job, "#SBATCH --array=1-1000\n") {
		t.Error(job)
	}
	for task, want := range map[int]bool{1: true, 2: false, 1000: true} {
		cmd := exec.Command("bash", "-c", job)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", task))
		if out, err := cmd.CombinedOutput(); (err == nil) != want || !want && string(out) != "shard 5: status 3\n" {
			t.Errorf("task %d: %v: %s", task, err, out)
		}
	}
	s, ran := script(t, 1, "true"), filepath.Join(dir, "ran")
	s.Dir = "/a\ntouch " + ran + "\n"
	cmd := exec.Command("bash", "-c", s.Slurm())
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_TASK_ID=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a folder's name is run")
	}
	out, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range map[string]int{"1": 1, "2": 1, "3": 1, "4": 2, "5": 1, "6": 0, "2497": 0, "2498": 1, "2499": 1, "2500": 1} {
		line := "sweep --board=/shared/a b/input/" + strings.Repeat("0", 64) + "/it's mine.yaml --shard " + i + "/2500 --resume /shared/a b\n"
		if got := strings.Count(string(out), line); got != n {
			t.Errorf("shard %s was run %d times, expected %d\n%s", i, got, n, out)
		}
	}
}

// The manifest has the fields that the published schema of batch/v1 Job requires, of their types, and no others.
func TestKubernetes(t *testing.T) {
	text, err := script(t, 64, "dse").Kubernetes()
	if err != nil {
		t.Fatal(err)
	}
	var job map[string]any
	if err := yaml.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	object := func(v any, required string, fields string) map[string]any {
		t.Helper()
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%v: expected an object", v)
		}
		for _, f := range strings.Fields(required) {
			if m[f] == nil {
				t.Errorf("%s is missing in %v", f, m)
			}
		}
		known := map[string]string{}
		for _, f := range strings.Fields(fields) {
			name, kind, _ := strings.Cut(f, ":")
			known[name] = kind
		}
		for name, v := range m {
			kind, ok := known[name]
			if got := fmt.Sprintf("%T", v); !ok || kind != "" && got != kind {
				t.Errorf("%s: %s, expected %q (known: %v)", name, got, kind, ok)
			}
		}
		return m
	}
	one := func(v any) any {
		t.Helper()
		l, ok := v.([]any)
		if !ok || len(l) != 1 {
			t.Fatalf("%v: expected a list of one", v)
		}
		return l[0]
	}
	j := object(job, "apiVersion kind metadata spec", "apiVersion:string kind:string metadata spec")
	object(j["metadata"], "name", "name:string")
	spec := object(j["spec"], "template", "completionMode:string completions:int parallelism:int backoffLimitPerIndex:int maxFailedIndexes:int podFailurePolicy template")
	if spec["completionMode"] != "Indexed" || spec["completions"] != 64 || spec["backoffLimitPerIndex"] != 2 || spec["maxFailedIndexes"].(int) > 64 {
		t.Errorf("%v", spec)
	}
	rule := object(one(object(spec["podFailurePolicy"], "rules", "rules")["rules"]), "action", "action:string onExitCodes")
	if on := object(rule["onExitCodes"], "operator values", "operator:string values"); rule["action"] != "FailIndex" || on["operator"] != "In" {
		t.Errorf("%v", rule)
	}
	pod := object(object(spec["template"], "", "spec")["spec"], "containers", "restartPolicy:string containers volumes")
	if pod["restartPolicy"] != "Never" { // backoffLimitPerIndex asks for that
		t.Errorf("%v", pod)
	}
	c := object(one(pod["containers"]), "name", "name:string image:string command resources volumeMounts")
	object(object(c["resources"], "", "requests limits")["limits"], "", "cpu:string memory:string")
	object(one(c["volumeMounts"]), "name mountPath", "name:string mountPath:string")
	object(object(one(pod["volumes"]), "name", "name:string persistentVolumeClaim")["persistentVolumeClaim"], "claimName", "claimName:string")
	line := c["command"].([]any)[2].(string)
	for index, want := range map[string]string{"0": "1/64", "63": "64/64"} {
		cmd := exec.Command("/bin/sh", "-c", strings.Replace(line, "exec dse", "echo", 1))
		cmd.Env = append(os.Environ(), "JOB_COMPLETION_INDEX="+index)
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "/it's mine.yaml --shard "+want+" --resume /shared/a b") {
			t.Errorf("index %s: %v: %s", index, err, out)
		}
	}
}
