package images_test

import (
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/images"
)

// A folder of pictures, with a folder for each class, as a network reads them: scaled, and normalised to -1..1.
func ExampleOpen() {
	if err := open(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// dark [-1 -1 -1 -1]
	// light [1 1 1 1]
}

func open() error {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for class, grey := range map[string]uint8{"dark": 0, "light": 255} {
		picture := image.NewGray(image.Rect(0, 0, 12, 10))
		for i := range picture.Pix {
			picture.Pix[i] = grey
		}
		if err := save(filepath.Join(dir, class, "1.png"), picture); err != nil {
			return err
		}
	}
	p := images.Preprocess{Mean: []float64{0.5}, Std: []float64{0.5}}
	set, err := images.Open(dir, images.Shape{H: 2, W: 2, C: 1}, p, images.Options{})
	if err != nil {
		return err
	}
	for i := range set.Len() {
		x, err := set.Image(i)
		if err != nil {
			return err
		}
		fmt.Println(set.Classes[set.Labels[i]], x)
	}
	return nil
}

func save(path string, picture image.Image) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return png.Encode(f, picture)
}
