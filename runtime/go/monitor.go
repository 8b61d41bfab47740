package tombolo

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"tombolo/internal/control"
	"tombolo/stubs"
)

// answerTimeout is the time limit for replies that the monitor can give at once.
const answerTimeout = 30 * time.Second

// fingerprint identifies the protocol that this package was built with: docs/specs/control.md.
func fingerprint() uint32 {
	hash := fold(fold(control.MonitorInterface.Fingerprint, control.AgentInterface.Fingerprint), channelFormat)
	return uint32(hash) ^ uint32(hash>>32)
}

// fold is FNV-1a of two numbers. It is not inlined, because Go 1.26 cannot assemble loads of package
// variables in the other byte order for s390x.
//
//go:noinline
func fold(a, b uint64) uint64 {
	var bytes [16]byte
	binary.LittleEndian.PutUint64(bytes[:], a)
	binary.LittleEndian.PutUint64(bytes[8:], b)
	return fnv1a(bytes[:])
}

// fnv1a returns the 64-bit FNV-1a hash.
func fnv1a(bytes []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, one := range bytes {
		hash = (hash ^ uint64(one)) * 0x100000001b3
	}
	return hash
}

// answer is the monitor's reply to a request.
type answer struct {
	message []byte
	fds     fds
}

// monitor is the connection to the monitor of this node.
type monitor struct {
	file *os.File
	raw  syscall.RawConn

	// Handlers of events.
	onIncoming func(listener uint32, grant control.Grant, received fds)
	onEvent    func(ordinal uint16, message []byte)

	done chan struct{}

	mutex      sync.Mutex
	lastNumber uint32
	waiting    map[uint32]chan answer
	err        error
}

func newMonitor(fd int) (*monitor, error) {
	file, err := poller(fd, "the monitor")
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &monitor{file: file, raw: raw, done: make(chan struct{}), waiting: map[uint32]chan answer{}}, nil
}

// read dispatches messages until the connection ends.
func (m *monitor) read() {
	buffer := make([]byte, maxPacketBytes)
	for {
		var count int
		var received fds
		var failed error
		err := m.raw.Read(func(fd uintptr) bool {
			count, received, failed = receiveMessage(int(fd), buffer)
			return failed != syscall.EAGAIN
		})
		if err == nil {
			err = failed
		}
		if err != nil || count == 0 {
			m.end(&Error{Status: ErrMonitorLost, Op: "wait for the monitor"})
			return
		}
		if err := m.dispatch(buffer[:count], received); err != nil {
			received.close()
			m.end(&Error{Status: ErrMonitorProtocol, Op: "read a message of the monitor", Err: err})
			return
		}
	}
}

// dispatch handles one message.
func (m *monitor) dispatch(message []byte, received fds) error {
	kind, ordinal, number, err := stubs.Head(message)
	if err != nil {
		return err
	}
	switch kind {
	case stubs.KindMessage:
		if ordinal == control.MonitorIncomingMessage.Ordinal {
			var event control.MonitorIncoming
			if err := stubs.Decode(message, kind, ordinal, &event); err != nil {
				return err
			}
			m.onIncoming(event.Listener, event.Grant, received)
			return nil
		}
		received.close()
		if ordinal == control.MonitorTurnedAwayMessage.Ordinal {
			var event control.MonitorTurnedAway
			if err := stubs.Decode(message, kind, ordinal, &event); err != nil {
				return err
			}
			m.end(faultError("attach", &event.Fault))
			return nil
		}
		m.onEvent(ordinal, message)
		return nil
	case stubs.KindReply, stubs.KindError, stubs.KindFault:
		m.mutex.Lock()
		waiting := m.waiting[number]
		delete(m.waiting, number)
		m.mutex.Unlock()
		if waiting == nil {
			received.close()
			return nil
		}
		waiting <- answer{append([]byte(nil), message...), received}
		return nil
	}
	return errors.New("a message of a kind that monitors do not send")
}

