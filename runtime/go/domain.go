// Package tombolo connects Go programs to a machine: they exchange messages with domains on processors of
// other instruction sets, under other kernels, on this host and behind shared-memory windows.
//
//	domain, err := tombolo.Attach(ctx)
//	channel, err := domain.Connect(ctx, "pong")
//	err = channel.Send(ctx, []byte("ping"))
//	answer, err := channel.Recv(ctx)
//
// It implements docs/specs without cgo or other modules. Waiting goroutines do not occupy threads.
package tombolo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tombolo/internal/control"
	"tombolo/internal/ring"
	"tombolo/stubs"
)

// DomainID identifies a domain of the machine.
type DomainID = stubs.DomainID

// DefaultTimeout is the timeout of operations whose context has no deadline.
const DefaultTimeout = 30 * time.Second

// localMachine is the machine of a plain host, which the first program starts.
const localMachine = "local"

// A Domain is this program as a domain of a machine. Goroutines may share it.
type Domain struct {
	monitor *monitor
	id      DomainID
	node    string
	machine string
	spawned bool
	timeout atomic.Int64

	mutex           sync.Mutex
	listeners       map[uint32]*Listener
	closedListeners map[uint32]bool      // by number
	earlyArrivals   map[uint32][]arrival // by number of a listener whose export is not complete
}

// arrival is a domain that has connected and waits to be accepted.
type arrival struct {
	grant control.Grant
	fds   fds
}

// Attach attaches to the machine of this program: the one that started it, or the one that TOMBOLO_MACHINE
// names, or the only one that is up. If no machine is up, it starts a monitor for this host alone.
func Attach(ctx context.Context) (*Domain, error) {
	if socket := os.Getenv("TOMBOLO_MONITOR"); socket != "" {
		return attach(ctx, socket, false)
	}
	if machine := os.Getenv("TOMBOLO_MACHINE"); machine != "" {
		return AttachTo(ctx, machine)
	}
	up := machinesUp()
	if len(up) > 1 {
		return nil, failure(ErrNoMachine, "attach", "several machines are up (%s): choose one with TOMBOLO_MACHINE",
			strings.Join(up, ", "))
	}
	if len(up) == 1 {
		return AttachTo(ctx, up[0])
	}
	return AttachTo(ctx, localMachine)
}

// AttachTo attaches to the named machine.
func AttachTo(ctx context.Context, machine string) (*Domain, error) {
	return attach(ctx, fmt.Sprintf("tombolo/%d/%s", os.Getuid(), machine), machine == localMachine)
}

