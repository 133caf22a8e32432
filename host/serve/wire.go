// Conversion between wire messages and the server's requests and answers.

package serve

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

func fromParams(in map[string]*oip.InferParameter) map[string]any {
	out := make(map[string]any, len(in))
	for name, p := range in {
		switch v := p.GetParameterChoice().(type) {
		case *oip.InferParameter_BoolParam:
			out[name] = v.BoolParam
		case *oip.InferParameter_Int64Param:
			out[name] = v.Int64Param
		case *oip.InferParameter_StringParam:
			out[name] = v.StringParam
		case *oip.InferParameter_DoubleParam:
			out[name] = v.DoubleParam
		case *oip.InferParameter_Uint64Param:
			out[name] = v.Uint64Param
		}
	}
	return out
}

func toParams(in map[string]any) map[string]*oip.InferParameter {
	out := make(map[string]*oip.InferParameter, len(in))
	for name, v := range in {
		p := &oip.InferParameter{}
		switch v := v.(type) {
		case bool:
			p.ParameterChoice = &oip.InferParameter_BoolParam{BoolParam: v}
		case int64:
			p.ParameterChoice = &oip.InferParameter_Int64Param{Int64Param: v}
		case uint64:
			p.ParameterChoice = &oip.InferParameter_Uint64Param{Uint64Param: v}
		case float64:
			p.ParameterChoice = &oip.InferParameter_DoubleParam{DoubleParam: v}
		case string:
			p.ParameterChoice = &oip.InferParameter_StringParam{StringParam: v}
		}
		out[name] = p
	}
	return out
}

// fromGRPC converts a gRPC message to a Request. Raw contents are not copied.
func fromGRPC(r *oip.ModelInferRequest) (*Request, error) {
	q := &Request{Model: r.ModelName, Version: r.ModelVersion, ID: r.Id, Params: fromParams(r.Parameters)}
	if len(r.Id) > maxID {
		return nil, longID(r.Id)
	}
	raw := r.RawInputContents
	for _, in := range r.Inputs {
		if c := in.GetContents(); len(raw) > 0 && c != nil && proto.Size(c) > 0 {
			return nil, refuse(Invalid, "%s: input %q has contents beside raw contents: expected either", r.ModelName, in.GetName())
		}
	}
	if len(raw) > 0 && len(raw) != len(r.Inputs) {
		return nil, refuse(Invalid, "%s: %d raw contents for %d inputs: expected one for each", r.ModelName, len(raw), len(r.Inputs))
	}
	for i, in := range r.Inputs {
		t := Tensor{Name: in.GetName(), Datatype: in.GetDatatype(), Shape: in.GetShape()}
		if _, shared := in.GetParameters()["shared_memory_region"]; shared {
			return nil, noSharedMemory(t.Name)
		}
		if len(raw) > 0 {
			t.Data = raw[i]
		} else {
			var err error
			if t.Data, err = contents(t.Name, t.Datatype, in.GetContents()); err != nil {
				return nil, err
			}
		}
		if n := elements(t.Shape); n < 0 || sizeOf(t.Datatype) > 0 && n*sizeOf(t.Datatype) != len(t.Data) {
			return nil, refuse(Invalid, "%s: input %q of %s with the shape %v has %d bytes: expected what the shape says", r.ModelName, t.Name, t.Datatype, t.Shape, len(t.Data))
		}
		q.Inputs = append(q.Inputs, t)
	}
	for _, o := range r.Outputs {
		w := Wanted{Name: o.GetName()}
		p := fromParams(o.GetParameters())
		if _, shared := p["shared_memory_region"]; shared {
			return nil, noSharedMemory(w.Name)
		}
		n, _, err := whole(p, "classification", 0, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		w.Classes = int(n)
		q.Outputs = append(q.Outputs, w)
	}
	return q, nil
}

// contents converts typed contents to bytes. It supports the datatypes that are allowed for inputs.
func contents(name, datatype string, c *oip.InferTensorContents) ([]byte, error) {
	var out []byte
	switch datatype {
	case "FP32":
		for _, v := range c.GetFp32Contents() {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	case "UINT8":
		for _, v := range c.GetUintContents() {
			if v > math.MaxUint8 {
				return nil, refuse(Invalid, "input %q: %d is no UINT8", name, v)
			}
			out = append(out, byte(v))
		}
	case "INT16":
		for _, v := range c.GetIntContents() {
			if v != int32(int16(v)) {
				return nil, refuse(Invalid, "input %q: %d is no INT16", name, v)
			}
			out = binary.LittleEndian.AppendUint16(out, uint16(v))
		}
	case "INT8":
		for _, v := range c.GetIntContents() {
			if v != int32(int8(v)) {
				return nil, refuse(Invalid, "input %q: %d is no INT8", name, v)
			}
			out = append(out, byte(v))
		}
	default:
		return nil, refuse(Invalid, "input %q is of %s: expected one of %v", name, datatype, inputTypes())
	}
	return out, nil
}

func toGRPC(a *Answer) *oip.ModelInferResponse {
	out := &oip.ModelInferResponse{ModelName: a.Model, ModelVersion: a.Version, Id: a.ID, Parameters: toParams(a.Params)}
	for i := range a.Outputs {
		t := &a.Outputs[i]
		out.Outputs = append(out.Outputs, &oip.ModelInferResponse_InferOutputTensor{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
		out.RawOutputContents = append(out.RawOutputContents, t.Data)
	}
	return out
}
