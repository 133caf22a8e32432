package serve

import (
	"bytes"
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

// seedDocuments are the pieces of random documents.
var seedDocuments = []string{
	`{"inputs":[{"name":"input","shape":[1,28,28,1],"datatype":"FP32","parameters":{"binary_data_size":3136}}],"parameters":{"binary_data_output":true,"exit_threshold":0.5}}`,
	`{ "ID" : "a\u00e9\n" , "Inputs" : [ {"data":[[1,2],[3,-4e-2]],"name":"input","datatype":"INT16", "shape": [ 2 , 2 ]} , {} ] , "outputs":[{"name":"class"},{"name":"exit","parameters":{"binary_data":false}}]}`,
	`{"id":null,"parameters":null,"inputs":null,"outputs":[],"more":{"a":[true,false,null,{"b":"\\\""}]}}`,
	`{"parameters":{"a":null,"b":-0,"c":"x","d":1e300,"\u0065":9223372036854775808,"f":[1],"priority":1},"inputs":[{"shape":[]},null]}`,
}

// TestDocument: a request's JSON is read or refused as by encoding/json.
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
	plain := func(d restDoc) string { // maps in order; nil and empty are equal
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
			if random.IntN(8) == 0 {
				part = []byte{"\xff\v\x00\xa0"[random.IntN(4)]}
			}
			text = slices.Replace(slices.Clone(text), j, min(len(text), j+random.IntN(12)), part...)
		}
		if jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) != json.Valid(text) {
			continue // duplicate names, which encoding/json merges
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

// TestDocumentLast: of duplicate names the last counts, for any first value.
func TestDocumentLast(t *testing.T) {
	for text, want := range map[string]string{
		`{"inputs":[{"name":"a"},{"name":"b"}],"inputs":[{"shape":[1]}]}`:      "0 parameters, inputs [{ [1]  map[] null}]",
		`{"parameters":{"a":1,"b":2},"parameters":{"a":3}}`:                    "1 parameters, inputs []",
		`{"parameters":{"a":[],"a":1,"b":1e999,"b":2}}`:                        "2 parameters, inputs []",
		`{"inputs":[{"shape":[1,2],"shape":[3]},{"shape":[1],"shape":null}]}`:  "0 parameters, inputs [{ [3]  map[] null} { []  map[] null}]",
		`{"parameters":{"a":"` + strings.Repeat("x", maxParams-8) + `"}}`:      "1 parameters, inputs []",
		`{"parameters":   {"a":"` + strings.Repeat("x", maxParams-7) + `"}}`:   "parameters of 65537 bytes",
		`{"parameters":{"a":1` + strings.Repeat(" ", maxParams) + `}}`:         "parameters of 65543 bytes",
		`{"id":"` + strings.Repeat("x", maxID) + `"}`:                          "0 parameters, inputs []",
		`{"id":"` + strings.Repeat("x", maxID+1) + `"}`:                        "1025 bytes",
		`{"inputs":[{"shape":[` + strings.Repeat("1,", maxShape/2-1) + `1]}]}`: "1025 bytes",
		`{"inputs":[` + strings.Repeat("{},", maxTensors) + `{}]}`:             "more than 256 tensors",
		"{}\u00a0": "goes on behind its JSON",
	} {
		doc, err := document([]byte(text))
		got := fmt.Sprintf("%d parameters, inputs %v", len(doc.Params), doc.Inputs)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.60s: %s: expected %s", text, got, want)
		}
	}
}

// TestAnswerDoc: encoding/json reads the original values from an answer.
func TestAnswerDoc(t *testing.T) {
	random := rand.New(rand.NewPCG(20261127, 2))
	text := func() string {
		b := make([]rune, random.IntN(6))
		for i := range b {
			b[i] = []rune("a\"\\\n\x00é\u2028<")[random.IntN(8)]
		}
		return string(b)
	}
	for range 2000 {
		a := &Answer{Model: text(), Version: "2", ID: text(), Params: map[string]any{
			"exit": random.Int64() - 1<<62, text(): text(), "deadline_met": random.IntN(2) == 0, "confidence": math.Ldexp(random.Float64(), random.IntN(200)-100),
		}}
		floats, ints, names := make([]float32, random.IntN(5)), make([]int32, 1+random.IntN(3)), []string{text(), text()}
		for i := range floats {
			for floats[i] = math.Float32frombits(random.Uint32()); floats[i]-floats[i] != 0; { // finite
				floats[i] = math.Float32frombits(random.Uint32())
			}
		}
		for i := range ints {
			ints[i] = int32(random.Uint32())
		}
		a.Outputs = []Tensor{float32s(text(), floats, 1, int64(len(floats))), int32s("class", ints, int64(len(ints)), 1), texts("names", names, 2), float32s("raw", floats, int64(len(floats)))}
		doc, n := appendAnswer([]byte("before"), a, func(i int) bool { return i == 3 })
		head, tail := doc[len("before"):][:n], doc[len("before"):][n:]
		var got struct {
			Model   string         `json:"model_name"`
			Version string         `json:"model_version"`
			ID      string         `json:"id"`
			Params  map[string]any `json:"parameters"`
			Outputs []struct {
				Name       string          `json:"name"`
				Shape      []int64         `json:"shape"`
				Datatype   string          `json:"datatype"`
				Parameters map[string]int  `json:"parameters"`
				Data       json.RawMessage `json:"data"`
			} `json:"outputs"`
		}
		d := json.NewDecoder(strings.NewReader(string(head)))
		d.DisallowUnknownFields()
		d.UseNumber()
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		same := got.Model == a.Model && got.Version == "2" && got.ID == a.ID && len(got.Params) == len(a.Params) && len(got.Outputs) == 4
		for name, v := range a.Params {
			n, _ := got.Params[name].(json.Number)
			switch v := v.(type) {
			case int64:
				i, err := n.Int64()
				same = same && err == nil && i == v
			case float64:
				f, err := n.Float64()
				same = same && err == nil && f == v
			default:
				same = same && got.Params[name] == v
			}
		}
		for i := range a.Outputs {
			x, y := &a.Outputs[i], &got.Outputs[i]
			same = same && y.Name == x.Name && slices.Equal(y.Shape, x.Shape) && y.Datatype == x.Datatype
		}
		var f []float32
		var whole []int32
		var s []string
		for i, to := range []any{&f, &whole, &s} {
			if err := json.Unmarshal(got.Outputs[i].Data, to); err != nil {
				t.Fatalf("%s: %v", head, err)
			}
		}
		same = same && slices.Equal(f, floats) && slices.Equal(whole, ints) && slices.Equal(s, names)
		if !same || got.Outputs[3].Parameters["binary_data_size"] != 4*len(floats) || !bytes.Equal(tail, a.Outputs[3].Data) {
			t.Fatalf("%+v\nwritten as %s", a, head)
		}
	}
	a := &Answer{Params: map[string]any{"v": 1e-9}, Outputs: []Tensor{float32s("x", []float32{0.1}, 1, 1)}}
	if head, _ := appendAnswer(nil, a, func(int) bool { return false }); !strings.Contains(string(head), `"v":1e-09`) || !strings.Contains(string(head), `"data":[0.1]`) {
		t.Errorf("numbers have more digits than they need: %s", head)
	}
}
