package tombolo

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"tombolo/internal/ring"
)

// Frame lengths that mark control frames.
const (
	frameClose  = 0xffffffff
	frameFarEnd = 0xfffffffe
)

// queueCapacity is the capacity of the queues of a stream: messages waiting for the socket, or to be
// received.
const queueCapacity = 64

// flushTime limits how long a closed stream may take to send the messages accepted before.
const flushTime = 10 * time.Second

// A stream is the end of a channel over a byte stream: docs/specs/channel.md, Streams. One goroutine reads
// and one writes, so that an accepted message is sent whole, regardless of its sender's deadline.
type stream struct {
	file     *os.File
	max      int
	in, out  chan []byte
	stop     chan struct{} // closed when this side closes
	finished chan struct{} // closed when the writer has ended

	mutex sync.Mutex
	end   error // reason of the end, once `in` is closed
}

// openStream performs the handshake.
func openStream(ctx context.Context, op string, file *os.File, mine hello) (*stream, error) {
	deadline, _ := ctx.Deadline()
	if err := file.SetDeadline(deadline); err != nil {
		return nil, systemError(op, err)
	}
	verdict := func(word uint64) error {
		var bytes [8]byte
		binary.LittleEndian.PutUint64(bytes[:], word)
		_, err := file.Write(bytes[:])
		return err
	}
	handshakeError := func(err error) error {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// The withdrawal may be sent only in part; then the peer finds a violation.
			_ = file.SetWriteDeadline(time.Now().Add(time.Second))
			_ = verdict(verdictWithdrawn)
			return &Error{Status: ErrTimedOut, Op: op}
		}
		return &Error{Status: ErrPeerDied, Op: op, Detail: "before the channel was open"}
	}
	if _, err := file.Write(mine.bytes()); err != nil {
		return nil, handshakeError(err)
	}
	var theirs [64]byte
	if _, err := io.ReadFull(file, theirs[:8]); err != nil {
		return nil, handshakeError(err)
	}
	if first := binary.LittleEndian.Uint64(theirs[:8]); uint32(first) == verdictWithdrawn || uint32(first) == verdictFarEnd {
		return nil, verdictError(op, first)
	}
	if _, err := io.ReadFull(file, theirs[8:]); err != nil {
		return nil, handshakeError(err)
	}
	var words [8]uint64
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(theirs[8*i:])
	}
	if different := difference(mine.words(), words); different != "" {
		_ = verdict(verdictMismatch)
		return nil, failure(ErrRefused, op, "%s", different)
	}
	err := verdict(verdictAccepted)
	var answer [8]byte
	if err == nil {
		_, err = io.ReadFull(file, answer[:])
	}
	if err != nil {
		return nil, handshakeError(err)
	}
	if err := verdictError(op, binary.LittleEndian.Uint64(answer[:])); err != nil {
		return nil, err
	}
	if err := file.SetDeadline(time.Time{}); err != nil {
		return nil, systemError(op, err)
	}
	s := &stream{
		file: file, max: mine.shape.MaxMessageBytes(), in: make(chan []byte, queueCapacity), out: make(chan []byte, queueCapacity),
		stop: make(chan struct{}), finished: make(chan struct{}),
	}
	go s.read()
	go s.write()
	return s, nil
}

// read receives frames until the direction ends.
func (s *stream) read() {
	defer close(s.in)
	var head [8]byte
	for {
		if _, err := io.ReadFull(s.file, head[:4]); err != nil {
			s.setEnd(ErrPeerDied)
			return
		}
		length := binary.LittleEndian.Uint32(head[:])
		switch {
		case length == frameClose:
			s.setEnd(ring.ErrClosed)
			return
		case length == frameFarEnd:
			if _, err := io.ReadFull(s.file, head[:]); err != nil {
				s.setEnd(ErrPeerDied)
			} else {
				s.setEnd(farEndError("use the channel", binary.LittleEndian.Uint64(head[:])))
			}
			return
		case uint64(length) > uint64(s.max):
			s.setEnd(ring.Violation("a frame that is longer than a message"))
			return
		}
		message := make([]byte, length)
		if _, err := io.ReadFull(s.file, message); err != nil {
			s.setEnd(ErrPeerDied)
			return
		}
		select {
		case s.in <- message:
		case <-s.stop:
			return
		}
	}
}

// setEnd records why the stream ended, once.
func (s *stream) setEnd(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.end == nil {
		s.end = err
	}
}

func (s *stream) failure(op string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch end := s.end.(type) {
	case *Error:
		return end
	case Status:
		return &Error{Status: end, Op: op}
	case nil:
		return nil
	default:
		return ringError(op, end)
	}
}

// write sends accepted messages, and finally a close frame.
func (s *stream) write() {
	defer close(s.finished)
	frame := func(message []byte) bool {
		bytes := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(message)), uint32(len(message)))
		_, err := s.file.Write(append(bytes, message...))
		return err == nil
	}
	for {
		select {
		case message := <-s.out:
			if !frame(message) {
				s.setEnd(ErrPeerDied)
				return
			}
		case <-s.stop:
			_ = s.file.SetWriteDeadline(time.Now().Add(flushTime))
			for {
				select {
				case message := <-s.out:
					if !frame(message) {
						return
					}
				default:
					_, _ = s.file.Write([]byte{0xff, 0xff, 0xff, 0xff})
					return
				}
			}
		}
	}
}

// send queues a message for the writer. With a nil context it does not wait.
func (s *stream) send(ctx context.Context, op string, message []byte) error {
	if len(message) > s.max {
		return failure(ErrTooLong, op, "%d bytes; it carries up to %d", len(message), s.max)
	}
	select {
	case <-s.stop:
		return failure(ErrClosed, op, "this side closed it")
	default:
	}
	if err := s.failure(op); err != nil {
		return err
	}
	message = append([]byte(nil), message...)
	select {
	case s.out <- message:
		return nil
	default:
	}
	if ctx == nil {
		return &Error{Status: ErrWouldBlock, Op: op}
	}
	select {
	case s.out <- message:
		return nil
	case <-s.stop:
		return failure(ErrClosed, op, "this side closed it")
	case <-s.finished:
		return s.failure(op)
	case <-ctx.Done():
		return waitError(op, ctx.Err())
	}
}

// receive receives a message. With a nil context it does not wait.
func (s *stream) receive(ctx context.Context, op string, target []byte) ([]byte, error) {
	take := func(message []byte, ok bool) ([]byte, error) {
		if ok {
			return append(target, message...), nil
		}
		if err := s.failure(op); err != nil {
			return nil, err
		}
		return nil, failure(ErrClosed, op, "this side closed it")
	}
	select {
	case <-s.stop:
		return nil, failure(ErrClosed, op, "this side closed it")
	default:
	}
	if ctx == nil {
		select {
		case message, ok := <-s.in:
			return take(message, ok)
		default:
			return nil, &Error{Status: ErrWouldBlock, Op: op}
		}
	}
	select {
	case message, ok := <-s.in:
		return take(message, ok)
	case <-s.stop:
		return nil, failure(ErrClosed, op, "this side closed it")
	case <-ctx.Done():
		return nil, waitError(op, ctx.Err())
	}
}

// close closes the stream, once, after accepted messages have been sent or flushTime has passed.
func (s *stream) close() {
	close(s.stop)
	// A write that began earlier has no deadline yet.
	_ = s.file.SetWriteDeadline(time.Now().Add(flushTime))
	<-s.finished
	s.file.Close()
}
