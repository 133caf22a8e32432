package recipe_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A network of one's own and a folder of photographs become a bundle, which records what its scales come from.
func ExampleRecipe_Make() {
	dir, err := os.MkdirTemp("", "recipe")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := recipetest.Home(dir); err != nil { // writes own.onnx, and photos with a folder a class
		fmt.Println(err)
		return
	}
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	r := recipe.Recipe{
		Network: filepath.Join(dir, "own.onnx"),
		Flags:   recipe.Flags{Calibrate: filepath.Join(dir, "photos"), Mean: []float64{0.5}, Std: []float64{0.25}},
	}
	b, err := r.Make(design)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := recipe.Of(b)
	fmt.Println(b.Network.Name, "has", len(b.Network.Exits), "exits; ranges of", info.Text(), err)
	// Output: own has 2 exits; ranges of 12 images (images), |input| up to 2 <nil>
}