// machinesUp returns the machines of this user, found by their listening sockets, without that of a plain
// host, whose monitor lingers after its last program.
func machinesUp() (names []string) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	prefix := fmt.Sprintf("@tombolo/%d/", os.Getuid())
	seen := map[string]bool{localMachine: true}
	for _, line := range strings.Split(string(table), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[3] != "00010000" || !strings.HasPrefix(fields[7], prefix) {
			continue
		}
		if name := fields[7][len(prefix):]; !strings.Contains(name, "/") && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

func attach(ctx context.Context, socket string, start bool) (*Domain, error) {
	ctx, cancel := withDefaultTimeout(ctx, DefaultTimeout)
	defer cancel()
	const op = "attach"
	started := false
	for {
		fd, err := connectSocket(socket)
		if err == nil {
			d, err := attachOver(ctx, fd)
			if !start || !errors.Is(err, ErrMonitorLost) || ctx.Err() != nil {
				return d, err
			}
			// The monitor of a plain host exited while this program connected.
			started = false
			continue
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, systemError(op, err)
		}
		if !start {
			return nil, failure(ErrNoMachine, op,
				"no monitor listens at @%s: start the machine with `tombolo up`, see what is up with `tombolo status`", socket)
		}
		if !started {
			started = true
			if err := startLocal(); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, waitError(op, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// connectSocket connects to an abstract socket name, and checks that a process of this user owns it.
func connectSocket(name string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: "@" + name}); err != nil {
		syscall.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	// Any user can listen on an abstract name.
	credentials, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err == nil && int(credentials.Uid) != os.Getuid() {
		err = fmt.Errorf("@%s is held by a process of user %d, not ours", name, credentials.Uid)
	}
	if err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// startLocal starts the monitor of a plain host, which ends with its last program.
func startLocal() error {
	program := os.Getenv("TOMBOLO_TOMBOLOD")
	if program == "" {
		if self, err := os.Executable(); err == nil {
			program = filepath.Join(filepath.Dir(self), "tombolod")
		}
		if _, err := os.Stat(program); err != nil {
			program, err = exec.LookPath("tombolod")
			if err != nil {
				return failure(ErrNoMachine, "attach", "no machine is up, and the monitor program `tombolod` is neither "+
					"beside this program nor on PATH (set TOMBOLO_TOMBOLOD to its path)")
			}
		}
	}
	command := exec.Command(program, "local")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return systemError("start "+program, err)
	}
	go func() { _ = command.Wait() }()
	// The monitor prints lines until it is ready; "error: " precedes the reason why it does not start. If
	// another program has started it meanwhile, connecting succeeds.
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if lines.Text() == "ready" || strings.HasPrefix(lines.Text(), "error: ") {
			break
		}
	}
	return nil
}

func attachOver(ctx context.Context, fd int) (*Domain, error) {
	monitor, err := newMonitor(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, systemError("attach", err)
	}
	d := &Domain{
		monitor: monitor, listeners: map[uint32]*Listener{}, closedListeners: map[uint32]bool{},
		earlyArrivals: map[uint32][]arrival{},
	}
	d.timeout.Store(int64(DefaultTimeout))
	monitor.onIncoming, monitor.onEvent = d.onIncoming, d.event
	go monitor.read()
	program := filepath.Base(os.Args[0])
	if len(program) > 64 {
		program = program[:64]
	}
	request := control.MonitorAttachRequest{Version: fingerprint(), Program: strings.ToValidUTF8(program, "?")}
	var reply control.MonitorAttachReply
	received, err := monitor.ask(ctx, "attach", &control.MonitorAttachMessage, &request, &reply)
	if err != nil {
		monitor.file.Close()
		return nil, err
	}
	// The trace page, which this package does not use.
	received.close()
	d.id, d.node, d.machine, d.spawned = reply.Domain, reply.Node, reply.Machine, reply.Spawned
	return d, nil
}

// ID returns the domain's id.
func (d *Domain) ID() DomainID { return d.id }

// NodeName returns the name of the node that the program runs on.
func (d *Domain) NodeName() string { return d.node }

// MachineName returns the name of the machine.
func (d *Domain) MachineName() string { return d.machine }

// WasSpawned reports whether the machine started the program, from an image.
func (d *Domain) WasSpawned() bool { return d.spawned }

// Timeout returns the timeout of operations whose context has no deadline.
func (d *Domain) Timeout() time.Duration { return time.Duration(d.timeout.Load()) }

// SetTimeout sets the timeout of the domain, and of channels that are opened from now on.
func (d *Domain) SetTimeout(timeout time.Duration) { d.timeout.Store(int64(timeout)) }

// Done returns a channel that is closed when the monitor is gone, and the machine with it.
func (d *Domain) Done() <-chan struct{} { return d.monitor.done }

// Close leaves the machine and releases this domain's names. Channels stay open until they are closed.
func (d *Domain) Close() error {
	err := d.monitor.file.Close()
	<-d.monitor.done
	return err
}

// onIncoming queues a domain that has connected at its listener.
func (d *Domain) onIncoming(listener uint32, grant control.Grant, received fds) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if l := d.listeners[listener]; l != nil {
		l.add(arrival{grant, received})
		return
	}
	if d.closedListeners[listener] {
		// The listener was closed meanwhile.
		d.rejectArrival(arrival{grant, received})
		return
	}
	// The reply to the export may not have reached its caller yet.
	d.earlyArrivals[listener] = append(d.earlyArrivals[listener], arrival{grant, received})
}

// event handles a message of the monitor that belongs to no request.
func (d *Domain) event(ordinal uint16, message []byte) {
	if ordinal != control.MonitorOutputMessage.Ordinal {
		return
	}
	var output control.MonitorOutput
	if stubs.Decode(message, stubs.KindMessage, ordinal, &output) != nil {
		return
	}
	// Output of children is this program's.
	target := os.Stdout
	if output.Stream == 2 {
		target = os.Stderr
	}
	_, _ = target.Write(output.Bytes)
	_ = d.monitor.tell(&control.MonitorOutputTakenMessage, stubs.KindMessage, &control.MonitorOutputTaken{
		Domain: output.Domain, Stream: output.Stream, Bytes: uint32(len(output.Bytes)),
	})
}

// splitScope splits a name into its scope and the rest: "@/NAME" is on this node, "@NODE/NAME" on that node.
func (d *Domain) splitScope(name string) (control.Scope, string) {
	if strings.HasPrefix(name, "@") {
		if node, rest, ok := strings.Cut(name[1:], "/"); ok {
			if node == "" || node == d.node {
				return control.Scope{Case: control.ScopeCaseOwn}, rest
			}
			return control.Scope{Case: control.ScopeCaseNode, Node: node}, rest
		}
	}
	return control.Scope{Case: control.ScopeCaseMachine}, name
}

// Options of a channel. Slot size and interface must match on both sides; the connecting side chooses the
// number of slots and the variant.
type Options struct {
	// Bytes of a slot: 32, 64 or 128, 8 of which carry no payload. 64 if it is 0.
	SlotBytes int

	// Slots of each ring: a power of two from 2 to 65,536. 64 if it is 0. A message can use all of them.
	Slots uint32

	// Whether slots are returned by a flag in them instead of by credit.
	UsedFlag bool

	// Hash of the interface that the messages belong to; 0 for raw messages.
	InterfaceHash uint64
}

func (o Options) shape(op string) (ring.Shape, error) {
	shape := ring.Shape{SlotBytes: o.SlotBytes, Slots: o.Slots, UsedFlag: o.UsedFlag}
	if shape.SlotBytes == 0 {
		shape.SlotBytes = 64
	}
	if shape.Slots == 0 {
		shape.Slots = 64
	}
	if !shape.Valid() {
		return shape, failure(ErrInvalidArgument, op,
			"%d slots of %d bytes: a slot has 32, 64 or 128 bytes, and a ring a power of two from 2 to 65536",
			shape.Slots, shape.SlotBytes)
	}
	return shape, nil
}

// Connect opens a channel to the domain that exports a name. It waits for the name to be exported and for the
// peer to accept. "@/NAME" is a name on this node, "@NODE/NAME" one on that node; others are machine-wide.
func (d *Domain) Connect(ctx context.Context, name string) (*Channel, error) {
	return d.ConnectWith(ctx, name, Options{})
}

// ConnectWith is Connect with options.
func (d *Domain) ConnectWith(ctx context.Context, name string, options Options) (*Channel, error) {
	op := "connect to '" + name + "'"
	shape, err := options.shape(op)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	deadline, _ := ctx.Deadline()
	scope, rest := d.splitScope(name)
	variant := control.VariantEpochCredit
	if shape.UsedFlag {
		variant = control.VariantUsedFlag
	}
	request := control.MonitorConnectRequest{
		Scope: scope, Name: rest, Timeout: control.Duration{Ns: remaining(deadline)},
		Config: control.ChannelConfig{SlotBytes: uint16(shape.SlotBytes), Slots: shape.Slots, Variant: variant},
	}
	var reply control.MonitorConnectReply
	// The monitor enforces the deadline; wait a little longer for its reply.
	extended, done := replaceDeadline(ctx, deadline.Add(answerTimeout))
	defer done()
	received, err := d.monitor.ask(extended, op, &control.MonitorConnectMessage, &request, &reply)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, op, &reply.Grant, received, options)
}

// replaceDeadline returns a context that is cancelled with another one, but has its own deadline.
func replaceDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	replaced, done := context.WithDeadline(context.Background(), deadline)
	go func() {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				done()
			}
		case <-replaced.Done():
		}
	}()
	return replaced, done
}

// remaining returns the time until a deadline, in nanoseconds; 0 if it has passed.
func remaining(deadline time.Time) uint64 {
	if left := time.Until(deadline); left > 0 {
		return uint64(left)
	}
	return 0
}
