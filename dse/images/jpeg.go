package images

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image/color"
)

// This decoder returns the same pixels as libjpeg-turbo, which PIL, torchvision, OpenCV and TensorFlow use. Go's own
// decoder has another cosine transform and another interpolation of chroma. Its pixels differ by up to 3 grey levels,
// and it does not expose the coefficients.

// jpegFile is the state of reading a JPEG file.
type jpegFile struct {
	data []byte
	at   int // index of the next byte

	w, h         int
	progressive  bool
	planes       []plane
	across, down int // largest sampling factors
	quant        [4]*[64]uint16
	huffman      [2][4]*huffman // DC and AC tables
	restart      int            // number of units between restart markers; 0: no markers
	jfif, adobe  bool
	transform    byte   // colour transform named in Adobe's segment
	acc          uint32 // bits that were read ahead
	held, beyond int    // number of bits in acc, and number of these bits that are beyond the end of the data
	run          int    // number of further blocks that an end-of-band code covers
	err          error
}

// plane is one colour component.
type plane struct {
	id, table    byte
	across, down int // sampling factors
	w, h         int // number of samples across and down, without padding
	stride       int // number of samples in a row, including the padding to whole blocks
	samples      []byte
	quant        *[64]uint16 // quantisation table at the component's first scan
	coefficients []int16     // coefficients of a progressive file, block by block
	missing      [64]int8    // in a progressive file: number of bits that are still missing, by coefficient; -1: all
	dc           int         // prediction of the next block's DC coefficient
}

// decodeJPEG reads baseline, extended and progressive files with Huffman codes.
func decodeJPEG(data []byte) (*raster, error) {
	f := &jpegFile{data: data, at: 2}
	if err := f.read(); err != nil {
		return nil, err
	}
	for i := range f.planes {
		if p := &f.planes[i]; f.progressive {
			p.finish()
		}
	}
	return f.raster()
}

// maxScans is the maximum number of scans that libjpeg's programs write. The number is limited, because even a scan
// with few bytes processes all pixels.
const maxScans = 100

var errTruncated = errors.New("the file ends too early")

// segment returns the content of the segment after a marker.
func (f *jpegFile) segment() ([]byte, error) {
	if f.at+2 > len(f.data) {
		return nil, errTruncated
	}
	n := int(binary.BigEndian.Uint16(f.data[f.at:]))
	if n < 2 || f.at+n > len(f.data) {
		return nil, errTruncated
	}
	s := f.data[f.at+2 : f.at+n]
	f.at += n
	return s, nil
}

func (f *jpegFile) marker() (byte, error) {
	for ; f.at+1 < len(f.data); f.at++ {
		if m := f.data[f.at+1]; f.data[f.at] == 0xff && m != 0 && m != 0xff {
			f.at += 2
			return m, nil
		}
	}
	return 0, errTruncated
}

func (f *jpegFile) read() error {
	const sof0, sof2, dht, rst0, rst7, soi, eoi, sos, dqt, dnl, dri, app0, app14, tem = 0xc0, 0xc2, 0xc4, 0xd0, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xe0, 0xee, 1
	for scans := 0; ; {
		m, err := f.marker()
		if err != nil {
			if scans > 0 && f.whole() { // only the end marker is missing
				return nil
			}
			return err
		}
		if m == eoi {
			if !f.whole() {
				return errTruncated
			}
			return nil
		}
		if m >= rst0 && m <= rst7 || m == tem {
			continue
		}
		if m == soi {
			return errors.New("a second picture begins within the first")
		}
		s, err := f.segment()
		if err != nil {
			return err
		}
		switch {
		case m >= sof0 && m <= sof2:
			f.progressive = m == sof2
			err = f.frame(s)
		case m == dht:
			err = f.codes(s)
		case m > sof2 && m < rst0: // an unsupported type of frame
			return fmt.Errorf("a JPEG of a rare kind (frame %#x: lossless, hierarchical or with arithmetic codes); convert it to an ordinary one", m)
		case m == dqt:
			err = f.tables(s)
		case m == dri:
			if len(s) != 2 {
				return errors.New("a restart interval of another length than 2")
			}
			f.restart = int(binary.BigEndian.Uint16(s))
		case m == dnl:
			return errors.New("its height stands behind its pixels")
		case m == app0 && len(s) >= 12 && string(s[:5]) == "JFIF\x00":
			f.jfif = true
		case m == app14 && len(s) >= 12 && string(s[:5]) == "Adobe":
			f.adobe, f.transform = true, s[11]
		case m == sos:
			if scans++; scans > maxScans {
				return fmt.Errorf("more than %d scans", maxScans)
			}
			err = f.scan(s)
		}
		if err != nil {
			return err
		}
	}
}

