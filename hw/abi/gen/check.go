package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	addrBits    = 12 // width of a byte address in the register space
	counterSize = 8
)

var nameRE = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)

// reserved lists the words of SystemVerilog and C++. A field name in lower case must not be one of these words.
var reserved = strings.Fields(`
alias always and assert assign assume auto begin bind bit bool break buf byte case cell char class
clocking config const constraint context continue cover cross deassign default define defparam
delete design disable dist do double edge else end enum event expect export extends extern final
first_match float for force foreach forever fork friend function generate genvar global goto if iff
implies import include initial inline inout input inside instance int integer interface intersect
join large let liblist library local logic long longint macromodule matches medium modport module
mutable nand negedge new nor not null operator or output package packed parameter priority private
program property protected public pull0 pull1 pure rand randc real ref reg register release repeat
restrict return scalared sequence short signed sizeof small soft solve specify static string strong
struct super supply0 supply1 switch table tagged task template this throughout time timeprecision
timeunit tran tri type typedef typename union unique unsigned until untyped use var vectored virtual
void wait wand weak while wildcard wire with within wor xnor xor`)

// names rejects malformed and duplicate names. The field what is the kind of name, for error messages.
type names struct {
	p    *parser
	what string
	seen map[string]int
}

func (p *parser) names(what string) *names { return &names{p, what, map[string]int{}} }

func (n *names) add(name string, line int) {
	switch first, dup := n.seen[name]; {
	case !nameRE.MatchString(name):
		n.p.fail(line, "%s: name %q: expected upper case words joined by _", n.what, name)
	case dup:
		n.p.fail(line, "%s %s: the name stands already at line %d", n.what, name, first)
	}
	n.seen[name] = line
}

// check rejects descriptions that would result in contradictory files.
func (p *parser) check(s *spec) {
	if s.schema != "sluice-abi/1" {
		p.fail(1, "schema: expected sluice-abi/1, found %q", s.schema)
	}
	if s.version < 1 || s.version > 1<<31 {
		p.fail(1, "version: %d is not positive or too large", s.version)
	}
	consts := p.names("constant")
	for _, c := range s.constants {
		consts.add(c.name, c.line)
		if c.value < 0 || c.value >= 1<<32 {
			p.fail(c.line, "constant %s: %d does not fit 32 bits", c.name, c.value)
		}
	}
	for _, c := range s.limits {
		consts.add(c.name, c.line)
		if c.value < 0 || c.value >= 1<<31 {
			p.fail(c.line, "limit %s: %d does not fit 31 bits", c.name, c.value)
		}
	}
	p.checkRegisters(s)
	p.checkValues("op", s.ops, 4)
	p.checkValues("error", s.errors, 8)
	p.checkDescriptor(s)
	p.checkFields("fbcb", s.fbcb, 32)
	p.checkMembers("descriptor", s.desc)
	p.checkMembers("fbcb", s.fbcb)
	if len(p.errs) == 0 {
		p.checkIdentifiers(s)
	}
}

func (p *parser) checkRegisters(s *spec) {
	regs := p.names("register")
	end, prev := int64(0), "the start"
	for _, r := range s.registers {
		regs.add(r.name, r.line)
		switch {
		case r.offset%4 != 0:
			p.fail(r.line, "register %s: offset 0x%03X is not a multiple of 4", r.name, r.offset)
		case r.count < 1 || r.count > 256:
			p.fail(r.line, "register %s: count %d is not in 1..256", r.name, r.count)
		case r.offset < end:
			p.fail(r.line, "register %s: offset 0x%03X overlaps or stands before %s, which ends at 0x%03X",
				r.name, r.offset, prev, end)
		case r.offset+4*r.count > s.counters.base:
			p.fail(r.line, "register %s: reaches 0x%03X, beyond the counters at 0x%03X",
				r.name, r.offset+4*r.count, s.counters.base)
		}
		if !slices.Contains([]string{"ro", "rw", "w1c", "wo"}, r.access) {
			p.fail(r.line, "register %s: access: expected ro, rw, w1c or wo, found %q", r.name, r.access)
		}
		if r.access == "ro" && r.busyOK {
			p.fail(r.line, "register %s: busy: ok means nothing for a read-only register", r.name)
		}
		if r.bits < 1 || r.bits > 32 {
			p.fail(r.line, "register %s: bits %d is not in 1..32", r.name, r.bits)
		}
		p.checkFields("register "+r.name, r.fields, 32)
		end, prev = r.offset+4*r.count, "register "+r.name
	}
	cnts := p.names("counter")
	for _, c := range s.counters.list {
		cnts.add(c.name, c.line)
	}
	top := s.counters.base + counterSize*int64(len(s.counters.list))
	if s.counters.base%counterSize != 0 || s.counters.base < 0 || top > 1<<addrBits {
		p.fail(s.counters.line, "counters: 0x%X..0x%X is misaligned or leaves the %d-bit register space",
			s.counters.base, top, addrBits)
	}
	for _, r := range s.registers {
		if want, ok := s.constant("B_MAX"); ok && r.name == "SLOT_TABLE" && r.count != want {
			p.fail(r.line, "register SLOT_TABLE: count %d is not B_MAX = %d", r.count, want)
		}
	}
}

// checkValues requires the values 0, 1, 2 ... in order without gaps.
func (p *parser) checkValues(what string, list []value, bits int64) {
	ns := p.names(what)
	for i, v := range list {
		ns.add(v.name, v.line)
		if v.value != int64(i) {
			p.fail(v.line, "%s %s: expected %d, found %d (ascending from 0 without gaps)", what, v.name, i, v.value)
		}
		if v.value >= 1<<bits {
			p.fail(v.line, "%s %s: %d does not fit %d bits", what, v.name, v.value, bits)
		}
	}
}

