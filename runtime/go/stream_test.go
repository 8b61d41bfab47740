package tombolo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"tombolo/internal/ring"
)

// streams returns both ends of a channel over a byte stream.
func streams(t *testing.T, ours, theirs hello) (a, b *Channel, errA, errB error) {
	t.Helper()
	left, right := sockets(t)
	var both sync.WaitGroup
	both.Add(2)
	end := func(mine hello, received fds, c **Channel, err *error) {
		defer both.Done()
		*c, *err = detachedDomain().openSocket(testContext(t), "open", mine, received)
	}
	go end(ours, left, &a, &errA)
	go end(theirs, right, &b, &errB)
	both.Wait()
	return a, b, errA, errB
}

func TestStreams(t *testing.T) {
	small := hello{shape: ring.Shape{SlotBytes: 32, Slots: 4}}
	a, b, errA, errB := streams(t, small, small)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	ctx := testContext(t)
	const count = 2000
	go func() {
		for i := 0; i < count; i++ {
			if err := a.Send(ctx, bytes.Repeat([]byte{byte(i)}, i%97)); err != nil {
				t.Error(err)
			}
		}
		a.Close()
	}()
	for i := 0; i < count; i++ {
		message, err := b.Recv(ctx)
		if err != nil || !bytes.Equal(message, bytes.Repeat([]byte{byte(i)}, i%97)) {
			t.Fatalf("message %d: %x, %v", i, message, err)
		}
	}
	if _, err := b.Recv(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := b.Send(ctx, make([]byte, 97)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	b.Close()
	if _, err := a.TryRecv(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	other := small
	other.hash = 1
	_, _, errA, errB = streams(t, small, other)
	if !errors.Is(errA, ErrRefused) || !errors.Is(errB, ErrRefused) {
		t.Error(errA, errB)
	}
	// A death is not a close.
	c, d, _, _ := streams(t, small, small)
	d.stream.file.Close()
	if _, err := c.Recv(ctx); !errors.Is(err, ErrPeerDied) {
		t.Error(err)
	}
	c.Close()
}

// The bytes that side A sends match the example of docs/specs/channel.md, and invalid frames are refused.
func TestStreamBytes(t *testing.T) {
	mine := hello{shape: ring.Shape{SlotBytes: 32, Slots: 4}, hash: 0x1122334455667788, domain: 1<<48 | 2<<32 | 3}
	handshakeHex := strings.ReplaceAll("54 4d 42 4c 48 45 4c 4f  01 00 00 00 20 00 00 00"+
		"04 00 00 00 00 00 00 00  88 77 66 55 44 33 22 11 03 00 00 00 02 00 01 00  00 00 00 00 00 00 00 00"+
		"00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00", " ", "")
	frames := strings.ReplaceAll("04 00 00 00 74 6f 20 42 00 00 00 00 ff ff ff ff", " ", "")
	for tail, status := range map[string]Status{
		frames: ErrClosed, "61000000": ErrViolation, "0400": ErrPeerDied, "feffffff0500000001000300": ErrPeerDied,
	} {
		left, right := sockets(t)
		sent, err := hex.DecodeString(handshakeHex + tail)
		if err != nil {
			t.Fatal(err)
		}
		if err := sendMessage(left[0], sent, nil); err != nil {
			t.Fatal(err)
		}
		c, err := detachedDomain().openSocket(testContext(t), "open", mine, right)
		if err != nil {
			t.Fatal(err)
		}
		if tail == frames {
			for _, expected := range []string{"to B", ""} {
				if message, err := c.Recv(testContext(t)); err != nil || string(message) != expected {
					t.Errorf("%q, %v", message, err)
				}
			}
			c.Close()
			left.close()
			continue
		}
		left.close()
		if _, err := c.Recv(testContext(t)); !errors.Is(err, status) {
			t.Errorf("%s: %v", tail, err)
		}
		c.Close()
	}
	left, right := sockets(t)
	sent, _ := hex.DecodeString(handshakeHex)
	if err := sendMessage(left[0], sent, nil); err != nil {
		t.Fatal(err)
	}
	c, err := detachedDomain().openSocket(testContext(t), "open", mine, right)
	if err != nil || c.Send(testContext(t), []byte("to B")) != nil || c.Send(testContext(t), nil) != nil {
		t.Fatal("not sent", err)
	}
	c.Close()
	file := os.NewFile(uintptr(left[0]), "the peer")
	defer file.Close()
	output, err := io.ReadAll(file)
	if err != nil || hex.EncodeToString(output) != handshakeHex+frames {
		t.Errorf("%x, %v", output, err)
	}
}
