package stubs

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	KindMessage Kind = 1 // one-way
	KindCall    Kind = 2 // expects an answer
	KindReply   Kind = 3 // the results of a call
	KindError   Kind = 4 // the declared error of a call
	KindFault   Kind = 5 // a call that was not served
	KindCancel  Kind = 6 // the client no longer wants the answer
)

// Fault is the error of a call that the server did not serve.
type Fault uint32

// The faults.
const (
	ErrUnknownCall   Fault = 1 // the server does not know the call: it may be older than the client
	ErrBadRequest    Fault = 2 // the server refused the request as malformed
	ErrUnserved      Fault = 3 // the server does not serve the call
	ErrAnswerTooLong Fault = 4 // the answer is longer than the interface or the channel allows
	ErrBusy          Fault = 5 // too many calls of this client are outstanding
	ErrRightRefused  Fault = 6 // the server may not take a right or buffer of the request
	ErrDropped       Fault = 7 // the server dropped the call without an answer
)

// Error describes the fault.
func (f Fault) Error() string {
	switch f {
	case ErrUnknownCall:
		return "the server does not know this call: it may be older than the client"
	case ErrBadRequest:
		return "the server refused the request as malformed"
	case ErrUnserved:
		return "the server does not serve this call"
	case ErrAnswerTooLong:
		return "the answer is longer than the interface or the channel allows"
	case ErrBusy:
		return "too many calls of this client wait for their answers"
	case ErrRightRefused:
		return "the server was not given a right that came with the request, or has it no more"
	case ErrDropped:
		return "the server dropped the call without an answer"
	}
	return fmt.Sprintf("the server gave reason %d, which is unknown here", uint32(f))
}

// WireBytes returns the length of the fields, in bytes.
func (f *Fault) WireBytes() int { return 8 }

// EncodeWire writes the fields at an offset of a message.
func (f *Fault) EncodeWire(w *Writer, at int) { w.U32(at, uint32(*f)) }

// DecodeWire reads the fields.
func (f *Fault) DecodeWire(v View) { *f = Fault(v.U32(0)) }

// Declined is the error of a call that the server declined with a declared error of the interface, an E.
type Declined[E any] struct {
	// The declared error.
	With E
}

// Error describes the declared error.
func (d Declined[E]) Error() string { return fmt.Sprintf("the server declined the call: %v", d.With) }

// Decline returns the error with which a handler declines a call, from a declared error of the interface.
func Decline[E any](with E) error { return Declined[E]{With: with} }

// DeclinedWith returns the declared error that err wraps, if any.
func DeclinedWith[E any](err error) (E, bool) {
	var declined Declined[E]
	ok := errors.As(err, &declined)
	return declined.With, ok
}

// Interface describes an interface that both sides of a channel agree on; generated code has one for each.
type Interface struct {
	// Name with its package.
	Name string

	// Version, which grows when older peers cannot be served.
	Version int

	// Interface hash of the handshake, which must match on both sides of a channel.
	Hash uint64

	// Hash of everything that is visible to peers.
	Fingerprint uint64

	// Whether it passes capabilities, which channels of this package do not carry.
	Capabilities bool

	// Whether it passes buffers, which channels of this package do not carry.
	Buffers bool

	// Length of the longest message with everything of variable length empty, in bytes.
	MessageBytes int
}

// Message describes a message of an interface; generated code has one for each.
type Message struct {
	// Ordinal of the message in the interface.
	Ordinal uint16

	// Name of the interface and of the message.
	Name string

	// Whether a call may be repeated if it may have been served.
	Idempotent bool

	// Decodes the declared error of a call; nil if the interface declares none.
	Declined func(v View) error
}

// A Port carries whole messages, in order, as a channel does. Its methods return an error that is io.EOF
// (errors.Is) when the peer has closed it, and context.DeadlineExceeded when the deadline has passed.
type Port interface {
	// Send sends a message. Goroutines may share it. A failed send had no effect.
	Send(ctx context.Context, message []byte) error

	// RecvInto receives a message into the buffer, which grows if necessary. One goroutine at a time.
	RecvInto(ctx context.Context, buffer []byte) ([]byte, error)

	// MaxMessageBytes returns the maximum length of a message.
	MaxMessageBytes() int

	// Close closes both directions.
	Close() error
}

// bind fails if a port cannot carry what an interface needs.
func (i *Interface) bind(port Port) error {
	if i.Capabilities || i.Buffers {
		return fmt.Errorf("%s passes capabilities or buffers, which channels in Go do not carry", i.Name)
	}
	if port.MaxMessageBytes() < i.MessageBytes {
		return fmt.Errorf("%s needs messages of %d bytes at least; the channel carries up to %d",
			i.Name, i.MessageBytes, port.MaxMessageBytes())
	}
	return nil
}

// receive waits for a message until the context ends: it retries when the port's own timeout expires.
func receive(ctx context.Context, port Port, buffer []byte) ([]byte, error) {
	for {
		message, err := port.RecvInto(ctx, buffer)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return message, err
		}
	}
}

// isEnd reports whether an error means that the peer closed the channel.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }
