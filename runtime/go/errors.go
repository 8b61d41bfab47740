package tombolo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tombolo/internal/control"
	"tombolo/internal/ring"
)

// Status identifies an error: errors.Is(err, tombolo.ErrClosed). Numbers and names are those of C and Python.
type Status int

// The statuses.
const (
	ErrWouldBlock      Status = 1  // no room to send, or no message to receive, right now
	ErrTimedOut        Status = 2  // the deadline passed; also context.DeadlineExceeded
	ErrClosed          Status = 3  // the peer closed the channel; all that it sent was received; also io.EOF
	ErrPeerDied        Status = 4  // the peer died, or its node was lost; all that it sent was received
	ErrTooLong         Status = 5  // the message exceeds the channel's maximum
	ErrRefused         Status = 6  // the options of the channel's two sides do not match
	ErrViolation       Status = 7  // the peer violated the protocol; the channel is unusable from now on
	ErrNoSuchName      Status = 8  // no such name, or no program exported it in time
	ErrNameTaken       Status = 9  // another program owns the name
	ErrBadName         Status = 10 // not a valid name
	ErrNoSuchNode      Status = 11 // no node of that name in the machine
	ErrNodeDown        Status = 12 // the node is not running
	ErrNoSuchDomain    Status = 13 // no live domain with that id
	ErrBadImage        Status = 14 // the image is unreadable, or has no build for the node
	ErrStartFailed     Status = 15 // the program did not start
	ErrNoLink          Status = 16 // the two nodes cannot reach each other
	ErrLimit           Status = 17 // a limit of the machine was reached
	ErrDenied          Status = 18 // the monitor refused the request
	ErrMonitorLost     Status = 19 // the monitor is gone, and the machine with it
	ErrNoMachine       Status = 20 // there is no machine to attach to
	ErrMonitorProtocol Status = 21 // the monitor sent an invalid message
	ErrSystem          Status = 23 // a call to the operating system failed
	ErrInvalidArgument Status = 24 // an argument is out of range
	ErrCannotCarry     Status = 52 // this SDK cannot use such a link
)

var statusText = map[Status]string{
	ErrWouldBlock: "it would have to wait", ErrTimedOut: "the deadline passed",
	ErrClosed: "the peer closed the channel", ErrPeerDied: "the peer died",
	ErrTooLong: "the message is longer than the channel carries", ErrRefused: "the two sides do not fit",
	ErrViolation: "the peer broke the protocol", ErrNoSuchName: "no program exports the name",
	ErrNameTaken: "another program has the name", ErrBadName: "it is not a name",
	ErrNoSuchNode: "no such node", ErrNodeDown: "the node is not running", ErrNoSuchDomain: "no such domain",
	ErrBadImage: "the image cannot be used", ErrStartFailed: "the program did not start",
	ErrNoLink: "the two nodes cannot reach each other", ErrLimit: "a limit of the machine was met",
	ErrDenied: "the monitor declined", ErrMonitorLost: "the monitor is gone", ErrNoMachine: "no machine",
	ErrMonitorProtocol: "the monitor broke the protocol", ErrSystem: "the operating system refused it",
	ErrInvalidArgument: "an argument is out of range", ErrCannotCarry: "this link cannot be used from Go",
}

// Error describes the status.
func (s Status) Error() string { return statusText[s] }

// Error is the error type of all operations of this package.
type Error struct {
	// Kind of error.
	Status Status

	// Operation that failed: "receive from domain 0.1.3 on node arm0".
	Op string

	// Details and possible remedies.
	Detail string

	// Underlying error of the operating system or the context, if any.
	Err error
}

// Error combines operation, status, details and underlying error.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Status.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is match the status, io.EOF for a closed channel, and context.DeadlineExceeded for an
// exceeded deadline.
func (e *Error) Is(target error) bool {
	switch target {
	case io.EOF:
		return e.Status == ErrClosed
	case context.DeadlineExceeded:
		return e.Status == ErrTimedOut
	}
	status, ok := target.(Status)
	return ok && status == e.Status
}

