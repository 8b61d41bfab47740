package hub

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Case is an operation of a Select: Chan.Sending, Chan.Receiving, Semaphore.Waiting or Event.Waiting.
type Case struct {
	hub   *openHub
	put   bool
	bytes []byte
	done  func(*answer) error
}

// Sending returns the Case of a Select that sends a value.
func (c *Chan[T]) Sending(value T) Case {
	return Case{hub: c.hub, put: true, bytes: encode(&value)}
}

// Receiving returns the Case of a Select that receives into value.
func (c *Chan[T]) Receiving(value *T) Case {
	return Case{hub: c.hub, done: func(got *answer) (err error) {
		*value, err = c.decodeValue(got)
		return err
	}}
}

// Waiting returns the Case of a Select that waits for the semaphore.
func (m *Semaphore) Waiting() Case { return Case{hub: m.hub} }

// Waiting returns the Case of a Select that waits for the event.
func (e *Event) Waiting() Case { return Case{hub: e.hub} }

// maxCases is the maximum number of cases of a Select.
const maxCases = 256

// States of a case in progress.
const (
	posted = iota
	offered
	withdrawing
	ended
)

// selection is a Select in progress.
type selection struct {
	cases    []Case
	waiter   *waiter
	numbers  []uint32
	state    []int
	offers   []uint64
	faults   []error
	claimed  int // -1 while none is
	giveBack bool
	expired  bool
	chosen   int
	result   error
	got      answer
	decided  bool
}

// Select waits for the first of several operations, on hubs of any nodes, and performs exactly one. It
// returns the index of that case, or of a case whose hub is closed or lost, with the error.
func Select(ctx context.Context, cases ...Case) (int, error) {
	return selectWith(ctx, false, cases)
}

// TrySelect performs one of several operations if one is ready, and otherwise returns ErrWouldBlock.
func TrySelect(ctx context.Context, cases ...Case) (int, error) {
	return selectWith(ctx, true, cases)
}

func selectWith(ctx context.Context, try bool, cases []Case) (int, error) {
	if len(cases) == 0 || len(cases) > maxCases {
		return -1, fmt.Errorf("a select of %d operations; give 1 to %d", len(cases), maxCases)
	}
	for i := range cases {
		for j := range cases[:i] {
			if cases[i].hub == cases[j].hub || cases[i].before(&cases[j]) == cases[j].before(&cases[i]) {
				return -1, fmt.Errorf("operations %d and %d of a select are for hub '%s'; give each hub once", j, i,
					cases[i].hub.name)
			}
		}
	}
	s := &selection{
		cases: cases, waiter: newWaiter(), numbers: make([]uint32, len(cases)), state: make([]int, len(cases)),
		offers: make([]uint64, len(cases)), faults: make([]error, len(cases)), claimed: -1, chosen: -1,
	}
	for i := range cases {
		if err := s.post(ctx, i, try); err != nil {
			s.abandon()
			return i, err
		}
	}
	return s.run(ctx)
}

// before reports whether the hub precedes another in the global order, the same for all tasks.
func (c *Case) before(other *Case) bool {
	ours, theirs := c.hub.service.channel.Peer(), other.hub.service.channel.Peer()
	return ours < theirs || ours == theirs && c.hub.number < other.hub.number
}

func (s *selection) post(ctx context.Context, i int, try bool) error {
	of := &s.cases[i]
	r := request{operation: opGet, tentative: true, tail: of.bytes}
	if of.put {
		r.operation = opPut
	}
	if !try {
		r.timeoutUs = of.hub.service.session.micros(ctx)
	}
	var err error
	s.numbers[i], err = of.hub.send(s.waiter, i, r)
	return err
}

// abandon withdraws the posted requests of a select that failed to begin.
func (s *selection) abandon() {
	for i, number := range s.numbers {
		if number != 0 && s.state[i] != ended {
			s.cases[i].hub.sendFollowUp(number, opWithdraw, 0)
			s.cases[i].hub.service.forget(number)
		}
	}
}

// forget drops the answers to withdrawn requests.
func (s *selection) forget() {
	for i, number := range s.numbers {
		s.cases[i].hub.service.forget(number)
	}
}

