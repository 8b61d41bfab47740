package tombolo

import (
	"context"
	"encoding/binary"
	"fmt"

	"tombolo/internal/ring"
)

// Layout of channel memory, in words; docs/specs/channel.md specifies it in bytes.
const (
	lineWords     = 16
	headerWords   = 8 * lineWords
	verdictWord   = 8
	helloMagic    = 0x4f4c45484c424d54 // "TMBLHELO"
	channelFormat = 1
	pageBytes     = 4096
)

// Verdicts of a handshake.
const (
	verdictAccepted  = 1
	verdictMismatch  = 2
	verdictDeclined  = 3
	verdictWithdrawn = 4
	verdictFarEnd    = 5
)

// hello describes a side in the handshake.
type hello struct {
	shape  ring.Shape
	hash   uint64
	domain uint64
}

func (h hello) words() (words [8]uint64) {
	variant := uint64(0)
	if h.shape.UsedFlag {
		variant = 1
	}
	// Bit 56 is zero: this side executes its own barriers.
	return [8]uint64{helloMagic, channelFormat | uint64(h.shape.SlotBytes)<<32 | variant<<48,
		uint64(h.shape.Slots), h.hash, h.domain, 0, 0, 0}
}

func (h hello) bytes() []byte {
	var bytes [64]byte
	for i, word := range h.words() {
		binary.LittleEndian.PutUint64(bytes[8*i:], word)
	}
	return bytes[:]
}

// difference returns the first property in which two hellos differ, in the order of the specification.
func difference(ours, theirs [8]uint64) string {
	parts := []struct {
		what       string
		our, their uint64
	}{
		{"magic number", ours[0], theirs[0]},
		{"protocol version", ours[1] & 0xffffffff, theirs[1] & 0xffffffff},
		{"bytes of a slot", ours[1] >> 32 & 0xffff, theirs[1] >> 32 & 0xffff},
		{"slots", ours[2], theirs[2]},
		{"variant of the rings", ours[1] >> 48 & 0xff, theirs[1] >> 48 & 0xff},
		{"hash of the interface", ours[3], theirs[3]},
	}
	for _, part := range parts {
		if part.our != part.their {
			return fmt.Sprintf("%s: %#x here and %#x there", part.what, part.our, part.their)
		}
	}
	return ""
}

// proposedShape returns the ring shape that a hello proposes, if it has this version and is valid.
func proposedShape(words [8]uint64) (ring.Shape, bool) {
	variant := words[1] >> 48 & 0xff
	shape := ring.Shape{
		SlotBytes: int(words[1] >> 32 & 0xffff), Slots: uint32(words[2]), UsedFlag: variant == 1,
	}
	isKnown := words[0] == helloMagic && uint32(words[1]) == channelFormat && variant <= 1 && words[2] <= 1<<16
	return shape, isKnown && shape.Valid()
}

// channelBytes returns the length of channel memory.
func channelBytes(shape ring.Shape) int {
	bytes := headerWords*8 + 2*shape.RingBytes()
	return (bytes + pageBytes - 1) / pageBytes * pageBytes
}

// line returns a cache line of channel memory.
func line(memory []uint64, number int) []uint64 {
	return memory[number*lineWords : (number+1)*lineWords]
}

// side is a role in a channel: 0 is A, which connects, 1 is B, which accepts.
type side int

func (s side) other() side { return 1 - s }

