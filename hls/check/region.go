package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// definition is a function of the source, as text without comments, pragmas and attributes.
type definition struct {
	name, file string
	params     []param
	body       string // text between its braces
	first      int    // line of the first character of body
	last       int
}

type param struct{ name, kind string }

var (
	definitionRE = regexp.MustCompile(`(?m)^[A-Za-z_][\w:<>,*&" ]*?[ *&](\w+)\(`)
	commentRE    = regexp.MustCompile(`//.*`)
	directiveRE  = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	attributesRE = regexp.MustCompile(`__attribute__\(\(\w+\)\)`)
	nameRE       = regexp.MustCompile(`(\w+)\s*(?:\[[^\]]*\]\s*)*$`)
	pointeeRE    = regexp.MustCompile(`\(\s*[*&]\s*(\w+)\s*\)`)
	localRE      = regexp.MustCompile(`(?m)^\s*(?:(?:for|if|while) \()?\s*(?:static\s+|const\s+|volatile\s+|unsigned\s+)*([A-Za-z_][\w:]*(?:<[^;=]*?>)?)((?:\s*[*&])*\s+[*&]*)(\w+)\s*([\[=;({,].*)$`)
	callRE       = regexp.MustCompile(`\b(\w+)\(`)

	blocksRE = regexp.MustCompile(`^hls::stream_of_blocks<\w+> (\w+)$`)
	fifoRE   = regexp.MustCompile(`^fifo<\w+, (\w+)> (\w+)\("(\w+)"\)$`)
	stageRE  = regexp.MustCompile(`^SLUICE_STAGE\((\w+)\(([\w, ]*)\)\)$`)
	calledRE = regexp.MustCompile(`\bSLUICE_STAGE\((\w+)\(`)
	lockedRE = regexp.MustCompile(`hls::(read|write)_lock<\w+>\s+\w+\((\w+)\)`)
	spaceRE  = regexp.MustCompile(`\s+`)
)

// blank replaces matches by blanks, so that all remaining characters keep their lines and columns.
func blank(text string, re *regexp.Regexp) string {
	return re.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}

