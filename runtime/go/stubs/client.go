package stubs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Ended is the error of a call whose channel ended before the answer arrived.
type Ended struct {
	// Reason why the channel ended.
	Err error

	// Whether the call may be repeated on another channel: it was not sent, or is idempotent.
	MayRepeat bool
}

// Error describes why the channel ended, and whether the call may be repeated.
func (e *Ended) Error() string {
	if e.MayRepeat {
		return fmt.Sprintf("%v (the call can be repeated)", e.Err)
	}
	return fmt.Sprintf("%v (the call may have been served)", e.Err)
}

// Unwrap returns the reason why the channel ended.
func (e *Ended) Unwrap() error { return e.Err }

// Counts are the counters of a client or a server.
type Counts struct {
	// Calls made or received.
	Calls uint64

	// Answers received or sent.
	Answers uint64

	// One-way messages received.
	Messages uint64

	// Answers that arrived after their call was cancelled.
	Late uint64

	// Messages with an ordinal that this side does not know.
	Unknown uint64

	// Malformed messages.
	Malformed uint64
}

// counters are the live atomic counters behind Counts.
type counters struct{ calls, answers, messages, late, unknown, malformed atomic.Uint64 }

func (c *counters) counts() Counts {
	return Counts{c.calls.Load(), c.answers.Load(), c.messages.Load(), c.late.Load(), c.unknown.Load(),
		c.malformed.Load()}
}

// pending is a call in flight.
type pending struct {
	ordinal uint16
	answer  chan []byte
}

// A Client makes calls over a channel. Any number of goroutines may use it.
type Client struct {
	port     Port
	onEvent  func(*Request)
	counters counters
	stop     context.CancelFunc
	done     chan struct{}

	mutex    sync.Mutex
	last     uint32
	inFlight map[uint32]*pending
	err      error
}

// NewClient returns a client over a channel that was opened with the interface's hash. Events are passed to
// onEvent, in order; nil drops them.
func NewClient(port Port, of *Interface, onEvent func(*Request)) (*Client, error) {
	if err := of.bind(port); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{port: port, onEvent: onEvent, stop: stop, done: make(chan struct{}), inFlight: map[uint32]*pending{}}
	go c.receive(ctx)
	return c, nil
}

// Counts returns this client's counters.
func (c *Client) Counts() Counts { return c.counters.counts() }

// Close closes the channel, and fails the calls in flight.
func (c *Client) Close() error {
	c.stop()
	err := c.port.Close()
	<-c.done
	return err
}

// receive dispatches answers until the channel ends.
func (c *Client) receive(ctx context.Context) {
	defer close(c.done)
	var buffer []byte
	for {
		message, err := receive(ctx, c.port, buffer)
		if err != nil {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.err = err
			for _, call := range c.inFlight {
				close(call.answer)
			}
			c.inFlight = map[uint32]*pending{}
			return
		}
		buffer = message
		c.dispatch(ctx, message)
	}
}

func (c *Client) dispatch(ctx context.Context, message []byte) {
	head, view, err := parse(message)
	if err != nil {
		c.counters.malformed.Add(1)
		return
	}
	switch head.kind {
	case KindReply, KindError, KindFault:
		c.mutex.Lock()
		call := c.inFlight[head.number]
		if call == nil || call.ordinal != head.ordinal {
			c.mutex.Unlock()
			c.counters.late.Add(1)
			return
		}
		delete(c.inFlight, head.number)
		c.mutex.Unlock()
		c.counters.answers.Add(1)
		call.answer <- append([]byte(nil), message...)
	case KindMessage:
		c.counters.messages.Add(1)
		if c.onEvent != nil {
			c.onEvent(&Request{ctx: ctx, head: head, view: view, counters: &c.counters})
		}
	default:
		c.counters.malformed.Add(1)
	}
}