// whole reports whether all components were read. In a progressive file, the coefficients that libjpeg would estimate
// must be complete.
func (f *jpegFile) whole() bool {
	const guessed = 10 // number of such coefficients
	for i := range f.planes {
		p := &f.planes[i]
		if p.quant == nil {
			return false
		}
		for _, m := range p.missing[:guessed] {
			if f.progressive && m != 0 {
				return false
			}
		}
	}
	return len(f.planes) > 0
}

func (f *jpegFile) frame(s []byte) error {
	if f.planes != nil {
		return errors.New("two frames in one file")
	}
	if len(s) < 6 || len(s) != 6+3*int(s[5]) {
		return errors.New("a frame's head of another length than its components have")
	}
	if s[0] != 8 {
		return fmt.Errorf("%d bits a sample, 8 are read", s[0])
	}
	f.h, f.w = int(binary.BigEndian.Uint16(s[1:])), int(binary.BigEndian.Uint16(s[3:]))
	if n := s[5]; f.w == 0 || f.h == 0 || n != 1 && n != 3 && n != 4 {
		return fmt.Errorf("%d x %d pixels of %d components, expected 1, 3 or 4", f.w, f.h, n)
	}
	if err := checkSize(f.w, f.h); err != nil {
		return err
	}
	var planes []plane
	for c := s[6:]; len(c) > 0; c = c[3:] {
		p := plane{id: c[0], across: int(c[1] >> 4), down: int(c[1] & 15), table: c[2]}
		if p.across < 1 || p.across > 4 || p.down < 1 || p.down > 4 || p.table > 3 {
			return fmt.Errorf("component %d is sampled %d x %d with table %d", p.id, p.across, p.down, p.table)
		}
		for i := range p.missing {
			p.missing[i] = -1
		}
		f.across, f.down = max(f.across, p.across), max(f.down, p.down)
		planes = append(planes, p)
	}
	for i := range planes {
		p := &planes[i]
		if f.across%p.across != 0 || f.down%p.down != 0 {
			return fmt.Errorf("component %d is sampled %d x %d where another is %d x %d, which is no whole multiple", p.id, p.across, p.down, f.across, f.down)
		}
		p.w, p.h = over(f.w*p.across, f.across), over(f.h*p.down, f.down)
		p.stride = 8 * p.across * over(f.w, 8*f.across)
		n := p.stride * 8 * p.down * over(f.h, 8*f.down)
		p.samples = make([]byte, n)
		if f.progressive {
			p.coefficients = make([]int16, n)
		}
	}
	f.planes = planes
	return nil
}

func over(a, b int) int { return (a + b - 1) / b }

func (f *jpegFile) tables(s []byte) error {
	for len(s) > 0 {
		wide, n := int(s[0]>>4), s[0]&15
		if s = s[1:]; wide > 1 || n > 3 || len(s) < 64<<wide {
			return errors.New("a table of divisors is wrong")
		}
		t := new([64]uint16)
		for i := range t {
			if t[zigzag[i]] = uint16(s[i]); wide == 1 {
				t[zigzag[i]] = binary.BigEndian.Uint16(s[2*i:])
			}
		}
		f.quant[n], s = t, s[64<<wide:]
	}
	return nil
}

type huffman struct {
	short   [256]uint16 // by the next 8 bits: the symbol, and the code's length in the upper byte; 0: the code is longer
	last    [17]int     // last code of each length; -1: no code has this length
	from    [17]int     // by length: index of the first symbol, minus the first code
	symbols []byte
}

func (f *jpegFile) codes(s []byte) error {
	wrong := errors.New("a table of Huffman codes is wrong")
	for len(s) > 0 {
		if len(s) < 17 || s[0]&15 > 3 || s[0]>>4 > 1 {
			return wrong
		}
		n := 0
		for _, c := range s[1:17] {
			n += int(c)
		}
		if n > 256 || len(s) < 17+n {
			return wrong
		}
		h, code, k := &huffman{symbols: s[17 : 17+n]}, 0, 0
		for l := 1; l <= 16; l++ {
			count := int(s[l])
			h.from[l], h.last[l] = k-code, code+count-1
			if count == 0 {
				h.last[l] = -1
			}
			if code+count > 1<<l {
				return wrong
			}
			for range count {
				for i := 0; l <= 8 && i < 1<<(8-l); i++ {
					h.short[code<<(8-l)|i] = uint16(l)<<8 | uint16(h.symbols[k])
				}
				code, k = code+1, k+1
			}
			code <<= 1
		}
		f.huffman[s[0]>>4][s[0]&15] = h
		s = s[17+n:]
	}
	return nil
}

