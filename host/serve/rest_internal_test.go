package serve

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// TestToWords: single elements of every datatype, with numbers of channels and lengths around the size of a block.
func TestToWords(t *testing.T) {
	random := rand.New(rand.NewPCG(20261128, 1))
	for _, n := range []int{0, 1, 255, 256, 257, 513, 768, 1100} {
		for _, datatype := range inputTypes() {
			net := &bundle.Network{InFrac: random.IntN(15)}
			pixels := make([]float32, 256*(1+random.IntN(4)))
			for i := range pixels {
				pixels[i] = float32(random.NormFloat64() * 3)
			}
			data, want, saturated := make([]byte, n*sizeOf(datatype)), make([]int16, n), false
			for i := range want {
				var v float32
				switch datatype {
				case "FP32":
					v = float32(random.NormFloat64() * math.Exp2(float64(random.IntN(18)-4)))
					binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
				case "UINT8":
					data[i] = byte(random.Uint32())
					v = pixels[i%(len(pixels)/256)*256+int(data[i])]
				case "INT16":
					want[i] = int16(random.Uint32())
					binary.LittleEndian.PutUint16(data[2*i:], uint16(want[i]))
					continue
				case "INT8":
					data[i] = byte(random.Uint32())
					want[i] = int16(int8(data[i]))
					continue
				}
				saturated = net.Elements(want[i:i+1], []float32{v}) || saturated
			}
			if got, cut, err := toWords(datatype, data, net, pixels); err != nil || cut != saturated || !slices.Equal(got, want) {
				t.Errorf("%d of %s, %d channels: cut %t, %v: expected %t", n, datatype, len(pixels)/256, cut, err, saturated)
			}
			for _, odd := range []float64{math.Inf(-1), math.Inf(1), math.NaN(), math.Copysign(math.NaN(), -1)} {
				if n == 0 || datatype != "FP32" && datatype != "UINT8" {
					continue
				}
				k, spoilt := random.IntN(n), slices.Clone(pixels)
				if datatype == "FP32" {
					binary.LittleEndian.PutUint32(data[4*k:], math.Float32bits(float32(odd)))
				} else {
					spoilt[k%(len(pixels)/256)*256+int(data[k])] = float32(odd)
				}
				if _, _, err := toWords(datatype, data, net, spoilt); err == nil {
					t.Errorf("%d of %d of %s is %v, and is taken", k, n, datatype, odd)
				}
			}
		}
	}
}

// TestFirstWrong: of several invalid parameters the first by name is reported.
func TestFirstWrong(t *testing.T) {
	for range 20 { // maps have no order
		if _, err := document([]byte(`{"parameters":{"c":[1],"a":{},"b":1e999,"d":1}}`)); err == nil || !strings.Contains(err.Error(), `parameter "a"`) {
			t.Fatal(err)
		}
	}
}

// limited is a writer that supports deadlines.
type limited struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (w *limited) SetWriteDeadline(at time.Time) error {
	w.set = append(w.set, at)
	return nil
}

// TestAnswersAreLimited: the server does not wait for clients that do not read an answer, even one with only a
// header.
func TestAnswersAreLimited(t *testing.T) {
	s := &Server{opts: Options{Limits: Limits{}.filled()}}
	for name, h := range map[string]http.HandlerFunc{
		"body":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) },
		"header": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		w := &limited{ResponseRecorder: httptest.NewRecorder()}
		s.limitTimes(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2", http.NoBody))
		if len(w.set) != 1 || time.Until(w.set[0]) < time.Minute {
			t.Errorf("%s: the limit was set to %v", name, w.set)
		}
	}
}
