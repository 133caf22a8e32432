package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A bundle behind REST, on the golden numerics.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output: 200 {"ready":true}
}

func example() (err error) {
	ctx := context.Background()
	design, err := configs.Load("tiny")
	if err != nil {
		return err
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "models")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := bundle.WriteFile(filepath.Join(dir, "tiny.sluice"), b); err != nil {
		return err
	}
	s, err := serve.New(ctx, serve.Options{Open: func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
		d := soft.New(b.Design, soft.Options{})
		return &serve.Opened{Device: device.Adapt(d)}, d.Load(ctx, b)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Drain(ctx)) }()
	if err := errors.Join(s.Add(dir), s.LoadAll()); err != nil {
		return err
	}
	answer := httptest.NewRecorder()
	s.REST().ServeHTTP(answer, httptest.NewRequest("GET", "/v2/models/tiny/ready", nil))
	fmt.Println(answer.Code, answer.Body)
	return nil
}
