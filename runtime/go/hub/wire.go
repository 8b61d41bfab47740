// Package hub provides hubs, which programs on any nodes share. A Chan is a queue or a rendezvous, and can
// act as a native channel of Go: select, range and close then work across nodes. docs/specs/hub.md specifies
// the protocol.
//
//	session := hub.Join(domain)
//	jobs, err := hub.Open[uint64](ctx, session, "jobs")
//	for job := range jobs.Receiver(ctx) {
//		...
//	}
package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// interfaceHash changes with the format of requests.
const interfaceHash = 0x6875_6273_0000_0002

// Operations of requests.
const (
	opOpen = iota + 1
	opPut
	opGet
	opGiveBack
	opClaim
	opUnclaim
	opWithdraw
	opClose
	opRaise
	opStatus
	opPutMany
	opGetMany
)

// Answers.
const (
	answerInherits = iota + 1
	answerTaken
	answerUnit
	answerValue
	answerBlock
	answerOffered
	answerRevoked
	answerUnclaimed
	answerWithdrawn
	answerFailed
	answerOpened
	answerStatus
	answerValues
	answerPartial
)

// Limits of a batch.
const (
	maxBatch      = 256
	maxBatchBytes = 16384
)

// Kinds of hubs.
const (
	anyKind = iota
	kindPort
	kindFifo
	kindEvent
	kindSemaphore
	kindResource
)

// Fault is the reason why a hub did not perform an operation: errors.Is(err, hub.ErrClosed).
type Fault uint8

// The faults. The last two are detected on this side.
const (
	ErrWouldBlock    Fault = 1   // not ready, and the timeout was 0
	ErrTimedOut      Fault = 2   // the deadline passed; also context.DeadlineExceeded
	ErrClosed        Fault = 3   // the hub is closed, and for a receive also empty; also io.EOF
	ErrClosedBefore  Fault = 4   // the hub was closed already
	ErrNoSuchHub     Fault = 5   // no hub has the name
	ErrOtherKind     Fault = 6   // the hub is of another kind
	ErrOtherType     Fault = 7   // the values of the hub have another type
	ErrTooLong       Fault = 8   // the value exceeds the hub's maximum
	ErrNotHeld       Fault = 9   // the session does not hold it
	ErrHeldAlready   Fault = 10  // the session holds it already
	ErrTooMany       Fault = 11  // too many requests of the session are waiting
	ErrNoSuchRequest Fault = 12  // hubs of that kind have no such operation
	ErrLost          Fault = 100 // the server of the hub, or its node, is gone
	ErrNoAnswer      Fault = 101 // the server did not answer in time: it may be stopped
)

var faultText = map[Fault]string{
	ErrWouldBlock: "nothing is ready", ErrTimedOut: "the deadline passed", ErrClosed: "it is closed",
	ErrClosedBefore: "it was closed before", ErrNoSuchHub: "there is no such hub",
	ErrOtherKind: "it is of another kind", ErrOtherType: "its values have another type",
	ErrTooLong: "the value is too long", ErrNotHeld: "this session does not hold it",
	ErrHeldAlready: "this session holds it already", ErrTooMany: "too many requests of this session wait",
	ErrNoSuchRequest: "hubs of its kind have no such operation", ErrLost: "its server or node is gone",
	ErrNoAnswer: "its server does not answer: it may be stopped",
}

