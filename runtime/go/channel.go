package tombolo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tombolo/internal/ring"
)

// A Channel connects this program to another domain and carries whole messages in both directions, in order.
// Any number of goroutines may send and receive; each message goes to one of them.
//
// Operations wait until their context ends. With a context that has no deadline they wait for the domain's
// timeout, 30 seconds by default. A failed send has no effect.
type Channel struct {
	memory  []uint64
	mapping []byte
	me      side
	shape   ring.Shape
	bell    *bell
	stream  *stream // used instead of memory and bell
	peer    DomainID
	node    string
	op      string
	timeout time.Duration
	spin    time.Duration

	// Context-aware locks, each held by one goroutine at a time.
	sending, receiving contextMutex
	producer           *ring.Producer
	consumer           *ring.Consumer
	message, room      sleeper

	// State that one direction passes to the other.
	consumed atomic.Uint64
	hint     atomic.Uint32

	closed        atomic.Bool
	peerClosed    atomic.Bool
	closing       sync.Once
	roomRungAt    uint64
	messageRungAt uint64
}

// contextMutex is a lock whose waiters honour a context.
type contextMutex chan struct{}

func newContextMutex() contextMutex { return make(contextMutex, 1) }

func (m contextMutex) lock(ctx context.Context, stop <-chan struct{}) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m contextMutex) tryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

func (m contextMutex) unlock() { <-m }

// sleeper is the word by which a side announces that it sleeps: odd while it does.
type sleeper struct {
	mutex  sync.Mutex
	word   *uint64
	number uint64
	closed bool
}

// arm stores an odd number.
func (s *sleeper) arm() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.closed {
		s.number |= 1
		ring.Store(s.word, s.number)
	}
}

// disarm stores an even one.
func (s *sleeper) disarm() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.closed {
		s.number += s.number & 1
		ring.Store(s.word, s.number)
	}
}

// close stores an unused odd number, permanently, so that the peer rings once more and notices.
func (s *sleeper) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	ring.Store(s.word, (s.number|1)+2)
}

// newChannel opens one end of a channel in memory. The channel takes ownership of the memory and the bell.
func newChannel(ctx context.Context, d *Domain, op string, mapping []byte, memory []uint64, me side, mine hello,
	b *bell) (*Channel, error) {
	b.listen()
	theirs, err := handshake(ctx, op, memory, me, mine, b)
	if err != nil {
		b.end()
		_ = syscall.Munmap(mapping)
		return nil, err
	}
	c := &Channel{
		memory: memory, mapping: mapping, me: me, shape: mine.shape, bell: b, peer: DomainID(theirs[4]),
		sending: newContextMutex(), receiving: newContextMutex(), timeout: d.Timeout(), spin: spinTime,
	}
	c.producer, c.consumer = rings(memory, me, mine.shape)
	own := line(memory, 2+int(me))
	c.message.word, c.room.word = &own[0], &own[8]
	return c, nil
}

// spinTime returns how long a waiting goroutine polls before it sleeps: about the cost of a wake-up. With a
// single processor polling is useless, as the peer cannot run meanwhile.
var spinTime = func() time.Duration {
	if runtime.NumCPU() == 1 {
		return 0
	}
	return 50 * time.Microsecond
}()

// Peer returns the id of the domain at the other end.
func (c *Channel) Peer() DomainID { return c.peer }

// PeerNode returns the name of the peer's node.
func (c *Channel) PeerNode() string { return c.node }

// MaxMessageBytes returns the maximum length of a message.
func (c *Channel) MaxMessageBytes() int { return c.shape.MaxMessageBytes() }

// SetTimeout sets the timeout of operations whose context has no deadline. It must not be called while other
// goroutines use the channel.
func (c *Channel) SetTimeout(timeout time.Duration) { c.timeout = timeout }

// SetSpin sets how long a goroutine polls before it sleeps; 0 sleeps at once. It must not be called while
// other goroutines use the channel.
func (c *Channel) SetSpin(spin time.Duration) { c.spin = spin }

// opName describes an operation, for errors.
func (c *Channel) opName(verb string) string {
	return fmt.Sprintf("%s domain %v on node %s", verb, c.peer, c.node)
}