func failure(status Status, op, detail string, arguments ...any) *Error {
	return &Error{Status: status, Op: op, Detail: fmt.Sprintf(detail, arguments...)}
}

func systemError(op string, err error) *Error { return &Error{Status: ErrSystem, Op: op, Err: err} }

// waitError returns the error of a wait that a context ended.
func waitError(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Status: ErrTimedOut, Op: op}
	}
	// Cancelled by the caller: wrapped without a status.
	return fmt.Errorf("%s: %w", op, err)
}

// ringError converts an error of a ring.
func ringError(op string, err error) error {
	var violation ring.Violation
	switch {
	case errors.Is(err, ring.ErrClosed):
		return &Error{Status: ErrClosed, Op: op}
	case errors.As(err, &violation):
		return failure(ErrViolation, op, "%s", violation)
	}
	return &Error{Status: ErrSystem, Op: op, Err: err}
}

// faultError converts the fault of a request that the monitor refused.
func faultError(op string, fault *control.Fault) error {
	text := func(status Status, detail string, arguments ...any) error {
		return failure(status, op, detail, arguments...)
	}
	switch fault.Case {
	case control.FaultCaseNoSuchNode:
		return text(ErrNoSuchNode, "'%s'; there are %v", fault.NoSuchNode.Name, fault.NoSuchNode.Available)
	case control.FaultCaseNodeDown:
		return text(ErrNodeDown, "'%s' %s", fault.NodeDown.Node, fault.NodeDown.Cause)
	case control.FaultCaseNoSuchName:
		return text(ErrNoSuchName, "'%s'", fault.NoSuchName.Name)
	case control.FaultCaseNameTaken:
		return text(ErrNameTaken, "'%s' belongs to domain %v", fault.NameTaken.Name, fault.NameTaken.Owner)
	case control.FaultCaseBadName:
		return text(ErrBadName, "'%s'; names have 1 to 128 letters, digits and . _ - / :", fault.BadName.Name)
	case control.FaultCaseNoSuchDomain:
		return text(ErrNoSuchDomain, "%v", fault.NoSuchDomain.Domain)
	case control.FaultCaseNoBuildForIsa:
		why := fault.NoBuildForIsa
		return text(ErrBadImage, "'%s' has no build for %v on node '%s', only for %v", why.Image, why.Isa, why.Node,
			why.Available)
	case control.FaultCaseBadImage:
		return text(ErrBadImage, "%s", fault.BadImage.Why)
	case control.FaultCaseStartFailed:
		return text(ErrStartFailed, "on node '%s': %s", fault.StartFailed.Node, fault.StartFailed.Why)
	case control.FaultCaseNoLink:
		return text(ErrNoLink, "'%s' and '%s'", fault.NoLink.From, fault.NoLink.To)
	case control.FaultCaseLimit:
		return text(ErrLimit, "%s", fault.Limit.What)
	case control.FaultCaseRefused:
		return text(ErrDenied, "%s", fault.Refused.Why)
	case control.FaultCaseSystem:
		return text(ErrSystem, "%s", fault.System.What)
	case control.FaultCaseName:
		return nameError(op, &fault.Name.Fault)
	}
	return text(ErrDenied, "%v", fault.Case)
}

// nameError converts the fault of a request about names.
func nameError(op string, fault *control.NameFault) error {
	switch fault.Case {
	case control.NameFaultCaseBadName:
		return failure(ErrBadName, op, "'%s'", fault.BadName.Name)
	case control.NameFaultCaseBadAttribute:
		return failure(ErrBadName, op, "attribute '%s'", fault.BadAttribute.Attribute)
	case control.NameFaultCaseNoSuchName:
		return failure(ErrNoSuchName, op, "'%s'", fault.NoSuchName.Name)
	case control.NameFaultCaseExists:
		return failure(ErrNameTaken, op, "'%s'", fault.Exists.Name)
	}
	return failure(ErrDenied, op, "%v", fault.Case)
}
