// Package stubs is the runtime of the code that `tombolo idl compile --lang go` generates: the encoding of
// messages, and the calling and the serving end of a channel. Programs use it for errors: Decline,
// DeclinedWith, Fault.
//
// docs/specs/interface.md specifies the encoding.
package stubs

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// headerBytes is the length of the header of every message.
const headerBytes = 8

// maxBodyBytes is the maximum length of a body: the header has 16 bits for its length in words.
const maxBodyBytes = 0xffff * 8

// maxMessageBytes is the maximum length of a message.
const maxMessageBytes = 1 << 30

// A DomainID identifies a domain of the machine: its index in bits 0 to 31, its generation in 32 to 47, the
// number of its node in 48 to 63. 0 is no domain.
type DomainID uint64

// String formats the id as tools print it: node.generation.index.
func (d DomainID) String() string {
	return fmt.Sprintf("%d.%d.%d", uint64(d)>>48, uint64(d)>>32&0xffff, uint32(d))
}

// A Right represents an endpoint, a region, another capability or a buffer in a message: an untrusted number,
// which must be accepted before use.
type Right struct {
	// Identifier of the object, depending on the kind of right; see docs/specs/interface.md.
	Object uint64
}

// Unnamed formats a value that has no name.
func Unnamed(value int64) string { return strconv.FormatInt(value, 10) }

// Body is the contents of a message; types of generated code implement it.
type Body interface {
	// WireBytes returns the length of the fields, in bytes.
	WireBytes() int

	// EncodeWire writes the fields at an offset of a message.
	EncodeWire(w *Writer, at int)

	// DecodeWire reads the fields.
	DecodeWire(v View)
}

// OverLimit is the error of a value that the interface does not allow. Nothing was sent.
type OverLimit struct {
	// Name of the field.
	Field string

	// Length of the value; 0 if the interface does not declare the value.
	Length int

	// Maximum length.
	Max int

	// Description of the error, if it is not the length.
	Why string
}

// Error names the field and its limit.
func (e *OverLimit) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("%s %s: nothing was sent", e.Field, e.Why)
	}
	return fmt.Sprintf("%s has %d bytes or elements, but the interface allows up to %d: nothing was sent",
		e.Field, e.Length, e.Max)
}

// A Writer encodes one message. Generated code calls its methods; offsets are bytes from the start of the
// message. The first value that the interface does not allow is kept as the error.
type Writer struct {
	bytes []byte
	err   error
}

// header is the header of a message.
type header struct {
	ordinal uint16
	words   uint16
	kind    Kind
	number  uint32
}

// Encode encodes a message; body may be nil for a message without fields. It reuses target if that is long
// enough.
func Encode(target []byte, kind Kind, ordinal uint16, number uint32, body Body) ([]byte, error) {
	bytes := 0
	if body != nil {
		bytes = (body.WireBytes() + 7) &^ 7
	}
	if bytes > maxBodyBytes {
		return nil, &OverLimit{Field: "the body", Length: bytes, Max: maxBodyBytes}
	}
	w := Writer{bytes: target[:0]}
	w.extend(headerBytes + bytes)
	binary.LittleEndian.PutUint16(w.bytes, ordinal)
	binary.LittleEndian.PutUint16(w.bytes[2:], uint16(bytes/8))
	binary.LittleEndian.PutUint32(w.bytes[4:], number<<8|uint32(kind))
	if body != nil {
		body.EncodeWire(&w, headerBytes)
	}
	return w.bytes, w.err
}

// extend appends zeros and returns their offset.
func (w *Writer) extend(bytes int) int {
	at, end := len(w.bytes), len(w.bytes)+(bytes+7)&^7
	if w.err != nil {
		return at
	}
	if end > maxMessageBytes {
		w.fail("the message", end, maxMessageBytes)
		return at
	}
	for cap(w.bytes) < end {
		w.bytes = append(w.bytes[:cap(w.bytes)], 0)
	}
	w.bytes = w.bytes[:end]
	fresh := w.bytes[at:]
	for i := range fresh {
		fresh[i] = 0
	}
	return at
}

