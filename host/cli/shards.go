// This file divides commands into shards (host/shard) and merges the shards' results.

package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw"
)

// Shards contains the flags of a command that can be divided into shards. A flag with the tag shard:"here" applies to
// one process, and is not part of the question. A command with the tag arch:"any" returns only counts or measurements,
// so its shards may run on different architectures.
type Shards struct {
	Shard  string `shard:"here" placeholder:"I/N" help:"Only shard I of N, or shards I-J/N, of the work; its results are kept in the folder of --resume, and merge puts them together (host/shard/README.md)."`
	Resume string `shard:"here" placeholder:"DIR" help:"With --shard: folder of the results. What is there is not done again."`
}

// Begin begins the shards that the flag --shard selects. Without this flag, r is nil, except when results are merged.
// "over" reports whether all results already exist.
func (s *Shards) Begin(e *Env) (r *shard.Run, over bool, err error) {
	if s.Shard == "" && s.Resume != "" {
		return nil, false, Errorf(Usage, "--resume %s: expected --shard with it", s.Resume)
	}
	return e.Shard(s.Shard, s.Resume)
}

// Shard is like Begin, with the values of the flags as arguments.
func (e *Env) Shard(text, dir string) (run *shard.Run, over bool, err error) {
	if e.merged != nil {
		run, err = e.merged.open(e)
		return run, false, err
	}
	if text == "" && !e.Has("shard") {
		return nil, false, nil
	}
	r, err := shard.ParseRange(text)
	if err != nil {
		return nil, false, Errorf(Usage, "--shard: %w", err)
	}
	q, err := e.question(dir, r.N)
	if err != nil {
		return nil, false, err
	}
	run, over, err = shard.Begin(dir, q, r)
	if errors.Is(err, shard.ErrRange) {
		return nil, false, Errorf(Usage, "--shard %s: %w (--resume DIR)", text, err)
	}
	if err != nil || over || dir == "" || len(run.Left()) == 1 {
		return run, over, err
	}
	args := e.args
	for _, i := range run.Left() { // one by one, so that an interrupted process has saved the earlier shards
		if err := e.again(append(slices.Clip(args), fmt.Sprintf("--shard=%d/%d", i, r.N)), nil); err != nil {
			return nil, false, err
		}
	}
	return nil, true, nil
}

// question returns the command line with each file replaced by the hash of its content. It copies the files to dir.
func (e *Env) question(dir string, shards int) (q shard.Question, err error) {
	q = shard.NewQuestion(e.program, Version())
	if q.Revision, err = revision(); err != nil {
		return q, err
	}
	if q.RTL, err = rtl(); err != nil {
		return q, err
	}
	if e.arch != "any" {
		q.Arch = arch()
	}
	q.Shards = shards
	type set struct{ name, text string }
	var flags []set
	for i := 0; i < len(e.args); i++ {
		word := e.args[i]
		if !strings.HasPrefix(word, "-") {
			q.Args = append(q.Args, word) // part of the command's name
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		at := slices.IndexFunc(e.flags, func(f *kong.Flag) bool {
			return f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name || !strings.HasPrefix(word, "--") && string(f.Short) == name[:min(1, len(name))]
		})
		if at < 0 {
			return q, Errorf(Usage, "%s: expected a flag as --help has it, since --shard is given", word)
		}
		f := e.flags[at]
		switch {
		case !strings.HasPrefix(word, "--") && len(name) > 1:
			value, has = strings.TrimPrefix(word[2:], "="), true
		case !has && !f.IsBool() && i+1 < len(e.args):
			i++
			value, has = e.args[i], true
		}
		if f.Tag.Get("shard") == "here" {
			continue
		}
		text := "--" + cmp.Or(map[bool]string{true: name}[strings.HasPrefix(name, "no-")], f.Name)
		if has {
			if value, err = e.inputs(dir, value, strings.Contains(f.PlaceHolder, "FILE") && !strings.Contains(f.PlaceHolder, "NAME")); err != nil {
				return q, Errorf(Input, "--%s: %w", f.Name, err)
			}
			text += "=" + value
		}
		flags = append(flags, set{f.Name, text})
	}
	slices.SortStableFunc(flags, func(a, b set) int { return cmp.Compare(a.name, b.name) })
	for _, s := range flags {
		q.Args = append(q.Args, s.text)
	}
	return q, nil
}

// inputs replaces the files in a flag's list of values with references to their content. If "file" is true, all values
// are files.
func (e *Env) inputs(dir, value string, file bool) (string, error) {
	if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() && strings.ContainsAny(value, ",=") {
		return shard.Input(dir, value, e.weights) // Input rejects the name
	}
	parts := strings.Split(value, ",")
	for i, part := range parts {
		name, rest, has := strings.Cut(part, "=")
		prefix := ""
		if format, file, ok := strings.Cut(name, ":"); ok && len(format) > 1 { // FORMAT:FILE; a single letter is a drive
			prefix, name = format+":", file
		}
		if !file && !strings.ContainsAny(name, "./\\") {
			continue // not a file, but possibly the name of a network, a board or a configuration
		}
		info, err := os.Stat(strings.TrimSpace(name))
		switch {
		case err != nil:
			continue
		case !info.Mode().IsRegular():
			return "", fmt.Errorf("%s: expected a file: a folder does not go with --shard", name)
		}
		ref, err := shard.Input(dir, strings.TrimSpace(name), e.weights)
		if err != nil {
			return "", err
		}
		if parts[i] = prefix + ref; has {
			parts[i] += "=" + rest
		}
	}
	return strings.Join(parts, ","), nil
}

// arch returns the program's target architecture and its level. The architecture matters because some compilers fuse a
// product and a sum, which changes the last bits of floating-point results.
func arch() string {
	a := runtime.GOARCH
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "GO"+strings.ToUpper(a) {
				a += " " + s.Value
			}
		}
	}
	return a
}

