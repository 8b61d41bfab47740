package stubs_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"tombolo/internal/control"
	"tombolo/internal/speaker/everything"
	"tombolo/internal/speaker/growth"
	"tombolo/stubs"
)

// patience is a timeout longer than anything here takes.
const patience = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func golden(t *testing.T, kind stubs.Kind, ordinal uint16, number uint32, body, back stubs.Body, words ...string) {
	t.Helper()
	expected := strings.Join(words, "")
	message, err := stubs.Encode(make([]byte, 3), kind, ordinal, number, body)
	if err != nil || hex.EncodeToString(message) != expected {
		t.Errorf("%x, %v\nnot %s", message, err, expected)
	}
	if err := stubs.Decode(message, kind, ordinal, back); err != nil {
		t.Error(err)
	}
	again, err := stubs.Encode(nil, kind, ordinal, number, back)
	if err != nil || hex.EncodeToString(again) != expected {
		t.Errorf("read and written again: %x, %v", again, err)
	}
}

// The frozen messages of docs/specs/control.md, and its example.
func TestGoldenBytesOfControl(t *testing.T) {
	golden(t, stubs.KindCall, 1, 1, &control.MonitorAttachRequest{Version: 0x04030201, Program: "p"},
		&control.MonitorAttachRequest{}, "0100020002010000", "0102030400000000", "1800000001000000", "7000000000000000")
	refused := control.Fault{Case: control.FaultCaseRefused, Refused: control.FaultRefused{Why: "no"}}
	golden(t, stubs.KindError, 1, 1, &control.MonitorAttachError{Error: refused}, &control.MonitorAttachError{},
		"0100020004010000", "0c00000008000000", "1800000000000000", "2000000002000000", "6e6f000000000000")
	golden(t, stubs.KindCall, 4, 0x0102, &control.MonitorConnectRequest{
		Scope: control.Scope{Case: control.ScopeCaseNode, Node: "n"}, Name: "pong", Timeout: control.Duration{Ns: 5},
		Config: control.ChannelConfig{SlotBytes: 64, Slots: 64},
	}, &control.MonitorConnectRequest{}, "0400080002020100", "0300000008000000", "4800000000000000",
		"5800000004000000", "0500000000000000", "4000000040000000", "0000000000000000",
		"0000000000000000", "0000000000000000", "5000000001000000", "6e00000000000000", "706f6e6700000000")
}

// The same cases as in interface/stubs/tests/wire.rs.
func TestGoldenBytesOfEveryShape(t *testing.T) {
	green := everything.ColourGreen
	point := everything.Point{X: 1, Y: -2, Tag: 9}
	golden(t, stubs.KindCall, 2, 0x020304, &everything.EverythingPartsReply{
		Entry:      everything.Entry{Name: "a", Points: []everything.Point{point}, Colour: &green},
		Shape:      everything.Shape{Case: everything.ShapeCaseNames, Names: []string{"b", ""}},
		MaybeShape: &everything.Shape{Case: everything.ShapeCaseNothing},
	}, &everything.EverythingPartsReply{}, "0200060002040302", "3800000018000000", "0500000008000000",
		"6800000000000000", "0100000000000000", "0100000000000000", "0000000000000000", "5000000001000000",
		"5800000001000000", "0102000000000000", "6100000000000000", "0000803f000000c0", "0900000000000000",
		"7000000002000000", "8000000001000000", "0000000000000000", "6200000000000000")
}

func TestOverLimits(t *testing.T) {
	var limit *stubs.OverLimit
	for _, body := range []stubs.Body{
		&everything.Entry{Name: strings.Repeat("x", 17)}, &everything.Entry{Name: "\xff"},
		&everything.Entry{Points: make([]everything.Point, 5)}, &everything.EverythingPartsReply{},
	} {
		if _, err := stubs.Encode(nil, stubs.KindMessage, 1, 0, body); !errors.As(err, &limit) {
			t.Errorf("%+v: %v", body, err)
		}
	}
	if _, err := stubs.Encode(nil, stubs.KindMessage, 1, 0, &everything.Entry{Name: "\xff"}); !strings.Contains(err.Error(), "not UTF-8") {
		t.Error(err)
	}
	if _, err := stubs.Encode(nil, stubs.KindMessage, 1, 0, &everything.Entry{Name: strings.Repeat("x", 16)}); err != nil {
		t.Error(err)
	}
}

// Lengths that are negative or wrap around as a 32-bit int are refused: no message has room for them.
func TestLengthsBeyond31Bits(t *testing.T) {
	list := func(start, count uint32) []byte {
		// The header with a body of two words, and an entry: name, then points, which have 12 bytes each.
		message := binary.LittleEndian.AppendUint64(nil, 1<<32|3<<16|1)
		message = binary.LittleEndian.AppendUint64(message, 0)
		message = binary.LittleEndian.AppendUint64(message, uint64(count)<<32|uint64(start))
		return binary.LittleEndian.AppendUint64(message, 0)
	}
	for _, number := range []uint32{1 << 31, 1<<31 + 8, 0xffff_fff8, 0xffff_ffff, 1<<30 + 8} {
		for _, message := range [][]byte{list(8, number), list(number, 1), list(number, number)} {
			var malformed *stubs.Malformed
			if err := stubs.Decode(message, stubs.KindMessage, 1, &everything.Entry{}); !errors.As(err, &malformed) {
				t.Errorf("%#x: %v", number, err)
			}
		}
	}
}

