package ring

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand"
	"strings"
	"testing"
)

// memory is a ring in the test's memory.
type memory struct {
	shape               Shape
	slots, line, credit []uint64
}

func newMemory(shape Shape) *memory {
	return &memory{shape, make([]uint64, shape.RingBytes()/8), make([]uint64, 16), make([]uint64, 16)}
}

func (m *memory) producer() *Producer { return NewProducer(m.shape, m.slots, m.line, m.credit) }
func (m *memory) consumer() *Consumer { return NewConsumer(m.shape, m.slots, m.line, m.credit) }

func (m *memory) slot(i int) string {
	var all []byte
	words := m.shape.SlotBytes / 8
	for _, word := range m.slots[i*words : (i+1)*words] {
		var b [8]byte
		setNative(b[:], word)
		all = append(all, b[:]...)
	}
	return hex.EncodeToString(all)
}

func unspaced(text string) string { return strings.ReplaceAll(text, " ", "") }

// The example of docs/specs/ring.md.
func TestGoldenBytes(t *testing.T) {
	m := newMemory(Shape{SlotBytes: 32, Slots: 4})
	p, c := m.producer(), m.consumer()
	send := func(text string, reverse uint64) {
		t.Helper()
		if err := p.TrySend([]byte(text), reverse, 0); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	expect := func(i int, text string) {
		t.Helper()
		if found := m.slot(i); found != unspaced(text) {
			t.Errorf("slot %d\n is %s\nnot %s", i, found, unspaced(text))
		}
	}
	take := func(text string) {
		t.Helper()
		if message, _, err := c.TryRecv(nil); err != nil || string(message) != text {
			t.Fatalf("%q, %v instead of %q", message, err, text)
		}
	}
	send("hello", 0)
	send("thirty bytes go over two slots", 0x01020304)
	expect(0, "68 65 6c 6c 6f 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 80 05 00 00 00 00 00")
	expect(1, "74 68 69 72 74 79 20 62  79 74 65 73 20 67 6f 20  6f 76 65 72 20 74 77 6f  00 80 18 01 04 03 02 01")
	expect(2, "20 73 6c 6f 74 73 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 80 06 00 04 03 02 01")
	take("hello")
	take("thirty bytes go over two slots")
	if c.Hint() != 0x01020304 {
		t.Errorf("credit %#x", c.Hint())
	}
	send("", 0x01020304)
	send("!", 0x01020304)
	expect(3, "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 80 00 00 04 03 02 01")
	// By the specification, bytes after the message have no meaning; this side clears only those of its
	// last word.
	expect(0, "21 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  01 80 01 00 04 03 02 01")
	p.Close()
	if Load(&m.line[0]) != 6 || Load(&m.credit[0]) != 3 {
		t.Errorf("lines %d and %d", Load(&m.line[0]), Load(&m.credit[0]))
	}
	take("")
	take("!")
	if _, _, err := c.TryRecv(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("%v after the last message", err)
	}
	if err := p.TrySend(nil, 0, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("%v from a send after the close", err)
	}
}

// Random messages over rings of all shapes come out as they went in, and a full ring is full.
func TestRandomMessages(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for _, shape := range shapes() {
		m := newMemory(shape)
		p, c := m.producer(), m.consumer()
		var waiting [][]byte
		for round := 0; round < 3000; round++ {
			if random.Intn(2) == 0 {
				message := make([]byte, random.Intn(shape.MaxMessageBytes()+1))
				random.Read(message)
				err := p.TrySend(message, uint64(round), 0)
				if errors.Is(err, ErrFull) && len(waiting) == 0 {
					// A polling consumer returns the slots that it has held back.
					if _, returned, _ := c.TryRecv(nil); !returned {
						t.Fatalf("%+v: full although all was returned", shape)
					}
					err = p.TrySend(message, uint64(round), 0)
				}
				if err == nil {
					waiting = append(waiting, message)
				} else if !errors.Is(err, ErrFull) || len(waiting) == 0 {
					t.Fatalf("%+v: %v with %d messages under way", shape, err, len(waiting))
				}
				continue
			}
			message, _, err := c.TryRecv(nil)
			if len(waiting) == 0 {
				if !errors.Is(err, ErrEmpty) {
					t.Fatalf("%+v: %v from an empty ring", shape, err)
				}
				continue
			}
			if err != nil || !bytes.Equal(message, waiting[0]) {
				t.Fatalf("%+v: %v, or another message", shape, err)
			}
			waiting = waiting[1:]
		}
	}
	m := newMemory(shapes()[0])
	if err := m.producer().TrySend(make([]byte, m.shape.MaxMessageBytes()+1), 0, 0); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v for a message that is too long", err)
	}
}

