// JSON of inference requests. Requests are read token by token, and answers are written without reflection. With
// reflection, JSON required a sixth of a request's CPU time.

package serve

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient contains the options to read JSON as encoding/json does. Duplicate names are allowed, because their detection
// required twenty times the memory of a message.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true))

// illegible replaces the library's errors about JSON, because their texts vary from run to run.
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
	return unexpected(e.JSONPointer, e.JSONKind, is)
}

func unexpected(at jsontext.Pointer, kind jsontext.Kind, want string) error {
	return fmt.Errorf("%q is a JSON %s: expected %s", cmp.Or(string(at), "/"), kind, want)
}

// restTensor is an input or a requested output in the JSON.
type restTensor struct {
	Name       string
	Shape      []int64
	Datatype   string
	Parameters options
	Data       jsontext.Value // a slice of the request
}

type restDoc struct {
	ID      string
	Params  options
	Inputs  []restTensor
	Outputs []restTensor
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// document reads a request's JSON by the rules of encoding/json: names are case-insensitive, the last duplicate counts,
// and null and unknown names are ignored.
func document(head []byte) (doc restDoc, err error) {
	if len(bytes.Trim(head, blanks)) == 0 {
		return doc, refuse(Invalid, "the request is empty: expected JSON with inputs")
	}
	r := reader{head: head, d: decoders.Get().(*jsontext.Decoder)}
	r.d.Reset(bytes.NewBuffer(head), lenient)
	defer func() {
		r.d.Reset(new(bytes.Buffer)) // otherwise the pool would still refer to the request
		decoders.Put(r.d)
	}()
	err = r.object(func(name []byte) error {
		switch {
		case strings.EqualFold(string(name), "id"):
			return r.text(&doc.ID)
		case strings.EqualFold(string(name), "parameters"):
			return r.options(&doc.Params)
		case strings.EqualFold(string(name), "inputs"):
			return r.tensors(&doc.Inputs)
		case strings.EqualFold(string(name), "outputs"):
			return r.tensors(&doc.Outputs)
		}
		return r.d.SkipValue()
	})
	switch e, known := errors.AsType[*Error](err); {
	case known:
		return doc, e
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err == nil && len(doc.ID) > maxID:
		return doc, longID(doc.ID)
	case err == nil && len(bytes.Trim(head[r.d.InputOffset():], blanks)) > 0:
		return doc, refuse(Invalid, "the request goes on behind its JSON: binary tensors need the header %s with the length of the JSON", headerLength)
	case err == nil:
		return doc, nil
	}
	return doc, refuse(Invalid, "the request's JSON: %v", err)
}

// blanks are the characters allowed between JSON tokens.
const blanks = " \t\r\n"

// reader reads one value after another. A null leaves the variable unchanged.
type reader struct {
	head []byte
	d    *jsontext.Decoder
}

// is reports whether the next value has this kind. It skips any other value, and returns an error unless it is null.
func (r *reader) is(kind jsontext.Kind, want string) (bool, error) {
	switch k := r.d.PeekKind(); k {
	case kind:
		return true, nil
	case 'n':
		return false, r.d.SkipValue()
	default:
		err := r.d.SkipValue()
		if err == nil {
			err = unexpected(r.d.StackPointer(), k, want)
		}
		return false, err
	}
}

// value returns the next value as a slice of the request.
func (r *reader) value() (jsontext.Value, error) {
	v, err := r.d.ReadValue()
	end := r.d.InputOffset()
	return jsontext.Value(r.head[end-int64(len(v)) : end : end]), err
}

// object calls the function member for each name in an object. member must read the value and must not store the name.
func (r *reader) object(member func(name []byte) error) error {
	is, err := r.is('{', "an object")
	if !is {
		return err
	}
	_, err = r.d.ReadToken()
	for err == nil && r.d.PeekKind() == '"' {
		var name jsontext.Value
		if name, err = r.value(); err == nil {
			err = member(unquoted(name))
		}
	}
	if err == nil {
		_, err = r.d.ReadToken()
	}
	return err
}

// unquoted returns the text of a JSON string. Invalid UTF-8 is replaced.
func unquoted(v jsontext.Value) []byte {
	if !bytes.ContainsRune(v, '\\') && utf8.Valid(v) {
		return v[1 : len(v)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, v) // no error: it was valid JSON
	return text
}

func (r *reader) text(to *string) error {
	is, err := r.is('"', "a text")
	if !is {
		return err
	}
	v, err := r.value()
	if err == nil {
		*to = string(unquoted(v))
	}
	return err
}

// tensors reads a list of tensors. Its length is limited.
func (r *reader) tensors(to *[]restTensor) error {
	*to = nil
	if k := r.d.PeekKind(); k != '[' && k != 'n' && k != 0 { // 0: invalid JSON
		v, err := r.value()
		if err == nil {
			err = refuse(Invalid, "tensors are %.20q: expected a list", v)
		}
		return err
	}
	is, err := r.is('[', "a list")
	if !is {
		return err
	}
	_, err = r.d.ReadToken()
	for err == nil && r.d.PeekKind() != ']' {
		if len(*to) == maxTensors {
			return refuse(Invalid, "more than %d tensors", maxTensors)
		}
		*to = append(*to, restTensor{})
		err = r.tensor(&(*to)[len(*to)-1])
	}
	if err == nil {
		_, err = r.d.ReadToken()
	}
	return err
}

func (r *reader) tensor(t *restTensor) error {
	return r.object(func(name []byte) (err error) {
		switch {
		case strings.EqualFold(string(name), "name"):
			return r.text(&t.Name)
		case strings.EqualFold(string(name), "datatype"):
			return r.text(&t.Datatype)
		case strings.EqualFold(string(name), "shape"):
			return r.shape(&t.Shape)
		case strings.EqualFold(string(name), "parameters"):
			return r.options(&t.Parameters)
		case strings.EqualFold(string(name), "data"):
			t.Data, err = r.value()
			return err
		}
		return r.d.SkipValue()
	})
}

// shape reads a list of dimensions. Its length is limited.
func (r *reader) shape(to *[]int64) error {
	v, err := r.value()
	switch {
	case err != nil:
		return err
	case len(v) > maxShape:
		return refuse(Invalid, "a shape of %d bytes: expected at most %d", len(v), maxShape)
	case v.Kind() == 'n':
		*to = nil
		return nil
	}
	*to = make([]int64, 0, 4) // usual number of dimensions
	list, isList := strings.CutPrefix(string(v), "[")
	list = strings.TrimSuffix(list, "]")
	for d := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(d), 10, 64)
		if !isList || err != nil && strings.TrimSpace(list) != "" {
			return refuse(Invalid, "the shape is %.40s: expected a list of whole numbers", v)
		} else if err == nil {
			*to = append(*to, n)
		}
	}
	return nil
}

