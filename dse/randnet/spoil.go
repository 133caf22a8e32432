package randnet

import (
	"fmt"
	"math"
	"reflect"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// Spoil changes fields of a bundle one after the other, until all data are used, and returns a description of each
// change. The data select a field and its new value. Spoil is used to fuzz readers of bundles, because a
// file with changed bytes almost never passes the hash check.
func Spoil(b *bundle.Bundle, data []byte) []string {
	s := spoiler{data}
	var done []string
	for len(s.data) > 0 && len(done) < 16 {
		v := reflect.ValueOf(b).Elem()
		done = append(done, s.change(v, "bundle"))
	}
	return done
}

type spoiler struct{ data []byte }

// next reads n bytes of data as a number. Missing bytes are zero.
func (s *spoiler) next(n int) uint64 {
	var v uint64
	for i := range n {
		if i < len(s.data) {
			v |= uint64(s.data[i]) << (8 * i)
		}
	}
	s.data = s.data[min(n, len(s.data)):]
	return v
}

func (s *spoiler) change(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Struct:
		i := int(s.next(1)) % v.NumField()
		return s.change(v.Field(i), path+"."+v.Type().Field(i).Name)
	case reflect.Slice:
		n := v.Len()
		i := int(s.next(2))
		if n == 0 || i >= 0xF000 { // sometimes change the length of the slice
			n = i % (n + 1)
			v.Set(v.Slice(0, n))
			return fmt.Sprintf("%s cut to %d", path, n)
		}
		return s.change(v.Index(i%n), fmt.Sprintf("%s[%d]", path, i%n))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(s.number(uint64(v.Int()))) << (64 - v.Type().Bits()) >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(s.number(v.Uint()) << (64 - v.Type().Bits()) >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(s.number(math.Float64bits(v.Float()))))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString([]string{"", "x", "\xff", v.String() + "x"}[s.next(1)%4])
	}
	return fmt.Sprintf("%s = %v", path, v)
}

// number returns a new value that may cause errors: the old value with one inverted bit, a slightly larger or smaller
// value, a value close to zero or to a power of two, or any value.
func (s *spoiler) number(was uint64) uint64 {
	kind, by := s.next(1), s.next(1)
	near := uint64(int64(int8(by))) // a number in -128..127
	switch kind % 8 {
	case 0:
		return was ^ 1<<(by%64)
	case 1:
		return was + near
	case 2:
		return near
	case 3:
		return s.next(8)
	case 4:
		return 1<<63 - 2 - by%32&^1 // even, because offsets must be even
	case 5:
		return -(uint64(1) << (by % 64))
	}
	return 1<<(by%64) - 2*(kind>>4)
}
