package hub

import "context"

// An Event is a bit, raised by one task, awaited and cleared by another.
type Event struct{ hub *openHub }

// OpenEvent opens an event, waiting for its name.
func OpenEvent(ctx context.Context, s *Session, name string) (*Event, error) {
	hub, err := s.open(ctx, name, kindEvent, "")
	return &Event{hub}, err
}

// Raise raises the event, waiting while it is still raised.
func (e *Event) Raise(ctx context.Context) error {
	_, err := e.hub.operate(ctx, request{operation: opPut, timeoutUs: e.hub.service.session.micros(ctx)})
	return err
}

// Wait waits until the event is raised, and clears it.
func (e *Event) Wait(ctx context.Context) error {
	_, err := e.hub.operate(ctx, request{operation: opGet, timeoutUs: e.hub.service.session.micros(ctx)})
	return err
}

// A Semaphore is a count.
type Semaphore struct{ hub *openHub }

// OpenSemaphore opens a semaphore, waiting for its name.
func OpenSemaphore(ctx context.Context, s *Session, name string) (*Semaphore, error) {
	hub, err := s.open(ctx, name, kindSemaphore, "")
	return &Semaphore{hub}, err
}

// Signal counts up, waiting while the count is at its limit.
func (m *Semaphore) Signal(ctx context.Context) error {
	_, err := m.hub.operate(ctx, request{operation: opPut, timeoutUs: m.hub.service.session.micros(ctx)})
	return err
}

// Wait counts down, waiting while the count is 0.
func (m *Semaphore) Wait(ctx context.Context) error {
	_, err := m.hub.operate(ctx, request{operation: opGet, timeoutUs: m.hub.service.session.micros(ctx)})
	return err
}

// TryWait counts down if the count is not 0, and otherwise returns ErrWouldBlock.
func (m *Semaphore) TryWait(ctx context.Context) error {
	_, err := m.hub.operate(ctx, request{operation: opGet})
	return err
}

// A Resource is a lock that a session owns, with a fencing token. The owner inherits the highest priority
// of its waiters.
type Resource struct{ hub *openHub }

// OpenResource opens a resource, waiting for its name.
func OpenResource(ctx context.Context, s *Session, name string) (*Resource, error) {
	hub, err := s.open(ctx, name, kindResource, "")
	return &Resource{hub}, err
}

// Owned is a resource that this session owns.
type Owned struct {
	hub *openHub

	// Fencing token, larger than those of all earlier owners.
	Token uint64

	// Whether the previous owner died while it owned the resource.
	Abandoned bool
}

// Lock locks the resource, waiting while another session owns it.
func (r *Resource) Lock(ctx context.Context) (*Owned, error) {
	return r.lock(ctx, r.hub.service.session.micros(ctx))
}

// TryLock locks the resource if it is free, and otherwise returns ErrWouldBlock.
func (r *Resource) TryLock(ctx context.Context) (*Owned, error) { return r.lock(ctx, 0) }

func (r *Resource) lock(ctx context.Context, micros uint32) (*Owned, error) {
	got, err := r.hub.operate(ctx, request{operation: opGet, timeoutUs: micros})
	if err != nil {
		return nil, err
	}
	if got.kind != answerBlock {
		return nil, r.hub.fail(ErrNoAnswer, "it gave something else than a lock")
	}
	number, _ := token(&got)
	return &Owned{hub: r.hub, Token: number, Abandoned: got.detail == 1}, nil
}

// Unlock releases the resource to the next waiter.
func (o *Owned) Unlock(ctx context.Context) error {
	_, err := o.hub.operate(ctx, request{operation: opGiveBack, argument: o.Token})
	return err
}
