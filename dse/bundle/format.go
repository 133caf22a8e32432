package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Format of the file, little-endian:
//
//	 0  magic "SLBUNDLE"
//	 8  uint32 version
//	12  uint32 number of sections
//	16  uint64 ABI hash
//	24  uint64 design hash
//	32  one entry per section: 4 bytes tag, uint32 zero, uint64 length
//	    the sections' content, in the same order, without gaps
//	    SHA-256 of everything before
//
// The file has the sections of sectionTags, in that order. A JSON section is exactly the
// output of encoding/json for the Go value, so a bundle has a unique encoding.
const (
	magic   = "SLBUNDLE"
	version = 1

	headerBytes = 32
	entryBytes  = 16
)

// Limits of Read.
const (
	MaxFile    = 2 << 30 // maximum size of a file in bytes
	MaxWeights = 1 << 30 // maximum size of Weights in bytes
	MaxSlot    = 1 << 30 // maximum size of a slot in bytes
	MaxTensors = 4096
	MaxExits   = 64
	MaxLatency = 1 << 16 // maximum number of entries in Latency
	MaxMeta    = 1024    // maximum number of entries in Meta
	MaxString  = 4096    // maximum length of a name or of a Meta value in bytes
	MaxMACs    = 1 << 50 // maximum number of MACs of a segment
	MaxNs      = 1 << 44 // maximum latency in ns, about five hours; sums of MaxLatency entries do not overflow

	maxJSON = 16 << 20 // maximum size of a JSON section in bytes
)

var sectionTags = [...]string{"DSGN", "NETW", "SLOT", "NAME", "META", "LAYR", "FBCB", "LATN", "WGHT"}

// Errors of Read. Every error of Read wraps one of these errors or ErrInvalid.
var (
	ErrMagic     = errors.New("not a bundle")
	ErrVersion   = errors.New("bundle version not supported")
	ErrABI       = errors.New("bundle made for another ABI")
	ErrTruncated = errors.New("bundle is truncated")
	ErrTrailing  = errors.New("bundle has trailing bytes")
	ErrHash      = errors.New("bundle hash does not match its content")
	ErrFormat    = errors.New("malformed bundle")
	ErrTooLarge  = errors.New("bundle beyond a limit")
)

// sections encodes the content of the sections, in the order of sectionTags.
func (b *Bundle) sections() ([][]byte, error) {
	var out [][]byte
	for _, v := range []any{b.Design, b.Network, b.Slot, b.Names, b.Meta} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("bundle: encode: %w", err)
		}
		out = append(out, text)
	}
	layers := make([]byte, 0, len(b.Layers)*abi.DescBytes)
	for i := range b.Layers {
		d, err := b.Layers[i].Encode()
		if err != nil {
			return nil, fmt.Errorf("bundle: layer %d: %w", i, err)
		}
		layers = append(layers, d[:]...)
	}
	fbcb := make([]byte, 0, len(b.FBCB)*abi.BMax*4)
	for i, row := range b.FBCB {
		if len(row) != abi.BMax {
			return nil, fmt.Errorf("bundle: layer %d: %d FBCB entries, must be %d", i, len(row), abi.BMax)
		}
		for _, e := range row {
			v, err := e.Encode()
			if err != nil {
				return nil, fmt.Errorf("bundle: layer %d: %w", i, err)
			}
			fbcb = binary.LittleEndian.AppendUint32(fbcb, v)
		}
	}
	latency, err := json.Marshal(b.Latency)
	if err != nil {
		return nil, fmt.Errorf("bundle: encode: %w", err)
	}
	return append(out, layers, fbcb, latency, b.Weights), nil
}

// encode writes the whole file except the hash.
func (b *Bundle) encode(w io.Writer) error {
	sections, err := b.sections()
	if err != nil {
		return err
	}
	head := make([]byte, 0, headerBytes+len(sections)*entryBytes)
	head = append(head, magic...)
	head = binary.LittleEndian.AppendUint32(head, version)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(sections)))
	head = binary.LittleEndian.AppendUint64(head, b.ABIHash)
	head = binary.LittleEndian.AppendUint64(head, b.Design.Hash())
	for i, s := range sections {
		head = append(head, sectionTags[i]...)
		head = binary.LittleEndian.AppendUint32(head, 0)
		head = binary.LittleEndian.AppendUint64(head, uint64(len(s)))
	}
	for _, part := range append([][]byte{head}, sections...) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Hash returns the first 64 bits of the file's SHA-256. The SCRATCH registers store this value.
func (b *Bundle) Hash() (uint64, error) {
	h := sha256.New()
	if err := b.encode(h); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(h.Sum(nil)), nil
}

