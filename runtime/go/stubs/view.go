package stubs

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Malformed is the error of a malformed message.
type Malformed struct {
	// Offset of the error in the message, in bytes.
	At int

	// Description of the error.
	What string
}

// Error describes the error and its offset.
func (e *Malformed) Error() string {
	return fmt.Sprintf("the message was refused: %s at byte %d", e.What, e.At)
}

// decodeState is that of a message being decoded: its first error, and a budget of bytes that may still be
// decoded. The budget bounds the cost of short messages whose parts overlap.
type decodeState struct {
	bytes  []byte
	budget int
	err    error
}

func (r *decodeState) fail(at int, what string) {
	if r.err == nil {
		r.err = &Malformed{At: at, What: what}
	}
}

// A View is an object of a message: the fields of a struct, the elements of a list. Generated code calls its
// methods; offsets are bytes from the start of the object. Fields beyond the end of the object, which an
// older peer does not send, read as zero. The first error is sticky: everything after it reads as zero.
type View struct {
	r     *decodeState
	start int
	bytes int
}

// parse returns the header of a message and a view of its body.
func parse(message []byte) (header, View, error) {
	if len(message) < headerBytes || len(message)%8 != 0 || len(message) > maxMessageBytes {
		return header{}, View{}, &Malformed{What: fmt.Sprintf("a length of %d bytes", len(message))}
	}
	word := binary.LittleEndian.Uint64(message)
	head := header{
		ordinal: uint16(word),
		words:   uint16(word >> 16),
		kind:    Kind(word >> 32),
		number:  uint32(word >> 40),
	}
	if head.kind < KindMessage || head.kind > KindCancel {
		return header{}, View{}, &Malformed{At: 4, What: fmt.Sprintf("kind %d", head.kind)}
	}
	if headerBytes+int(head.words)*8 > len(message) {
		return header{}, View{}, &Malformed{At: 2, What: "a body that is longer than the message"}
	}
	r := &decodeState{bytes: message, budget: len(message)}
	return head, View{r: r, start: headerBytes, bytes: int(head.words) * 8}, nil
}

// decode reads a body.
func decode(v View, body Body) error {
	if body != nil {
		body.DecodeWire(v)
	}
	return v.r.err
}

// Decode decodes a message of the given kind and ordinal into body; for connections that are not channels.
func Decode(message []byte, kind Kind, ordinal uint16, body Body) error {
	head, view, err := parse(message)
	if err != nil {
		return err
	}
	if head.kind != kind || head.ordinal != ordinal {
		return &Malformed{What: fmt.Sprintf("message %d of kind %d", head.ordinal, head.kind)}
	}
	return decode(view, body)
}

// Head returns the kind, ordinal and number of a message.
func Head(message []byte) (kind Kind, ordinal uint16, number uint32, err error) {
	head, _, err := parse(message)
	return head.kind, head.ordinal, head.number, err
}

// field returns the bytes of a field; zeros if it is missing.
func (v View) field(at, bytes int) []byte {
	if v.r.err != nil || at >= v.bytes {
		return zeros[:bytes]
	}
	from := v.start + at
	if from+bytes > len(v.r.bytes) {
		v.r.fail(from, "a field beyond the end")
		return zeros[:bytes]
	}
	return v.r.bytes[from : from+bytes]
}

var zeros [16]byte

// Bool reads a boolean.
func (v View) Bool(at int) bool {
	value := v.U8(at)
	if value > 1 {
		v.r.fail(v.start+at, "a truth value other than 0 and 1")
	}
	return value == 1
}

// U8 reads a number of 8 bits.
func (v View) U8(at int) uint8 { return v.field(at, 1)[0] }

// U16 reads a number of 16 bits.
func (v View) U16(at int) uint16 { return binary.LittleEndian.Uint16(v.field(at, 2)) }

// U32 reads a number of 32 bits.
func (v View) U32(at int) uint32 { return binary.LittleEndian.Uint32(v.field(at, 4)) }

// U64 reads a number of 64 bits.
func (v View) U64(at int) uint64 { return binary.LittleEndian.Uint64(v.field(at, 8)) }

// F32 reads a number of 32 bits.
func (v View) F32(at int) float32 { return math.Float32frombits(v.U32(at)) }

// F64 reads a number of 64 bits.
func (v View) F64(at int) float64 { return math.Float64frombits(v.U64(at)) }

