package ring

import (
	"errors"
	"fmt"
	"math/bits"
)

// The errors of rings.
var (
	// ErrFull: there is no room for the message right now.
	ErrFull = errors.New("the ring is full")
	// ErrEmpty: there is no message right now.
	ErrEmpty = errors.New("the ring is empty")
	// ErrClosed: either side closed the ring.
	ErrClosed = errors.New("the ring is closed")
	// ErrTooLong: the message exceeds the ring's maximum.
	ErrTooLong = errors.New("the message is too long")
)

// Violation is the error of a peer that violated the specification. The ring is unusable from then on.
type Violation string

// Error describes the violation.
func (v Violation) Error() string { return string(v) }

// Shape is the geometry of a ring, on which the two sides agreed.
type Shape struct {
	SlotBytes int    // 32, 64 or 128
	Slots     uint32 // a power of two from 2 to 65,536
	UsedFlag  bool   // the consumer clears slots; otherwise it counts them
}

// Valid reports whether rings can have that shape.
func (s Shape) Valid() bool {
	slot := s.SlotBytes == 32 || s.SlotBytes == 64 || s.SlotBytes == 128
	return slot && s.Slots >= 2 && s.Slots <= 1<<16 && bits.OnesCount32(s.Slots) == 1
}

// PayloadBytes returns the payload of a slot.
func (s Shape) PayloadBytes() int { return s.SlotBytes - 8 }

// MaxMessageBytes returns the maximum length of a message.
func (s Shape) MaxMessageBytes() int { return s.PayloadBytes() * int(s.Slots) }

// RingBytes returns the length of all slots.
func (s Shape) RingBytes() int { return s.SlotBytes * int(s.Slots) }

// The control word of a slot.
const (
	tagMask     = 0xffff
	written     = 1 << 15
	lengthShift = 16
	more        = 1 << 24
	reserved    = 0xfe << 24
	creditShift = 32
)

// sharedSlots is the part of a ring that both ends share.
type sharedSlots struct {
	Shape
	slots     []uint64
	slotWords uint64
	lapShift  uint
}

func newSharedSlots(shape Shape, slots []uint64) sharedSlots {
	return sharedSlots{
		Shape:     shape,
		slots:     slots,
		slotWords: uint64(shape.SlotBytes / 8),
		lapShift:  uint(bits.TrailingZeros32(shape.Slots)),
	}
}

// at returns the payload and the control word of the slot at a position.
func (p *sharedSlots) at(position uint64) ([]uint64, *uint64) {
	from := position & uint64(p.Slots-1) * p.slotWords
	words := p.slots[from : from+p.slotWords]
	return words[:p.slotWords-1], &words[p.slotWords-1]
}

// tag returns the low 16 bits of a position's control word once the slot is published.
func (p *sharedSlots) tag(position uint64) uint64 { return position>>p.lapShift&(written-1) | written }

// idleTag returns the same bits as they are before the slot is published.
func (p *sharedSlots) idleTag(position uint64) uint64 {
	if p.UsedFlag || position < uint64(p.Slots) {
		return 0
	}
	return p.tag(position - uint64(p.Slots))
}

// slotCount returns how many slots a message occupies.
func (p *sharedSlots) slotCount(length int) uint64 {
	if length == 0 {
		return 1
	}
	return uint64((length + p.PayloadBytes() - 1) / p.PayloadBytes())
}

// Producer is the sending end of a ring. One goroutine at a time may use it.
type Producer struct {
	sharedSlots
	line, credit []uint64
	position     uint64
	limit        uint64 // slots before this position may be written
	hinted       uint64 // credit according to the last hint
	ended        error
}

// NewProducer returns the sending end of a ring in zeroed memory: its slots, the producer's line and the
// credit line.
func NewProducer(shape Shape, slots, line, credit []uint64) *Producer {
	return &Producer{sharedSlots: newSharedSlots(shape, slots), line: line, credit: credit, limit: uint64(shape.Slots)}
}

// Position returns the number of slots sent.
func (p *Producer) Position() uint64 { return p.position }

