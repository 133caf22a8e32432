package work_test

import (
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/host/work"
)

// The job script for a cluster with Slurm, for the 5,000 shards of a command whose folder all nodes share.
func ExampleScript_Slurm() {
	q := shard.NewQuestion("dse", "1")
	q.Args, q.Shards = []string{"sweep", "--board=zc706", "--network=resnet50"}, 5000
	s := work.Script{Question: &q, Dir: "/shared/sweep", Program: "/shared/bin/dse", Cores: 2, Memory: 3, Retries: 3}
	for line := range strings.Lines(s.Slurm()) {
		if strings.HasPrefix(line, "#SBATCH --array") || strings.Contains(line, "/shared/bin/dse") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	// Output:
	// #SBATCH --array=1-1000
	// /shared/bin/dse sweep --board=zc706 --network=resnet50 --shard "$shard/5000" --resume /shared/sweep && continue 2
}