// Known fails unless the value at an offset is one that the interface declares.
func (v View) Known(at int, known bool) {
	if !known {
		v.r.fail(v.start+at, "a value that the interface does not name")
	}
}

// Inline returns an object embedded in this one.
func (v View) Inline(at, bytes int) View {
	rest := v.bytes - at
	if rest < 0 {
		rest = 0
	}
	if bytes > rest {
		bytes = rest
	}
	return View{r: v.r, start: v.start + at, bytes: bytes}
}

// toInt converts a number of the peer to an int, which has 32 bits on some processors. The result is never
// negative, and numbers too large for any message stay too large.
func toInt(number uint32) int {
	if number > maxMessageBytes {
		return maxMessageBytes
	}
	return int(number)
}

// outOfLine returns an out-of-line object.
func (v View) outOfLine(at, start, bytes int) View {
	empty := View{r: v.r}
	if v.r.err != nil {
		return empty
	}
	bytes = (bytes + 7) &^ 7
	if bytes == 0 {
		if start != 0 {
			v.r.fail(v.start+at, "an empty object with an offset")
		}
		return empty
	}
	if start < headerBytes || start%8 != 0 || start > len(v.r.bytes) || bytes > len(v.r.bytes)-start {
		v.r.fail(v.start+at, "an object that does not lie in the message")
		return empty
	}
	v.charge(bytes)
	return View{r: v.r, start: start, bytes: bytes}
}

func (v View) charge(bytes int) {
	v.r.budget -= bytes
	if v.r.budget < 0 {
		v.r.fail(v.start, "objects that overlap")
	}
}

// List returns the elements of a list, and their number.
func (v View) List(at, each, max int) (View, int) {
	start, count := toInt(v.U32(at)), toInt(v.U32(at+4))
	if count > max {
		v.r.fail(v.start+at, fmt.Sprintf("%d elements where up to %d are allowed", v.U32(at+4), max))
		return View{r: v.r}, 0
	}
	bytes := count * each
	if each > 0 && count > maxMessageBytes/each {
		bytes = maxMessageBytes
	}
	list := v.outOfLine(at, start, bytes)
	if each == 0 {
		// Elements without bytes are charged to the budget too.
		v.charge(count)
	}
	if v.r.err != nil {
		return View{r: v.r}, 0
	}
	return list, count
}

// Object returns the fields of an out-of-line struct.
func (v View) Object(at int) View {
	start, bytes := toInt(v.U32(at)), toInt(v.U32(at+4))
	if bytes%8 != 0 {
		v.r.fail(v.start+at, "a struct whose length is not a multiple of 8")
	}
	return v.outOfLine(at, start, bytes)
}

// Case returns the number of a union's case, and its value.
func (v View) Case(at int) (uint32, View) {
	ordinal, bytes, start := v.U32(at), toInt(v.U32(at+4)), v.U64(at+8)
	if ordinal == 0 {
		v.r.fail(v.start+at, "a union without a case")
	}
	if bytes%8 != 0 || start > maxMessageBytes {
		v.r.fail(v.start+at, "an object that does not lie in the message")
		start = 0
	}
	return ordinal, v.outOfLine(at, int(start), bytes)
}

// Exactly fails unless the object has the given length.
func (v View) Exactly(bytes int) {
	if v.bytes != bytes {
		v.r.fail(v.start, "the value of a case with another length")
	}
}

// Text reads a string.
func (v View) Text(at, max int) string {
	list, count := v.List(at, 1, max)
	text := string(list.part(count))
	if !utf8.ValidString(text) {
		v.r.fail(list.start, "text that is not UTF-8")
		return ""
	}
	return text
}

// Bytes returns a copy of bytes.
func (v View) Bytes(at, max int) []byte {
	list, count := v.List(at, 1, max)
	if count == 0 {
		return nil
	}
	return append([]byte(nil), list.part(count)...)
}

func (v View) part(count int) []byte {
	if count == 0 {
		return nil
	}
	return v.r.bytes[v.start : v.start+count]
}

// Right reads a right of a kind, and fails unless it was copied or given away as declared.
func (v View) Right(at int, kind uint8, moved bool) Right {
	mark := uint64(kind)
	if moved {
		mark |= 1 << 8
	}
	if v.U64(at+8) != mark {
		v.r.fail(v.start+at, "a right of another kind")
	}
	return Right{Object: v.U64(at)}
}