// start allocates a number for a call.
func (c *Client) start(ordinal uint16) (uint32, *pending, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.err != nil {
		return 0, nil, &Ended{Err: c.err, MayRepeat: true}
	}
	if len(c.inFlight) >= MaxInFlight {
		return 0, nil, fmt.Errorf("%d calls are in flight: wait for one: %w", len(c.inFlight), ErrBusy)
	}
	for {
		c.last = (c.last + 1) & 0xffffff
		if c.last != 0 && c.inFlight[c.last] == nil {
			call := &pending{ordinal: ordinal, answer: make(chan []byte, 1)}
			c.inFlight[c.last] = call
			return c.last, call, nil
		}
	}
}

// MaxInFlight is the maximum number of calls in flight per client.
const MaxInFlight = 256

// forget removes a call; it reports whether the call was still in flight.
func (c *Client) forget(number uint32, call *pending) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.inFlight[number] != call {
		return false
	}
	delete(c.inFlight, number)
	return true
}

// Call makes a call and waits for its answer, which it decodes into reply; nil for a call without results. If
// the context ends first, the call is cancelled, but may have been served.
func (c *Client) Call(ctx context.Context, what *Message, request, reply Body) error {
	number, call, err := c.start(what.Ordinal)
	if err != nil {
		return err
	}
	message, err := Encode(nil, KindCall, what.Ordinal, number, request)
	if err == nil {
		err = send(ctx, c.port, message)
	}
	if err != nil {
		c.forget(number, call)
		return notSentError(err)
	}
	c.counters.calls.Add(1)
	select {
	case answer, ok := <-call.answer:
		if !ok {
			return &Ended{Err: c.endError(), MayRepeat: what.Idempotent}
		}
		return decodeAnswer(answer, what, reply)
	case <-ctx.Done():
		if c.forget(number, call) {
			// Notify the server if there is room; an answer that arrives anyway is counted as late.
			if cancel, err := Encode(nil, KindCancel, what.Ordinal, number, nil); err == nil {
				_ = c.port.Send(expiredContext, cancel)
			}
		}
		return fmt.Errorf("%s: no answer came in time; the call may have been served: %w", what.Name, ctx.Err())
	}
}

// expiredContext has ended already, for operations that must not wait.
var expiredContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (c *Client) endError() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.err
}

// notSentError returns the error of a message that was not sent: Ended, unless a limit or the context caused
// it.
func notSentError(err error) error {
	var limit *OverLimit
	if errors.As(err, &limit) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Ended{Err: err, MayRepeat: true}
}

func decodeAnswer(answer []byte, what *Message, reply Body) error {
	head, view, err := parse(answer)
	if err != nil {
		return err
	}
	switch {
	case head.kind == KindReply:
		return decode(view, reply)
	case head.kind == KindError && what.Declined != nil:
		declined := what.Declined(view)
		if view.r.err != nil {
			return view.r.err
		}
		return declined
	case head.kind == KindFault:
		var fault Fault
		if err := decode(view, &fault); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", what.Name, fault)
	}
	return &Malformed{At: 4, What: "an error that the interface does not declare"}
}

// Tell sends a one-way message.
func (c *Client) Tell(ctx context.Context, what *Message, body Body) error {
	return tell(ctx, c.port, what, body)
}

// send sends a message if the channel can carry its length.
func send(ctx context.Context, port Port, message []byte) error {
	if max := port.MaxMessageBytes(); len(message) > max {
		why := fmt.Sprintf("has %d bytes, but the channel carries up to %d: open it with larger rings", len(message), max)
		return &OverLimit{Field: "the message", Length: len(message), Max: max, Why: why}
	}
	return port.Send(ctx, message)
}

func tell(ctx context.Context, port Port, what *Message, body Body) error {
	message, err := Encode(nil, KindMessage, what.Ordinal, 0, body)
	if err == nil {
		err = send(ctx, port, message)
	}
	if err != nil {
		return notSentError(err)
	}
	return nil
}
