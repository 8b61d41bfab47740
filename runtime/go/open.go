package tombolo

import (
	"context"
	"encoding/binary"
	"syscall"
	"time"

	"tombolo/internal/control"
	"tombolo/internal/ring"
)

// open opens the end of a channel that the monitor granted.
func (d *Domain) open(ctx context.Context, op string, grant *control.Grant, received fds, options Options) (*Channel, error) {
	defer received.close()
	shape, err := options.shape(op)
	if err != nil {
		return nil, err
	}
	mine := hello{shape: shape, hash: options.InterfaceHash, domain: uint64(d.id)}
	me := side(grant.Side)
	var c *Channel
	switch grant.Transport {
	case control.TransportKindShm:
		c, err = d.openShared(ctx, op, me, mine, received)
	case control.TransportKindWindow:
		c, err = d.openWindow(ctx, op, grant, me, mine, received)
	default:
		mine.shape.Slots, mine.shape.UsedFlag = grant.Config.Slots, grant.Config.Variant == control.VariantUsedFlag
		c, err = d.openSocket(ctx, op, mine, received)
	}
	if err != nil {
		return nil, err
	}
	c.peer, c.node = grant.Peer, grant.PeerNode
	return c, nil
}

// lostDescriptorsError returns the error for descriptors that did not arrive: the kernel drops those beyond
// the process's limit.
func lostDescriptorsError(op string) error {
	return failure(ErrSystem, op, "descriptors were lost: this process can open no more files (see `ulimit -n`)")
}

// openShared opens an end in shared memory of one kernel.
func (d *Domain) openShared(ctx context.Context, op string, me side, mine hello, received fds) (*Channel, error) {
	socket := received.take(0)
	if socket < 0 {
		return nil, lostDescriptorsError(op)
	}
	b := newBell()
	file, err := poller(socket, "a channel")
	if err != nil {
		syscall.Close(socket)
		return nil, systemError(op, err)
	}
	b.lifeline, b.lifeFd = file, socket
	memoryFd, bytes := -1, channelBytes(mine.shape)
	if me == 0 {
		memoryFd, err = sendProposal(op, socket, mine)
	} else {
		mine, memoryFd, bytes, err = receiveProposal(ctx, op, b, mine)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	mapping, memory, err := mapWords(memoryFd, 0, bytes)
	syscall.Close(memoryFd)
	if err != nil {
		file.Close()
		return nil, systemError(op, err)
	}
	return newChannel(ctx, d, op, mapping, memory, me, mine, b)
}

// openSocket opens an end over a byte stream.
func (d *Domain) openSocket(ctx context.Context, op string, mine hello, received fds) (*Channel, error) {
	socket := received.take(0)
	if socket < 0 {
		return nil, lostDescriptorsError(op)
	}
	file, err := poller(socket, "a channel")
	if err != nil {
		syscall.Close(socket)
		return nil, systemError(op, err)
	}
	s, err := openStream(ctx, op, file, mine)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Channel{stream: s, shape: mine.shape, timeout: d.Timeout()}, nil
}

// sendProposal creates the memory of a channel and sends it to the accepting side.
func sendProposal(op string, socket int, mine hello) (int, error) {
	memory, err := createSealed(channelBytes(mine.shape))
	if err != nil {
		return -1, systemError(op, err)
	}
	if err := sendMessage(socket, mine.bytes(), []int{memory}); err != nil {
		syscall.Close(memory)
		if err == syscall.EPIPE || err == syscall.ECONNRESET {
			return -1, &Error{Status: ErrPeerDied, Op: op}
		}
		return -1, systemError(op, err)
	}
	return memory, nil
}

// receiveProposal waits for the memory that the connecting side sends, and adopts the shape of its rings.
func receiveProposal(ctx context.Context, op string, b *bell, mine hello) (hello, int, int, error) {
	raw, err := b.lifeline.SyscallConn()
	if err != nil {
		return mine, -1, 0, systemError(op, err)
	}
	deadline, _ := ctx.Deadline()
	if err := b.lifeline.SetReadDeadline(deadline); err != nil {
		return mine, -1, 0, systemError(op, err)
	}
	var bytes [64]byte
	var count int
	var received fds
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		count, received, failed = receiveMessage(int(fd), bytes[:])
		return failed != syscall.EAGAIN
	})
	defer received.close()
	_ = b.lifeline.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		// Without channel memory, only the doorbell can report that this side stopped waiting.
		_ = sendMessage(b.lifeFd, []byte{withdrawal}, nil)
		return mine, -1, 0, &Error{Status: ErrTimedOut, Op: op}
	case failed == nil && count == 1 && bytes[0] == withdrawal:
		return mine, -1, 0, verdictError(op, verdictWithdrawn)
	case failed == nil && count == 8 && len(received) == 0:
		return mine, -1, 0, farEndError(op, binary.LittleEndian.Uint64(bytes[:]))
	case failed != nil || count == 0:
		return mine, -1, 0, &Error{Status: ErrPeerDied, Op: op}
	case count != 64 || len(received) == 0 || len(received) > 2:
		return mine, -1, 0, failure(ErrViolation, op, "a proposal of %d bytes with %d descriptors", count, len(received))
	}
	var words [8]uint64
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(bytes[8*i:])
	}
	memory := received.take(0)
	shape, valid := proposedShape(words)
	needed := int64(headerWords * 8)
	if valid {
		needed = int64(channelBytes(shape))
	}
	if !isSealed(memory) || fileBytes(memory) < needed {
		syscall.Close(memory)
		return mine, -1, 0, failure(ErrViolation, op, "memory that is not sealed, or shorter than the channel")
	}
	if !valid {
		err := answerDifference(op, memory, mine, words)
		// The bell is not listening yet, so ring directly: the peer then polls and finds the answer.
		_ = sendMessage(b.lifeFd, []byte{1}, nil)
		syscall.Close(memory)
		return mine, -1, 0, err
	}
	// The handshake detects a different slot size.
	mine.shape.Slots, mine.shape.UsedFlag = shape.Slots, shape.UsedFlag
	return mine, memory, channelBytes(shape), nil
}