// revision is the revision of the sources. If it is unknown or the sources were modified, it is the program's hash.
var revision = sync.OnceValues(func() (string, error) {
	if r := About("").Revision; r != Unknown && !strings.HasSuffix(r, "modified") {
		return r, nil
	}
	hash, err := ProgramHash()
	return "program " + hash, err
})

// ProgramHash returns the SHA-256 of this program's file. It reads the file only once.
var ProgramHash = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("hash this program: %w", err)
	}
	return files.Hash(path)
})

// rtl returns the hash of the RTL in this program.
var rtl = sync.OnceValues(func() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(hw.RTL, "hw", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(hw.RTL, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
})

// Simulator returns the identity of a build from sim/build.sh: the hash of its sources or, if unknown, the hash of its
// file.
func Simulator(binary string) string {
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(binary), "hash")); err == nil {
		return strings.TrimSpace(string(text))
	}
	hash, err := files.Hash(binary)
	if err != nil {
		return err.Error()
	}
	return hash
}

// MergeCmd merges the results of shards.
type MergeCmd struct {
	Dir    string `arg:"" help:"Folder of --resume."`
	Out    string `placeholder:"PATH" help:"--out of the command."`
	Beside string `placeholder:"DIR" help:"Another folder, of the same command on another device: print both documents side by side."`
}

// Help returns the help text with an example.
func (*MergeCmd) Help() string {
	return `Runs the command of the shards in a folder again, and takes their results instead of working: what it
prints is what one process prints (host/shard/README.md has what differs). Results of another question,
version or RTL are refused, and so are truncated, duplicate and missing ones.

Example:
  dse sweep --network mobilenetv2 --board zc706 --shard 1-64/64 --resume shards; dse merge shards --out best.json
  sluice verify --n 200 --shard 1-2/2 --resume shards; sluice merge shards
  sluice merge simulator --beside board`
}

// Run runs the command again, with the shards' results instead of computation.
func (c *MergeCmd) Run(e *Env) error {
	if c.Beside != "" {
		return c.beside(e)
	}
	_, err := e.merge(c.Dir, c.Out, e.JSON)
	return err
}

func (e *Env) merge(dir, out string, asJSON bool) (*shard.Question, error) {
	q, err := shard.Asked(dir)
	if err != nil {
		return nil, err
	}
	if q.Program != e.program {
		return nil, Errorf(Input, "%s: %w: expected %s merge", dir, shard.ErrQuestion, q.Program)
	}
	m := &merging{dir: dir, asked: q}
	args := q.Command(dir)
	if out != "" {
		args = append(args, "--out", out)
	}
	if asJSON {
		args = append(args, "--json")
	}
	if err := e.again(args, m); err != nil {
		return q, err
	}
	if !m.opened {
		return nil, Errorf(Input, "%s: %w: %s knows no --shard", dir, shard.ErrResult, q.Args[0])
	}
	return q, nil
}

// merging is the state while the results in a folder are merged.
type merging struct {
	dir    string
	asked  *shard.Question
	opened bool
}

func (m *merging) open(e *Env) (*shard.Run, error) {
	m.opened = true
	q, err := e.question(m.dir, m.asked.Shards)
	if err != nil {
		return nil, err
	}
	if err := q.Other(m.asked); err != nil {
		return nil, fmt.Errorf("%s: %w", m.dir, err)
	}
	return shard.Merge(m.dir, q)
}
