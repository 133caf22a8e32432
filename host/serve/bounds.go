// How much memory requests take: a message may be short and large when it is read.

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
