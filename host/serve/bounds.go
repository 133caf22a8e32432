// How much memory requests take: a message may be short and large when it is read.

package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

const (
	maxTensors = 256     // of a request, in JSON
	maxShape   = 1 << 10 // bytes of a shape, in JSON
	maxParams  = 1 << 16 // bytes of parameters, in JSON
	maxID      = 1 << 10 // bytes of a request's id, which every answer repeats
	slack      = 1 << 16 // what a message may have beside tensors
)

// memory bounds the requests that are under way.
type memory struct{ used, most atomic.Int64 }

// take counts n bytes, or refuses them.
func (m *memory) take(n int) error {
	if most := m.most.Load(); m.used.Add(int64(n)) > most {
		m.give(n)
		return exhausted(retryAfter, "the requests under way take all of the %d bytes that they may", most)
	}
	return nil
}

func (m *memory) give(n int) { m.used.Add(-int64(n)) }

// taking counts what is read.
type taking struct {
	io.Reader
	m *memory
	n int // bytes to give back
}

// Read implements io.Reader.
func (t *taking) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if full := t.m.take(n); full != nil {
		return 0, full
	}
	t.n += n
	return n, err
}

// codec is protobuf's for messages that take no more memory than they may. grpc-go calls a message that cannot be read a fault of
// the server's: ours come through empty, with the reason among their unknown fields.
type codec struct {
	encoding.CodecV2
	most int
}

// unreadable is the number of a field that no message has.
const unreadable = protowire.MaxValidNumber

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok || m.ProtoReflect().Descriptor().ParentFile() != oip.File_oip_proto {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	err := fmt.Errorf("the message takes more than %d bytes when it is read", c.most)
	if left(m.ProtoReflect().Descriptor(), b.ReadOnlyData(), c.most+slack) >= 0 {
		err = proto.Unmarshal(b.ReadOnlyData(), m)
	}
	if err != nil {
		proto.Reset(m)
		m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, unreadable, protowire.BytesType), err.Error()))
	}
	return nil
}

// legible refuses a message that could not be read.
func (s *Server) legible(m any) error {
	b := []byte(m.(proto.Message).ProtoReflect().GetUnknown())
	if num, kind, n := protowire.ConsumeTag(b); num == unreadable && kind == protowire.BytesType {
		why, _ := protowire.ConsumeString(b[n:])
		return s.unread("", "", refuse(Invalid, "%s", why))
	}
	return nil
}

// left is what of some memory is left when a message of this kind has been read: about. Below 0 it does not look at the rest.
// What is no message costs nothing more: who reads it says so.
func left(d protoreflect.MessageDescriptor, b []byte, memory int) int {
	const field, message = 48, 128 // beside the bytes: a slice or an interface, a struct
	for len(b) > 0 && memory >= 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return memory
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return memory
		}
		memory -= field + n
		if f := d.Fields().ByNumber(num); f != nil && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			switch f.Kind() {
			case protoreflect.MessageKind:
				memory = left(f.Message(), v, memory-message)
			case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.BoolKind: // packed
				for _, x := range v {
					if x < 0x80 { // the last byte of a number
						memory -= 8
					}
				}
			}
		}
		b = b[n:]
	}
	return memory
}

// lenient has JSON read as encoding/json does. Names that may come twice need not be remembered, which took twenty times the
// memory of a message.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true))

// illegible says in our words why JSON is not what is expected: the library's differ from one run to the next.
func illegible(err error) error {
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	is, known := map[reflect.Kind]string{
		reflect.String: "a text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
	}[e.GoType.Kind()]
	if !known {
		return err
	}
	return fmt.Errorf("%q is a JSON %s: expected %s", cmp.Or(string(e.JSONPointer), "/"), e.JSONKind, is)
}

// few is a list that has not many elements, in JSON.
type few[T any] []T

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (f *few[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*f = nil
	switch d.PeekKind() {
	case 'n':
		return d.SkipValue()
	case '[', 0: // 0: what stands there is no JSON
	default:
		v, err := d.ReadValue()
		if err == nil {
			err = refuse(Invalid, "tensors are %.20q: expected a list", v)
		}
		return err
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != ']' {
		var v T
		if len(*f) == maxTensors {
			return refuse(Invalid, "more than %d tensors", maxTensors)
		}
		err = json.UnmarshalDecode(d, &v)
		*f = append(*f, v)
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// dims is a shape that is not long, in JSON.
type dims []int64

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *dims) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	b, err := d.ReadValue()
	if len(b) > maxShape {
		return refuse(Invalid, "a shape of %d bytes: expected at most %d", len(b), maxShape)
	} else if err != nil {
		return err
	}
	if json.Unmarshal(b, (*[]int64)(s), d.Options()) != nil {
		return refuse(Invalid, "the shape is %.40s: expected a list of whole numbers", b)
	}
	return nil
}

// options are parameters, in the types that gRPC has. They are not long, in JSON. What is null is as if it were left out.
type options map[string]any

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *options) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	b, err := d.ReadValue()
	if len(b) > maxParams {
		return refuse(Invalid, "parameters of %d bytes: expected at most %d", len(b), maxParams)
	} else if err != nil {
		return err
	}
	var values map[string]jsontext.Value
	if err := json.Unmarshal(b, &values, d.Options()); err != nil {
		return refuse(Invalid, "parameters are %.40s: expected an object", b)
	}
	*o = make(options, len(values))
	for name, v := range values {
		if v.Kind() == 'n' {
			continue
		}
		if (*o)[name], err = option(v); err != nil {
			return refuse(Invalid, "parameter %.40q is %.40s: %v", name, v, err)
		}
	}
	return nil
}

// option is a parameter's value.
func option(v jsontext.Value) (any, error) {
	switch v.Kind() {
	case '0':
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i, nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil, errors.New("it is beyond any number")
		}
		return f, nil
	case '"':
		var s string
		err := json.Unmarshal(v, &s, lenient)
		return s, err
	case 't', 'f':
		return v.Kind() == 't', nil
	}
	return nil, errors.New("expected a number, a text, true or false")
}
