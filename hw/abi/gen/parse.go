package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// spec is the description, parsed and checked.
type spec struct {
	schema  string
	version int64

	constants []constant
	registers []register
	counters  counters
	ops       []value
	desc      []field
	fbcb      []field
	limits    []constant // not part of the hash
	errors    []value

	hash uint64 // first 64 bits of SHA-256 of canonical()
}

type constant struct {
	name, doc string
	value     int64
	line      int
}

// value is an operator or an error code.
type value struct {
	name, doc string
	value     int64
	line      int
}

type register struct {
	name, doc string
	offset    int64
	access    string // ro, rw, w1c, wo
	busyOK    bool
	count     int64 // number of consecutive registers with this name
	bits      int64 // number of significant bits, for a register without fields
	fields    []field
	line      int
}

// field is a range of bits of a register, a descriptor word or an FBCB entry.
type field struct {
	name, doc string
	word      int64 // only for fields of the descriptor
	lsb, bits int64
	signed    bool
	planned   bool // only int8 hardware has the field
	line      int
}

type counters struct {
	base int64
	list []counter
	line int
}

type counter struct {
	name, doc string
	line      int
}

// built returns the part of the description that int16 hardware has: all except planned fields.
func (s *spec) built() *spec {
	of := func(all []field) []field {
		return slices.DeleteFunc(slices.Clone(all), func(f field) bool { return f.planned })
	}
	out := *s
	out.desc, out.fbcb, out.registers = of(s.desc), of(s.fbcb), slices.Clone(s.registers)
	for i := range out.registers {
		out.registers[i].fields = of(out.registers[i].fields)
	}
	return &out
}

// constant finds a constant by name.
func (s *spec) constant(name string) (int64, bool) {
	for _, c := range s.constants {
		if c.name == name {
			return c.value, true
		}
	}
	return 0, false
}

// mask returns a word with ones at the register's bits.
func (r register) mask() uint32 {
	if len(r.fields) == 0 {
		return fieldMask(0, r.bits)
	}
	var m uint32
	for _, f := range r.fields {
		m |= fieldMask(f.lsb, f.bits)
	}
	return m
}

func fieldMask(lsb, bits int64) uint32 {
	return uint32((uint64(1)<<bits - 1) << lsb)
}

// parser walks the YAML tree, so that every key is either read or rejected and every error has a line number. It
// collects the first hundred errors.
type parser struct {
	file string
	errs []error
}

func (p *parser) fail(line int, format string, args ...any) {
	if len(p.errs) < 100 {
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.file, line, fmt.Sprintf(format, args...)))
	}
}

// parse reads and checks a description. It returns a description only if there is no error.
func parse(file string, text []byte) (*spec, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: expected one YAML document", file)
	}
	p := &parser{file: file}
	s := p.spec(doc.Content[0])
	if len(p.errs) == 0 {
		p.check(s)
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	s.hash = hashOf(s.built())
	return s, nil
}

// object is a YAML mapping. Its keys are read one by one.
type object struct {
	p    *parser
	line int
	what string
	keys map[string]*yaml.Node
}

func (p *parser) object(n *yaml.Node, what string) *object {
	o := &object{p: p, line: n.Line, what: what, keys: map[string]*yaml.Node{}}
	if n.Kind != yaml.MappingNode {
		p.fail(n.Line, "%s: expected a mapping", what)
		return o
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, dup := o.keys[k.Value]; dup {
			p.fail(k.Line, "%s: key %q stands twice", what, k.Value)
		}
		o.keys[k.Value] = n.Content[i+1]
	}
	return o
}

// take removes a key and returns its node. For a missing key, it returns nil, and reports an error if required is set.
func (o *object) take(key string, required bool) *yaml.Node {
	n, ok := o.keys[key]
	if !ok {
		if required {
			o.p.fail(o.line, "%s: key %q is missing", o.what, key)
		}
		return nil
	}
	delete(o.keys, key)
	return n
}

func (o *object) str(key string, required bool) string {
	n := o.take(key, required)
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		o.p.fail(n.Line, "%s: %s: expected text", o.what, key)
		return ""
	}
	if strings.ContainsAny(n.Value, "\n\r") {
		o.p.fail(n.Line, "%s: %s: expected one line of text", o.what, key)
	}
	return n.Value
}

