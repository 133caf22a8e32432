package zoo

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrPython is wrapped by errors about a missing onnxruntime.
var ErrPython = errors.New("a Python with onnxruntime is missing")

//go:embed oracle.py
var oraclePy []byte

//go:embed idx.py
var idxPy []byte

const (
	oracleMagic   = "SLOR"
	oracleVersion = 1
	maxLogits     = 1 << 24 // maximum number of values of an exit, which may be a map
)

// Python returns the path of a Python interpreter with onnxruntime: SLUICE_PYTHON, or the interpreter that `make setup`
// installs in the repository. The working directory or this program must be inside the repository.
func Python() (string, error) {
	if path := os.Getenv("SLUICE_PYTHON"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: SLUICE_PYTHON: %w", ErrPython, err)
		}
		return path, nil
	}
	var from []string
	if dir, err := os.Getwd(); err == nil {
		from = append(from, dir)
	}
	if path, err := os.Executable(); err == nil {
		from = append(from, filepath.Dir(path))
	}
	for _, dir := range from {
		for ; ; dir = filepath.Dir(dir) {
			path := filepath.Join(dir, "build", "venv", "bin", "python")
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
			if filepath.Dir(dir) == dir {
				break
			}
		}
	}
	return "", fmt.Errorf("%w: `make setup` in the repository builds one, SLUICE_PYTHON names another", ErrPython)
}

// Model returns a network's ONNX file.
func Model(name string) ([]byte, error) {
	if err := known(name); err != nil {
		return nil, err
	}
	content, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	return content, nil
}

// Oracle runs a model in onnxruntime and returns the logits by exit and image. The parameter exits contains names of
// tensors; nil means the model's outputs in order. Inputs are H x W x C. With channelsLast, the model has this layout
// too. Data outside the model file are in folder, or beside the model if folder is "".
func Oracle(ctx context.Context, python, model, folder string, exits []string, channelsLast bool, h, w, c int, inputs [][]float32) ([][][]float32, error) {
	dir, err := os.MkdirTemp("", "sluice-oracle-")
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer os.RemoveAll(dir)
	program, raw, out := filepath.Join(dir, "oracle.py"), filepath.Join(dir, "inputs"), filepath.Join(dir, "logits")
	for path, content := range map[string][]byte{program: oraclePy, filepath.Join(dir, "idx.py"): idxPy} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("onnxruntime: %w", err)
		}
	}
	if err := writeNCHW(raw, h, w, c, inputs); err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	args := []string{program, "--model", model, "--raw", raw, "--shape", fmt.Sprintf("%d,%d,%d,%d", len(inputs), c, h, w), "--out", out}
	if folder != "" {
		args = append(args, "--folder", folder)
	}
	if channelsLast {
		args = append(args, "--channels-last")
	}
	for _, x := range exits {
		args = append(args, "--exit="+x)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("onnxruntime: %w: %s", err, strings.TrimSpace(said.String()))
	}
	f, err := os.Open(out)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer f.Close()
	logits, err := ReadOracle(bufio.NewReader(f), len(inputs))
	if err != nil {
		return nil, fmt.Errorf("onnxruntime's logits: %w", err)
	}
	return logits, nil
}

func writeNCHW(path string, h, w, c int, inputs [][]float32) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	row := make([]byte, 4*h*w*c)
	for _, x := range inputs {
		if len(x) != h*w*c {
			return fmt.Errorf("an input of %d elements, expected %d x %d x %d", len(x), h, w, c)
		}
		for i, v := range x {
			binary.LittleEndian.PutUint32(row[4*(i%c*h*w+i/c):], math.Float32bits(v))
		}
		if _, err := b.Write(row); err != nil {
			return err
		}
	}
	return b.Flush()
}

// ReadOracle reads the logits that oracle.py writes. It returns them by exit and image.
func ReadOracle(r io.Reader, images int) ([][][]float32, error) {
	var head struct {
		Magic                  [4]byte
		Version, Images, Exits uint32
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	if string(head.Magic[:]) != oracleMagic || head.Version != oracleVersion || int64(head.Images) != int64(images) || head.Exits < 1 || head.Exits > 64 {
		return nil, fmt.Errorf("header %q, version %d, %d images, %d exits; expected %q, %d, %d images and 1 to 64 exits",
			head.Magic[:], head.Version, head.Images, head.Exits, oracleMagic, oracleVersion, images)
	}
	classes := make([]uint32, head.Exits)
	if err := binary.Read(r, binary.LittleEndian, classes); err != nil {
		return nil, fmt.Errorf("the classes: %w", err)
	}
	out := make([][][]float32, head.Exits)
	for x, n := range classes {
		if n < 1 || n > maxLogits {
			return nil, errors.New("exit " + strconv.Itoa(x) + " has " + strconv.Itoa(int(n)) + " classes")
		}
		for i := range images {
			logits := make([]float32, n)
			if err := binary.Read(r, binary.LittleEndian, logits); err != nil {
				return nil, fmt.Errorf("exit %d, image %d: %w", x, i, err)
			}
			out[x] = append(out[x], logits)
		}
	}
	return out, nil
}