// handshake performs the handshake in channel memory, and returns the peer's hello.
func handshake(ctx context.Context, op string, memory []uint64, me side, mine hello, b *bell) ([8]uint64, error) {
	own, peer := line(memory, int(me)), line(memory, int(me.other()))
	words := mine.words()
	for i := 0; i < 7; i++ {
		ring.Store(&own[i], words[i])
	}
	ring.Store(&own[7], 1)
	b.ring()
	var theirs [8]uint64
	// The hello, and then the verdict.
	if err := await(ctx, op, &peer[7], peer, b); err != nil {
		withdraw(own, b, err)
		return theirs, err
	}
	if ready := ring.Load(&peer[7]); ready != 1 {
		return theirs, failure(ErrViolation, op, "a hello that is marked by %#x", ready)
	}
	for i := range theirs {
		theirs[i] = ring.Load(&peer[i])
	}
	if different := difference(words, theirs); different != "" {
		ring.Store(&own[verdictWord], verdictMismatch)
		b.ring()
		return theirs, failure(ErrRefused, op, "%s", different)
	}
	ring.Store(&own[verdictWord], verdictAccepted)
	b.ring()
	if err := await(ctx, op, &peer[verdictWord], peer, b); err != nil {
		if withdraw(own, b, err) {
			// The peer may have seen that this side accepted, and be using the channel.
			closeRings(memory, me)
		}
		return theirs, err
	}
	return theirs, verdictError(op, ring.Load(&peer[verdictWord]))
}

// verdictError returns the error for a verdict of the peer.
func verdictError(op string, verdict uint64) error {
	switch uint32(verdict) {
	case verdictAccepted:
		return nil
	case verdictMismatch:
		return failure(ErrViolation, op, "the peer finds a difference where there is none")
	case verdictDeclined:
		return failure(ErrRefused, op, "the peer declined, with reason %d", verdict>>32)
	case verdictWithdrawn:
		return failure(ErrClosed, op, "it stopped waiting, or does not accept channels")
	case verdictFarEnd:
		return farEndError(op, verdict)
	}
	return failure(ErrViolation, op, "verdict %#x", verdict)
}

// farEndError returns the error that a relay reports about the far end.
func farEndError(op string, word uint64) error {
	switch node := word >> 48; word >> 32 & 0xffff {
	case 0:
		return failure(ErrPeerDied, op, "the domain at the far end ended, or its node was lost")
	case 1:
		return failure(ErrPeerDied, op, "the relay on node %d ended", node)
	}
	return failure(ErrViolation, op, "the domain at the far end broke the protocol")
}

// await waits until a word of the peer is not 0, or the peer's verdict shows that it will stay 0.
func await(ctx context.Context, op string, word *uint64, peer []uint64, b *bell) error {
	for {
		// Checked before the memory is read: a dead peer has written all it ever will.
		gone := b.isGone()
		if ring.Load(word) != 0 {
			return nil
		}
		if verdict := ring.Load(&peer[verdictWord]); verdict != 0 {
			if err := verdictError(op, verdict); err != nil {
				return err
			}
		}
		if gone {
			if b.withdrawn.Load() {
				return verdictError(op, verdictWithdrawn)
			}
			return failure(ErrPeerDied, op, "before the channel was open")
		}
		select {
		case <-b.message:
		case <-b.gone:
		case <-ctx.Done():
			return waitError(op, ctx.Err())
		}
	}
}

// withdraw notifies the peer that this side stopped waiting, if that is why the handshake failed.
func withdraw(own []uint64, b *bell, err error) bool {
	if status, ok := err.(*Error); ok && status.Status != ErrTimedOut {
		return false
	}
	ring.Store(&own[verdictWord], verdictWithdrawn)
	b.ring()
	return true
}

// rings returns the two rings of one end, in channel memory.
func rings(memory []uint64, me side, shape ring.Shape) (*ring.Producer, *ring.Consumer) {
	words := shape.RingBytes() / 8
	slots := [2][]uint64{memory[headerWords : headerWords+words], memory[headerWords+words : headerWords+2*words]}
	out, in := int(me), int(me.other())
	// B writes the credit line of the ring from A to B.
	producer := ring.NewProducer(shape, slots[out], line(memory, 4+out), line(memory, 6+in))
	return producer, ring.NewConsumer(shape, slots[in], line(memory, 4+in), line(memory, 6+out))
}

// closeRings closes the rings of an end that was never used.
func closeRings(memory []uint64, me side) {
	ring.Store(&line(memory, 4+int(me))[0], 1)
	ring.Store(&line(memory, 6+int(me))[1], 1)
}
