package hub

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"tombolo"
)

// patience is a timeout longer than anything here takes.
const patience = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// serveHubs serves hubs on a machine, with the command that TOMBOLO_COMMAND names.
func serveHubs(t testing.TB, hubs ...string) *tombolo.Domain {
	t.Helper()
	command := os.Getenv("TOMBOLO_COMMAND")
	if command == "" {
		t.Skip("needs a machine, and its command in TOMBOLO_COMMAND")
	}
	domain, err := tombolo.Attach(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { domain.Close() })
	server := exec.Command(command, append([]string{"hubs", "serve"}, hubs...)...)
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return domain
		}
	}
	t.Fatal("no hubs are served")
	return nil
}

func joinSession(t testing.TB, domain *tombolo.Domain) *Session {
	s := Join(domain)
	t.Cleanup(func() { s.Close() })
	return s
}

func open[T any](t testing.TB, s *Session, name string) *Chan[T] {
	t.Helper()
	c, err := Open[T](testContext(t), s, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Requests and answers match docs/specs/hub.md, and malformed answers are refused.
func TestWire(t *testing.T) {
	r := request{operation: opPut, priority: 100, tentative: true, number: 0x01020304, hub: 5, timeoutUs: 7, tail: []byte{9}}
	expected := []byte{2, 100, 1, 0, 4, 3, 2, 1, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}
	if !bytes.Equal(r.encode(), expected) {
		t.Errorf("% x", r.encode())
	}
	good := []byte{answerBlock, 1, 0, 0, 4, 3, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}
	got, err := decodeAnswer(good)
	if err != nil || got.number != 0x01020304 || got.argument != 8 || got.detail != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	random := rand.New(rand.NewSource(4))
	for i := 0; i < 20000; i++ {
		message := append([]byte(nil), good...)
		for changes := random.Intn(4); changes >= 0; changes-- {
			message[random.Intn(len(message))] = byte(random.Intn(256))
		}
		message = message[:random.Intn(len(message)+1)]
		if got, err := decodeAnswer(message); err == nil && (got.kind == 0 || got.kind > answerPartial) {
			t.Fatalf("% x is %+v", message, got)
		}
	}
}

// Batches match docs/specs/hub.md, and malformed batches are refused.
func TestBatchesOnTheWire(t *testing.T) {
	batch, count := join([][]byte{{7}, {}, []byte("ab")})
	if count != 3 || !bytes.Equal(batch, []byte{1, 0, 7, 0, 0, 2, 0, 'a', 'b'}) {
		t.Errorf("%d in % x", count, batch)
	}
	long := make([][]byte, 300)
	if _, count := join(long); count != maxBatch {
		t.Errorf("%d values in a batch", count)
	}
	for i := range long {
		long[i] = make([]byte, 1000)
	}
	if batch, count := join(long); count != 16 || len(batch) > maxBatchBytes {
		t.Errorf("%d values, %d bytes", count, len(batch))
	}
	if _, count := join([][]byte{make([]byte, maxBatchBytes), {}}); count != 1 {
		t.Errorf("%d values", count)
	}
	for _, wrong := range [][]byte{{1}, {1, 0}, {2, 0, 7}, make([]byte, 2*(maxBatch+1))} {
		if values, ok := split(wrong); ok {
			t.Errorf("% x are %d values", wrong, len(values))
		}
	}
	answers := [][]byte{
		{answerValues, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7},
		{answerPartial, 3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0},
	}
	for _, good := range answers {
		if _, err := decodeAnswer(good); err != nil {
			t.Errorf("% x: %v", good, err)
		}
		good[16] = 0
		if _, err := decodeAnswer(good); err == nil {
			t.Errorf("% x is an answer", good)
		}
	}
}

// A value costs no round trip, and the number of sent values is reported.
func TestManyValues(t *testing.T) {
	domain := serveHubs(t, "go-many:fifo:64", "go-meet:port")
	one, other := joinSession(t, domain), joinSession(t, domain)
	sender, receiver := open[uint64](t, one, "go-many"), open[uint64](t, other, "go-many")
	const count = 5000
	sent := make(chan error, 1)
	go func() {
		values := make([]uint64, count)
		for i := range values {
			values[i] = uint64(i)
		}
		put, err := sender.SendMany(testContext(t), values...)
		if err == nil && put != count {
			err = fmt.Errorf("%d values were sent", put)
		}
		sent <- err
	}()
	for next := uint64(0); next < count; {
		values, err := receiver.RecvMany(testContext(t), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			if value != next {
				t.Fatalf("%d came, not %d", value, next)
			}
			next++
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	// More values than there is room for: returns how many were sent, and the error of the others.
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	put, err := sender.SendMany(short, make([]uint64, 100)...)
	if put != 64 || !errors.Is(err, ErrTimedOut) {
		t.Fatalf("%d values are in: %v", put, err)
	}
	if err := sender.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if put, err := sender.SendMany(testContext(t), 1, 2); put != 0 || !errors.Is(err, ErrClosed) {
		t.Fatalf("%d values, %v", put, err)
	}
	left := 0
	for {
		values, err := receiver.RecvMany(testContext(t), 50)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		left += len(values)
	}
	if left != 64 {
		t.Fatalf("%d values were left", left)
	}
	// A port takes values one by one.
	portSender, portReceiver := open[string](t, one, "go-meet"), open[string](t, other, "go-meet")
	go func() { _, err := portSender.SendMany(testContext(t), "a", "b"); sent <- err }()
	for _, expected := range []string{"a", "b"} {
		values, err := portReceiver.RecvMany(testContext(t), 9)
		if err != nil || len(values) != 1 || values[0] != expected {
			t.Fatalf("%v, %v", values, err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func TestValues(t *testing.T) {
	expectRoundTrip := func(value, back any, expected ...byte) {
		t.Helper()
		if bytes := encode(value); string(bytes) != string(expected) {
			t.Errorf("% x, not % x", bytes, expected)
		}
		if err := decode(back, expected); err != nil || fmt.Sprint(deref(back)) != fmt.Sprint(deref(value)) {
			t.Errorf("%v is not %v (%v)", deref(back), deref(value), err)
		}
	}
	number, small, real, yes, text := uint16(0x0102), int64(-2), float32(1), true, "ü"
	expectRoundTrip(&number, new(uint16), 2, 1)
	expectRoundTrip(&small, new(int64), 0xfe, 255, 255, 255, 255, 255, 255, 255)
	expectRoundTrip(&real, new(float32), 0, 0, 0x80, 0x3f)
	expectRoundTrip(&yes, new(bool), 1)
	expectRoundTrip(&text, new(string), 0xc3, 0xbc)
	for _, of := range []struct {
		value any
		bytes []byte
	}{{new(uint32), []byte{1, 2, 3}}, {new(bool), []byte{2}}, {new(string), []byte{0xff}}, {new(struct{}), []byte{0}}} {
		if decode(of.value, of.bytes) == nil {
			t.Errorf("% x is a %T", of.bytes, of.value)
		}
	}
}

func deref(value any) any {
	switch value := value.(type) {
	case *uint16:
		return *value
	case *int64:
		return *value
	case *float32:
		return *value
	case *bool:
		return *value
	case *string:
		return *value
	}
	return nil
}

func TestQueues(t *testing.T) {
	domain := serveHubs(t, "go-q:fifo:2", "go-p:port", "go-n:semaphore:3", "go-e:event", "go-r:resource")
	s, ctx := joinSession(t, domain), testContext(t)
	q := open[uint64](t, s, "go-q")
	for i := uint64(1); i <= 2; i++ {
		if err := q.Send(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.TrySend(ctx, 3); !errors.Is(err, ErrWouldBlock) {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
	defer cancel()
	if err := q.Send(short, 3); !errors.Is(err, ErrTimedOut) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	cancelled, stop := context.WithCancel(ctx)
	time.AfterFunc(2*time.Millisecond, stop)
	if err := q.Send(cancelled, 3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Open[string](ctx, s, "go-n"); !errors.Is(err, ErrOtherKind) {
		t.Error(err)
	}
	missing, cancelMissing := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancelMissing()
	if _, err := Open[string](missing, s, "go-nothing"); !errors.Is(err, ErrNoSuchHub) {
		t.Error(err)
	}
	if err := q.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := q.Close(ctx); !errors.Is(err, ErrClosedBefore) {
		t.Error(err)
	}
	if err := q.Send(ctx, 4); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	// Range over a native channel: it drains the hub and ends.
	var all []uint64
	for value := range q.Receiver(ctx) {
		all = append(all, value)
	}
	if fmt.Sprint(all) != "[1 2]" || q.Err() != nil {
		t.Error(all, q.Err())
	}
	testOtherKinds(t, s, joinSession(t, domain))
}

// testOtherKinds tests the other kinds of hubs.
func testOtherKinds(t *testing.T, s, other *Session) {
	ctx := testContext(t)
	n, err := OpenSemaphore(ctx, s, "go-n")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.TryWait(ctx); !errors.Is(err, ErrWouldBlock) {
		t.Error(err)
	}
	e, err := OpenEvent(ctx, s, "go-e")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{n.Signal(ctx), n.Wait(ctx), e.Raise(ctx), e.Wait(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
	first, err1 := OpenResource(ctx, s, "go-r")
	second, err2 := OpenResource(ctx, other, "go-r")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	owned, err := first.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Lock(ctx); !errors.Is(err, ErrHeldAlready) {
		t.Error(err)
	}
	if _, err := second.TryLock(ctx); !errors.Is(err, ErrWouldBlock) {
		t.Error(err)
	}
	later := make(chan *Owned)
	go func() {
		owned, err := second.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		later <- owned
	}()
	if err := owned.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if next := <-later; next == nil || next.Token <= owned.Token || next.Abandoned {
		t.Errorf("%+v after %+v", next, owned)
	}
}

// Native channels on both sides: a select waits for hubs and for Go's own channels, and a close propagates.
func TestNativeChannels(t *testing.T) {
	domain := serveHubs(t, "go-a:port", "go-b:fifo:4")
	s, ctx := joinSession(t, domain), testContext(t)
	a, b := open[uint64](t, s, "go-a"), open[string](t, s, "go-b")
	to, sent := a.Sender(ctx)
	texts, textsDone := b.Sender(ctx)
	go func() {
		for i := uint64(0); i < 20; i++ {
			to <- i
		}
		close(to)
	}()
	go func() {
		for i := 0; i < 20; i++ {
			texts <- fmt.Sprint(i)
		}
		close(texts)
	}()
	tick := make(chan struct{}, 1)
	tick <- struct{}{}
	numbers, words := a.Receiver(ctx), b.Receiver(ctx)
	sum, length, ticks := uint64(0), 0, 0
	for numbers != nil || words != nil {
		select {
		case number, ok := <-numbers:
			if !ok {
				numbers = nil
			}
			sum += number
		case word, ok := <-words:
			if !ok {
				words = nil
			}
			length += len(word)
		case <-tick:
			ticks++
		}
	}
	<-sent
	<-textsDone
	if sum != 190 || length != 30 || ticks != 1 || a.Err() != nil || b.Err() != nil {
		t.Error(sum, length, ticks, a.Err(), b.Err())
	}
	// A value that a receiver took ahead is not lost when its context ends.
	c := open[uint64](t, joinSession(t, serveHubs(t, "go-c:fifo:4")), "go-c")
	for i := uint64(0); i < 3; i++ {
		if err := c.Send(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithCancel(ctx)
	receiver := c.Receiver(short)
	if <-receiver != 0 {
		t.Error("not the first")
	}
	cancel()
	// The channel is closed when its goroutine has ended.
	rest := []uint64{}
	for value := range receiver {
		rest = append(rest, value)
	}
	for len(rest) < 2 {
		value, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, value)
	}
	if fmt.Sprint(rest) != "[1 2]" {
		t.Error(rest)
	}
}

// Many goroutines select from and to two ports concurrently: every value arrives exactly once.
func TestSelect(t *testing.T) {
	domain := serveHubs(t, "go-x:port", "go-y:port", "go-s:semaphore:5")
	ctx := testContext(t)
	const tasks, each = 4, 25
	var senders, receivers sync.WaitGroup
	var mutex sync.Mutex
	seen := map[uint64]int{}
	first := joinSession(t, domain)
	closing := []*Chan[uint64]{open[uint64](t, first, "go-x"), open[uint64](t, first, "go-y")}
	for task := uint64(0); task < tasks; task++ {
		from, to := joinSession(t, domain), joinSession(t, domain)
		out := []*Chan[uint64]{open[uint64](t, from, "go-x"), open[uint64](t, from, "go-y")}
		in := []*Chan[uint64]{open[uint64](t, to, "go-x"), open[uint64](t, to, "go-y")}
		senders.Add(1)
		receivers.Add(1)
		go func(task uint64) {
			defer senders.Done()
			for i := uint64(0); i < each; i++ {
				value := task*each + i
				if _, err := Select(ctx, out[0].Sending(value), out[1].Sending(value)); err != nil {
					t.Error(err)
				}
			}
		}(task)
		go func() {
			defer receivers.Done()
			for {
				var values [2]uint64
				i, err := Select(ctx, in[0].Receiving(&values[0]), in[1].Receiving(&values[1]))
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				seen[values[i]]++
				mutex.Unlock()
			}
		}()
	}
	senders.Wait()
	for _, c := range closing {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	receivers.Wait()
	if len(seen) != tasks*each {
		t.Errorf("%d values of %d", len(seen), tasks*each)
	}
	for value, count := range seen {
		if count != 1 {
			t.Errorf("%d came %d times", value, count)
		}
	}
	n, err := OpenSemaphore(ctx, first, "go-s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TrySelect(ctx, n.Waiting()); !errors.Is(err, ErrWouldBlock) {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
	defer cancel()
	if _, err := Select(short, n.Waiting()); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	if _, err := Select(ctx, n.Waiting(), n.Waiting()); err == nil {
		t.Error("one hub twice")
	}
}

func BenchmarkFifo(b *testing.B) {
	domain := serveHubs(b, "go-bench:fifo:256")
	s, ctx := Join(domain), testContext(b)
	defer s.Close()
	c := open[uint64](b, s, "go-bench")
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := c.Send(ctx, uint64(i)); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Recv(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
