package shard_test

import (
	"fmt"
	"os"

	"github.com/sluice-npu/sluice/host/shard"
)

// The sum of ten squares, computed by two processes and merged. The code is the same for a process, a merge, and a
// command without shards (a nil Run).
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// shards 1-2/3 are done: true
	// shards 3/3 are done: true
	// sum: 285
}

func example() error {
	dir, err := os.MkdirTemp("", "shard")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	q := shard.NewQuestion("squares", "1")
	q.Args, q.Shards = []string{"sum"}, 3
	for _, text := range []string{"1-2/3", "3/3"} {
		part, err := shard.ParseRange(text)
		if err != nil {
			return err
		}
		run, _, err := shard.Begin(dir, q, part)
		if err != nil {
			return err
		}
		_, over, err := sum(run)
		if err != nil {
			return err
		}
		fmt.Printf("shards %s are done: %v\n", text, over)
	}
	merged, err := shard.Merge(dir, q)
	if err != nil {
		return err
	}
	all, _, err := sum(merged)
	fmt.Println("sum:", all)
	return err
}

func sum(run *shard.Run) (all int, over bool, err error) {
	for v, err := range shard.Units(run, "square", 10, func(unit int) (int, error) { return unit * unit, nil }) {
		if err != nil {
			return 0, false, err
		}
		all += v
	}
	over, err = run.Finish()
	return all, over, err
}