// options are parameters. Their values have the same types as in gRPC.
type options map[string]any

// options reads parameters up to a total length. It ignores parameters that are null.
func (r *reader) options(to *options) error {
	if k := r.d.PeekKind(); k != '{' && k != 'n' && k != 0 {
		v, err := r.value()
		if err == nil {
			err = refuse(Invalid, "parameters are %.40s: expected an object", v)
		}
		return err
	}
	from := r.head[r.d.InputOffset():]
	before := len(bytes.TrimLeft(from, blanks+":,"))
	long := func() error {
		if n := before - len(r.head) + int(r.d.InputOffset()); n > maxParams {
			return refuse(Invalid, "parameters of %d bytes and more: expected at most %d", n, maxParams)
		}
		return nil
	}
	type named struct {
		name []byte
		raw  jsontext.Value
	}
	var few [4]named // usual number of parameters
	all := few[:0]
	err := r.object(func(name []byte) error {
		v, err := r.value()
		if err == nil {
			err = long()
		}
		all = append(all, named{name, v})
		return err
	})
	if err == nil {
		err = long()
	}
	*to = make(options, len(all))
	if err != nil {
		return err
	}
	var first string                         // name of an invalid parameter; the first name in sorted order
	for _, p := range slices.Backward(all) { // from the last to the first, because the last duplicate counts
		name := string(p.name)
		if _, later := (*to)[name]; later {
			continue
		}
		v, wrong := option(p.raw)
		if (*to)[name] = v; wrong != nil && (err == nil || name < first) {
			first, err = name, refuse(Invalid, "parameter %.40q is %.40s: %v", name, p.raw, wrong)
		}
	}
	maps.DeleteFunc(*to, func(_ string, v any) bool { return v == nil })
	return err
}

