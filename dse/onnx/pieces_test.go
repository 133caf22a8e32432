package onnx

import "testing"

// Layers that one node becomes have names of their own, by which warnings and --layer find them.
func TestNamesOfAChain(t *testing.T) {
	for _, op := range []string{"Max", "Min", "Mean", "Sum"} {
		b := build(1, 3, 4, 4)
		for _, name := range []string{"c", "d", "e", "f"} {
			b.weight("w"+name, 5, 3, 1, 1).op("Conv", name, in("x", "w"+name))
		}
		g, err := b.op(op, "m", in("c", "d", "e", "f")).op("GlobalAveragePool", "p", in("m")).outputs("p").load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range g.Nodes {
			if name := g.Nodes[i].Name; seen[name] {
				t.Errorf("%s: two layers %q", op, name)
			}
			seen[g.Nodes[i].Name] = true
		}
	}
}
