package tombolo

import (
	"context"
	"sync"
	"time"

	"tombolo/internal/control"
	"tombolo/stubs"
)

// A Listener accepts connections to a name that this domain exports.
type Listener struct {
	domain  *Domain
	number  uint32
	name    string
	options Options
	arrived chan struct{}
	closed  chan struct{}
	closing sync.Once

	mutex   sync.Mutex
	waiting []arrival
}

// Export exports a name that other domains can connect to.
func (d *Domain) Export(ctx context.Context, name string) (*Listener, error) {
	return d.ExportWith(ctx, name, Options{})
}

// maxArrived is the largest backlog that a machine file can allow: domains that wait to be accepted.
const maxArrived = 65536

// add queues an arrival, and refuses it if a faulty monitor exceeds the backlog.
func (l *Listener) add(one arrival) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.waiting) >= maxArrived {
		l.domain.rejectArrival(one)
		return
	}
	l.waiting = append(l.waiting, one)
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// take removes the first arrival from the backlog.
func (l *Listener) take() (one arrival, ok bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.waiting) == 0 {
		return one, false
	}
	one, l.waiting = l.waiting[0], l.waiting[1:]
	if len(l.waiting) > 0 {
		// Another goroutine may accept the next.
		select {
		case l.arrived <- struct{}{}:
		default:
		}
	}
	return one, true
}

// rejectArrival refuses an arrival, and makes room for another in the backlog.
func (d *Domain) rejectArrival(one arrival) {
	d.refuse(&one.grant, one.fds)
	_ = d.monitor.tell(&control.MonitorAcceptedMessage, stubs.KindMessage, &control.MonitorAccepted{Count: 1})
}

// ExportWith is Export with options.
func (d *Domain) ExportWith(ctx context.Context, name string, options Options) (*Listener, error) {
	op := "export '" + name + "'"
	if _, err := options.shape(op); err != nil {
		return nil, err
	}
	ctx, cancel := withDefaultTimeout(ctx, answerTimeout)
	defer cancel()
	scope, rest := d.splitScope(name)
	var reply control.MonitorExportReply
	request := control.MonitorExportRequest{Scope: scope, Name: rest}
	received, err := d.monitor.ask(ctx, op, &control.MonitorExportMessage, &request, &reply)
	if err != nil {
		return nil, err
	}
	received.close()
	l := &Listener{
		domain: d, number: reply.Listener, name: name, options: options,
		arrived: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.listeners[l.number] = l
	for _, one := range d.earlyArrivals[l.number] {
		l.add(one)
	}
	delete(d.earlyArrivals, l.number)
	return l, nil
}

// Name returns the exported name.
func (l *Listener) Name() string { return l.name }

// Accept waits for a domain to connect and opens the channel. After ErrRefused, when the options of the two
// sides do not match, the listener can still accept others.
func (l *Listener) Accept(ctx context.Context) (*Channel, error) {
	op := "accept at '" + l.name + "'"
	ctx, cancel := withDefaultTimeout(ctx, l.domain.Timeout())
	defer cancel()
	for {
		if one, ok := l.take(); ok {
			_ = l.domain.monitor.tell(&control.MonitorAcceptedMessage, stubs.KindMessage, &control.MonitorAccepted{Count: 1})
			// The peer has connected, but may be slow to open its end.
			opening, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return l.domain.open(opening, op, &one.grant, one.fds, l.options)
		}
		select {
		case <-l.arrived:
		case <-l.closed:
			return nil, failure(ErrClosed, op, "the listener was closed")
		case <-l.domain.Done():
			return nil, l.domain.monitor.failure()
		case <-ctx.Done():
			return nil, waitError(op, ctx.Err())
		}
	}
}

// Close releases the name. Domains that have connected but were not accepted find their channel closed.
func (l *Listener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		_ = l.domain.monitor.tell(&control.MonitorWithdrawMessage, stubs.KindCall,
			&control.MonitorWithdrawRequest{Listener: l.number})
		l.domain.mutex.Lock()
		delete(l.domain.listeners, l.number)
		l.domain.closedListeners[l.number] = true
		l.domain.mutex.Unlock()
		for {
			one, ok := l.take()
			if !ok {
				return
			}
			l.domain.rejectArrival(one)
		}
	})
	return nil
}