// closing returns the index of the bracket that closes the bracket at text[at], or -1 if there is no such bracket.
func closing(text string, at int) int {
	depth := 0
	for i := at; i < len(text); i++ {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// list splits a list at its commas, except inside brackets.
func list(text string) (out []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '(', '[', '{', '<':
			depth++
		case ')', ']', '}', '>':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(text[from:]); last != "" || len(out) > 0 {
		out = append(out, last)
	}
	return out
}

// definitions returns the functions of a file.
func definitions(file, text string) (out []*definition) {
	text = blank(blank(blank(text, commentRE), directiveRE), attributesRE)
	for _, at := range definitionRE.FindAllStringSubmatchIndex(text, -1) {
		end := closing(text, at[1]-1)
		if end < 0 {
			continue
		}
		begin := end + 1 + len(text[end+1:]) - len(strings.TrimLeft(text[end+1:], " \n"))
		if begin >= len(text) || text[begin] != '{' {
			continue
		}
		stop := closing(text, begin)
		if stop < 0 {
			continue
		}
		d := &definition{name: text[at[2]:at[3]], file: file, body: text[begin+1 : stop]}
		d.first, d.last = 1+strings.Count(text[:begin+1], "\n"), 1+strings.Count(text[:stop], "\n")
		for _, p := range list(text[at[1]:end]) {
			p = spaceRE.ReplaceAllString(p, " ")
			name := ""
			if g := pointeeRE.FindStringSubmatch(p); g != nil {
				name = g[1]
			} else if g := nameRE.FindStringSubmatch(p); g != nil {
				name = g[1]
			}
			d.params = append(d.params, param{name, p})
		}
		out = append(out, d)
	}
	return out
}

// declares reports whether the function has a parameter or variable with that name.
func (d *definition) declares(name string) bool {
	return slices.ContainsFunc(d.params, func(p param) bool { return p.name == name }) || d.local(name)
}

// stream reports whether the function declares a stream with that name.
func (d *definition) stream(name string) bool {
	return regexp.MustCompile(`\b(?:fifo|hls::stream)<[^;]*>\s*&?\s*`+name+`\b`).MatchString(d.body) ||
		slices.ContainsFunc(d.params, func(p param) bool {
			return p.name == name && (strings.Contains(p.kind, "fifo<") || strings.Contains(p.kind, "hls::stream<"))
		})
}

// local reports whether the function declares a variable with that name.
func (d *definition) local(name string) bool {
	for _, g := range localRE.FindAllStringSubmatch(d.body, -1) {
		if slices.Contains([]string{"return", "else", "goto", "case", "typedef", "using", "delete", "new", "namespace"}, g[1]) {
			continue
		}
		rest, _, _ := strings.Cut(g[4], ";")
		for i, x := range list(g[3] + rest) {
			x = strings.TrimLeft(x, "*& ")
			if end := strings.IndexFunc(x, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			}); end >= 0 {
				x = x[:end]
			}
			if x == name {
				return true
			}
			if i == 0 && strings.HasPrefix(g[4], "(") {
				break // an initialiser
			}
		}
	}
	return false
}

func (d *definition) line(at int) int { return d.first + strings.Count(d.body[:at], "\n") }

// structure checks the rules of a dataflow region and its channels (UG1399, Dataflow Optimization Limitations). A
// region contains only channels and unconditional stages. Each stream and block has one stage that writes it and a
// later stage that reads it. Each memory and DRAM port is used by one stage. A pragma must name an existing variable.
func structure(src *source, r *Report) {
	said := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	defs := map[string]*definition{}
	for _, d := range src.functions {
		defs[d.name] = d
	}
	stages := map[string]bool{}
	for _, d := range src.functions {
		for _, g := range calledRE.FindAllStringSubmatch(d.body, -1) {
			stages[g[1]] = true
		}
	}
	src.ports(defs["sluice_npu"], said)
	src.partitions(said)
	bundles := map[string]string{}
	for _, p := range src.pragmas {
		src.pragma(p, stages, said)
		if b := setting(p.text, "bundle"); b != "" {
			if other := bundles[b]; other != "" {
				said("%s:%d: the bundle %s is that of %s too: a port to DRAM has one process", p.file, p.line, b, other)
			}
			bundles[b] = setting(p.text, "port")
		}
	}
	for _, d := range src.functions {
		locked := map[string]bool{}
		for _, g := range lockedRE.FindAllStringSubmatchIndex(d.body, -1) {
			blocks := d.body[g[4]:g[5]]
			if locked[blocks] {
				said("%s:%d: %s is locked a second time in %s", d.file, d.line(g[0]), blocks, d.name)
			}
			locked[blocks] = true
		}
		for _, p := range d.params {
			if strings.Contains(p.kind, "hls::burst_maxi<") {
				d.requests(p.name, src, r, said)
			}
		}
		if strings.Contains(d.body, "SLUICE_REGION") {
			src.region(d, defs, said)
		}
	}
	slices.Sort(r.Problems)
}

// pragma checks that the names in a pragma exist in its function, and that the pragma has an effect at its place.
func (s *source) pragma(p placed, stages map[string]bool, said func(string, ...any)) {
	var in *definition
	for _, d := range s.functions {
		if d.file == p.file && d.first <= p.line && p.line <= d.last {
			in = d
		}
	}
	if in == nil {
		said("%s:%d: pragma %s stands in no function", p.file, p.line, p.kind)
		return
	}
	for _, key := range []string{"variable", "port"} {
		name := setting(p.text, key)
		if name != "" && (key != "port" || name != "return") && !in.declares(name) {
			said("%s:%d: pragma %s: %s has no %s", p.file, p.line, p.kind, in.name, name)
		}
	}
	region := strings.Contains(in.body, "SLUICE_REGION")
	switch p.kind {
	case "dataflow":
		if !region {
			said("%s:%d: pragma dataflow in %s, which is no dataflow region (SLUICE_REGION): nothing here holds it to one", p.file, p.line, in.name)
		}
	case "stable":
		if !region {
			said("%s:%d: pragma stable in %s has no effect: it speaks of what the stages of a dataflow region read", p.file, p.line, in.name)
		}
	case "inline":
		if region || stages[in.name] {
			said("%s:%d: pragma inline in %s, a dataflow region or a stage of one: expected a process of its own", p.file, p.line, in.name)
		}
	case "bind_storage":
		name := setting(p.text, "variable")
		if fifo := in.stream(name); fifo != (setting(p.text, "type") == "fifo") {
			said("%s:%d: pragma bind_storage: expected type=fifo of a stream, and of nothing else: %s", p.file, p.line, p.text)
		}
	case "bind_op":
		name, op := setting(p.text, "variable"), setting(p.text, "op")
		sign := map[string]string{"mul": `\*`, "add": `\+`, "sub": `-`}[op]
		if !regexp.MustCompile(`\b` + name + `\s*(?:\[[^\]]*\]\s*)*=[^;]*` + sign).MatchString(in.body) {
			said("%s:%d: pragma bind_op: %s is made by no %s", p.file, p.line, name, op)
		}
	}
}

// ports checks that every parameter of the top function and its control interface (return) have exactly one interface
// pragma each. The tool's default interfaces would be wrong.
func (s *source) ports(top *definition, said func(string, ...any)) {
	if top == nil {
		return
	}
	n := map[string]int{}
	for _, p := range s.pragmas {
		if p.kind == "interface" && p.file == top.file && top.first <= p.line && p.line <= top.last {
			n[setting(p.text, "port")]++
		}
	}
	for _, p := range append([]param{{name: "return"}}, top.params...) {
		if n[p.name] != 1 {
			said("%s:%d: %s: expected one pragma interface for %s, found %d", top.file, top.first, top.name, p.name, n[p.name])
		}
	}
}

// partitions rejects an unpartitioned array if another function has a partitioned array of the same name. The checks of
// ports and dependences identify partitioned arrays only by name.
func (s *source) partitions(said func(string, ...any)) {
	for _, p := range s.pragmas {
		if p.kind != "array_partition" || !strings.Contains(p.text, "complete") {
			continue
		}
		name := setting(p.text, "variable")
		indexed := regexp.MustCompile(`(?:^|[^.>\w])` + name + `\s*\[`)
		for _, d := range s.functions {
			if d.file == p.file && d.first <= p.line && p.line <= d.last || !indexed.MatchString(d.body) || !d.local(name) {
				continue
			}
			if !slices.ContainsFunc(s.pragmas, func(q placed) bool {
				return q.kind == p.kind && q.text == p.text && q.file == d.file && d.first <= q.line && q.line <= d.last
			}) {
				said("%s:%d: %s has a %s of its own, and %s:%d partitions one: expected the same partition, or another name", d.file, d.first, d.name, name, p.file, p.line)
			}
		}
	}
}

// use describes how a stage uses one of its parameters.
type use struct{ reads, writes bool }

// uses returns how the function, and functions to which it passes its n-th parameter, use this parameter.
func (d *definition) uses(n int, defs map[string]*definition, depth int) (u use) {
	if n >= len(d.params) || depth > 16 {
		return use{true, true}
	}
	p := d.params[n]
	has := func(pattern string) bool {
		return regexp.MustCompile(strings.ReplaceAll(pattern, "NAME", p.name)).MatchString(d.body)
	}
	switch {
	case strings.Contains(p.kind, "hls::stream<") || strings.Contains(p.kind, "fifo<"):
		u = use{has(`\bNAME\.read\(`), has(`\bNAME\.write\(`)}
	case strings.Contains(p.kind, "hls::stream_of_blocks<"):
		u = use{has(`hls::read_lock<\w+>\s+\w+\(NAME\)`), has(`hls::write_lock<\w+>\s+\w+\(NAME\)`)}
	default:
		return use{true, !strings.HasPrefix(p.kind, "const ")}
	}
	for _, at := range callRE.FindAllStringSubmatchIndex(d.body, -1) {
		callee := defs[d.body[at[2]:at[3]]]
		end := closing(d.body, at[1]-1)
		if callee == nil || callee == d || end < 0 {
			continue
		}
		for i, arg := range list(d.body[at[1]:end]) {
			if arg == p.name {
				v := callee.uses(i, defs, depth+1)
				u = use{u.reads || v.reads, u.writes || v.writes}
			}
		}
	}
	return u
}

// region is a dataflow region: its stages in order, its channels, and the stages that use each name.
type region struct {
	*definition
	stages                  []stage
	channels                []string
	depths                  map[string]string // depth in the pragma, by stream
	readers, writers, users map[string][]int
}

type stage struct {
	name string
	line int
}

// region checks one dataflow region.
func (s *source) region(d *definition, defs map[string]*definition, said func(string, ...any)) {
	r := &region{definition: d, depths: map[string]string{}, readers: map[string][]int{}, writers: map[string][]int{}, users: map[string][]int{}}
	for _, p := range s.pragmas {
		if p.kind == "stream" && p.file == d.file && p.line >= d.first && p.line <= d.last {
			r.depths[setting(p.text, "variable")] = setting(p.text, "depth")
		}
	}
	if !r.statements(defs, said) {
		return
	}
	for _, c := range r.channels {
		w, in := r.writers[c], r.readers[c]
		switch {
		case len(w) != 1 || len(in) != 1:
			said("%s:%d: %s: expected one stage that writes it and one that reads it, found %s and %s", d.file, d.first, c, r.names(w), r.names(in))
		case w[0] >= in[0]:
			said("%s:%d: %s: %s reads before %s writes: expected the stages in the order of what flows", d.file, r.stages[in[0]].line, c, r.stages[in[0]].name, r.stages[w[0]].name)
		}
	}
	for _, p := range d.params {
		if len(r.users[p.name]) > 1 {
			said("%s:%d: %s (%s) is used by more than one stage of the region: %s", d.file, d.first, p.name, p.kind, r.names(r.users[p.name]))
		}
	}
	// a caller must not pass the same memory as two arguments of the region
	for _, caller := range s.functions {
		for _, at := range regexp.MustCompile(`\b`+d.name+`\(`).FindAllStringIndex(caller.body, -1) {
			end := closing(caller.body, at[1]-1)
			if end < 0 {
				continue
			}
			seen := map[string]bool{}
			for _, arg := range list(caller.body[at[1]:end]) {
				if seen[arg] {
					said("%s:%d: %s is handed to %s twice", caller.file, caller.line(at[0]), arg, d.name)
				}
				seen[arg] = true
			}
		}
	}
}

// statements reads the region's body. It returns false if a block has no end.
func (r *region) statements(defs map[string]*definition, said func(string, ...any)) bool {
	for at := 0; at < len(r.body); {
		end := at
		for end < len(r.body) && r.body[end] != ';' && r.body[end] != '{' {
			if r.body[end] == '(' {
				if to := closing(r.body, end); to > 0 {
					end = to
				}
			}
			end++
		}
		lead := len(r.body[at:end]) - len(strings.TrimLeft(r.body[at:end], " \n"))
		text := spaceRE.ReplaceAllString(strings.TrimSpace(r.body[at:end]), " ")
		line := r.line(at + lead)
		if end < len(r.body) && r.body[end] == '{' {
			said("%s:%d: a block in the dataflow region %s: expected declarations of channels and SLUICE_STAGE(stage(names)), without a condition or a loop around them: %s", r.file, line, r.name, text)
			if end = closing(r.body, end); end < 0 {
				return false
			}
		} else {
			r.statement(text, line, defs, said)
		}
		at = end + 1
	}
	return true
}

// statement reads the declaration of a channel or the call of a stage.
func (r *region) statement(text string, line int, defs map[string]*definition, said func(string, ...any)) {
	switch {
	case text == "" || text == "SLUICE_REGION":
	case blocksRE.MatchString(text):
		r.channels = append(r.channels, blocksRE.FindStringSubmatch(text)[1])
	case fifoRE.MatchString(text):
		g := fifoRE.FindStringSubmatch(text)
		r.channels = append(r.channels, g[2])
		if r.depths[g[2]] != g[1] {
			said("%s:%d: %s is as deep as %s in C-simulation and as %q in synthesis (pragma stream)", r.file, line, g[2], g[1], r.depths[g[2]])
		}
		if g[3] != g[2] {
			said("%s:%d: %s calls itself %s", r.file, line, g[2], g[3])
		}
	case stageRE.MatchString(text):
		g := stageRE.FindStringSubmatch(text)
		n := len(r.stages)
		r.stages = append(r.stages, stage{g[1], line})
		callee := defs[g[1]]
		if callee == nil {
			said("%s:%d: there is no function %s", r.file, line, g[1])
			return
		}
		for i, arg := range list(g[2]) {
			if i < len(callee.params) && !strings.ContainsAny(callee.params[i].kind, "&*") && !strings.Contains(callee.params[i].kind, "hls::") {
				continue // a scalar, or a struct of scalars, by value
			}
			u := callee.uses(i, defs, 0)
			if u.reads {
				r.readers[arg] = append(r.readers[arg], n)
			}
			if u.writes {
				r.writers[arg] = append(r.writers[arg], n)
			}
			r.users[arg] = append(r.users[arg], n)
		}
	default:
		said("%s:%d: in the dataflow region %s: expected declarations of channels and SLUICE_STAGE(stage(names)), without a condition or a loop around them: %s", r.file, line, r.name, text)
	}
}

// names returns the names of stages as a list.
func (r *region) names(at []int) string {
	if at == nil {
		return "none"
	}
	out := make([]string, len(at))
	for i, n := range at {
		out[i] = r.stages[n].name
	}
	return strings.Join(out, ", ")
}

// requests checks a port with explicit burst requests. After a request, a pipelined loop must write exactly the
// requested number of beats: one beat per trip, unconditionally. Other code must not write to the port. C-simulation
// checks that every request is answered (hls_burst_maxi.h).
func (d *definition) requests(port string, s *source, r *Report, said func(string, ...any)) {
	asks := regexp.MustCompile(`\b`+port+`\.write_request\(`).FindAllStringIndex(d.body, -1)
	writes := regexp.MustCompile(`\b`+port+`\.write\(`).FindAllStringIndex(d.body, -1)
	form := regexp.MustCompile(`^` + port + `\.write_request\([^;]*, (\w+)\);\s*(?:\w+:\s*)?for \(int (\w+) = 0; (\w+) < (\w+); (\w+)\+\+\) \{`)
	inside := 0
	for _, at := range asks {
		line := d.line(at[0])
		text := d.body[at[0]:]
		g := form.FindStringSubmatch(text)
		if g == nil || g[1] != g[4] || g[2] != g[3] || g[3] != g[5] {
			said("%s:%d: no burst: expected behind %s.write_request(from, n) a loop for (int i = 0; i < n; i++) { that writes its beats", d.file, line, port)
			continue
		}
		if l := s.loops[d.file][d.line(at[0]+strings.Index(g[0], "for ("))]; l == nil || l.II == 0 {
			said("%s:%d: no burst: expected the loop behind %s.write_request(from, n) to be pipelined", d.file, line, port)
		}
		if !regexp.MustCompile(`\bconst \w+ ` + g[1] + ` = `).MatchString(d.body) {
			said("%s:%d: no burst: expected %s, the beats of a request, to be a constant", d.file, line, g[1])
		}
		begin := len(form.FindString(text)) - 1
		end := closing(text, begin)
		if end < 0 {
			continue
		}
		n, depth := 0, 0
		for i := begin; i < end; i++ {
			switch text[i] {
			case '{':
				depth++
			case '}':
				depth--
			}
			if strings.HasPrefix(text[i:], port+".write(") {
				inside++
				before := strings.TrimRight(text[begin:i], " \n")
				if depth == 1 && strings.HasSuffix(before, ";") || strings.HasSuffix(before, "}") || before == "{" {
					n++
				}
			}
		}
		if n != 1 || strings.Contains(text[begin:end], "break;") || strings.Contains(text[begin:end], "continue;") {
			said("%s:%d: no burst: expected the loop to write one beat of %s a trip, without a condition", d.file, line, port)
			continue
		}
		r.Bursts++
	}
	if inside != len(writes) {
		said("%s:%d: %s is written beside the loops behind its requests", d.file, d.first, port)
	}
}