// peek returns the next n bits without skipping them. Bits after the end of the data are zero.
func (f *jpegFile) peek(n int) int {
	for f.held < n {
		b := byte(0)
		switch {
		case f.at >= len(f.data) || f.data[f.at] == 0xff && (f.at+1 >= len(f.data) || f.data[f.at+1] != 0):
			f.beyond += 8
		case f.data[f.at] == 0xff:
			b, f.at = 0xff, f.at+2
		default:
			b, f.at = f.data[f.at], f.at+1
		}
		f.acc, f.held = f.acc<<8|uint32(b), f.held+8
	}
	return int(f.acc >> (f.held - n) & (1<<n - 1))
}

func (f *jpegFile) skip(n int) {
	if f.held -= n; f.held < f.beyond {
		f.fail(errors.New("pixels end too early"))
	}
}

func (f *jpegFile) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *jpegFile) bits(n int) int {
	v := f.peek(n)
	f.skip(n)
	return v
}

// number reads a signed number of n bits. The number is negative if its first bit is 0.
func (f *jpegFile) number(n int) int {
	if n == 0 {
		return 0
	}
	v := f.bits(n)
	if v < 1<<(n-1) {
		v += 1 - 1<<n
	}
	return v
}

func (f *jpegFile) symbol(h *huffman) int {
	if s := h.short[f.peek(8)]; s != 0 {
		f.skip(int(s >> 8))
		return int(s & 0xff)
	}
	for l := 9; l <= 16; l++ {
		if code := f.peek(l); code <= h.last[l] {
			f.skip(l)
			return int(h.symbols[code+h.from[l]])
		}
	}
	f.fail(errors.New("a code that is in no table"))
	return 0
}

// part is a component in a scan, with its Huffman tables.
type part struct {
	*plane
	dc, ac *huffman
}

// band describes the data of a scan: the bits from `low` to `high` of the coefficients from `first` to `last`.
type band struct{ first, last, high, low int }

func (f *jpegFile) scan(s []byte) error {
	if len(s) < 1 || len(s) != 4+2*int(s[0]) || f.planes == nil || s[0] < 1 || s[0] > 4 {
		return errors.New("a scan's head is wrong")
	}
	n := int(s[0])
	b := band{int(s[1+2*n]), int(s[2+2*n]), int(s[3+2*n] >> 4), int(s[3+2*n] & 15)}
	if !f.progressive {
		b = band{last: 63}
	}
	if b.first > b.last || b.last > 63 || b.first == 0 && b.last > 0 && f.progressive || b.first > 0 && n != 1 || b.low > 13 || b.high > 0 && b.high != b.low+1 {
		return fmt.Errorf("a scan of coefficients %d to %d and bits %d to %d of %d components", b.first, b.last, b.high, b.low, n)
	}
	var parts []part
	units := 0
	for c := s[1 : 1+2*n]; len(c) > 0; c = c[2:] {
		p, err := f.part(c[0], c[1], b, parts)
		if err != nil {
			return err
		}
		units += p.across * p.down
		parts = append(parts, p)
	}
	return f.blocks(parts, units, b)
}

// part returns the part of a scan for a component id. The parameter `before` contains the scan's earlier parts.
func (f *jpegFile) part(id, tables byte, b band, before []part) (part, error) {
	p := part{}
	for i := range f.planes {
		if f.planes[i].id == id {
			p.plane = &f.planes[i]
		}
	}
	for _, other := range before {
		if other.plane == p.plane {
			return p, fmt.Errorf("component %d twice in one scan", id)
		}
	}
	if p.plane == nil || tables>>4 > 3 || tables&15 > 3 {
		return p, fmt.Errorf("a scan of component %d, which there is none of, or with tables %#x", id, tables)
	}
	p.dc, p.ac = f.huffman[0][tables>>4], f.huffman[1][tables&15]
	if b.first == 0 && b.high == 0 && p.dc == nil || b.last > 0 && p.ac == nil {
		return p, errors.New("a scan without its Huffman codes")
	}
	switch {
	case p.quant == nil:
		if p.quant = f.quant[p.table]; p.quant == nil {
			return p, errors.New("a component without its divisors")
		}
	case !f.progressive:
		return p, fmt.Errorf("component %d in two scans", p.id)
	}
	if f.progressive {
		for k := b.first; k <= b.last; k++ {
			if have := int(p.missing[k]); (have >= 0) != (b.high > 0) || b.high > 0 && have != b.high || b.first > 0 && p.missing[0] < 0 {
				return p, errors.New("scans that do not follow each other")
			}
			p.missing[k] = int8(b.low)
		}
	}
	return p, nil
}