func (w *Writer) fail(field string, length, max int) {
	if w.err == nil {
		w.err = &OverLimit{Field: field, Length: length, Max: max}
	}
}

func (w *Writer) refuse(field, why string) {
	if w.err == nil {
		w.err = &OverLimit{Field: field, Why: why}
	}
}

// at returns the bytes at an offset, or a scratch buffer after an error.
func (w *Writer) at(at, bytes int) []byte {
	if at < 0 || at+bytes > len(w.bytes) {
		// After an error, offsets can lie beyond the end.
		return make([]byte, bytes)
	}
	return w.bytes[at : at+bytes]
}

// Bool writes a boolean.
func (w *Writer) Bool(at int, value bool) {
	if value {
		w.at(at, 1)[0] = 1
	}
}

// U8 writes a number of 8 bits.
func (w *Writer) U8(at int, value uint8) { w.at(at, 1)[0] = value }

// U16 writes a number of 16 bits.
func (w *Writer) U16(at int, value uint16) { binary.LittleEndian.PutUint16(w.at(at, 2), value) }

// U32 writes a number of 32 bits.
func (w *Writer) U32(at int, value uint32) { binary.LittleEndian.PutUint32(w.at(at, 4), value) }

// U64 writes a number of 64 bits.
func (w *Writer) U64(at int, value uint64) { binary.LittleEndian.PutUint64(w.at(at, 8), value) }

// F32 writes a number of 32 bits.
func (w *Writer) F32(at int, value float32) { w.U32(at, math.Float32bits(value)) }

// F64 writes a number of 64 bits.
func (w *Writer) F64(at int, value float64) { w.U64(at, math.Float64bits(value)) }

// Known fails unless the value of a field is one that the interface declares.
func (w *Writer) Known(known bool, field string) {
	if !known {
		w.refuse(field, "has a value that the interface does not name")
	}
}

// Text writes a string, which must be UTF-8.
func (w *Writer) Text(at int, value string, max int, field string) {
	if !utf8.ValidString(value) {
		w.refuse(field, "has text that is not UTF-8")
	}
	if from, count := w.List(at, len(value), 1, max, field); count > 0 {
		copy(w.bytes[from:], value)
	}
}

// Bytes writes bytes.
func (w *Writer) Bytes(at int, value []byte, max int, field string) {
	if from, count := w.List(at, len(value), 1, max, field); count > 0 {
		copy(w.bytes[from:], value)
	}
}

// List reserves room for elements, and returns its offset and how many elements to write.
func (w *Writer) List(at, count, each, max int, field string) (from, number int) {
	if count > max {
		w.fail(field, count, max)
	}
	if count == 0 || w.err != nil {
		return 0, 0
	}
	from = 0
	if each > 0 {
		from = w.extend(count * each)
	}
	if w.err != nil {
		return 0, 0
	}
	w.U32(at, uint32(from))
	w.U32(at+4, uint32(count))
	return from, count
}

// Object reserves room for an out-of-line struct.
func (w *Writer) Object(at, bytes int) int {
	if bytes == 0 {
		return 0
	}
	from := w.extend(bytes)
	w.U32(at, uint32(from))
	w.U32(at+4, uint32((bytes+7)&^7))
	return from
}

// Case reserves room for the value of a union's case.
func (w *Writer) Case(at int, ordinal uint32, bytes int) int {
	w.U32(at, ordinal)
	if bytes == 0 {
		return 0
	}
	from := w.extend(bytes)
	w.U32(at+4, uint32(bytes))
	w.U32(at+8, uint32(from))
	return from
}

// Right writes a right.
func (w *Writer) Right(at int, value Right, kind uint8, moved bool) {
	w.U64(at, value.Object)
	w.U8(at+8, kind)
	w.Bool(at+9, moved)
}