// TrySend sends a whole message, or changes nothing. The message carries `reverse`, the number of slots
// consumed of the reverse ring; hint is the last such number received for this ring.
func (p *Producer) TrySend(message []byte, reverse uint64, hint uint32) error {
	if p.ended != nil {
		return p.ended
	}
	if len(message) > p.MaxMessageBytes() {
		return ErrTooLong
	}
	count := p.slotCount(len(message))
	if p.position+count > p.limit {
		if err := p.checkRoom(count, hint); err != nil {
			return err
		}
	}
	payload, first := p.PayloadBytes(), uint64(0)
	for i := uint64(0); i < count; i++ {
		part, control := message, uint64(0)
		if len(part) > payload {
			part, control = part[:payload], more
		}
		message = message[len(part):]
		words, word := p.at(p.position + i)
		put(words, part)
		control |= p.tag(p.position+i) | uint64(len(part))<<lengthShift | reverse<<creditShift
		if i == 0 {
			first = control
		} else {
			Store(word, control)
		}
	}
	// The whole message becomes visible with its first slot.
	_, word := p.at(p.position)
	Store(word, first)
	p.position += count
	return nil
}

// HasRoom reports whether a send of that length would return at once: there is room, or it fails for good.
func (p *Producer) HasRoom(length int, hint uint32) bool {
	count := p.slotCount(length)
	return p.ended != nil || p.position+count <= p.limit || !errors.Is(p.checkRoom(count, hint), ErrFull)
}

// checkRoom checks the consumer's words for room.
func (p *Producer) checkRoom(count uint64, hint uint32) error {
	if err := p.updateLimit(count, hint); err != nil {
		p.ended = err
		return err
	}
	if p.position+count <= p.limit {
		return nil
	}
	if Load(&p.credit[1]) != 0 {
		p.ended = ErrClosed
		return ErrClosed
	}
	return ErrFull
}

// updateLimit moves the limit to what the consumer has returned.
func (p *Producer) updateLimit(count uint64, hint uint32) error {
	if p.UsedFlag {
		// The consumer clears slots in order: the last one needed is cleared after all others.
		if _, word := p.at(p.position + count - 1); Load(word) == 0 {
			p.limit = p.position + count
		}
		return nil
	}
	consumed := p.limit - uint64(p.Slots)
	if p.position-p.hinted < 1<<32 {
		// The advance since the previous hint is the difference of the low bits.
		p.hinted += uint64(hint - uint32(p.hinted))
		if p.hinted > p.position {
			return Violation(fmt.Sprintf("credit for %d slots where %d were sent", p.hinted, p.position))
		}
		if p.hinted > consumed {
			consumed = p.hinted
		}
	}
	if p.position+count > consumed+uint64(p.Slots) {
		// The credit line is monotonic, but may lag behind a hint.
		line := Load(&p.credit[0])
		if line > p.position {
			return Violation(fmt.Sprintf("credit for %d slots where %d were sent", line, p.position))
		}
		if line > consumed {
			consumed = line
		}
	}
	p.limit = consumed + uint64(p.Slots)
	return nil
}

// Close announces that no message follows.
func (p *Producer) Close() {
	if Load(&p.line[0]) == 0 {
		Store(&p.line[0], p.position+1)
	}
	if p.ended == nil {
		p.ended = ErrClosed
	}
}

// Consumer is the receiving end of a ring. One goroutine at a time may use it.
type Consumer struct {
	sharedSlots
	line, credit []uint64
	position     uint64
	credited     uint64
	hint         uint32
	ended        error
}

// NewConsumer returns the receiving end of a ring in zeroed memory.
func NewConsumer(shape Shape, slots, line, credit []uint64) *Consumer {
	return &Consumer{sharedSlots: newSharedSlots(shape, slots), line: line, credit: credit}
}

// Position returns the number of slots consumed.
func (c *Consumer) Position() uint64 { return c.position }

// Hint returns the low bits of the number of slots that the peer has consumed of the reverse ring.
func (c *Consumer) Hint() uint32 { return c.hint }