// blocks reads the blocks of a scan. The argument `units` is the number of blocks in a unit.
func (f *jpegFile) blocks(parts []part, units int, b band) error {
	across, down := over(f.w, 8*f.across), over(f.h, 8*f.down)
	if len(parts) == 1 { // such a scan has no blocks that contain only padding
		across, down = over(parts[0].w, 8), over(parts[0].h, 8)
	} else if units > 10 {
		return fmt.Errorf("%d blocks a unit, at most 10", units)
	}
	f.begin(parts)
	for unit := range across * down {
		if f.restart > 0 && unit > 0 && unit%f.restart == 0 {
			m, err := f.marker()
			if want := byte(0xd0 + (unit/f.restart-1)%8); err != nil || m != want {
				return errors.New("a restart marker is missing")
			}
			f.begin(parts)
		}
		x, y := unit%across, unit/across
		for _, p := range parts {
			if len(parts) == 1 {
				f.block(p, x, y, b)
				continue
			}
			for v := range p.down {
				for u := range p.across {
					f.block(p, x*p.across+u, y*p.down+v, b)
				}
			}
		}
		if f.err != nil {
			return f.err
		}
	}
	f.acc, f.held, f.beyond = 0, 0, 0
	return nil
}

// begin resets the bit reader and the predictions.
func (f *jpegFile) begin(parts []part) {
	f.acc, f.held, f.beyond, f.run = 0, 0, 0, 0
	for _, p := range parts {
		p.plane.dc = 0
	}
}

// block reads the data of a scan for one block.
func (f *jpegFile) block(p part, x, y int, in band) {
	first, last, high, low := in.first, in.last, in.high, in.low
	var own [64]int16
	b := own[:]
	if f.progressive {
		b = p.coefficients[(y*(p.stride/8)+x)*64:][:64]
	}
	if high > 0 {
		f.refine(p, b, first, last, low)
		return
	}
	if first == 0 {
		n := f.symbol(p.dc)
		if n > 15 {
			f.fail(errors.New("a constant part of more than 15 bits"))
			return
		}
		p.plane.dc += f.number(n)
		b[0] = int16(p.plane.dc << low)
		first = 1
	}
	if f.run > 0 && last > 0 {
		f.run--
		last = 0
	}
	for k := first; k <= last; k++ {
		s := f.symbol(p.ac)
		zeros, n := s>>4, s&15
		if n == 0 && zeros < 15 {
			if f.run = 1<<zeros - 1; f.progressive && zeros > 0 {
				f.run += f.bits(zeros)
			} else if !f.progressive {
				f.run = 0
			}
			break
		}
		if k += zeros; k > 63 || f.err != nil {
			f.fail(errors.New("a block of more than 64 coefficients"))
			return
		}
		if n > 0 {
			b[zigzag[k]] = int16(f.number(n) << low)
		}
	}
	if !f.progressive {
		p.transform(b, x, y)
	}
}

// refine reads one more bit of each coefficient of a block.
func (f *jpegFile) refine(p part, b []int16, first, last, low int) {
	bit := int16(1) << low
	if first == 0 {
		if f.bits(1) == 1 {
			b[0] |= bit
		}
		return
	}
	// more reads the next bit of each nonzero coefficient and skips the given number of zero coefficients.
	more := func(k, zeros int) int {
		for ; k <= last; k++ {
			c := &b[zigzag[k]]
			if *c == 0 {
				if zeros == 0 {
					break
				}
				zeros--
				continue
			}
			if f.bits(1) == 1 && *c&bit == 0 {
				if *c > 0 {
					*c += bit
				} else {
					*c -= bit
				}
			}
		}
		return k
	}
	k := first
	for ; k <= last && f.run == 0 && f.err == nil; k++ {
		s := f.symbol(p.ac)
		zeros, n := s>>4, s&15
		var v int16
		switch {
		case n == 1:
			if v = -bit; f.bits(1) == 1 {
				v = bit
			}
		case n > 1:
			f.fail(errors.New("a bit of more than one"))
		case zeros < 15:
			if f.run = 1 << zeros; zeros > 0 {
				f.run += f.bits(zeros)
			}
		}
		if f.run > 0 {
			break
		}
		if k = more(k, zeros); v != 0 {
			if k > last {
				f.fail(errors.New("a block of more than 64 coefficients"))
				return
			}
			b[zigzag[k]] = v
		}
	}
	if f.run > 0 {
		f.run--
		more(k, len(b))
	}
}