func (o *object) num(key string, required bool, def int64) int64 {
	n := o.take(key, required)
	if n == nil {
		return def
	}
	// Base 0 accepts 0x and decimal. A leading zero would mean octal and is rejected.
	v, err := strconv.ParseInt(n.Value, 0, 64)
	octal := len(n.Value) > 1 && n.Value[0] == '0' && n.Value[1] >= '0' && n.Value[1] <= '9'
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || octal {
		o.p.fail(n.Line, "%s: %s: expected a number, found %q", o.what, key, n.Value)
		return def
	}
	return v
}

func (o *object) flag(key string) bool {
	n := o.take(key, false)
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		o.p.fail(n.Line, "%s: %s: expected true or false", o.what, key)
		return false
	}
	return n.Value == "true"
}

func (o *object) list(key string, required bool, each func(*yaml.Node)) {
	n := o.take(key, required)
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		o.p.fail(n.Line, "%s: %s: expected a list that is not empty", o.what, key)
		return
	}
	for _, c := range n.Content {
		each(c)
	}
}

// done rejects unread keys.
func (o *object) done() {
	for k, n := range o.keys {
		o.p.fail(n.Line, "%s: unknown key %q", o.what, k)
	}
}

func (p *parser) spec(n *yaml.Node) *spec {
	s := &spec{}
	o := p.object(n, "description")
	s.schema = o.str("schema", true)
	s.version = o.num("version", true, 0)
	o.list("constants", true, func(n *yaml.Node) {
		e := p.object(n, "constant")
		s.constants = append(s.constants, constant{
			name: e.str("name", true), value: e.num("value", true, 0), doc: e.str("doc", true), line: n.Line,
		})
		e.done()
	})
	o.list("registers", true, func(n *yaml.Node) { s.registers = append(s.registers, p.register(n)) })
	if n := o.take("counters", true); n != nil {
		e := p.object(n, "counters")
		s.counters.base, s.counters.line = e.num("base", true, 0), n.Line
		e.list("list", true, func(n *yaml.Node) {
			c := p.object(n, "counter")
			s.counters.list = append(s.counters.list, counter{name: c.str("name", true), doc: c.str("doc", true), line: n.Line})
			c.done()
		})
		e.done()
	}
	o.list("ops", true, func(n *yaml.Node) { s.ops = append(s.ops, p.value(n, "op", "value")) })
	o.list("descriptor", true, func(n *yaml.Node) { s.desc = append(s.desc, p.field(n, "descriptor field", true)) })
	o.list("fbcb", true, func(n *yaml.Node) { s.fbcb = append(s.fbcb, p.field(n, "fbcb field", false)) })
	o.list("limits", true, func(n *yaml.Node) {
		e := p.object(n, "limit")
		s.limits = append(s.limits, constant{
			name: e.str("name", true), value: e.num("value", true, 0), doc: e.str("doc", true), line: n.Line,
		})
		e.done()
	})
	o.list("errors", true, func(n *yaml.Node) { s.errors = append(s.errors, p.value(n, "error", "code")) })
	o.done()
	return s
}

func (p *parser) value(n *yaml.Node, what, key string) value {
	e := p.object(n, what)
	v := value{name: e.str("name", true), value: e.num(key, true, 0), doc: e.str("doc", true), line: n.Line}
	e.done()
	return v
}

func (p *parser) field(n *yaml.Node, what string, desc bool) field {
	e := p.object(n, what)
	f := field{name: e.str("name", true), line: n.Line}
	if desc {
		f.word = e.num("word", true, 0)
		f.signed = e.flag("signed")
	}
	f.lsb, f.bits, f.doc, f.planned = e.num("lsb", true, 0), e.num("bits", true, 1), e.str("doc", true), e.flag("planned")
	e.done()
	return f
}

func (p *parser) register(n *yaml.Node) register {
	e := p.object(n, "register")
	r := register{
		name: e.str("name", true), offset: e.num("offset", true, 0), access: e.str("access", true),
		count: e.num("count", false, 1), doc: e.str("doc", true), line: n.Line,
	}
	switch busy := e.str("busy", false); busy {
	case "":
	case "ok":
		r.busyOK = true
	default:
		p.fail(n.Line, "register %s: busy: expected ok or nothing, found %q", r.name, busy)
	}
	_, hasBits := e.keys["bits"]
	r.bits = e.num("bits", false, 32)
	e.list("fields", false, func(n *yaml.Node) {
		r.fields = append(r.fields, p.field(n, "field of register "+r.name, false))
	})
	if hasBits && len(r.fields) > 0 {
		p.fail(n.Line, "register %s: bits and fields exclude each other", r.name)
	}
	e.done()
	return r
}
