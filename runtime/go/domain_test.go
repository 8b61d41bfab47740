package tombolo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// attachOrSkip attaches to the machine that the tests run on, or skips the test without one.
func attachOrSkip(t *testing.T) *Domain {
	t.Helper()
	if os.Getenv("TOMBOLO_COMMAND") == "" {
		t.Skip("needs a machine, and its command in TOMBOLO_COMMAND")
	}
	d, err := Attach(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestNames(t *testing.T) {
	d, ctx := attachOrSkip(t), testContext(t)
	for _, scope := range []string{"", "@/", "@" + d.NodeName() + "/"} {
		name := fmt.Sprintf("%sgo-test/%d", scope, os.Getpid())
		values := map[string]any{"count": 3, "share": 0.5, "text": "ü", "yes": true, "bytes": []byte{1, 2}}
		version, err := d.SetRecord(ctx, name, values, Transient)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.FindRecords(ctx, scope+"go-test/*")
		if err != nil || len(found) != 1 || found[0].Version != version || found[0].Owner != d.ID() {
			t.Fatalf("%+v, %v", found, err)
		}
		if count := found[0].Attributes["count"]; count != int64(3) || found[0].Attributes["text"] != "ü" {
			t.Errorf("%v", found[0].Attributes)
		}
		if err := d.DeleteRecord(ctx, name); err != nil {
			t.Error(err)
		}
		if err := d.DeleteRecord(ctx, name); !errors.Is(err, ErrNoSuchName) {
			t.Error(err)
		}
	}
	if _, err := d.SetRecord(ctx, "not a name", nil, Transient); !errors.Is(err, ErrBadName) {
		t.Error(err)
	}
	if _, err := d.SetRecord(ctx, "go-test", map[string]any{"x": struct{}{}}, Transient); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	later := fmt.Sprintf("go-later/%d", os.Getpid())
	time.AfterFunc(5*time.Millisecond, func() { _, _ = d.SetRecord(ctx, later, nil, Transient) })
	if record, err := d.AwaitRecord(ctx, later); err != nil || record.Name != later {
		t.Error(record, err)
	}
}

func TestLocks(t *testing.T) {
	d, other, ctx := attachOrSkip(t), attachOrSkip(t), testContext(t)
	name := fmt.Sprintf("go-lock/%d", os.Getpid())
	first, err := d.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := other.Lock(short, name); err == nil {
		t.Error("a lock for two")
	}
	// A cancelled request leaves nothing behind.
	cancelled, stop := context.WithCancel(ctx)
	time.AfterFunc(5*time.Millisecond, stop)
	if _, err := other.Lock(cancelled, name); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A domain that leaves passes its locks on.
	d.Close()
	second, err := other.Lock(ctx, name)
	if err != nil || second.Token <= first.Token {
		t.Fatal(second, err)
	}
	if err := second.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

func TestConnecting(t *testing.T) {
	server, client, ctx := attachOrSkip(t), attachOrSkip(t), testContext(t)
	name := fmt.Sprintf("go-name/%d", os.Getpid())
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := client.Connect(short, name); !errors.Is(err, ErrNoSuchName) && !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	listener, err := server.Export(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Export(ctx, name); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	if _, err := client.ConnectWith(ctx, name, Options{Slots: 3}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	const clients = 8
	results := make(chan error, clients)
	for i := 0; i < clients; i++ {
		go func() {
			c, err := client.Connect(ctx, name)
			if err == nil {
				defer c.Close()
				err = c.Send(ctx, []byte("hello"))
			}
			if err == nil {
				_, err = c.Recv(ctx)
			}
			results <- err
		}()
	}
	for i := 0; i < clients; i++ {
		c, err := listener.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if message, err := c.Recv(ctx); err == nil {
				_ = c.Send(ctx, message)
			}
			_, _ = c.Recv(ctx)
			c.Close()
		}()
		if c.Peer() != client.ID() || c.PeerNode() != client.NodeName() {
			t.Error(c.Peer(), c.PeerNode())
		}
	}
	for i := 0; i < clients; i++ {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	// A client that was not accepted finds its channel closed, as if the program had declined it.
	refused := make(chan error)
	go func() {
		_, err := client.Connect(ctx, name)
		refused <- err
	}()
	waits := func() bool {
		listener.mutex.Lock()
		defer listener.mutex.Unlock()
		return len(listener.waiting) > 0
	}
	for !waits() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	listener.Close()
	if err := <-refused; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := listener.Accept(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	server.Close()
	if _, err := server.Connect(ctx, name); !errors.Is(err, ErrMonitorLost) {
		t.Error(err)
	}
}
