package serve

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// whatever reads a request as a model of this shape does.
func whatever(t *testing.T, q *Request) {
	m := &Model{name: "m", net: &bundle.Network{InH: 2, InW: 1, InC: 1, InFrac: 8, Exits: []bundle.Exit{{Classes: 2}, {Classes: 2}}}, set: Settings{}.filled(), classes: 2, pixels: make([]float32, 256)}
	if m.outputs(q) != nil {
		return
	}
	in, err := m.samples(q, 8)
	if err == nil && (len(in) < 1 || len(in) > 8 || in[0][0].Check() != nil) {
		t.Errorf("%d samples were taken, of %+v", len(in), q.Inputs)
	}
	if theta, err := m.thresholds(q.Params); err == nil {
		for _, v := range theta {
			if !(v >= 0 && v <= 2) {
				t.Errorf("thresholds %v of %v", theta, q.Params)
			}
		}
	}
	if p, err := m.priority(q.Params); err == nil && (p < 0 || p > 1) {
		t.Errorf("priority %d of %v", p, q.Params)
	}
	if d, err := m.within(t.Context(), time.Now(), q.Params); err == nil && d < 0 {
		t.Errorf("%v of %v", d, q.Params)
	}
}

// TestPixelsOfChannels: each channel has values of its own.
func TestPixelsOfChannels(t *testing.T) {
	pixels := make([]float32, 3*256)
	for i := range pixels {
		pixels[i] = float32(1000*(i/256) + i%256)
	}
	want := []int16{1, 1002, 2003, 255, 1000, 2001}
	if got, cut, err := toWords("UINT8", []byte{1, 2, 3, 255, 0, 1}, &bundle.Network{}, pixels); err != nil || cut || !slices.Equal(got, want) {
		t.Errorf("%v, cut %v, %v: expected %v", got, cut, err, want)
	}
}

// FuzzREST: any bytes are a request, or are refused with a reason.
func FuzzREST(f *testing.F) {
	f.Add([]byte(`{"id":"1","inputs":[{"name":"input","datatype":"FP32","shape":[1,2,1,1],"data":[[1,2.5]]}],"parameters":{"slo_us":5}}`), "")
	f.Add([]byte(`{"inputs":[{"name":"input","datatype":"INT16","shape":[2,1,1],"parameters":{"binary_data_size":4}}],"outputs":[{"name":"logits","parameters":{"classification":2}}]}abcd`), "147")
	f.Add([]byte(`{"inputs":[{"name":"input","datatype":"FP32","shape":[9223372036854775807,2],"data":[]}]}`), "")
	f.Add([]byte(`{"inputs":[{"name":"input","datatype":"UINT8","shape":[1,2,1,1],"data":[0,255]}]}`), "")
	f.Add([]byte(`{"inputs":[{"name":"input","datatype":"INT16","shape":[2,2,1,1],"data":[[[1],[2]],[[3,4],[]]]}]}`), "")
	f.Add([]byte(`{"parameters":{"exit_threshold":1e999,"max_exit":-1}}`), "-3")
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		q, err := decode(body, length)
		if err != nil {
			if e := coded(err); e.Code != Invalid && e.Code != Unserved || e.Text == "" {
				t.Fatalf("%v: code %s: expected a refusal of the request", err, e.Code)
			}
			return
		}
		whatever(t, &q.Request)
	})
}

// FuzzGRPC: any message is a request or a refusal.
func FuzzGRPC(f *testing.F) {
	add := func(m *oip.ModelInferRequest) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	in := []*oip.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{1, 2, 1, 1}, Contents: &oip.InferTensorContents{Fp32Contents: []float32{1, 2}}}}
	add(&oip.ModelInferRequest{ModelName: "m", Inputs: in})
	add(&oip.ModelInferRequest{ModelName: "m", Inputs: in, RawInputContents: [][]byte{make([]byte, 8)}, Parameters: toParams(map[string]any{"priority": uint64(1), "exit_threshold": 0.5, "max_exit": "1"})})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m oip.ModelInferRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		if q, err := fromGRPC(&m); err == nil {
			whatever(t, q)
		}
	})
}

// FuzzSettings: a server can use all accepted settings.
func FuzzSettings(f *testing.F) {
	f.Add("policy: fluid\nslo: 5ms\ntheta: [0.5, 1]\npriorities: 3\npriority: 2\n")
	f.Add("theta: [.nan]")
	f.Add("slo: -1s")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSettings([]byte(text))
		if err != nil {
			return
		}
		levels := s.Priorities
		if s = s.filled(); s.SLO < 0 || s.Queue < 1 || s.Priority < 1 || levels > 0 && s.Priority > levels || len(s.Theta) == 0 || strings.TrimSpace(s.Policy) == "" {
			t.Errorf("%q: %+v", text, s)
		}
	})
}
