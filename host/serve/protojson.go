package serve

import (
	"net/http"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// answerProto writes a message as JSON. It uses the field names of the proto file and includes zeros. 64-bit integers
// are numbers, as with Triton; protojson would write them as strings.
func answerProto(w http.ResponseWriter, m proto.Message) error {
	return answerJSON(w, object(m.ProtoReflect()))
}

func object(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v := m.Get(f)
		var j any
		switch {
		case f.IsMap():
			of := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				of[k.String()] = single(f.MapValue(), v)
				return true
			})
			j = of
		case f.IsList():
			of := []any{}
			for k := range v.List().Len() {
				of = append(of, single(f, v.List().Get(k)))
			}
			j = of
		case f.Message() != nil && !m.Has(f):
			continue
		default:
			j = single(f, v)
		}
		out[string(f.Name())] = j
	}
	return out
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.Message() != nil:
		return object(v.Message())
	case f.Enum() != nil:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return int32(v.Enum())
	}
	return v.Interface()
}