// Decoding arbitrary bytes terminates, without panics and without allocating more than the message's length.
func FuzzDecode(f *testing.F) {
	shape := everything.Shape{Case: everything.ShapeCaseNames, Names: []string{"b", "", "c"}}
	maybe := uint64(5)
	whole, err := stubs.Encode(nil, stubs.KindCall, 2, 1, &everything.EverythingPartsRequest{
		Text: "text", Numbers: []uint16{1, 2, 3}, Shape: shape, Shapes: []everything.Shape{shape, shape}, Maybe: &maybe,
		Nested: [][]uint32{{1}, {2, 3}}, Entries: []everything.Entry{{Name: "a", Points: make([]everything.Point, 2)}},
	})
	if err != nil {
		f.Fatal(err)
	}
	random := rand.New(rand.NewSource(5))
	f.Add(whole)
	for i := 0; i < 3000; i++ {
		message := append([]byte(nil), whole...)
		for changes := random.Intn(4); changes >= 0; changes-- {
			message[random.Intn(len(message))] = byte(random.Intn(256))
		}
		f.Add(message[:random.Intn(len(message)/8+1)*8])
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, body := range []stubs.Body{&everything.EverythingPartsRequest{}, &everything.EverythingNumbersRequest{},
			&control.MonitorIncoming{}, &control.MonitorNamesReply{}, &control.MonitorAttachError{}} {
			kind, ordinal, number, err := stubs.Head(message)
			if err != nil {
				return
			}
			if stubs.Decode(message, kind, ordinal, body) != nil {
				continue
			}
			// Decoded values can be encoded and decode to the same, except union cases of newer peers.
			again, err := stubs.Encode(nil, kind, ordinal, number, body)
			if err == nil && stubs.Decode(again, kind, ordinal, body) != nil {
				t.Errorf("% x was read, and % x was not", message, again)
			}
		}
	})
}

// port is one end of a channel in the test's memory.
type port struct {
	in, out chan []byte
	closing *sync.Once
	closed  chan struct{}
}

func ports() (*port, *port) {
	a, b, once, closed := make(chan []byte, 8), make(chan []byte, 8), &sync.Once{}, make(chan struct{})
	return &port{a, b, once, closed}, &port{b, a, once, closed}
}

func (p *port) Send(ctx context.Context, message []byte) error {
	message = append([]byte(nil), message...)
	select {
	case p.out <- message:
		return nil
	default:
	}
	select {
	case p.out <- message:
		return nil
	case <-p.closed:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *port) RecvInto(ctx context.Context, buffer []byte) ([]byte, error) {
	select {
	case message := <-p.in:
		return append(buffer[:0], message...), nil
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *port) MaxMessageBytes() int { return 2000 }

func (p *port) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return nil
}

// slowHandler serves a call that waits until it is cancelled, and one that answers.
type slowHandler struct {
	growth.GrowthHandler
	cancelled chan struct{}
}

func (s *slowHandler) Number(ctx context.Context) (growth.GrowthNumberReply, error) {
	<-ctx.Done()
	s.cancelled <- struct{}{}
	return growth.GrowthNumberReply{}, nil
}

func (s *slowHandler) Look(_ context.Context, note growth.Note, detail bool) (growth.GrowthLookReply, error) {
	if detail {
		return growth.GrowthLookReply{}, stubs.ErrUnserved
	}
	// A union without a case cannot be sent.
	return growth.GrowthLookReply{Note: note}, nil
}

// startServer serves at one end; it returns a client at the other, and a channel with the result of Serve.
func startServer(t *testing.T, near, far stubs.Port, handler *slowHandler) (*growth.GrowthClient, <-chan error) {
	server, err := growth.NewGrowthServer(far, handler)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(testContext(t)) }()
	client, err := growth.NewGrowthClient(near, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, served
}

func TestCallsThatFail(t *testing.T) {
	near, far := ports()
	handler := &slowHandler{cancelled: make(chan struct{}, 300)}
	client, served := startServer(t, near, far, handler)
	short, cancel := context.WithTimeout(testContext(t), 5*time.Millisecond)
	defer cancel()
	if _, err := client.Number(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	<-handler.cancelled
	if _, err := client.Look(testContext(t), growth.Note{}, true); !errors.Is(err, stubs.ErrUnserved) {
		t.Error(err)
	}
	if _, err := client.Look(testContext(t), growth.Note{}, false); !errors.Is(err, stubs.ErrAnswerTooLong) {
		t.Error(err)
	}
	// Exceed the maximum number of calls in flight.
	var calls sync.WaitGroup
	all, stop := context.WithCancel(testContext(t))
	busy := make(chan error, stubs.MaxInFlight+1)
	for i := 0; i <= stubs.MaxInFlight; i++ {
		calls.Add(1)
		go func() {
			defer calls.Done()
			if _, err := client.Number(all); errors.Is(err, stubs.ErrBusy) {
				busy <- err
			}
		}()
	}
	if err := <-busy; err == nil {
		t.Error("not too many calls")
	}
	stop()
	calls.Wait()
	var ended *stubs.Ended
	pending := make(chan error, 1)
	go func() {
		_, err := client.Number(testContext(t))
		pending <- err
	}()
	near.Close()
	if err := <-pending; !errors.As(err, &ended) || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := client.Number(testContext(t)); !errors.As(err, &ended) || !ended.MayRepeat {
		t.Error(err)
	}
}

// endedPort is a port whose sends detect the end of the channel before its receives do.
type endedPort struct{ *port }

func (e endedPort) Send(context.Context, []byte) error { return io.EOF }

func TestEndFoundByAnswerIsNoError(t *testing.T) {
	near, far := ports()
	client, served := startServer(t, near, endedPort{far}, &slowHandler{})
	calling, stop := context.WithCancel(testContext(t))
	defer stop()
	go client.Look(calling, growth.Note{}, true)
	if err := <-served; err != nil {
		t.Error(err)
	}
}