func (s *selection) run(ctx context.Context) (int, error) {
	done := ctx.Done()
	var last <-chan time.Time
	for {
		for _, one := range s.waiter.take() {
			s.handleAnswer(one)
		}
		if s.decided && (s.result != nil || s.got.kind != 0) {
			s.forget()
			return s.finish()
		}
		if s.allEnded() {
			return s.noResultError(ctx)
		}
		select {
		case <-s.waiter.wake:
		case <-done:
			s.expired = true
			s.decide()
			timer := time.NewTimer(grace)
			defer timer.Stop()
			last, done = timer.C, nil
		case <-last:
			s.forget()
			return -1, s.cases[0].hub.fail(ErrNoAnswer, "")
		}
	}
}

func (s *selection) finish() (int, error) {
	if s.result == nil && s.cases[s.chosen].done != nil {
		s.result = s.cases[s.chosen].done(&s.got)
	}
	return s.chosen, s.result
}

// noResultError returns the error of a select that performed no operation.
func (s *selection) noResultError(ctx context.Context) (int, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return -1, ctx.Err()
	}
	timeout := s.cases[0].hub.fail(ErrTimedOut, "")
	for i, fault := range s.faults {
		switch {
		case fault == nil:
		case errors.Is(fault, ErrTimedOut), errors.Is(fault, ErrWouldBlock):
			timeout = fault
		default:
			// Another fault, such as a close at the deadline, takes precedence.
			return i, fault
		}
	}
	return -1, timeout
}

func (s *selection) allEnded() bool {
	for _, state := range s.state {
		if state != ended {
			return false
		}
	}
	return true
}

func (s *selection) choose(i int, err error) {
	if !s.decided {
		s.decided, s.chosen, s.result = true, i, err
	}
}

// handleAnswer processes an answer.
func (s *selection) handleAnswer(one delivery) {
	i := one.index
	release := func() {
		if s.claimed == i {
			s.claimed, s.giveBack = -1, false
		}
	}
	hub := s.cases[i].hub
	if one.err != nil {
		s.state[i], s.faults[i] = ended, hub.fail(ErrLost, one.err.Error())
		if s.claimed == i {
			// The hub may have performed the operation.
			s.choose(i, s.faults[i])
		}
		release()
		s.decide()
		return
	}
	switch got := one.answer; got.kind {
	case answerOffered:
		if s.state[i] == posted {
			s.state[i], s.offers[i] = offered, got.argument
		}
	case answerRevoked:
		if s.state[i] == offered {
			s.state[i] = posted
			release()
		}
	case answerUnclaimed:
		// The offer stands.
		if s.giveBack {
			release()
		}
	case answerFailed:
		s.state[i], s.faults[i] = ended, hub.fail(Fault(got.detail), detail(&got))
		release()
	case answerWithdrawn:
		s.state[i] = ended
		release()
	default:
		s.state[i], s.got = ended, got
		release()
		s.choose(i, nil)
	}
	s.decide()
}

// decide claims, takes claims back and withdraws.
func (s *selection) decide() {
	if !s.decided && !s.expired {
		s.claim()
	}
	if !s.decided && !s.expired {
		return
	}
	for i, state := range s.state {
		if state == posted || state == offered {
			s.state[i] = withdrawing
			s.cases[i].hub.sendFollowUp(s.numbers[i], opWithdraw, 0)
		}
	}
}

func (s *selection) claim() {
	lowest := -1
	for i, state := range s.state {
		if state == offered && (lowest < 0 || s.cases[i].before(&s.cases[lowest])) {
			lowest = i
		}
	}
	switch {
	case s.claimed >= 0 && lowest >= 0 && lowest != s.claimed && !s.giveBack:
		s.giveBack = true
		s.cases[s.claimed].hub.sendFollowUp(s.numbers[s.claimed], opUnclaim, s.offers[s.claimed])
	case s.claimed < 0 && lowest >= 0:
		s.claimed = lowest
		s.cases[lowest].hub.sendFollowUp(s.numbers[lowest], opClaim, s.offers[lowest])
	case s.claimed < 0:
		for i, fault := range s.faults {
			if fault != nil && !errors.Is(fault, ErrTimedOut) && !errors.Is(fault, ErrWouldBlock) {
				s.choose(i, fault)
				return
			}
		}
	}
}
