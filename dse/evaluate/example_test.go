package evaluate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The accuracy of a bundle and of its float network, by exit, on photographs in a folder for each class.
func ExampleRun() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// early: float 33 %, int16 33 % of 12 images
	// late: float 42 %, int16 42 % of 12 images
}

func run() error {
	dir, err := os.MkdirTemp("", "evaluate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := recipetest.Home(dir); err != nil { // writes own.onnx and the folder photos
		return err
	}
	design, err := configs.Load("tiny")
	if err != nil {
		return err
	}
	photos := filepath.Join(dir, "photos")
	r := recipe.Recipe{Network: filepath.Join(dir, "own.onnx"), Flags: recipe.Flags{Calibrate: photos}}
	g, err := r.Graph(design)
	if err != nil {
		return err
	}
	from, err := r.Calibration(g)
	if err != nil {
		return err
	}
	q, err := from.Quantise(g)
	if err != nil {
		return err
	}
	b, err := r.MakeOf(q, from, design)
	if err != nil {
		return err
	}
	set, err := from.Evaluation(photos, recipe.Shape(g), images.Options{})
	if err != nil {
		return err
	}
	report, err := evaluate.Run(context.Background(), g, q, b, nil, set, nil, nil, nil)
	if err != nil {
		return err
	}
	for _, e := range report.Exits {
		fmt.Printf("%s: float %.0f %%, int16 %.0f %% of %d images\n", e.Name, 100**e.Float, 100**e.Int16, report.Images)
	}
	return nil
}
