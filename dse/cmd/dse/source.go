package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// source are the flags that name a network, a design and the calibration.
type source struct {
	Network string `required:"" placeholder:"NAME|FILE.onnx" help:"Network of the zoo, or an ONNX file."`
	Config  string `required:"" placeholder:"NAME|FILE.yaml" help:"Hardware configuration."`
	Seed    uint64 `default:"1" help:"Seed of weights that the network lacks and of random calibration images."`
	Images  int    `default:"64" help:"Calibration images of the training set (at most 2 random ones where the network takes no 28x28 grey images)."`
	Data    string `placeholder:"DIR" help:"Folder of the Fashion-MNIST files (default: where Debian's package puts them)."`
}

const (
	fashionSide  = 28
	randomImages = 2
	maxImages    = 60000
)

func (s *source) graph() (*graph.Graph, error) {
	if strings.HasSuffix(s.Network, ".onnx") || strings.ContainsRune(s.Network, '/') {
		return onnx.ImportFile(s.Network, onnx.Options{WeightSeed: s.Seed})
	}
	return zoo.Load(s.Network, s.Seed)
}

// calibration answers images for the network's input, and says where they are from.
func (s *source) calibration(g *graph.Graph) ([][]float32, string, error) {
	if s.Images < 1 || s.Images > maxImages {
		return nil, "", fmt.Errorf("--images is %d, must be 1..%d", s.Images, maxImages)
	}
	in := g.Tensors[g.Input]
	if in.H == fashionSide && in.W == fashionSide && in.C == 1 {
		images, err := zoo.FashionMNIST(s.Data, true, s.Images)
		if err != nil {
			return nil, "", err
		}
		return images.Pixels, fmt.Sprintf("fashion-mnist train, first %d", len(images.Pixels)), nil
	}
	rng := rand.New(rand.NewPCG(s.Seed, 2))
	var images [][]float32
	for range min(s.Images, randomImages) {
		image := make([]float32, in.Elems())
		for i := range image {
			image[i] = 2*rng.Float32() - 1
		}
		images = append(images, image)
	}
	return images, fmt.Sprintf("%d random images of seed %d", len(images), s.Seed), nil
}

// compile takes a source all the way to a bundle.
func (s *source) compile() (*bundle.Bundle, error) {
	d, err := configs.Load(s.Config)
	if err != nil {
		return nil, err
	}
	return s.compileFor(d)
}

// compileFor does so for a design that is not just a configuration as it stands.
func (s *source) compileFor(d configs.Design) (*bundle.Bundle, error) {
	g, err := s.graph()
	if err != nil {
		return nil, err
	}
	images, from, err := s.calibration(g)
	if err != nil {
		return nil, err
	}
	q, err := quant.Quantise(g, images, quant.Options{})
	if err != nil {
		return nil, err
	}
	meta := map[string]string{"source": s.Network, "calibration": from, "seed": fmt.Sprint(s.Seed)}
	if hash, ok := fileHash(s.Network); ok {
		meta["source_sha256"] = hash
	}
	return compile.Compile(q, d, compile.Options{Meta: meta})
}

// fileHash is the SHA-256 of the network's file, where it is one.
func fileHash(path string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", false
	}
	return fmt.Sprintf("%x", h.Sum(nil)), true
}