// end fails all waiting requests.
func (m *monitor) end(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.err != nil {
		return
	}
	m.err = err
	for _, waiting := range m.waiting {
		close(waiting)
	}
	m.waiting = nil
	close(m.done)
}

func (m *monitor) failure() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.err
}

// send sends a message, waiting for room.
func (m *monitor) send(op string, message []byte, descriptors []int) error {
	if err := m.file.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return systemError(op, err)
	}
	var failed error
	err := m.raw.Write(func(fd uintptr) bool {
		failed = sendMessage(int(fd), message, descriptors)
		return failed != syscall.EAGAIN
	})
	if err == nil {
		err = failed
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Status: ErrTimedOut, Op: op, Detail: "the monitor takes no requests"}
	}
	return &Error{Status: ErrMonitorLost, Op: op, Err: err}
}

// tell sends a one-way message.
func (m *monitor) tell(what *stubs.Message, kind stubs.Kind, body stubs.Body) error {
	message, err := stubs.Encode(nil, kind, what.Ordinal, 0, body)
	if err != nil {
		return err
	}
	return m.send("tell the monitor "+what.Name, message, nil)
}

// ask sends a request and waits for its reply. The caller owns the descriptors that came with it.
func (m *monitor) ask(ctx context.Context, op string, what *stubs.Message, request, reply stubs.Body,
	descriptors ...int) (fds, error) {
	waiting := make(chan answer, 1)
	number, err := m.start(waiting)
	if err != nil {
		return nil, err
	}
	message, err := stubs.Encode(nil, stubs.KindCall, what.Ordinal, number, request)
	if err != nil {
		m.forget(number)
		return nil, &Error{Status: ErrInvalidArgument, Op: op, Err: err}
	}
	if err := m.send(op, message, descriptors); err != nil {
		m.forget(number)
		return nil, err
	}
	select {
	case answer, ok := <-waiting:
		if !ok {
			return nil, m.failure()
		}
		return m.decodeReply(op, what, answer, reply)
	case <-ctx.Done():
		m.forget(number)
		// The reply may have arrived at the same time.
		select {
		case answer := <-waiting:
			answer.fds.close()
		default:
		}
		if what.Ordinal == control.MonitorNamesMessage.Ordinal {
			m.cancel(number, request)
		}
		return nil, waitError(op, ctx.Err())
	}
}

// cancel makes the monitor release what a cancelled request about names would acquire.
func (m *monitor) cancel(number uint32, request stubs.Body) {
	if names, ok := request.(*control.MonitorNamesRequest); ok {
		_ = m.tell(&control.MonitorNamesMessage, stubs.KindCall, &control.MonitorNamesRequest{
			Scope: names.Scope,
			Operation: control.Operation{
				Case: control.OperationCaseCancel, Cancel: control.OperationCancel{Request: number},
			},
		})
	}
}

func (m *monitor) start(waiting chan answer) (uint32, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	for {
		m.lastNumber = (m.lastNumber + 1) & 0xffffff
		if m.lastNumber != 0 && m.waiting[m.lastNumber] == nil {
			m.waiting[m.lastNumber] = waiting
			return m.lastNumber, nil
		}
	}
}

func (m *monitor) forget(number uint32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.waiting, number)
}

// decodeReply decodes a reply.
func (m *monitor) decodeReply(op string, what *stubs.Message, answer answer, reply stubs.Body) (fds, error) {
	kind, ordinal, _, err := stubs.Head(answer.message)
	if err == nil && kind == stubs.KindReply {
		if err = stubs.Decode(answer.message, kind, what.Ordinal, reply); err == nil {
			return answer.fds, nil
		}
	}
	answer.fds.close()
	if err == nil && kind == stubs.KindError && ordinal == what.Ordinal {
		// The monitor declares all errors as a fault.
		var declined control.MonitorAttachError
		if err = stubs.Decode(answer.message, kind, ordinal, &declined); err == nil {
			return nil, faultError(op, &declined.Error)
		}
	}
	return nil, &Error{Status: ErrMonitorProtocol, Op: op, Err: err}
}