// finish computes the samples of a progressive file.
func (p *plane) finish() {
	across := p.stride / 8
	for i := range len(p.coefficients) / 64 {
		p.transform(p.coefficients[i*64:][:64], i%across, i/across)
	}
	p.coefficients = nil
}

// transform computes libjpeg's "islow" inverse cosine transform: first columns, with 2 extra bits, and then rows.
func (p *plane) transform(b []int16, x, y int) {
	const constBits, passBits = 13, 2
	var work [64]int32
	for c := range 8 {
		var in [8]int32
		for i := range in {
			in[i] = int32(b[8*i+c]) * int32(p.quant[8*i+c])
		}
		for i, v := range cosines(in) {
			work[8*i+c] = (v + 1<<(constBits-passBits-1)) >> (constBits - passBits)
		}
	}
	const shift = constBits + passBits + 3
	for r := range 8 {
		out := p.samples[(8*y+r)*p.stride+8*x:][:8]
		for i, v := range cosines([8]int32(work[8*r:])) {
			out[i] = clip(int((v+1<<(shift-1))>>shift) + 128)
		}
	}
}

// cosines computes the transform in one dimension, with 13 fractional bits (C. Loeffler et al., 1989).
func cosines(in [8]int32) [8]int32 {
	z := (in[2] + in[6]) * 4433
	c2, c3 := z-in[6]*15137, z+in[2]*6270
	c0, c1 := (in[0]+in[4])<<13, (in[0]-in[4])<<13
	even := [4]int32{c0 + c3, c1 + c2, c1 - c2, c0 - c3}

	a0, a1, a2, a3 := in[7], in[5], in[3], in[1]
	z5 := (a0 + a2 + a1 + a3) * 9633
	z1, z2 := -(a0+a3)*7373, -(a1+a2)*20995
	z3, z4 := z5-(a0+a2)*16069, z5-(a1+a3)*3196
	odd := [4]int32{a3*12299 + z1 + z4, a2*25172 + z2 + z3, a1*16819 + z2 + z4, a0*2446 + z1 + z3}
	return [8]int32{
		even[0] + odd[0], even[1] + odd[1], even[2] + odd[2], even[3] + odd[3],
		even[3] - odd[3], even[2] - odd[2], even[1] - odd[1], even[0] - odd[0],
	}
}

// zigzag contains the positions of a block's coefficients, in the order of the file.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// raster combines the components to pixels. It determines the colour space as libjpeg does.
func (f *jpegFile) raster() (*raster, error) {
	full := make([][]byte, len(f.planes))
	for i := range f.planes {
		p := &f.planes[i]
		full[i] = upsampled(p.samples, p.stride, f.across/p.across, f.down/p.down, f.w, f.h)
		p.samples = nil
	}
	if len(full) == 1 {
		return &raster{f.w, f.h, 1, full[0]}, nil
	}
	ids := [3]byte{f.planes[0].id, f.planes[1].id, f.planes[2].id}
	plain := f.adobe && f.transform == 0 || !f.adobe && ids == [3]byte{'R', 'G', 'B'} && len(full) == 3
	if f.jfif && len(full) == 3 {
		plain = false
	}
	r := newRaster(f.w, f.h, 3)
	for i := range f.w * f.h {
		a, b, c := full[0][i], full[1][i], full[2][i]
		if !plain && (len(full) == 3 || f.adobe) {
			a, b, c = ycc(a, b, c)
		}
		if len(full) == 4 { // CMYK, with inverted values, as Adobe writes them and PIL assumes
			ink := color.CMYK{C: ^a, M: ^b, Y: ^c, K: ^full[3][i]}
			if !plain && f.adobe {
				ink.C, ink.M, ink.Y = a, b, c
			}
			a, b, c = rgb(ink)
		}
		r.pix[3*i], r.pix[3*i+1], r.pix[3*i+2] = a, b, c
	}
	return r, nil
}
