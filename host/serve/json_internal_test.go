package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// seedDocuments are what random documents are spliced of.
var seedDocuments = []string{
	`{"inputs":[{"name":"input","shape":[1,28,28,1],"datatype":"FP32","parameters":{"binary_data_size":3136}}],"parameters":{"binary_data_output":true,"exit_threshold":0.5}}`,
	`{ "ID" : "a\u00e9\n" , "Inputs" : [ {"data":[[1,2],[3,-4e-2]],"name":"input","datatype":"INT16", "shape": [ 2 , 2 ]} , {} ] , "outputs":[{"name":"class"},{"name":"exit","parameters":{"binary_data":false}}]}`,
	`{"id":null,"parameters":null,"inputs":null,"outputs":[],"more":{"a":[true,false,null,{"b":"\\\""}]}}`,
	`{"parameters":{"a":null,"b":-0,"c":"x","d":1e300,"\u0065":9223372036854775808,"f":[1],"priority":1},"inputs":[{"shape":[]},null]}`,
}

// TestDocument: what is read of a request's JSON, or that it is refused, is as encoding/json has it.
func TestDocument(t *testing.T) {
	type tensor struct {
		Name, Datatype string
		Shape          []int64
		Parameters     map[string]any
		Data           json.RawMessage
	}
	type request struct {
		ID         string
		Parameters map[string]any
		Inputs     []tensor
		Outputs    []tensor
	}
	options := func(in map[string]any) (map[string]any, bool) {
		out := map[string]any{}
		for name, v := range in {
			switch v := v.(type) {
			case nil:
			case json.Number:
				if i, err := v.Int64(); err == nil {
					out[name] = i
				} else if f, err := v.Float64(); err == nil {
					out[name] = f
				} else {
					return nil, false
				}
			case string, bool:
				out[name] = v
			default:
				return nil, false
			}
		}
		return out, true
	}
	tensors := func(list []tensor) (out []restTensor, ok bool) {
		for i := range list {
			p, ok := options(list[i].Parameters)
			if !ok {
				return nil, false
			}
			out = append(out, restTensor{Name: list[i].Name, Datatype: list[i].Datatype, Shape: list[i].Shape, Parameters: p, Data: jsontext.Value(list[i].Data)})
		}
		return out, true
	}
	oracle := func(text string) (doc restDoc, ok bool) {
		var d request
		read := json.NewDecoder(strings.NewReader(text))
		read.UseNumber()
		if read.Decode(&d) != nil || read.More() {
			return doc, false
		}
		doc.ID = d.ID
		var is [3]bool
		doc.Params, is[0] = options(d.Parameters)
		doc.Inputs, is[1] = tensors(d.Inputs)
		doc.Outputs, is[2] = tensors(d.Outputs)
		return doc, is == [3]bool{true, true, true} && len(strings.TrimSpace(text[read.InputOffset():])) == 0
	}
	plain := func(d restDoc) string { // maps in order, no difference between none and nothing
		var b strings.Builder
		write := func(o map[string]any) {
			for _, name := range slices.Sorted(maps.Keys(o)) {
				if f, is := o[name].(float64); is {
					fmt.Fprintf(&b, "%q: %x; ", name, math.Float64bits(f))
				} else {
					fmt.Fprintf(&b, "%q: %#v; ", name, o[name])
				}
			}
		}
		fmt.Fprintf(&b, "%q ", d.ID)
		write(d.Params)
		for _, list := range [][]restTensor{d.Inputs, d.Outputs} {
			fmt.Fprintf(&b, "%d tensors: ", len(list))
			for i := range list {
				x := &list[i]
				fmt.Fprintf(&b, "%q %q %v %s ", x.Name, x.Datatype, x.Shape, x.Data)
				write(x.Parameters)
			}
		}
		return b.String()
	}
	const seed, documents = 20261127, 20_000
	random := rand.New(rand.NewPCG(seed, 1))
	accepted := 0
	for n := range documents {
		text := []byte(seedDocuments[n%len(seedDocuments)])
		for range max(0, random.IntN(5)-2) {
			from := []byte(seedDocuments[random.IntN(len(seedDocuments))])
			i, j := random.IntN(len(from)), random.IntN(len(text))
			part := from[i:min(len(from), i+1+random.IntN(12))]
			text = slices.Replace(slices.Clone(text), j, min(len(text), j+random.IntN(12)), part...)
		}
		if jsontext.Value(text).IsValid() != json.Valid(text) {
			continue // names that come twice, which encoding/json merges
		}
		got, err := document(text)
		want, ok := oracle(string(text))
		if ok != (err == nil) {
			t.Fatalf("seed %d, document %d: %s\nread: %v; by encoding/json it is right: %t", seed, n, text, err, ok)
		}
		if !ok {
			continue
		}
		accepted++
		if a, b := plain(got), plain(want); a != b {
			t.Fatalf("seed %d, document %d: %s\nread as  %s\nexpected %s", seed, n, text, a, b)
		}
	}
	if accepted < documents/4 {
		t.Errorf("%d of %d documents are right: too few", accepted, documents)
	}
}
