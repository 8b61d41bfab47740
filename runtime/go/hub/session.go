package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"tombolo"
)

// grace is how long to wait for the last answer of a server after a deadline.
const grace = 5 * time.Second

// defaultPriority applies if neither the session nor its application file sets a priority.
const defaultPriority = 100

// A Session is a task that uses hubs: it holds locks and inherits priorities. Goroutines may share it, but
// goroutines that exclude each other with a Resource need one each.
type Session struct {
	domain   *tombolo.Domain
	priority uint8

	mutex    sync.Mutex
	services map[string]*service
	number   uint32
}

// Join begins a session.
func Join(domain *tombolo.Domain) *Session {
	priority := uint8(defaultPriority)
	if declared, err := strconv.ParseUint(os.Getenv("TOMBOLO_TASK_PRIORITY"), 10, 8); err == nil {
		priority = uint8(declared)
	}
	return &Session{domain: domain, priority: priority, services: map[string]*service{}}
}

// SetPriority sets the priority of operations, 0 to 255; larger is more urgent. Call it before using hubs.
func (s *Session) SetPriority(priority uint8) { s.priority = priority }

// Close ends the session and releases what it holds.
func (s *Session) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, service := range s.services {
		service.channel.Close()
	}
	s.services = map[string]*service{}
	return nil
}

// service is the connection to a server of hubs.
type service struct {
	session *Session
	name    string
	node    string
	channel *tombolo.Channel

	mutex    sync.Mutex
	waiting  map[uint32]destination
	inherits uint8
	lost     error
}

// destination is where the answers to a request go: a waiter, and the index of the request at the waiter.
type destination struct {
	waiter *waiter
	index  int
}

// waiter is a goroutine that waits for answers.
type waiter struct {
	mutex      sync.Mutex
	deliveries []delivery
	wake       chan struct{}
}

// delivery is an answer to one of a waiter's requests, or the error if its server is lost.
type delivery struct {
	index  int
	answer answer
	err    error
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

func (w *waiter) add(one delivery) {
	w.mutex.Lock()
	w.deliveries = append(w.deliveries, one)
	w.mutex.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiter) take() []delivery {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	all := w.deliveries
	w.deliveries = nil
	return all
}

// openHub is a hub that the session has opened.
type openHub struct {
	service *service
	name    string
	kind    byte
	number  uint32
}

func (p *openHub) fail(fault Fault, detail string) error {
	return &Error{Hub: p.name, Node: p.service.node, Fault: fault, Detail: detail}
}

// connect returns the connection to a server, and opens it on first use.
func (s *Session) connect(ctx context.Context, name, node string) (*service, error) {
	s.mutex.Lock()
	known := s.services[name]
	s.mutex.Unlock()
	if known != nil && known.failure() == nil {
		return known, nil
	}
	channel, err := s.domain.ConnectWith(ctx, name, tombolo.Options{Slots: 1024, InterfaceHash: interfaceHash})
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// Another goroutine may have connected first.
	if now := s.services[name]; now != nil && now != known {
		channel.Close()
		return now, nil
	}
	created := &service{session: s, name: name, node: node, channel: channel, waiting: map[uint32]destination{}}
	s.services[name] = created
	go created.dispatchAnswers()
	return created, nil
}

func (v *service) failure() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.lost
}

// dispatchAnswers dispatches answers until the server is gone.
func (v *service) dispatchAnswers() {
	var buffer []byte
	for {
		message, err := v.channel.RecvInto(context.Background(), buffer)
		if errors.Is(err, tombolo.ErrTimedOut) {
			continue
		}
		var got answer
		if err == nil {
			buffer = message
			got, err = decodeAnswer(message)
		}
		if err != nil {
			v.channel.Close()
			v.mutex.Lock()
			defer v.mutex.Unlock()
			v.lost = err
			for _, to := range v.waiting {
				to.waiter.add(delivery{index: to.index, err: err})
			}
			v.waiting = map[uint32]destination{}
			return
		}
		if got.kind == answerInherits {
			v.inherit(got.detail)
			continue
		}
		v.mutex.Lock()
		to, ok := v.waiting[got.number]
		if got.isFinal() {
			delete(v.waiting, got.number)
		}
		v.mutex.Unlock()
		if ok {
			to.waiter.add(delivery{index: to.index, answer: got})
		}
	}
}

// inherit notifies the other servers of the priority that this session inherits here.
func (v *service) inherit(priority uint8) {
	s := v.session
	v.mutex.Lock()
	v.inherits = priority
	v.mutex.Unlock()
	s.mutex.Lock()
	all := make([]*service, 0, len(s.services))
	for _, other := range s.services {
		all = append(all, other)
	}
	s.mutex.Unlock()
	for _, to := range all {
		highest := uint8(0)
		for _, from := range all {
			from.mutex.Lock()
			if from != to && from.inherits > highest {
				highest = from.inherits
			}
			from.mutex.Unlock()
		}
		_ = v.sendTo(to, &request{operation: opRaise, priority: highest})
	}
}

func (v *service) sendTo(to *service, r *request) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return to.channel.Send(ctx, r.encode())
}