// Error describes the fault.
func (f Fault) Error() string {
	if text, ok := faultText[f]; ok {
		return text
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// Error is the error of an operation on a hub.
type Error struct {
	// Name of the hub.
	Hub string

	// Node of the hub, if known.
	Node string

	// Reason of the failure.
	Fault Fault

	// Details of the failure.
	Detail string
}

// Error names the hub, its node and the reason.
func (e *Error) Error() string {
	text := "hub '" + e.Hub + "'"
	if e.Node != "" {
		text += " on node '" + e.Node + "'"
	}
	text += ": " + e.Fault.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is makes errors.Is match the fault, io.EOF for a closed hub and context.DeadlineExceeded for a deadline.
func (e *Error) Is(target error) bool {
	switch target {
	case io.EOF:
		return e.Fault == ErrClosed
	case context.DeadlineExceeded:
		return e.Fault == ErrTimedOut
	}
	fault, ok := target.(Fault)
	return ok && fault == e.Fault
}

// request is a message to a server.
type request struct {
	operation byte
	priority  byte
	tentative bool
	kind      byte
	number    uint32
	hub       uint32
	timeoutUs uint32
	argument  uint64
	tail      []byte
}

func (r *request) encode() []byte {
	bytes := make([]byte, 24, 24+len(r.tail))
	bytes[0], bytes[1], bytes[3] = r.operation, r.priority, r.kind
	if r.tentative {
		bytes[2] = 1
	}
	binary.LittleEndian.PutUint32(bytes[4:], r.number)
	binary.LittleEndian.PutUint32(bytes[8:], r.hub)
	binary.LittleEndian.PutUint32(bytes[12:], r.timeoutUs)
	binary.LittleEndian.PutUint64(bytes[16:], r.argument)
	return append(bytes, r.tail...)
}

// answer is a message from a server.
type answer struct {
	kind     byte
	detail   byte
	number   uint32
	argument uint64
	tail     []byte
}

var errMalformed = errors.New("an answer with other bytes than it can have")

// decodeAnswer decodes an answer; its tail is a copy.
func decodeAnswer(bytes []byte) (answer, error) {
	if len(bytes) < 16 || bytes[2] != 0 || bytes[3] != 0 {
		return answer{}, errMalformed
	}
	a := answer{
		kind: bytes[0], detail: bytes[1], number: binary.LittleEndian.Uint32(bytes[4:]),
		argument: binary.LittleEndian.Uint64(bytes[8:]), tail: append([]byte(nil), bytes[16:]...),
	}
	tail, detail, argument := 0, false, false
	switch a.kind {
	case answerInherits:
		detail = true
	case answerTaken, answerUnit, answerRevoked, answerUnclaimed, answerWithdrawn:
	case answerValue:
		tail = len(a.tail)
	case answerBlock:
		tail, detail, argument = 4, true, true
	case answerOffered:
		argument = true
	case answerFailed:
		detail, argument = true, true
	case answerOpened:
		tail, detail, argument = 16, true, true
	case answerStatus:
		tail = len(a.tail)
	case answerValues:
		tail = len(a.tail)
		if values, ok := split(a.tail); !ok || len(values) == 0 {
			return answer{}, errMalformed
		}
	case answerPartial:
		tail, detail, argument = 4, true, true
		if len(a.tail) == 4 && binary.LittleEndian.Uint32(a.tail) == 0 {
			return answer{}, errMalformed
		}
	default:
		return answer{}, errMalformed
	}
	if len(a.tail) != tail || !detail && a.detail != 0 || !argument && a.argument != 0 {
		return answer{}, errMalformed
	}
	return a, nil
}

// isFinal reports whether this is the last answer to the request.
func (a *answer) isFinal() bool {
	switch a.kind {
	case answerOffered, answerRevoked, answerUnclaimed:
		return false
	}
	return true
}

// split returns the values of a batch; false if the bytes are malformed.
func split(bytes []byte) ([][]byte, bool) {
	var values [][]byte
	whole := len(bytes)
	for len(bytes) > 0 {
		if len(bytes) < 2 || len(values) == maxBatch {
			return nil, false
		}
		length := int(binary.LittleEndian.Uint16(bytes))
		if length > len(bytes)-2 {
			return nil, false
		}
		values = append(values, bytes[2:2+length:2+length])
		bytes = bytes[2+length:]
	}
	// A single value may be as long as a batch, not counting its length prefix.
	if whole > maxBatchBytes && len(values) != 1 || len(values) == 1 && len(values[0]) > maxBatchBytes {
		return nil, false
	}
	return values, true
}

// join encodes the first values that fit into a batch, and returns their number: at least one.
func join(values [][]byte) ([]byte, int) {
	var batch []byte
	for count, value := range values {
		if count == maxBatch || count > 0 && len(batch)+2+len(value) > maxBatchBytes {
			return batch, count
		}
		batch = binary.LittleEndian.AppendUint16(batch, uint16(len(value)))
		batch = append(batch, value...)
	}
	return batch, len(values)
}
