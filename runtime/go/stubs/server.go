package stubs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// answerTimeout is how long an answer waits for room before the server gives up on the client.
const answerTimeout = 10 * time.Second

// A Request is a received call or one-way message. Generated code passes it to a method of a handler.
type Request struct {
	ctx      context.Context
	head     header
	view     View
	counters *counters
	server   *Server
	decoded  func()
}

// Context returns a context that ends when the client cancels the call, or the channel ends.
func (r *Request) Context() context.Context { return r.ctx }

// Ordinal returns the number of the message in its interface.
func (r *Request) Ordinal() uint16 { return r.head.ordinal }

// Decode decodes the message, which must be a call or a one-way message as the interface declares it. If it
// returns false, the message has been answered as malformed.
func (r *Request) Decode(body Body, isCall bool) bool {
	err := decode(r.view, body)
	if err != nil || isCall != (r.head.kind == KindCall) {
		r.counters.malformed.Add(1)
		r.fault(ErrBadRequest)
		r.free()
		return false
	}
	r.free()
	return true
}

// free releases the buffer of the message.
func (r *Request) free() {
	if r.decoded != nil {
		r.decoded()
		r.decoded = nil
	}
}

// Unknown answers a message whose ordinal this side does not know.
func (r *Request) Unknown() {
	r.counters.unknown.Add(1)
	r.fault(ErrUnknownCall)
	r.free()
}

// Ignore drops the message.
func (r *Request) Ignore() { r.free() }

// Answer answers a call with its results, or with the fault for the error.
func (r *Request) Answer(reply Body, err error) {
	if err == nil {
		r.send(KindReply, reply)
		return
	}
	fault := ErrDropped
	errors.As(err, &fault)
	r.fault(fault)
}

// Decline answers a call with an error that the interface declares.
func (r *Request) Decline(with Body) { r.send(KindError, with) }

func (r *Request) fault(fault Fault) {
	if r.head.kind == KindCall {
		r.send(KindFault, &fault)
	}
}

func (r *Request) send(kind Kind, body Body) {
	if r.server == nil || !r.server.remove(r.head.number) {
		return
	}
	message, err := Encode(nil, kind, r.head.ordinal, r.head.number, body)
	if err != nil || len(message) > r.server.port.MaxMessageBytes() {
		fault := ErrAnswerTooLong
		message, _ = Encode(nil, KindFault, r.head.ordinal, r.head.number, &fault)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := r.server.port.Send(ctx, message); err != nil {
		// The client does not receive answers, or is gone.
		r.server.end(err)
		return
	}
	r.counters.answers.Add(1)
}

// A Server serves calls that arrive on a channel.
type Server struct {
	port     Port
	handle   func(*Request)
	counters counters

	mutex       sync.Mutex
	outstanding map[uint32]context.CancelFunc
	stop        context.CancelFunc
	err         error
}

// NewServer returns a server for a channel that was opened with the interface's hash. Serve starts it.
func NewServer(port Port, of *Interface, handle func(*Request)) (*Server, error) {
	if err := of.bind(port); err != nil {
		return nil, err
	}
	return &Server{port: port, handle: handle, outstanding: map[uint32]context.CancelFunc{}}, nil
}

// Counts returns this server's counters.
func (s *Server) Counts() Counts { return s.counters.counts() }

// Serve serves until the client closes the channel, which is not an error, the channel fails, or the context
// ends. Each call runs in its own goroutine; one-way messages are handled in order, between the calls. It
// returns when all calls have returned.
func (s *Server) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	s.mutex.Lock()
	s.stop = stop
	s.mutex.Unlock()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	var buffer []byte
	for {
		message, err := receive(ctx, s.port, buffer)
		if err != nil {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			// Sending an answer may have detected the end before receiving did.
			if s.err != nil {
				err = s.err
			}
			if isEnd(err) {
				return nil
			}
			return err
		}
		buffer = message
		s.dispatch(ctx, message, &calls)
	}
}

func (s *Server) dispatch(ctx context.Context, message []byte, calls *sync.WaitGroup) {
	head, view, err := parse(message)
	if err != nil {
		s.counters.malformed.Add(1)
		return
	}
	request := &Request{ctx: ctx, head: head, view: view, counters: &s.counters, server: s}
	switch head.kind {
	case KindMessage:
		s.counters.messages.Add(1)
		s.handle(request)
	case KindCall:
		s.counters.calls.Add(1)
		call, cancel := context.WithCancel(ctx)
		request.ctx = call
		if !s.register(head, cancel) {
			cancel()
			return
		}
		// Wait until the handler has decoded the message, before the next one overwrites the buffer.
		read := make(chan struct{})
		request.decoded = func() { close(read) }
		calls.Add(1)
		go func() {
			defer calls.Done()
			defer cancel()
			defer request.free()
			s.handle(request)
		}()
		<-read
	case KindCancel:
		s.cancel(head.number)
	default:
		s.counters.malformed.Add(1)
	}
}

// register records a call as outstanding. It answers a call beyond the limit with a fault, and ignores one
// whose number is in use.
func (s *Server) register(head header, cancel context.CancelFunc) bool {
	s.mutex.Lock()
	if head.number == 0 || s.outstanding[head.number] != nil {
		s.mutex.Unlock()
		s.counters.malformed.Add(1)
		return false
	}
	s.outstanding[head.number] = cancel
	isBusy := len(s.outstanding) > MaxInFlight
	s.mutex.Unlock()
	if isBusy {
		(&Request{head: head, counters: &s.counters, server: s}).fault(ErrBusy)
	}
	return !isBusy
}

func (s *Server) cancel(number uint32) {
	s.mutex.Lock()
	cancel := s.outstanding[number]
	s.mutex.Unlock()
	if cancel != nil {
		// The call is still answered; the client counts that answer as late.
		cancel()
	}
}

// remove removes a call, and reports whether it was outstanding.
func (s *Server) remove(number uint32) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.outstanding[number] == nil {
		return false
	}
	delete(s.outstanding, number)
	return true
}

// end makes Serve return.
func (s *Server) end(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err == nil {
		s.err = err
	}
	if s.stop != nil {
		s.stop()
	}
}

// Tell sends a one-way message to the client.
func (s *Server) Tell(ctx context.Context, what *Message, body Body) error {
	return tell(ctx, s.port, what, body)
}