// Write validates the bundle and writes its file.
func Write(w io.Writer, b *Bundle) error {
	if err := b.Validate(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	h := sha256.New()
	if err := b.encode(io.MultiWriter(w, h)); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if _, err := w.Write(h.Sum(nil)); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// WriteFile writes to a temporary file and renames the file, so that no reader reads a partial bundle.
func WriteFile(path string, b *Bundle) error {
	f, err := files.New(path)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	defer f.Cleanup() // has no effect after the rename
	if err := Write(f, b); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// ReadFile reads and validates a bundle file.
func ReadFile(path string) (*Bundle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	defer f.Close()
	b, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Read reads one bundle up to the end of r. It returns an error if the hash is wrong or if Validate returns an error.
func Read(r io.Reader) (*Bundle, error) {
	var begin [len(magic)]byte // checked first, so that a large file of another format is not read completely
	n, err := io.ReadFull(r, begin[:])
	if err == nil && string(begin[:]) != magic {
		return decode(begin[:])
	} else if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(io.MultiReader(bytes.NewReader(begin[:n]), r), MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	if int64(len(data)) > MaxFile {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, int64(MaxFile))
	}
	return decode(data)
}

func decode(data []byte) (*Bundle, error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrMagic, magic)
	}
	if len(data) < headerBytes {
		return nil, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrTruncated, len(data), headerBytes)
	}
	if v := binary.LittleEndian.Uint32(data[8:]); v != version {
		return nil, fmt.Errorf("%w: it is %d, expected %d", ErrVersion, v, version)
	}
	if n := binary.LittleEndian.Uint32(data[12:]); n != uint32(len(sectionTags)) {
		return nil, fmt.Errorf("%w: %d sections, expected %d", ErrFormat, n, len(sectionTags))
	}
	b := &Bundle{ABIHash: binary.LittleEndian.Uint64(data[16:])}
	if b.ABIHash != abi.Hash {
		return nil, fmt.Errorf("%w: %016x, this build has %016x", ErrABI, b.ABIHash, abi.Hash)
	}
	designHash := binary.LittleEndian.Uint64(data[24:])

	sections, err := cut(data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data[:len(data)-sha256.Size])
	if !bytes.Equal(sum[:], data[len(data)-sha256.Size:]) {
		return nil, ErrHash
	}
	for i, v := range []any{&b.Design, &b.Network, &b.Slot, &b.Names, &b.Meta} {
		if err := decodeJSON(sectionTags[i], sections[i], v); err != nil {
			return nil, err
		}
	}
	if err := decodeJSON("LATN", sections[7], &b.Latency); err != nil {
		return nil, err
	}
	if h := b.Design.Hash(); h != designHash {
		return nil, fmt.Errorf("%w: the header names design %016x, section DSGN holds %016x", ErrFormat, designHash, h)
	}
	if err := b.decodeLayers(sections[5], sections[6]); err != nil {
		return nil, err
	}
	if n := len(sections[8]); n > 0 {
		b.Weights = sections[8][:n:n]
	}
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return b, nil
}

// cut splits the file into sections. It checks that the sections and the hash fill the file exactly.
func cut(data []byte) ([][]byte, error) {
	at := headerBytes + len(sectionTags)*entryBytes
	if len(data) < at+sha256.Size {
		return nil, fmt.Errorf("%w: %d bytes, the section table ends at %d", ErrTruncated, len(data), at)
	}
	rest := data[at : len(data)-sha256.Size]
	var sections [][]byte
	for i, tag := range sectionTags {
		entry := data[headerBytes+i*entryBytes:]
		if string(entry[:4]) != tag || binary.LittleEndian.Uint32(entry[4:]) != 0 {
			return nil, fmt.Errorf("%w: section %d is %q, expected %q", ErrFormat, i, entry[:8], tag)
		}
		n := binary.LittleEndian.Uint64(entry[8:])
		limit := uint64(maxJSON)
		switch tag {
		case "WGHT":
			limit = MaxWeights
		case "LAYR":
			limit = abi.LMax * abi.DescBytes
		case "FBCB":
			limit = abi.LMax * abi.BMax * 4
		}
		if n > limit {
			return nil, fmt.Errorf("%w: section %s has %d bytes, at most %d are allowed", ErrTooLarge, tag, n, limit)
		}
		if n > uint64(len(rest)) {
			return nil, fmt.Errorf("%w: section %s has %d bytes, %d are left", ErrTruncated, tag, n, len(rest))
		}
		sections = append(sections, rest[:n])
		rest = rest[n:]
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d", ErrTrailing, len(rest))
	}
	return sections, nil
}

// decodeJSON decodes text into v. It returns an error if encoding/json would encode the value as a different text.
func decodeJSON(tag string, text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: section %s: %w", ErrFormat, tag, err)
	}
	again, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%w: section %s: %w", ErrFormat, tag, err)
	}
	if !bytes.Equal(text, again) {
		return fmt.Errorf("%w: section %s is not in canonical form", ErrFormat, tag)
	}
	return nil
}

func (b *Bundle) decodeLayers(layers, fbcb []byte) error {
	if len(layers)%abi.DescBytes != 0 {
		return fmt.Errorf("%w: section LAYR has %d bytes, no multiple of %d", ErrFormat, len(layers), abi.DescBytes)
	}
	n := len(layers) / abi.DescBytes
	if len(fbcb) != n*abi.BMax*4 {
		return fmt.Errorf("%w: section FBCB has %d bytes, expected %d for %d layers", ErrFormat, len(fbcb), n*abi.BMax*4, n)
	}
	for i := range n {
		d, err := abi.DecodeDesc(layers[i*abi.DescBytes : (i+1)*abi.DescBytes])
		if err != nil {
			return fmt.Errorf("%w: layer %d: %w", ErrFormat, i, err)
		}
		b.Layers = append(b.Layers, d)
		row := make([]abi.FBCB, abi.BMax)
		for j := range row {
			row[j], err = abi.DecodeFBCB(binary.LittleEndian.Uint32(fbcb[(i*abi.BMax+j)*4:]))
			if err != nil {
				return fmt.Errorf("%w: layer %d, batch %d: %w", ErrFormat, i, j+1, err)
			}
		}
		b.FBCB = append(b.FBCB, row)
	}
	return nil
}
