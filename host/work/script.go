package work

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/shard"
)

// Script writes jobs for other systems. The jobs compute the shards of a question in a folder that all nodes share.
type Script struct {
	Question *shard.Question
	Dir      string // the folder's path on the nodes
	Program  string // the program's path on the nodes
	Cores    int
	Memory   int // GiB
	Retries  int
	Image    string // container image for Kubernetes
	Claim    string // name of the volume claim for the folder
}

// mostTasks is the maximum number of tasks by Slurm's default MaxArraySize.
const mostTasks = 1000

// line returns the command line for a shard. The argument i is a shell expression for the shard's number.
func (s *Script) line(i string) string {
	words := []string{files.Quoted(s.Program)}
	for _, w := range s.Question.Command(s.Dir) {
		words = append(words, files.Quoted(w))
	}
	return strings.Join(append(words, "--shard", fmt.Sprintf(`"%s/%d"`, i, s.Question.Shards), "--resume", files.Quoted(s.Dir)), " ")
}

// Slurm returns the script of an array job. Slurm runs a job again if its node was lost, but not if its step was
// killed. The script runs a killed step again.
func (s *Script) Slurm() string {
	n := s.Question.Shards
	tasks := min(n, mostTasks)
	return fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=sluice-%s
#SBATCH --array=1-%d
#SBATCH --cpus-per-task=%d
#SBATCH --mem=%dG
#SBATCH --requeue
# Shards that have a result end at once: submit it again to resume, then merge the folder.
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
`, short(s.Question), tasks, s.Cores, s.Memory, n, tasks, n, tasks, s.Retries, s.line("$shard"))
}

// Kubernetes returns the manifest of an indexed Job.
func (s *Script) Kubernetes() (string, error) {
	type object = map[string]any
	limits := object{"cpu": strconv.Itoa(s.Cores), "memory": fmt.Sprintf("%dGi", s.Memory)}
	text, err := yaml.Marshal(object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{"name": "sluice-" + short(s.Question)},
		"spec": object{
			"completionMode": "Indexed", "completions": s.Question.Shards, "parallelism": min(s.Question.Shards, mostTasks),
			"backoffLimitPerIndex": s.Retries - 1, "maxFailedIndexes": s.Question.Shards,
			"podFailurePolicy": object{"rules": []object{{ // no retry after usage errors, bad input and missing tools, because it would fail too
				"action": "FailIndex", "onExitCodes": object{"operator": "In", "values": []int{2, 3, 5}},
			}}},
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
