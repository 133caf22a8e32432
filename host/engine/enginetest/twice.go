package enginetest

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-npu/sluice/host/sched"
)

// Twice calls a copy of the policy before the policy itself, and requires equal answers. Decide must not change
// anything except the policy.
type Twice struct {
	sched.Policy
	T     testing.TB
	Clean func(*sched.Action) // removes data that cannot be compared, for example a plan; nil: none
	Asked int
}

// Decide implements sched.Policy.
func (p *Twice) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	clean := func(v []sched.Action) []sched.Action {
		v = slices.Clone(v)
		for i := range v {
			v[i].Requests = slices.Clone(v[i].Requests)
			if p.Clean != nil {
				p.Clean(&v[i])
			}
		}
		return v
	}
	first := clean(Copy(p.Policy).Decide(now, s, ev, nil))
	from := len(buf)
	buf = p.Policy.Decide(now, s, ev, buf)
	p.Asked++
	if d := cmp.Diff(first, clean(buf[from:]), cmpopts.EquateEmpty()); d != "" {
		p.T.Fatalf("%s, asked twice at %d ns: %s", p.Name(), now, d)
	}
	return buf
}

// Copy is a deep copy of a policy, except for latency tables, functions and channels, which never change.
func Copy(p sched.Policy) sched.Policy {
	deepen(reflect.ValueOf(&p).Elem(), map[unsafe.Pointer]reflect.Value{})
	return p
}

// deepen replaces all values that v refers to by copies. Equal pointers point to the same copy.
func deepen(v reflect.Value, seen map[unsafe.Pointer]reflect.Value) {
	if !v.CanSet() { // a private field
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	copied := func(x reflect.Value) reflect.Value {
		c := reflect.New(x.Type()).Elem()
		c.Set(x)
		deepen(c, seen)
		return c
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			deepen(v.Field(i), seen)
		}
	case reflect.Array:
		for i := range v.Len() {
			deepen(v.Index(i), seen)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*sched.Table]() {
			return
		}
		c, ok := seen[v.UnsafePointer()]
		if !ok {
			c = reflect.New(v.Type().Elem())
			seen[v.UnsafePointer()] = c
			c.Elem().Set(v.Elem())
			deepen(c.Elem(), seen)
		}
		v.Set(c)
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(copied(v.Elem()))
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			deepen(c.Index(i), seen)
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		c := reflect.MakeMap(v.Type())
		for k, x := range v.Seq2() {
			c.SetMapIndex(k, copied(x))
		}
		v.Set(c)
	}
}
