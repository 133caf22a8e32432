package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// tiedCommands is a program whose command starts a process that does not end.
type tiedCommands struct {
	Wait waitCmd `cmd:""`
}

type waitCmd struct{}

func (*waitCmd) Run(e *Env) error {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo started; wait")
	cmd.Stdout = os.Stdout
	return cmd.Run()
}

// TestMain is also the processes that TestTied kills: one that starts the program, and the program.
func TestMain(m *testing.M) {
	switch os.Getenv("TIED_ROLE") {
	case "outer":
		_ = Tied(tiedCommand(context.Background(), "program", os.Stdout)) // it is killed
	case "program":
		os.Exit(Program{Name: "prog", Commands: &tiedCommands{}, Setup: func(*Env) {}}.Main(context.Background(), []string{"wait"}, os.Stdout, os.Stderr))
	default:
		os.Exit(m.Run())
	}
}

func tiedCommand(ctx context.Context, role string, stdout *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "TIED_ROLE="+role)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	return cmd
}

// The processes that a command has started end when the command's context ends, and when the process that runs the
// command is killed: then nothing writes to its output any more.
func TestTied(t *testing.T) {
	for name, run := range map[string]func(*exec.Cmd) error{"program": Tied, "outer": (*exec.Cmd).Run} {
		t.Run(name, func(t *testing.T) {
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd := tiedCommand(ctx, name, in)
			ran := make(chan error, 1)
			go func() { ran <- run(cmd) }()
			if _, err := io.ReadFull(out, make([]byte, len("started\n"))); err != nil {
				t.Fatal(err)
			}
			kill()
			<-ran // it was killed
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(out); err != nil {
				t.Errorf("a process of the command goes on: %v", err)
			}
		})
	}
}