// checkFields requires the fields of a word to be ascending, disjoint and inside the word.
func (p *parser) checkFields(what string, fields []field, width int64) {
	ns := p.names("field of " + what)
	end, prev := int64(0), ""
	for _, f := range fields {
		ns.add(f.name, f.line)
		switch {
		case f.bits < 1 || f.bits > width:
			p.fail(f.line, "%s.%s: bits %d is not in 1..%d", what, f.name, f.bits, width)
		case f.lsb < 0 || f.lsb+f.bits > width:
			p.fail(f.line, "%s.%s: bits %d..%d leave the word of %d", what, f.name, f.lsb, f.lsb+f.bits-1, width)
		case f.lsb < end:
			p.fail(f.line, "%s.%s: lsb %d overlaps or stands before %s, which ends at bit %d", what, f.name, f.lsb, prev, end-1)
		}
		end, prev = f.lsb+f.bits, f.name
	}
}

// checkMembers rejects names that cannot be struct members in SystemVerilog.
func (p *parser) checkMembers(what string, fields []field) {
	for _, f := range fields {
		if strings.HasPrefix(f.name, "RSVD") || slices.Contains(reserved, strings.ToLower(f.name)) {
			p.fail(f.line, "%s.%s: the name is reserved", what, f.name)
		}
	}
}

func (p *parser) checkDescriptor(s *spec) {
	bytes, ok := s.constant("DESC_BYTES")
	if !ok || bytes <= 0 || bytes%4 != 0 || bytes > 1024 {
		p.fail(1, "constants: expected DESC_BYTES, a multiple of 4 up to 1024")
		return
	}
	if _, ok := s.constant("DESC_MAGIC"); !ok {
		p.fail(1, "constants: expected DESC_MAGIC")
	}
	ns := p.names("descriptor field")
	words := map[int64][]field{}
	last := int64(0)
	magic := false
	for _, f := range s.desc {
		ns.add(f.name, f.line)
		switch {
		case f.word < 0 || f.word >= bytes/4:
			p.fail(f.line, "descriptor.%s: word %d is not in 0..%d", f.name, f.word, bytes/4-1)
		case f.word < last:
			p.fail(f.line, "descriptor.%s: word %d stands behind word %d", f.name, f.word, last)
		case f.word > last+1:
			p.fail(f.line, "descriptor.%s: word %d: nothing describes word %d", f.name, f.word, last+1)
		}
		last = max(last, f.word)
		words[f.word] = append(words[f.word], f)
		if f.signed && f.bits != 16 && f.bits != 8 && f.bits != 32 {
			p.fail(f.line, "descriptor.%s: a signed field has 8, 16 or 32 bits, not %d", f.name, f.bits)
		}
		magic = magic || (f.name == "MAGIC" && f.bits == 8)
	}
	if len(s.desc) > 0 && last != bytes/4-1 {
		p.fail(s.desc[len(s.desc)-1].line, "descriptor: nothing describes word %d (DESC_BYTES = %d)", last+1, bytes)
	}
	if !magic {
		p.fail(1, "descriptor: expected a field MAGIC of 8 bits")
	}
	for w := range bytes / 4 {
		p.checkFields(fmt.Sprintf("descriptor word %d", w), words[w], 32)
	}
}

// checkIdentifiers rejects generated identifiers that occur twice. Examples are a register FBCB with a field ADDR_LSB
// beside a register FBCB_ADDR, and names that differ in underscores only.
func (p *parser) checkIdentifiers(s *spec) {
	for what, ids := range map[string][]ident{"SystemVerilog": svIdents(s), "Go": goIdents(s)} {
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id.name] {
				p.fail(id.line, "%s: the generated name %s stands twice", what, id.name)
			}
			seen[id.name] = true
		}
	}
}

// ident is a generated identifier with its line in the description.
type ident struct {
	name string
	line int
}

// canonical returns the description as sorted lines of one fact each, without docs, limits and comments. The result
// changes exactly if the meaning changes.
func canonical(s *spec) string {
	var l []string
	add := func(format string, args ...any) { l = append(l, fmt.Sprintf(format, args...)) }
	add("schema %s", s.schema)
	add("version %d", s.version)
	for _, c := range s.constants {
		add("constant %s %d", c.name, c.value)
	}
	for _, r := range s.registers {
		add("register %s offset=%d access=%s busy_ok=%t count=%d mask=%08x", r.name, r.offset, r.access, r.busyOK, r.count, r.mask())
		for _, f := range r.fields {
			add("register %s field %s lsb=%d bits=%d", r.name, f.name, f.lsb, f.bits)
		}
	}
	add("counters base=%d", s.counters.base)
	for i, c := range s.counters.list {
		add("counter %s index=%d", c.name, i)
	}
	for _, v := range s.ops {
		add("op %s %d", v.name, v.value)
	}
	for _, f := range s.desc {
		add("descriptor %s word=%d lsb=%d bits=%d signed=%t", f.name, f.word, f.lsb, f.bits, f.signed)
	}
	for _, f := range s.fbcb {
		add("fbcb %s lsb=%d bits=%d", f.name, f.lsb, f.bits)
	}
	for _, v := range s.errors {
		add("error %s %d", v.name, v.value)
	}
	slices.Sort(l)
	return strings.Join(l, "\n") + "\n"
}

func hashOf(s *spec) uint64 {
	sum := sha256.Sum256([]byte(canonical(s)))
	return binary.BigEndian.Uint64(sum[:8])
}