func shapes() (all []Shape) {
	for _, slot := range []int{32, 64, 128} {
		for _, slots := range []uint32{2, 4, 16} {
			all = append(all, Shape{slot, slots, false}, Shape{slot, slots, true})
		}
	}
	return all
}

// A hint carries only the low bits, and credit beyond what was sent is a violation.
func TestCredit(t *testing.T) {
	shape := Shape{SlotBytes: 32, Slots: 4}
	start := uint64(1)<<32 - 2
	far := func() *Producer {
		m := newMemory(shape)
		p := m.producer()
		p.position, p.limit, p.hinted = start+4, start+4, start
		return p
	}
	if err := far().TrySend(nil, 0, uint32(start)); !errors.Is(err, ErrFull) {
		t.Errorf("%v without news", err)
	}
	p := far()
	if err := p.TrySend(nil, 0, 1); err != nil || p.limit != start+7 {
		t.Errorf("%v, limit %d", err, p.limit)
	}
	var violation Violation
	if err := far().TrySend(nil, 0, 3); !errors.As(err, &violation) {
		t.Errorf("%v for credit of what was not sent", err)
	}
	m := newMemory(shape)
	p = m.producer()
	for i := 0; i < 4; i++ {
		if err := p.TrySend(nil, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	Store(&m.credit[0], 5)
	if err := p.TrySend(nil, 0, 0); !errors.As(err, &violation) {
		t.Errorf("%v for a credit line above what was sent", err)
	}
	m.consumer().Close()
	m.credit[0] = 0
	p = m.producer()
	p.position = 4
	if err := p.TrySend(nil, 0, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("%v after the consumer closed", err)
	}
}

// For any writes of the other side, a consumer and a producer neither panic nor access memory outside of the
// ring, and end for good at the first violation.
func hostile(t *testing.T, seed []byte) {
	random := rand.New(rand.NewSource(int64(len(seed))))
	for _, shape := range shapes() {
		m := newMemory(shape)
		p, c := m.producer(), m.consumer()
		for i, word := range seed {
			where := [][]uint64{m.slots, m.line, m.credit}[i%3]
			index := int(word) % len(where)
			if i%3 == 0 && word%2 == 0 {
				// Most other words are not valid control words.
				index = (int(word)/2%int(shape.Slots)+1)*shape.SlotBytes/8 - 1
			}
			value := uint64(word)<<uint(i*7%64) ^ uint64(random.Uint32())>>uint(word%33)
			if word%3 == 0 {
				value |= c.tag(c.position)
			}
			Store(&where[index], value)
			message, _, err := c.TryRecv(nil)
			if len(message) > shape.MaxMessageBytes() {
				t.Fatalf("a message of %d bytes", len(message))
			}
			if c.ended != nil && !errors.Is(err, c.ended) {
				t.Fatalf("%v after %v", err, c.ended)
			}
			_ = p.TrySend(seed[:min(len(seed), shape.MaxMessageBytes())], 0, uint32(value))
			if p.position > p.limit && p.ended == nil {
				t.Fatalf("position %d beyond %d", p.position, p.limit)
			}
		}
	}
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func FuzzHostileMemory(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 255, 128, 15, 16, 17, 31, 32, 33, 6, 6, 6, 9, 9, 9, 12})
	random := rand.New(rand.NewSource(2))
	for i := 0; i < 60; i++ {
		seed := make([]byte, random.Intn(200))
		random.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(hostile)
}

func BenchmarkRing(b *testing.B) {
	m := newMemory(Shape{SlotBytes: 64, Slots: 64})
	p, c := m.producer(), m.consumer()
	message, buffer := make([]byte, 48), make([]byte, 0, 64)
	for i := 0; i < b.N; i++ {
		if p.TrySend(message, c.Position(), 0) != nil {
			b.Fatal("full")
		}
		if _, _, err := c.TryRecv(buffer); err != nil {
			b.Fatal(err)
		}
	}
}