// wakePeer rings the doorbell if the word shows that the peer sleeps, once per sleep.
func (c *Channel) wakePeer(word int, rungAt *uint64) {
	asleep := ring.Load(&line(c.memory, 2+int(c.me.other()))[word])
	if asleep&1 == 1 && asleep != *rungAt {
		*rungAt = asleep
		c.bell.ring()
		// A closing peer leaves an odd number, so that goroutines that only send notice.
		if ring.Load(&line(c.memory, 6+int(c.me.other()))[1]) != 0 {
			c.peerClosed.Store(true)
		}
	}
}

// withDefaultTimeout returns the context if it has a deadline, or else a child with the timeout.
func withDefaultTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// Send sends a message, waiting for room.
func (c *Channel) Send(ctx context.Context, message []byte) error {
	if c.stream != nil {
		ctx, cancel := withDefaultTimeout(ctx, c.timeout)
		defer cancel()
		return c.stream.send(ctx, c.opName("send to"), message)
	}
	if !c.sending.tryLock() {
		limited, cancel := withDefaultTimeout(ctx, c.timeout)
		defer cancel()
		if err := c.sending.lock(limited, c.bell.stop); err != nil {
			return c.lockError("send to", err)
		}
		ctx = limited
	}
	defer c.sending.unlock()
	if done, err := c.sendNow(message); done {
		return err
	}
	return c.sendBlocking(ctx, message)
}

func (c *Channel) lockError(verb string, err error) error {
	if errors.Is(err, ErrClosed) {
		return failure(ErrClosed, c.opName(verb), "this side closed it")
	}
	return waitError(c.opName(verb), err)
}

// TrySend sends a message if there is room now, and otherwise returns ErrWouldBlock.
func (c *Channel) TrySend(message []byte) error {
	if c.stream != nil {
		return c.stream.send(nil, c.opName("send to"), message)
	}
	if done, err := c.trySend(message); done {
		return err
	}
	return &Error{Status: ErrWouldBlock, Op: c.opName("send to")}
}

func (c *Channel) trySend(message []byte) (done bool, err error) {
	if !c.sending.tryLock() {
		return false, nil
	}
	defer c.sending.unlock()
	return c.sendNow(message)
}

// sendNow sends if there is room. The caller holds the lock.
func (c *Channel) sendNow(message []byte) (done bool, err error) {
	if c.closed.Load() {
		return true, failure(ErrClosed, c.opName("send to"), "this side closed it")
	}
	if c.peerClosed.Load() {
		return true, &Error{Status: ErrClosed, Op: c.opName("send to")}
	}
	if c.bell.isGone() {
		return true, c.endError("send to")
	}
	err = c.producer.TrySend(message, c.consumed.Load(), c.hint.Load())
	switch {
	case err == nil:
		c.wakePeer(0, &c.messageRungAt)
		return true, nil
	case errors.Is(err, ring.ErrFull):
		return false, nil
	case errors.Is(err, ring.ErrTooLong):
		return true, failure(ErrTooLong, c.opName("send to"), "%d bytes; it carries up to %d", len(message),
			c.MaxMessageBytes())
	}
	return true, ringError(c.opName("send to"), err)
}

// sendBlocking waits for room and sends. The caller holds the lock.
func (c *Channel) sendBlocking(ctx context.Context, message []byte) error {
	var cancel context.CancelFunc
	for start := time.Now(); ; {
		if done, err := c.sendNow(message); done {
			return err
		}
		if time.Since(start) < c.spin {
			runtime.Gosched()
			continue
		}
		if cancel == nil {
			// Only a wait that is long needs a timer.
			ctx, cancel = withDefaultTimeout(ctx, c.timeout)
			defer cancel()
		}
		c.room.arm()
		if c.producer.HasRoom(len(message), c.hint.Load()) || c.closed.Load() {
			c.room.disarm()
			continue
		}
		err := c.sleep(ctx, c.bell.room)
		c.room.disarm()
		if err != nil {
			return waitError(c.opName("send to"), err)
		}
		start = time.Now()
	}
}

