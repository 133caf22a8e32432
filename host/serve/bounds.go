// Limits on the memory of requests. They are needed because a short message can become large when it is decoded.

package serve

import (
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

const (
	maxTensors = 256     // number of tensors of a request, in JSON
	maxShape   = 1 << 10 // bytes of a shape, in JSON
	maxParams  = 1 << 16 // bytes of parameters, in JSON
	maxID      = 1 << 10 // bytes of a request's id; every answer contains this id
	slack      = 1 << 16 // bytes of a message besides its tensors
)

// memory limits the memory of all requests in flight.
type memory struct{ used, most atomic.Int64 }

// take reserves n bytes. It fails if the limit would be exceeded.
func (m *memory) take(n int) error {
	if most := m.most.Load(); m.used.Add(int64(n)) > most {
		m.give(n)
		return exhausted(retryAfter, "the requests under way take all of the %d bytes that they may", most)
	}
	return nil
}

func (m *memory) give(n int) { m.used.Add(-int64(n)) }

// taking is a reader that reserves memory for all the bytes that it reads.
type taking struct {
	io.Reader
	m *memory
	n int // bytes to release
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

// codec is protobuf's codec with a limit on the memory of a decoded message. If decoding fails, it stores the error in
// an unknown field of an empty message (see legible), because grpc-go would report an error of the server.
type codec struct {
	encoding.CodecV2
	most int
}

// unreadable is a field number that no message uses.
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

// legible returns the error of a message that could not be decoded.
func (s *Server) legible(m any) error {
	b := []byte(m.(proto.Message).ProtoReflect().GetUnknown())
	if num, kind, n := protowire.ConsumeTag(b); num == unreadable && kind == protowire.BytesType {
		why, _ := protowire.ConsumeString(b[n:])
		return s.unread("", "", refuse(Invalid, "%s", why))
	}
	return nil
}

// left estimates how many bytes of memory remain after a message of type d is decoded. It stops when the result is
// negative, or at invalid bytes, because decoding fails at these bytes.
func left(d protoreflect.MessageDescriptor, b []byte, memory int) int {
	const field, message = 48, 128 // bytes that decoding allocates in addition to the contents: for a slice or an interface; for a struct
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
			case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.BoolKind: // packed numbers
				for _, x := range v {
					if x < 0x80 { // this is the last byte of a number
						memory -= 8
					}
				}
			}
		}
		b = b[n:]
	}
	return memory
}