// answerDifference answers a proposal whose rings this side cannot lay out.
func answerDifference(op string, memoryFd int, mine hello, theirs [8]uint64) error {
	mapping, memory, err := mapWords(memoryFd, 0, pageBytes)
	if err != nil {
		return systemError(op, err)
	}
	defer func() { _ = syscall.Munmap(mapping) }()
	own := line(memory, 1)
	words := mine.words()
	for i := 0; i < 7; i++ {
		ring.Store(&own[i], words[i])
	}
	ring.Store(&own[7], 1)
	ring.Store(&own[verdictWord], verdictMismatch)
	return failure(ErrRefused, op, "%s", difference(words, theirs))
}

// openWindow opens an end in a range of a window.
func (d *Domain) openWindow(ctx context.Context, op string, grant *control.Grant, me side, mine hello, received fds) (*Channel, error) {
	place := grant.Window
	if place == nil {
		return nil, failure(ErrMonitorProtocol, op, "a grant without a place in the window")
	}
	if len(received) < 4 {
		return nil, lostDescriptorsError(op)
	}
	mine.shape = ring.Shape{
		SlotBytes: mine.shape.SlotBytes, Slots: grant.Config.Slots, UsedFlag: grant.Config.Variant == control.VariantUsedFlag,
	}
	needed := channelBytes(mine.shape)
	if !mine.shape.Valid() || place.LengthBytes < uint64(needed) || place.OffsetBytes > 1<<62 {
		return nil, failure(ErrMonitorProtocol, op, "%d bytes of the window were lent for %+v", place.LengthBytes, mine.shape)
	}
	if place.Caches != nil {
		d.refuse(grant, received)
		return nil, failure(ErrCannotCarry, op, "the window is not coherent, which this package does not support")
	}
	if place.Ring == nil && fileBytes(received[0]) != 0 && uint64(fileBytes(received[0])) < place.OffsetBytes+uint64(needed) {
		return nil, failure(ErrMonitorProtocol, op, "the window is shorter than what was lent of it")
	}
	mapping, memory, err := mapWords(received[0], int64(place.OffsetBytes), needed)
	if err != nil {
		return nil, systemError(op, err)
	}
	b, err := windowBell(place, memory, me, received)
	if err != nil {
		_ = syscall.Munmap(mapping)
		return nil, systemError(op, err)
	}
	return newChannel(ctx, d, op, mapping, memory, me, mine, b)
}

// windowBell creates the doorbell of a channel in a window.
func windowBell(place *control.WindowPlace, memory []uint64, me side, received fds) (*bell, error) {
	b := newBell()
	b.counted = &line(memory, 4+int(me))[8]
	if place.Group != nil {
		pageOffset := *place.Group % pageBytes
		page, words, err := mapWords(received[0], int64(*place.Group-pageOffset), pageBytes)
		if err != nil {
			return nil, err
		}
		b.groupPage, b.group = page, &words[pageOffset/8]
	}
	lifeline, incoming, ringFd := received.take(1), received.take(2), received.take(3)
	if place.Ring != nil {
		mapping, _, err := mapWords(ringFd, 0, pageBytes)
		syscall.Close(ringFd)
		if err != nil {
			syscall.Close(lifeline)
			syscall.Close(incoming)
			return nil, err
		}
		b.registers, b.target = mapping, *place.Ring
	} else {
		b.counterFd = ringFd
	}
	var err error
	if b.lifeline, err = poller(lifeline, "a lifeline"); err != nil {
		return nil, err
	}
	b.lifeFd = lifeline
	if b.incoming, err = poller(incoming, "a doorbell"); err != nil {
		b.lifeline.Close()
		return nil, err
	}
	return b, nil
}

// refuse notifies the peer that a channel will not be opened; otherwise the peer would report a death.
func (d *Domain) refuse(grant *control.Grant, received fds) {
	defer received.close()
	switch {
	case grant.Transport == control.TransportKindShm && len(received) > 0:
		_ = sendMessage(received[0], []byte{withdrawal}, nil)
	case grant.Transport == control.TransportKindSocket && len(received) > 0:
		_ = sendMessage(received[0], []byte{withdrawal, 0, 0, 0, 0, 0, 0, 0}, nil)
	case grant.Transport == control.TransportKindWindow && len(received) > 3 && grant.Window != nil:
		mapping, memory, err := mapWords(received[0], int64(grant.Window.OffsetBytes), pageBytes)
		if err != nil {
			return
		}
		b, err := windowBell(grant.Window, memory, side(grant.Side), received)
		if err == nil {
			ring.Store(&line(memory, int(grant.Side))[verdictWord], verdictWithdrawn)
			b.ring()
			b.end()
		}
		_ = syscall.Munmap(mapping)
	}
}
