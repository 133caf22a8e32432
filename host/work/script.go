package work

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/shard"
)

// Script writes jobs of other engines that do a question's shards in a folder that all nodes see.
type Script struct {
	Question *shard.Question
	Dir      string // as the nodes see it
	Program  string // path of the program there
	Cores    int
	Memory   int // GiB
	Retries  int
	Image    string // of Kubernetes
	Claim    string // of the volume that has the folder
}

// mostTasks is what Slurm's MaxArraySize allows where nobody has raised it.
const mostTasks = 1000

// line is the command of a shard, whose number is a shell's expression.
func (s *Script) line(i string) string {
	words := []string{files.Quoted(s.Program)}
	for _, a := range s.Question.Args {
		words = append(words, files.Quoted(shard.At(s.Dir, a)))
	}
	return strings.Join(append(words, "--shard", fmt.Sprintf(`"%s/%d"`, i, s.Question.Shards), "--resume", files.Quoted(s.Dir)), " ")
}

// Slurm is an array job. Slurm runs a job again whose node was lost, but not one whose step was killed: the script does.
func (s *Script) Slurm() string {
	n := s.Question.Shards
	tasks := min(n, mostTasks)
	return fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=sluice-%s
#SBATCH --array=1-%d
#SBATCH --cpus-per-task=%d
#SBATCH --mem=%dG
#SBATCH --requeue
# Shards that have a result end at once: submit it again to resume. Then: %s merge %s
status=0
for ((shard = (SLURM_ARRAY_TASK_ID - 1) * %d / %d + 1; shard <= SLURM_ARRAY_TASK_ID * %d / %d; shard++)); do
  for try in $(seq %d); do
    %s && continue 2
    rc=$?
    case $rc in 2 | 3 | 5) break ;; esac # usage, input or a missing tool: no better the next time
  done
  echo "shard $shard: status $rc" >&2
  status=1
done
exit $status
`, short(s.Question), tasks, s.Cores, s.Memory, s.Program, files.Quoted(s.Dir), n, tasks, n, tasks, s.Retries, s.line("$shard"))
}

// Kubernetes is the manifest of an indexed Job.
func (s *Script) Kubernetes() (string, error) {
	type object = map[string]any
	limits := object{"cpu": strconv.Itoa(s.Cores), "memory": fmt.Sprintf("%dGi", s.Memory)}
	text, err := yaml.Marshal(object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{"name": "sluice-" + short(s.Question)},
		"spec": object{
			"completionMode": "Indexed", "completions": s.Question.Shards, "parallelism": min(s.Question.Shards, mostTasks),
			"backoffLimitPerIndex": s.Retries, "maxFailedIndexes": s.Question.Shards,
			"template": object{"spec": object{
				"restartPolicy": "Never",
				"containers": []object{{
					"name": "shard", "image": s.Image,
					"command":      []string{"/bin/sh", "-c", "exec " + s.line("$((JOB_COMPLETION_INDEX + 1))")},
					"resources":    object{"requests": limits, "limits": limits},
					"volumeMounts": []object{{"name": "results", "mountPath": s.Dir}},
				}},
				"volumes": []object{{"name": "results", "persistentVolumeClaim": object{"claimName": s.Claim}}},
			}},
		},
	})
	return string(text), err
}
