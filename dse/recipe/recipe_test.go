package recipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/hw/configs"
)

// home returns a folder with the network and with pictures of four classes.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func own(dir string) recipe.Recipe {
	return recipe.Recipe{
		Network: filepath.Join(dir, "own.onnx"), Seed: 1,
		Flags: recipe.Flags{Calibrate: filepath.Join(dir, "photos"), Mean: []float64{0.5, 0.4, 0.3}, Std: []float64{0.2}},
	}
}

func make1(t *testing.T, r recipe.Recipe) (*bundle.Bundle, uint64) {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Make(d)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return b, h
}

// The same network and images yield the same hash, wherever the files are and for any form of their path; another
// image, mean or crop yields another hash.
func TestHash(t *testing.T) {
	a, b := home(t), home(t)
	base, want := make1(t, own(a))
	if _, h := make1(t, own(b)); h != want {
		t.Error("another folder gives another hash")
	}
	t.Chdir(a)
	if _, h := make1(t, own("./photos/..")); h != want {
		t.Error("another path gives another hash")
	}
	for k, v := range base.Meta {
		if strings.Contains(k+v, a) {
			t.Errorf("the bundle names a path: %s = %s", k, v)
		}
	}
	other := map[string]func(*recipe.Recipe){
		"mean":   func(r *recipe.Recipe) { r.Mean = []float64{0.5} },
		"fit":    func(r *recipe.Recipe) { r.Fit = images.FitStretch },
		"images": func(r *recipe.Recipe) { r.Images = 5 },
		"exits":  func(r *recipe.Recipe) { r.Exits = filepath.Join(a, "exits.yaml") },
	}
	if err := os.WriteFile(filepath.Join(a, "exits.yaml"), []byte("exits: [late]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range other {
		r := own(a)
		change(&r)
		if made, h := make1(t, r); h == want || name == "exits" && len(made.Network.Exits) != 1 {
			t.Errorf("%s does not change the bundle", name)
		}
	}
}

// The bundle records its calibration images.
func TestInfo(t *testing.T) {
	dir := home(t)
	b, _ := make1(t, own(dir))
	i, err := recipe.Of(b)
	if err != nil {
		t.Fatal(err)
	}
	if i.Missing || i.Images != 12 || i.From != "images" || !slices.Equal(i.Classes, []string{"class0", "class1", "class2", "class3"}) ||
		i.Preprocess.Range != 3.5 || !slices.Equal(i.Preprocess.Mean, []float64{0.5, 0.4, 0.3}) || len(i.Digest) != 64 {
		t.Errorf("%+v", i)
	}
	// The range covers normalised pixels completely; it is not cut at 1.
	if most := 32767 >> b.Network.InFrac; most < 3 || most > 8 {
		t.Errorf("an input of %d bits of fraction holds up to %d", b.Network.InFrac, most)
	}
	r := own(dir)
	r.Calibrate = ""
	b, _ = make1(t, r)
	if i, err = recipe.Of(b); err != nil || !i.Missing || !strings.Contains(i.Text(), "not calibrated") {
		t.Errorf("without images: %+v, %v", i, err)
	}
}

// Calibration folders name classes only if their number is that of the logits; they are never rejected.
func TestCalibrationFolders(t *testing.T) {
	dir := home(t)
	for _, to := range []string{"class4", "class5"} {
		if err := os.CopyFS(filepath.Join(dir, "photos", to), os.DirFS(filepath.Join(dir, "photos", "class0"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{6, 5, 4, 3, 2} {
		b, _ := make1(t, own(dir))
		i, err := recipe.Of(b)
		if err != nil || (n == 4) != (len(i.Classes) == 4) || n != 4 && i.Classes != nil {
			t.Errorf("%d folders: classes %q, %v", n, i.Classes, err)
		}
		if n != 4 {
			// nor do they name the classes of the evaluation
			set, err := i.Evaluation(filepath.Join(dir, "photos"), images.Shape{H: 8, W: 8, C: 3}, images.Options{})
			if err != nil || set.Labels != nil {
				t.Errorf("%d folders: labels %v, %v", n, set.Labels, err)
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, "photos", fmt.Sprintf("class%d", n-1))); err != nil {
			t.Fatal(err)
		}
	}
}

// The names of many classes need more than one value of a bundle.
func TestManyClasses(t *testing.T) {
	dir := home(t)
	r := own(dir)
	r.Classes = filepath.Join(dir, "classes")
	for _, n := range []int{3, 4, 5} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("class%d", i)+strings.Repeat("x", 200)) // other names than those of the folders
		}
		if err := os.WriteFile(r.Classes, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := r.Make(mustLoad(t))
		if n != 4 {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s: ", r.Classes)) || !strings.Contains(err.Error(), fmt.Sprintf("%d classes are named, the network's last exit has 4", n)) {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err) // other folder names are accepted, since ranges need no classes
		}
		if i, err := recipe.Of(b); err != nil || !slices.Equal(i.Classes, lines) {
			t.Errorf("%d names: %q, %v", n, i.Classes, err)
		}
	}
	info := recipe.Info{From: "images", Images: 1}
	for i := range 1000 {
		info.Classes = append(info.Classes, fmt.Sprintf("%d %s", i, strings.Repeat("y", i%40)))
	}
	meta, err := (&recipe.Recipe{Network: "tiny"}).Meta(info)
	if err != nil {
		t.Fatal(err)
	}
	back, err := recipe.Of(&bundle.Bundle{Meta: meta, Network: bundle.Network{InC: 3}})
	if err != nil || !slices.Equal(back.Classes, info.Classes) {
		t.Errorf("%d classes come back as %d, %v", len(info.Classes), len(back.Classes), err)
	}
}

func mustLoad(t *testing.T) configs.Design {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// int8 has no headroom by default, and any that --headroom gives, int16's default too.
func TestHeadroom(t *testing.T) {
	dir := home(t)
	codes := func(headroom float64) []byte {
		r := own(dir)
		if headroom != 0 {
			r.Headroom = &headroom
		}
		g, err := r.Graph(configs.Design{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Calibration(g)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := c.See(g)
		if err != nil {
			t.Fatal(err)
		}
		n, err := seen.Network(nil)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, "%+v", n.Maps)
	}
	one, none, more := codes(1), codes(0), codes(1.25)
	if !bytes.Equal(one, none) {
		t.Error("int8 without --headroom differs from a headroom of 1")
	}
	if bytes.Equal(one, more) {
		t.Error("--headroom 1.25 changes nothing in int8")
	}
}

// Calibration without pictures: floats are used as they are, and pictures are rejected later.
func TestFloats(t *testing.T) {
	i := recipe.Info{Floats: true}
	if err := i.Pixels(&images.Set{}, "x.png"); err == nil || !strings.Contains(err.Error(), "--mean and --std") {
		t.Errorf("%v", err)
	}
	i.Preprocess.Std = []float64{1}
	if err := i.Pixels(&images.Set{}, "x.png"); err != nil {
		t.Error(err)
	}
}

// The report counts correctly: for a bundle and its own network, and for an oracle that is wrong on purpose.
func TestEvaluate(t *testing.T) {
	dir := home(t)
	r := own(dir)
	g, err := r.Graph(configs.Design{})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := make1(t, r)
	i, err := recipe.Of(b)
	if err != nil {
		t.Fatal(err)
	}
	set, err := i.Evaluation(filepath.Join(dir, "photos"), recipe.Shape(g), images.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from, err := r.Calibration(g)
	if err != nil {
		t.Fatal(err)
	}
	q, err := from.Quantise(g)
	if err != nil {
		t.Fatal(err)
	}
	// The loss is measured on images that calibration left out, if there are any.
	r.Images = 5
	few, err := r.Calibration(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from           *recipe.Calibration
		images, unseen int
	}{{from, 12, 0}, {few, 12, 7}} {
		if loss, err := c.from.Measure(q); err != nil || loss.Unseen != c.unseen || loss.Images != c.images {
			t.Errorf("measured on %d images, %d unseen; expected %d, %d: %v", loss.Images, loss.Unseen, c.images, c.unseen, err)
		}
	}
	// Copies of calibration images are not unseen.
	r.Images, r.Calibrate = 3, t.TempDir()
	photos, err := filepath.Glob(filepath.Join(dir, "photos", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(photos[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if err := os.WriteFile(filepath.Join(r.Calibrate, fmt.Sprint(i)+filepath.Ext(photos[0])), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if same, err := r.Calibration(g); err != nil {
		t.Error(err)
	} else if loss, err := same.Measure(q); err != nil || loss.Images != 1 || loss.Unseen != 0 {
		t.Errorf("copies of one image: measured on %d, %d unseen: %v", loss.Images, loss.Unseen, err)
	}
	// Unreadable images among those that calibration left out are skipped with a note; unreadable calibration images
	// are not.
	for i := range 8 {
		broken := filepath.Join(r.Calibrate, fmt.Sprint(i)+filepath.Ext(photos[0]))
		if err := os.WriteFile(broken, content[:len(content)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		own, err := r.Calibration(g)
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), broken):
			t.Errorf("%s is cut off: %v", broken, err)
		case err == nil:
			loss, err := own.Measure(q)
			if told := strings.Join(own.Notes(g, nil), "\n"); err != nil || loss.Images != 1 || !strings.Contains(told, broken+": ") || !strings.Contains(told, ": skipped") {
				t.Errorf("%s is cut off and was left out: %v; it says %q", broken, err, told)
			}
		}
		if err := os.WriteFile(broken, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := evaluate.Run(t.Context(), g, q, b, nil, set, few.Set.Saw, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Images != 12 || rep.Seen != 5 || !rep.Labelled || rep.Oracle || rep.Clipped != 0 || len(rep.Exits) != 2 || rep.Exits[1].Int16 == nil || rep.Exits[1].AgreeOracle != nil {
		t.Errorf("%+v", rep)
	}
	for _, x := range rep.Exits {
		if *x.AgreeFloat < 0.9 || !(x.WorstFloat < 0.005) || !(x.MeanFloat <= x.WorstFloat) {
			t.Errorf("exit %s: %+v", x.Name, x)
		}
	}
	wrong := func(_ context.Context, inputs [][]float32) ([][][]float32, error) {
		out := make([][][]float32, 2)
		for x := range out {
			for range inputs {
				out[x] = append(out[x], []float32{0, 0, 0, 1})
			}
		}
		return out, nil
	}
	if rep, err = evaluate.Run(t.Context(), g, q, b, nil, set, nil, wrong, nil); err != nil {
		t.Fatal(err)
	}
	if x := rep.Exits[1]; *x.Onnxruntime != 0.25 || !(*x.WorstOracle > 0.1) {
		t.Errorf("an oracle that always says 3 is right on %v, apart by %v", *x.Onnxruntime, *x.WorstOracle)
	}
	none := func(ctx context.Context, inputs [][]float32) ([][][]float32, error) {
		out, err := wrong(ctx, inputs)
		out[1][2][3] = float32(math.NaN())
		return out, err
	}
	if _, err = evaluate.Run(t.Context(), g, q, b, nil, set, nil, none, nil); !errors.Is(err, evaluate.ErrEvaluate) || !strings.Contains(err.Error(), "logit 3 of exit "+rep.Exits[1].Name+" is NaN in onnxruntime") {
		t.Errorf("a logit that is no number: %v", err)
	}
	// A range that is too small saturates, and the report shows that.
	r.InputRange = 0.5
	if _, err := r.Make(mustLoad(t)); err == nil || !strings.Contains(err.Error(), "the input's range is 0.5") {
		t.Errorf("images beyond the range that was given: %v", err)
	}
}

// Calibration with one image, or with the same image repeated, yields a note. A single output also does, because it is
// treated as a yes-or-no question.
func TestNotes(t *testing.T) {
	dir := home(t)
	alike := filepath.Join(dir, "alike")
	if err := os.Mkdir(alike, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "photos", "class1", "1.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.png", "b.png", "c.png"} {
		if err := os.WriteFile(filepath.Join(alike, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	network := own(dir)
	g, err := network.Graph(configs.Design{})
	if err != nil {
		t.Fatal(err)
	}
	size := image.Point{g.Tensors[g.Input].W, g.Tensors[g.Input].H} // so that nothing is resized
	changed := func(folder, name string, pixel func(x, y int) color.Color) {
		out := image.NewNRGBA(image.Rectangle{Max: size})
		for y := range size.Y {
			for x := range size.X {
				out.Set(x, y, pixel(x, y))
			}
		}
		var content bytes.Buffer
		if err := errors.Join(png.Encode(&content, out), os.MkdirAll(filepath.Join(dir, folder), 0o700), os.WriteFile(filepath.Join(dir, folder, name), content.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(x, y int) color.Color { return picture.At(x, y) }
	changed("turned", "a.png", at)
	changed("turned", "b.png", func(x, y int) color.Color { return at(size.X-1-x, y) })
	changed("turned", "c.png", func(x, y int) color.Color { return at(size.X-1-x, size.Y-1-y) })
	for i := range 5 {
		changed("grey", fmt.Sprint(i, ".png"), func(x, y int) color.Color { return color.GrayModel.Convert(at((x+i)%size.X, y^i%size.Y)) })
		changed("blank", fmt.Sprint(i, ".png"), func(x, y int) color.Color {
			if i < 3 {
				return color.NRGBA{uint8(90 * i), 60, 30, 255}
			}
			return color.NRGBA{uint8(40 * x * i), uint8(30*y + 50*i), uint8(x * y), 255}
		})
	}
	for path, says := range map[string]string{
		"turned": "3 images that are all the same", "grey": "pictures without colours", "blank": "3 of the 5 images that the ranges come from have one colour throughout", "photos": "", "alike/a.png": "come from one image", "alike": "3 images that are all the same", "": "",
	} {
		r := own(dir)
		if r.Calibrate = ""; path != "" {
			r.Calibrate = filepath.Join(dir, path)
		}
		g, err := r.Graph(configs.Design{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Calibration(g)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(c.Notes(g, nil), "\n")
		if !strings.Contains(notes, says) || says == "" && notes != "" {
			t.Errorf("%q: %q, want %q", path, notes, says)
		}
	}
	one := &recipe.Calibration{Set: images.Of("none", nil, nil), Info: recipe.Info{Missing: true}}
	for _, c := range []struct {
		activation string
		classes    int
		dims       []int
		says       string
	}{
		{"", 1, nil, "exit e has one output"},
		{"", 4, nil, ""},
		{"Softmax", 4, nil, ""},
		{"Softmax", 1, nil, "exit e is a Softmax of one output, which is always the same"},
		{"LogSoftmax", 1, nil, "exit e is a LogSoftmax of one output"},
		{"LogSoftmax", 4, nil, ""},
		{"Sigmoid", 1, nil, ""}, // the network itself says that it is a yes-or-no question
		{"Sigmoid", 4, nil, "exit e ends in a Sigmoid of 4 labels"},
		{"", 1, []int{1, 8, 8}, ""}, // a map, as in a U-Net
		{"Sigmoid", 4, []int{4, 8, 8}, "exit e is a map that ends in a Sigmoid, which is left to the host"},
		{"Softmax", 4, []int{4, 8, 8}, "exit e is a map that ends in a Softmax"},
		{"HardSigmoid", 1, nil, "exit e ends in a HardSigmoid"},
	} {
		g := &graph.Graph{Tensors: []graph.Tensor{{C: c.classes}}, Exits: []graph.Exit{{Name: "e", Activation: c.activation, Dims: c.dims}}}
		if notes := strings.Join(one.Notes(g, nil), "\n"); !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
			t.Errorf("%+v: %q", c, notes)
		}
	}
}

// Exits with values that are not logits, and exits of several questions, yield a note, for any confidence measure
// except none.
func TestNotesOfValues(t *testing.T) {
	one := &recipe.Calibration{Set: images.Of("none", nil, nil), Info: recipe.Info{Missing: true}}
	sigmoid := &graph.Function{Name: "Sigmoid"}
	open := float32(math.Inf(1))
	for _, c := range []struct {
		name       string
		last       graph.Node
		classes    [2]int
		confidence string
		says       string
	}{
		{"logits", graph.Node{ClampLo: -open, ClampHi: open}, [2]int{4, 4}, "", ""},
		{"a scaled Sigmoid", graph.Node{Function: &graph.Function{Name: "Line", Alpha: 100, Of: []*graph.Function{sigmoid}}, ClampHi: open}, [2]int{4, 4}, "", "ends in Line(Sigmoid(x), 100, 0), so its values are no logits: class and confidence are those of the softmax"},
		{"one, named", graph.Node{Function: sigmoid, ClampHi: open}, [2]int{1, 2}, graph.Sigmoid, "those of the sigmoid of them"},
		{"a regression", graph.Node{Function: sigmoid, ClampHi: open}, [2]int{4, 4}, graph.NoClass, ""},
		{"a clip", graph.Node{ClampHi: 1}, [2]int{4, 4}, "", "ends in a clip to 0..1"},
		{"two questions", graph.Node{ClampLo: -open, ClampHi: open}, [2]int{2, 8}, "", "exits a and e have 8 and 2 classes"},
		{"a class and a box", graph.Node{ClampLo: -open, ClampHi: open}, [2]int{4, 2}, graph.NoClass, ""},
	} {
		c.last.Output, c.last.Residual = 2, graph.None
		join := graph.Node{Op: graph.Concat, Inputs: []graph.TensorID{2}, Output: 3, Residual: graph.None, ClampLo: -open, ClampHi: open}
		g := &graph.Graph{
			Tensors: []graph.Tensor{{C: 3}, {C: c.classes[1]}, {C: c.classes[0]}, {C: c.classes[0]}},
			Nodes:   []graph.Node{c.last, join},
			Exits:   []graph.Exit{{Name: "a", Tensor: 1}, {Name: "e", Tensor: 3, Confidence: c.confidence}},
		}
		if notes := strings.Join(one.Notes(g, nil), "\n"); !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
			t.Errorf("%s: %q", c.name, notes)
		}
	}
}

// A bundle records that its network's input is bytes, and rejects floats at every use.
func TestBytesAreRemembered(t *testing.T) {
	r := own(home(t))
	r.Mean, r.Std = nil, nil
	g, err := r.Graph(configs.Design{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g.Bytes = range []bool{false, true} {
		from, err := r.Calibration(g)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.MakeFrom(g, from, mustLoad(t))
		if err != nil {
			t.Fatal(err)
		}
		i, err := recipe.Of(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Pixels(&images.Set{Floats: true}, "x.npy"); i.Bytes != g.Bytes || (err != nil) != g.Bytes {
			t.Errorf("bytes %v: remembered %v, floats: %v", g.Bytes, i.Bytes, err)
		}
	}
}
