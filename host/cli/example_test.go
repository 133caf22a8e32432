package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
)

// wc is a command; kong fills in its fields.
type wc struct {
	Text string `arg:"" help:"The words."`
}

// Run is called by the program.
func (c *wc) Run(e *cli.Env) error {
	n := len(strings.Fields(c.Text))
	if n == 0 {
		return cli.Errorf(cli.Input, "no words")
	}
	_, err := fmt.Fprintln(e.Stdout, n, "words")
	return err
}

// A program of one command. Errors have the exit codes of all programs here.
func Example() {
	p := cli.Program{Name: "count", About: "Counts words.", Setup: func(*cli.Env) {}, Commands: &struct {
		WC wc `cmd:"" name:"wc" help:"Count words."`
	}{}}
	for _, args := range [][]string{{"wc", "to be or not"}, {"wc", ""}, {"wc", "--all"}} {
		fmt.Println("exit code", p.Main(context.Background(), args, os.Stdout, io.Discard))
	}
	// Output:
	// 4 words
	// exit code 0
	// exit code 3
	// exit code 2
}