// TryRecv appends the next message to the target. It reports whether slots were returned, which the producer
// may be waiting for.
func (c *Consumer) TryRecv(target []byte) (message []byte, returned bool, err error) {
	if c.ended != nil {
		return target, false, c.ended
	}
	_, word := c.at(c.position)
	control := Load(word)
	if control&tagMask != c.tag(c.position) {
		returned, err = c.checkEmpty(control)
		return target, returned, err
	}
	message, count, err := c.read(target, control)
	if err != nil {
		c.ended = err
		return target, false, err
	}
	if c.UsedFlag {
		for i := uint64(0); i < count; i++ {
			_, word := c.at(c.position + i)
			Store(word, 0)
		}
		returned = true
	}
	c.position += count
	c.hint = uint32(control >> creditShift)
	if !c.UsedFlag && c.position-c.credited >= uint64(c.Slots)/2 {
		returned = c.Return()
	}
	return message, returned, nil
}

// read copies a message whose first slot is published.
func (c *Consumer) read(target []byte, control uint64) ([]byte, uint64, error) {
	payload := c.PayloadBytes()
	for i, total := uint64(0), 0; ; i++ {
		words, word := c.at(c.position + i)
		if i > 0 {
			// All slots of a message become visible with the first.
			control = Load(word)
			if control&tagMask != c.tag(c.position+i) {
				return nil, 0, Violation("a slot is missing from a published message")
			}
		}
		length := int(control >> lengthShift & 0xff)
		total += length
		switch {
		case control&reserved != 0:
			return nil, 0, Violation("reserved bits of a control word are not 0")
		case length > payload:
			return nil, 0, Violation(fmt.Sprintf("%d bytes in a slot that carries %d", length, payload))
		case control&more != 0 && length != payload:
			return nil, 0, Violation("a message continues after a slot that is not full")
		case i > 0 && length == 0:
			return nil, 0, Violation("an empty slot continues a message")
		}
		if control&more != 0 && (i+1 == uint64(c.Slots) || total+1 > c.MaxMessageBytes()) {
			return nil, 0, Violation("a message is longer than agreed")
		}
		target = get(target, words, length)
		if control&more == 0 {
			return target, i + 1, nil
		}
	}
}

// checkEmpty handles a slot without a new message: empty, closed or a violation.
func (c *Consumer) checkEmpty(control uint64) (returned bool, err error) {
	if control&tagMask != c.idleTag(c.position) {
		c.ended = Violation(fmt.Sprintf("tag %#x in a slot where %#x or %#x is expected", control&tagMask,
			c.tag(c.position), c.idleTag(c.position)))
		return false, c.ended
	}
	returned = c.Return()
	closed := Load(&c.line[0])
	if closed == 0 {
		return returned, ErrEmpty
	}
	// Everything sent before the close is visible by now.
	if _, word := c.at(c.position); Load(word)&tagMask == c.tag(c.position) {
		return returned, ErrEmpty
	}
	if closed-1 == c.position {
		c.ended = ErrClosed
	} else {
		c.ended = Violation(fmt.Sprintf("closed at position %d, where %d is next", closed-1, c.position))
	}
	return returned, c.ended
}

// Return returns all consumed slots, and reports whether there were any.
func (c *Consumer) Return() bool {
	if c.UsedFlag || c.credited == c.position {
		return false
	}
	Store(&c.credit[0], c.position)
	c.credited = c.position
	return true
}

// HasMessage reports whether TryRecv would return a message or an error other than ErrEmpty.
func (c *Consumer) HasMessage() bool {
	if c.ended != nil {
		return true
	}
	_, word := c.at(c.position)
	control := Load(word)
	if control&tagMask == c.tag(c.position) {
		return true
	}
	_, err := c.checkEmpty(control)
	return !errors.Is(err, ErrEmpty)
}

// Close announces that this side receives no more.
func (c *Consumer) Close() {
	Store(&c.credit[1], 1)
	if c.ended == nil {
		c.ended = ErrClosed
	}
}
