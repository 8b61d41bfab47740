package tombolo

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tombolo/internal/ring"
)

// patience is a timeout longer than anything here takes.
const patience = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// nowhere returns a domain without a machine.
func detachedDomain() *Domain {
	d := &Domain{id: 7}
	d.SetTimeout(patience)
	return d
}

// sockets returns the descriptors that a monitor grants for a channel in shared memory of one kernel.
func sockets(t testing.TB) (fds, fds) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds{pair[0]}, fds{pair[1]}
}

// open opens both ends of a channel, with options of each.
func open(t testing.TB, ours, theirs Options) (a, b *Channel, errA, errB error) {
	t.Helper()
	left, right := sockets(t)
	var both sync.WaitGroup
	both.Add(2)
	end := func(me side, received fds, options Options, c **Channel, err *error) {
		defer both.Done()
		shape, _ := options.shape("open")
		mine := hello{shape: shape, hash: options.InterfaceHash, domain: uint64(me) + 1}
		*c, *err = detachedDomain().openShared(testContext(t), "open", me, mine, received)
	}
	go end(0, left, ours, &a, &errA)
	go end(1, right, theirs, &b, &errB)
	both.Wait()
	return a, b, errA, errB
}

func pair(t testing.TB, options Options) (*Channel, *Channel) {
	t.Helper()
	a, b, errA, errB := open(t, options, options)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessagesBothWays(t *testing.T) {
	for _, spin := range []time.Duration{0, spinTime} {
		for _, options := range []Options{{}, {SlotBytes: 32, Slots: 2}, {SlotBytes: 128, Slots: 16, UsedFlag: true}} {
			a, b := pair(t, options)
			a.SetSpin(spin)
			b.SetSpin(spin)
			ctx := testContext(t)
			const count = 3000
			var all sync.WaitGroup
			send := func(c *Channel, seed int64) {
				defer all.Done()
				random := rand.New(rand.NewSource(seed))
				for i := 0; i < count; i++ {
					message := make([]byte, random.Intn(c.MaxMessageBytes()+1))
					random.Read(message)
					if err := c.Send(ctx, message); err != nil {
						t.Error(err)
						return
					}
				}
			}
			receive := func(c *Channel, seed int64) {
				defer all.Done()
				random := rand.New(rand.NewSource(seed))
				for i := 0; i < count; i++ {
					expected := make([]byte, random.Intn(c.MaxMessageBytes()+1))
					random.Read(expected)
					message, err := c.Recv(ctx)
					if err != nil || !bytes.Equal(message, expected) {
						t.Errorf("%+v, message %d: %v, or another one", options, i, err)
						return
					}
				}
			}
			all.Add(4)
			go send(a, 1)
			go send(b, 2)
			go receive(a, 2)
			go receive(b, 1)
			all.Wait()
		}
	}
}

// Many goroutines share both ends; each message arrives exactly once.
func TestSharedByGoroutines(t *testing.T) {
	a, b := pair(t, Options{Slots: 4})
	ctx := testContext(t)
	const senders, receivers, each = 5, 3, 400
	var sending, receiving sync.WaitGroup
	for s := 0; s < senders; s++ {
		sending.Add(1)
		go func(s int) {
			defer sending.Done()
			for i := 0; i < each; i++ {
				if err := a.Send(ctx, []byte(fmt.Sprint(s, " ", i))); err != nil {
					t.Error(err)
				}
			}
		}(s)
	}
	var mutex sync.Mutex
	seen := map[string]int{}
	for r := 0; r < receivers; r++ {
		receiving.Add(1)
		go func() {
			defer receiving.Done()
			for {
				message, err := b.Recv(ctx)
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				seen[string(message)]++
				mutex.Unlock()
			}
		}()
	}
	sending.Wait()
	a.Close()
	receiving.Wait()
	if len(seen) != senders*each {
		t.Errorf("%d messages arrived of %d", len(seen), senders*each)
	}
}

func TestDeadlines(t *testing.T) {
	a, b := pair(t, Options{Slots: 2})
	short, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer cancel()
	_, err := a.Recv(short)
	if !errors.Is(err, ErrTimedOut) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for a.TrySend([]byte("x")) == nil {
	}
	if err := a.Send(short, []byte("y")); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	if err := a.TrySend(nil); !errors.Is(err, ErrWouldBlock) {
		t.Error(err)
	}
	// Without a deadline in the context, the channel's timeout applies.
	b.SetTimeout(time.Millisecond)
	for {
		if _, err := b.Recv(context.Background()); err != nil {
			if !errors.Is(err, ErrTimedOut) {
				t.Error(err)
			}
			break
		}
	}
	cancelled, stop := context.WithCancel(context.Background())
	stop()
	if _, err := b.Recv(cancelled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := a.Send(testContext(t), make([]byte, a.MaxMessageBytes()+1)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if err := a.Send(testContext(t), make([]byte, a.MaxMessageBytes())); err != nil {
		t.Error(err)
	}
}

// Messages sent before a close or a death are received before either is reported, and both wake waiting
// goroutines.
func TestCloseAndDeath(t *testing.T) {
	for _, dies := range []bool{false, true} {
		a, b := pair(t, Options{})
		ctx := testContext(t)
		if err := b.Send(ctx, []byte("last")); err != nil {
			t.Fatal(err)
		}
		expected := ErrClosed
		if dies {
			// The kernel closes the socket of a process that ends.
			b.bell.lifeline.Close()
			expected = ErrPeerDied
		} else {
			b.Close()
			if _, err := b.Recv(ctx); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if err := b.Send(ctx, nil); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			b.Close()
		}
		if message, err := a.Recv(ctx); err != nil || string(message) != "last" {
			t.Errorf("%q, %v", message, err)
		}
		if _, err := a.Recv(ctx); !errors.Is(err, expected) {
			t.Errorf("%v, not %v", err, expected)
		}
		if err := a.Send(ctx, nil); !errors.Is(err, expected) {
			t.Errorf("%v, not %v", err, expected)
		}
	}
	// The end of a peer wakes waiting goroutines.
	a, b := pair(t, Options{})
	time.AfterFunc(5*time.Millisecond, func() { b.Close() })
	if _, err := a.Recv(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	c, d := pair(t, Options{Slots: 2})
	for c.TrySend(nil) == nil {
	}
	time.AfterFunc(5*time.Millisecond, func() { d.bell.lifeline.Close() })
	if err := c.Send(testContext(t), nil); !errors.Is(err, ErrPeerDied) {
		t.Error(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { c.Close() })
	if _, err := c.Recv(testContext(t)); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrPeerDied) {
		t.Error(err)
	}
}

func TestHandshakeRefusals(t *testing.T) {
	for _, other := range []Options{{InterfaceHash: 1}, {SlotBytes: 32}, {SlotBytes: 128}} {
		_, _, errA, errB := open(t, Options{}, other)
		if !errors.Is(errA, ErrRefused) || !errors.Is(errB, ErrRefused) {
			t.Errorf("%+v: %v; %v", other, errA, errB)
		}
	}
	// The connecting side chooses the number of slots and the variant.
	a, b, errA, errB := open(t, Options{Slots: 128, UsedFlag: true}, Options{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if b.MaxMessageBytes() != a.MaxMessageBytes() {
		t.Errorf("%d and %d bytes", a.MaxMessageBytes(), b.MaxMessageBytes())
	}
	a.Close()
	b.Close()
	// A peer that never comes: the one that waits says that it is gone.
	left, right := sockets(t)
	short, cancel := context.WithTimeout(context.Background(), 3*time.Millisecond)
	defer cancel()
	shape, _ := Options{}.shape("open")
	if _, err := detachedDomain().openShared(short, "open", 1, hello{shape: shape}, left); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	if _, err := detachedDomain().openShared(testContext(t), "open", 0, hello{shape: shape}, right); !errors.Is(err, ErrClosed) &&
		!errors.Is(err, ErrPeerDied) {
		t.Error(err)
	}
}

// The bytes of channel memory match the example of docs/specs/channel.md on both sides.
func TestGoldenBytes(t *testing.T) {
	options := Options{SlotBytes: 32, Slots: 4, InterfaceHash: 0x1122334455667788}
	a, b := pair(t, options)
	ctx := testContext(t)
	for _, step := range []error{a.Send(ctx, []byte("to B")), func() error { _, err := b.Recv(ctx); return err }(),
		b.Send(ctx, []byte("from B, longer than one slot"))} {
		if step != nil {
			t.Fatal(step)
		}
	}
	golden := map[int]string{
		0x00:  "54 4d 42 4c 48 45 4c 4f  01 00 00 00 20 00 00 00",
		0x10:  "04 00 00 00 00 00 00 00  88 77 66 55 44 33 22 11",
		0x20:  "01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",
		0x30:  "00 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00",
		0x40:  "01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",
		0x80:  "54 4d 42 4c 48 45 4c 4f  01 00 00 00 20 00 00 00",
		0xc0:  "01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",
		0x400: "74 6f 20 42 00 00 00 00  00 00 00 00 00 00 00 00",
		0x410: "00 00 00 00 00 00 00 00  00 80 04 00 00 00 00 00",
		0x480: "66 72 6f 6d 20 42 2c 20  6c 6f 6e 67 65 72 20 74",
		0x490: "68 61 6e 20 6f 6e 65 20  00 80 18 01 01 00 00 00",
		0x4a0: "73 6c 6f 74 00 00 00 00  00 00 00 00 00 00 00 00",
		0x4b0: "00 00 00 00 00 00 00 00  00 80 04 00 01 00 00 00",
	}
	for at, text := range golden {
		expected, found := strings.ReplaceAll(text, " ", ""), hex.EncodeToString(a.mapping[at:at+16])
		if found != expected {
			t.Errorf("%03x is %s, not %s", at, found, expected)
		}
	}
}

// For any contents of channel memory, this side ends with errors, and before its deadlines.
func scribble(t *testing.T, seed []byte) {
	a, b := pair(t, Options{SlotBytes: 32, Slots: 4})
	for i, value := range seed {
		place := int(value) * 31 % len(b.memory)
		if i%2 == 0 {
			place %= headerWords
		}
		ring.Store(&b.memory[place], uint64(value)<<(uint(i)*5%64))
		if i%5 == 0 {
			b.bell.ring()
		}
		_ = a.TrySend(seed[:i%len(seed)%a.MaxMessageBytes()])
		if message, err := a.TryRecv(); err == nil && len(message) > a.MaxMessageBytes() {
			t.Errorf("%d bytes", len(message))
		}
	}
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _ = a.Recv(short)
	_ = a.Send(short, nil)
}

func FuzzHostilePeer(f *testing.F) {
	random := rand.New(rand.NewSource(3))
	for i := 0; i < 30; i++ {
		seed := make([]byte, random.Intn(60)+1)
		random.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed []byte) {
		if len(seed) > 0 && len(seed) < 1000 {
			scribble(t, seed)
		}
	})
}

// Only valid proposals map memory; all others are refused.
func TestHostileProposals(t *testing.T) {
	shape, _ := Options{}.shape("open")
	good := hello{shape: shape}
	memory := func(bytes int) int {
		fd, err := createSealed(bytes)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	larger := good.bytes()
	larger[17] = 1
	odd := good.bytes()
	odd[16] = 3
	foreign := good.bytes()
	foreign[8] = 2
	for name, of := range map[string]struct {
		bytes  []byte
		memory int
	}{
		"nothing":              {[]byte{1, 2}, 0},
		"no memory":            {good.bytes(), 0},
		"short memory":         {larger, channelBytes(shape)},
		"an impossible number": {odd, channelBytes(shape)},
		"another version":      {foreign, channelBytes(shape)},
		"a tiny file":          {foreign, 8},
	} {
		left, right := sockets(t)
		var with []int
		if of.memory > 0 {
			with = []int{memory(of.memory)}
		}
		if err := sendMessage(left[0], of.bytes, with); err != nil {
			t.Fatal(err)
		}
		fds(with).close()
		_, err := detachedDomain().openShared(testContext(t), "open", 1, good, right)
		if !errors.Is(err, ErrViolation) && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		left.close()
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	near, far := pair(b, Options{})
	ctx := testContext(b)
	go func() {
		var message []byte
		for {
			var err error
			if message, err = far.RecvInto(ctx, message); err != nil || far.Send(ctx, message) != nil {
				return
			}
		}
	}()
	message, answer := make([]byte, 8), make([]byte, 0, 8)
	for i := 0; i < b.N; i++ {
		err := near.Send(ctx, message)
		if err == nil {
			answer, err = near.RecvInto(ctx, answer)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
