package tombolo

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"tombolo/internal/ring"
)

// withdrawal is the doorbell byte by which a side without channel memory reports that it stopped waiting.
const withdrawal = 4

// A bell is the doorbell of one end of a channel: it wakes this end, rings the peer and detects the peer's
// end. Its goroutines wait in the runtime's poller, and do not occupy threads.
type bell struct {
	// Signalled when there may be a message or room.
	message, room chan struct{}

	// Closed when the peer is gone.
	gone chan struct{}

	// Closed when this side has closed.
	stop chan struct{}

	withdrawn atomic.Bool
	lifeline  *os.File
	incoming  *os.File // of a window; otherwise the lifeline carries the rings
	lifeFd    int

	// In a window: an event counter or the mapped registers that ring the peer, and the word that counts the
	// rings.
	counterFd int
	registers []byte
	target    uint32
	counted   *uint64
	rings     uint64

	// The page with the ring count that other channels share, if there is one.
	groupPage []byte
	group     *uint64

	order   atomic.Uint64
	ringing sync.Mutex
	ended   bool
	waiting sync.WaitGroup
}

func newBell() *bell {
	return &bell{
		message: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{}),
		stop: make(chan struct{}), counterFd: -1,
	}
}

// poller registers a descriptor with the runtime's poller.
func poller(fd int, name string) (*os.File, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// listen starts waiting for rings and for the end of the peer.
func (b *bell) listen() {
	if b.incoming != nil {
		b.waiting.Add(1)
		go func() {
			defer b.waiting.Done()
			var count [8]byte
			for {
				if _, err := b.incoming.Read(count[:]); err != nil {
					return
				}
				b.wake()
			}
		}()
	}
	b.waiting.Add(1)
	go func() {
		defer b.waiting.Done()
		var bytes [256]byte
		for {
			count, err := b.lifeline.Read(bytes[:])
			if err != nil || count == 0 {
				break
			}
			for _, one := range bytes[:count] {
				if one == withdrawal {
					b.withdrawn.Store(true)
				}
			}
			b.wake()
		}
		close(b.gone)
		b.wake()
	}()
}

func (b *bell) wake() {
	for _, waiting := range []chan struct{}{b.message, b.room} {
		select {
		case waiting <- struct{}{}:
		default:
		}
	}
}

func (b *bell) isGone() bool {
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// ring wakes the peer.
func (b *bell) ring() {
	b.ringing.Lock()
	defer b.ringing.Unlock()
	if b.ended {
		return
	}
	if b.counted != nil {
		b.rings++
		ring.Store(b.counted, b.rings)
	}
	if b.group != nil {
		ring.Add(b.group)
	}
	switch {
	case b.registers != nil:
		// Device registers need a plain store; the atomic addition orders all earlier stores before it.
		b.order.Add(1)
		*registerAt(b.registers, doorbellRegister) = b.target
	case b.counterFd >= 0:
		// A saturated counter wakes the peer as well.
		_, _ = syscall.Write(b.counterFd, counterIncrement[:])
	default:
		// A full socket holds enough rings; the reading goroutine detects a dead peer.
		_ = sendMessage(b.lifeFd, []byte{1}, nil)
	}
}

// end closes the bell and the lifeline.
func (b *bell) end() {
	b.ringing.Lock()
	b.ended = true
	if b.counterFd >= 0 {
		syscall.Close(b.counterFd)
	}
	if b.registers != nil {
		_ = syscall.Munmap(b.registers)
	}
	if b.groupPage != nil {
		_ = syscall.Munmap(b.groupPage)
	}
	b.ringing.Unlock()
	if b.incoming != nil {
		b.incoming.Close()
	}
	if b.lifeline != nil {
		b.lifeline.Close()
	}
	b.waiting.Wait()
}