// option converts a parameter's value. It returns nil for null.
func option(v jsontext.Value) (any, error) {
	switch v.Kind() {
	case 'n':
		return nil, nil
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
		return string(unquoted(v)), nil
	case 't', 'f':
		return v.Kind() == 't', nil
	}
	return nil, errors.New("expected a number, a text, true or false")
}

// appendAnswer appends the JSON of an answer, followed by the binary tensors. The result head is the length of the JSON
// in bytes. The function raw reports whether an output is binary.
func appendAnswer(b []byte, a *Answer, raw func(output int) bool) (doc []byte, head int) {
	began := len(b)
	b = appendText(append(b, `{"model_name":`...), a.Model)
	b = appendText(append(b, `,"model_version":`...), a.Version)
	if a.ID != "" {
		b = appendText(append(b, `,"id":`...), a.ID)
	}
	b = append(b, `,"parameters":{`...)
	names := slices.AppendSeq(make([]string, 0, len(a.Params)), maps.Keys(a.Params))
	slices.Sort(names)
	for i, name := range names {
		b = appendText(comma(b, i), name)
		b = appendAny(append(b, ':'), a.Params[name])
	}
	b = append(b, `},"outputs":[`...)
	for i := range a.Outputs {
		t := &a.Outputs[i]
		b = appendText(append(comma(b, i), `{"name":`...), t.Name)
		b = append(b, `,"shape":[`...)
		for k, d := range t.Shape {
			b = appendWhole(comma(b, k), d)
		}
		b = appendText(append(b, `],"datatype":`...), t.Datatype)
		if raw(i) {
			b = strconv.AppendInt(append(b, `,"parameters":{"binary_data_size":`...), int64(len(t.Data)), 10)
			b = append(b, '}')
		} else {
			b = appendElements(append(b, `,"data":`...), t)
		}
		b = append(b, '}')
	}
	b = append(b, "]}"...)
	head = len(b) - began
	for i := range a.Outputs {
		if raw(i) {
			b = append(b, a.Outputs[i].Data...)
		}
	}
	return b, head
}

// comma appends a comma, except before the first element.
func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // invalid UTF-8 is replaced
	return b
}

func appendWhole(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

// appendFloat appends a finite number with the fewest digits that identify it among the floats of 32 or 64 bits.
func appendFloat(b []byte, v float64, bits int) []byte {
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(b, v, form, -1, bits)
}

func appendAny(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return appendWhole(b, v)
	case float64:
		return appendFloat(b, v, 64)
	}
	return appendText(b, fmt.Sprint(v))
}

// appendElements appends a tensor's elements as one flat list.
func appendElements(b []byte, t *Tensor) []byte {
	b = append(b, '[')
	for at := 0; at < len(t.Data); {
		b = comma(b, at)
		word := binary.LittleEndian.Uint32(t.Data[at:])
		at += 4
		switch t.Datatype {
		case "INT32":
			b = appendWhole(b, int64(int32(word)))
		case "FP32":
			b = appendFloat(b, float64(math.Float32frombits(word)), 32)
		default: // BYTES: each text follows its length, a 32-bit word
			b = appendText(b, string(t.Data[at:at+int(word)]))
			at += int(word)
		}
	}
	return append(b, ']')
}