// send sends a request whose answers go to a waiter, and returns the request's number.
func (p *openHub) send(w *waiter, index int, r request) (uint32, error) {
	s, v := p.service.session, p.service
	s.mutex.Lock()
	s.number++
	r.number = s.number
	s.mutex.Unlock()
	r.hub, r.priority = p.number, s.priority
	v.mutex.Lock()
	if v.lost != nil {
		defer v.mutex.Unlock()
		return 0, p.fail(ErrLost, v.lost.Error())
	}
	v.waiting[r.number] = destination{w, index}
	v.mutex.Unlock()
	if err := v.sendTo(v, &r); err != nil {
		v.forget(r.number)
		if errors.Is(err, tombolo.ErrTimedOut) {
			return 0, p.fail(ErrNoAnswer, "")
		}
		return 0, p.fail(ErrLost, err.Error())
	}
	return r.number, nil
}

// sendFollowUp sends a request that refers to another request.
func (p *openHub) sendFollowUp(number uint32, operation byte, offer uint64) {
	r := request{
		operation: operation, priority: p.service.session.priority, number: number, hub: p.number, argument: offer,
	}
	// Errors are ignored: a lost server is reported through the waiter.
	_ = p.service.sendTo(p.service, &r)
}

func (v *service) forget(number uint32) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	delete(v.waiting, number)
}

// micros returns the timeout of a request for a context, at least 1, as 0 would not wait.
func (s *Session) micros(ctx context.Context) uint32 {
	left := s.domain.Timeout()
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	micros := left.Microseconds()
	switch {
	case micros < 1:
		return 1
	case micros > 1<<32-1:
		return 1<<32 - 1
	}
	return uint32(micros)
}

// operate performs one operation, waiting as long as the context allows. Results are never lost: a cancelled
// operation is withdrawn, and succeeds if the hub performed it before the withdrawal.
func (p *openHub) operate(ctx context.Context, r request) (answer, error) {
	w := newWaiter()
	number, err := p.send(w, 0, r)
	if err != nil {
		return answer{}, err
	}
	var last <-chan time.Time
	done := ctx.Done()
	for {
		for _, one := range w.take() {
			if one.err != nil {
				return answer{}, p.fail(ErrLost, one.err.Error())
			}
			switch one.answer.kind {
			case answerWithdrawn:
				return answer{}, p.contextError(ctx)
			case answerFailed:
				return answer{}, p.fail(Fault(one.answer.detail), detail(&one.answer))
			}
			if one.answer.isFinal() {
				return one.answer, nil
			}
		}
		select {
		case <-w.wake:
		case <-done:
			p.sendFollowUp(number, opWithdraw, 0)
			timer := time.NewTimer(grace)
			defer timer.Stop()
			last, done = timer.C, nil
		case <-last:
			p.service.forget(number)
			return answer{}, p.fail(ErrNoAnswer, "")
		}
	}
}

// contextError returns the error of a wait that its context ended.
func (p *openHub) contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return p.fail(ErrTimedOut, "")
}

// detail describes the argument of a fault.
func detail(a *answer) string {
	switch Fault(a.detail) {
	case ErrTooLong:
		return "it carries up to " + strconv.FormatUint(a.argument, 10) + " bytes"
	case ErrOtherKind:
		names := []string{"", "port", "fifo", "event", "semaphore", "resource", "pool"}
		if a.argument < uint64(len(names)) {
			return "a " + names[a.argument]
		}
	case ErrTooMany:
		return "up to " + strconv.FormatUint(a.argument, 10)
	}
	return ""
}

// open finds a hub, waiting for its name.
func (s *Session) open(ctx context.Context, name string, kind byte, valueType string) (*openHub, error) {
	unknown := &Error{Hub: name, Fault: ErrNoSuchHub}
	record, err := s.domain.AwaitRecord(ctx, "hub/"+name)
	if err != nil {
		if errors.Is(err, tombolo.ErrNoSuchName) || errors.Is(err, tombolo.ErrTimedOut) || errors.Is(err, tombolo.ErrBadName) {
			return nil, unknown
		}
		return nil, err
	}
	serves, ok := record.Attributes["service"].(string)
	node, isText := record.Attributes["node"].(string)
	if !ok || !isText {
		return nil, unknown
	}
	service, err := s.connect(ctx, serves, node)
	if err != nil {
		return nil, err
	}
	p := &openHub{service: service, name: name}
	number := uint64(0)
	if valueType != "" {
		number = typeNumber(valueType)
	}
	opened, err := p.operate(ctx, request{operation: opOpen, kind: kind, argument: number, tail: []byte(name)})
	if err != nil {
		return nil, err
	}
	if opened.kind != answerOpened {
		return nil, p.fail(ErrNoSuchHub, "")
	}
	p.kind, p.number = opened.detail, uint32(opened.argument)
	return p, nil
}

// typeNumber returns the FNV-1a hash of a type's name.
func typeNumber(name string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for i := 0; i < len(name); i++ {
		hash = (hash ^ uint64(name[i])) * 0x100000001b3
	}
	return hash
}

// token returns the fencing token and the number of a block.
func token(a *answer) (uint64, uint32) { return a.argument, binary.LittleEndian.Uint32(a.tail) }