// sleep waits until the doorbell rings, the peer is gone or this side closes.
func (c *Channel) sleep(ctx context.Context, rung <-chan struct{}) error {
	select {
	case <-rung:
	case <-c.bell.gone:
	case <-c.bell.stop:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// endError returns the error of a channel whose peer is gone: closed if it closed the channel before, and
// otherwise died.
func (c *Channel) endError(verb string) error {
	peer := line(c.memory, int(c.me.other()))
	if word := ring.Load(&peer[verdictWord]); uint32(word) == verdictFarEnd {
		return farEndError(c.opName(verb), word)
	}
	if ring.Load(&line(c.memory, 6+int(c.me.other()))[1]) != 0 {
		return &Error{Status: ErrClosed, Op: c.opName(verb)}
	}
	return &Error{Status: ErrPeerDied, Op: c.opName(verb)}
}

// Recv receives a message, waiting for one.
func (c *Channel) Recv(ctx context.Context) ([]byte, error) { return c.RecvInto(ctx, nil) }

// RecvInto receives a message into the buffer, which grows if necessary, and returns it.
func (c *Channel) RecvInto(ctx context.Context, buffer []byte) ([]byte, error) {
	if c.stream != nil {
		ctx, cancel := withDefaultTimeout(ctx, c.timeout)
		defer cancel()
		return c.stream.receive(ctx, c.opName("receive from"), buffer[:0])
	}
	if !c.receiving.tryLock() {
		limited, cancel := withDefaultTimeout(ctx, c.timeout)
		defer cancel()
		if err := c.receiving.lock(limited, c.bell.stop); err != nil {
			return nil, c.lockError("receive from", err)
		}
		ctx = limited
	}
	defer c.receiving.unlock()
	var cancel context.CancelFunc
	for start := time.Now(); ; {
		if message, done, err := c.recvNow(buffer[:0]); done {
			return message, err
		}
		if time.Since(start) < c.spin {
			runtime.Gosched()
			continue
		}
		if cancel == nil {
			// Only a wait that is long needs a timer.
			ctx, cancel = withDefaultTimeout(ctx, c.timeout)
			defer cancel()
		}
		c.message.arm()
		if c.consumer.HasMessage() || c.closed.Load() {
			c.message.disarm()
			continue
		}
		// The last poll returned slots that the peer may be waiting for.
		c.wakePeer(8, &c.roomRungAt)
		err := c.sleep(ctx, c.bell.message)
		c.message.disarm()
		if err != nil {
			return nil, waitError(c.opName("receive from"), err)
		}
		start = time.Now()
	}
}

// TryRecv receives a message if there is one now, and otherwise returns ErrWouldBlock.
func (c *Channel) TryRecv() ([]byte, error) {
	if c.stream != nil {
		return c.stream.receive(nil, c.opName("receive from"), nil)
	}
	if c.receiving.tryLock() {
		defer c.receiving.unlock()
		if message, done, err := c.recvNow(nil); done {
			return message, err
		}
	}
	return nil, &Error{Status: ErrWouldBlock, Op: c.opName("receive from")}
}

// recvNow receives if there is a message. The caller holds the lock.
func (c *Channel) recvNow(target []byte) (message []byte, done bool, err error) {
	if c.closed.Load() {
		return nil, true, failure(ErrClosed, c.opName("receive from"), "this side closed it")
	}
	// Checked before the ring: everything that a dead peer sent is visible by then.
	gone := c.bell.isGone()
	message, returned, err := c.consumer.TryRecv(target)
	if returned {
		c.wakePeer(8, &c.roomRungAt)
	}
	if err == nil {
		c.consumed.Store(c.consumer.Position())
		c.hint.Store(c.consumer.Hint())
		return message, true, nil
	}
	if errors.Is(err, ring.ErrEmpty) {
		if gone {
			return nil, true, c.endError("receive from")
		}
		return nil, false, nil
	}
	if errors.Is(err, ring.ErrClosed) {
		c.peerClosed.Store(true)
	}
	return nil, true, ringError(c.opName("receive from"), err)
}

// Close closes both directions: the peer receives everything sent before, and then finds the channel closed.
// Waiting operations of this side return ErrClosed. Over a byte stream Close waits until accepted messages
// have been sent, up to 10 seconds.
func (c *Channel) Close() error {
	c.closing.Do(func() {
		if c.stream != nil {
			c.stream.close()
			return
		}
		c.closed.Store(true)
		close(c.bell.stop)
		// Waiting goroutines have noticed the close, or will.
		c.sending <- struct{}{}
		c.receiving <- struct{}{}
		c.producer.Close()
		c.consumer.Close()
		c.message.close()
		c.bell.ring()
		c.bell.end()
		_ = syscall.Munmap(c.mapping)
		c.memory = nil
		c.sending.unlock()
		c.receiving.unlock()
	})
	return nil
}
