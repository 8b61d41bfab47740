package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"unicode/utf8"
)

// Value is implemented by a pointer to a type with its own encoding in hubs. Numbers, bool, string, []byte
// and struct{} need no methods.
type Value interface {
	// HubType returns the name of the type, as used in application files.
	HubType() string

	// EncodeHub encodes the value. The encoding must not depend on the processor.
	EncodeHub() []byte

	// DecodeHub decodes the value.
	DecodeHub(bytes []byte) error
}

// typeOf returns the name of the type of a value.
func typeOf(value any) (string, error) {
	switch value := value.(type) {
	case *uint8:
		return "u8", nil
	case *uint16:
		return "u16", nil
	case *uint32:
		return "u32", nil
	case *uint64:
		return "u64", nil
	case *int8:
		return "i8", nil
	case *int16:
		return "i16", nil
	case *int32:
		return "i32", nil
	case *int64:
		return "i64", nil
	case *float32:
		return "f32", nil
	case *float64:
		return "f64", nil
	case *bool:
		return "bool", nil
	case *struct{}:
		return "unit", nil
	case *string:
		return "text", nil
	case *[]byte:
		// Bytes match hubs of every type.
		return "", nil
	case Value:
		return value.HubType(), nil
	}
	return "", fmt.Errorf("%T has no form in hubs: implement hub.Value", value)
}

func encode(value any) []byte {
	switch value := value.(type) {
	case *uint8, *uint16, *uint32, *uint64, *int8, *int16, *int32, *int64, *float32, *float64:
		return number(value)
	case *bool:
		if *value {
			return []byte{1}
		}
		return []byte{0}
	case *string:
		return []byte(*value)
	case *[]byte:
		return *value
	case Value:
		return value.EncodeHub()
	}
	return nil
}

// number encodes a number as little-endian bytes.
func number(value any) []byte {
	var bytes [8]byte
	put := func(length int, word uint64) []byte {
		binary.LittleEndian.PutUint64(bytes[:], word)
		return bytes[:length]
	}
	switch value := value.(type) {
	case *uint8:
		return put(1, uint64(*value))
	case *uint16:
		return put(2, uint64(*value))
	case *uint32:
		return put(4, uint64(*value))
	case *int8:
		return put(1, uint64(*value))
	case *int16:
		return put(2, uint64(*value))
	case *int32:
		return put(4, uint64(*value))
	case *int64:
		return put(8, uint64(*value))
	case *float32:
		return put(4, uint64(math.Float32bits(*value)))
	case *float64:
		return put(8, math.Float64bits(*value))
	case *uint64:
		return put(8, *value)
	}
	return nil
}

func decode(value any, bytes []byte) error {
	var word [8]byte
	copy(word[:], bytes)
	bits, length := binary.LittleEndian.Uint64(word[:]), -1
	switch value := value.(type) {
	case *uint8:
		*value, length = uint8(bits), 1
	case *uint16:
		*value, length = uint16(bits), 2
	case *uint32:
		*value, length = uint32(bits), 4
	case *uint64:
		*value, length = bits, 8
	case *int8:
		*value, length = int8(bits), 1
	case *int16:
		*value, length = int16(bits), 2
	case *int32:
		*value, length = int32(bits), 4
	case *int64:
		*value, length = int64(bits), 8
	case *float32:
		*value, length = math.Float32frombits(uint32(bits)), 4
	case *float64:
		*value, length = math.Float64frombits(bits), 8
	case *bool:
		if len(bytes) == 1 && bytes[0] > 1 {
			return fmt.Errorf("%d is not a bool", bytes[0])
		}
		*value, length = bits == 1, 1
	case *struct{}:
		length = 0
	case *string:
		if !utf8.Valid(bytes) {
			return errors.New("a text that is not UTF-8")
		}
		*value, length = string(bytes), len(bytes)
	case *[]byte:
		*value, length = bytes, len(bytes)
	case Value:
		return value.DecodeHub(bytes)
	}
	if length != len(bytes) {
		return fmt.Errorf("%d bytes are not a %T", len(bytes), value)
	}
	return nil
}

// A Chan is a port or fifo of values: an unbuffered or buffered channel of Go that programs share. Any number
// of goroutines may use it.
type Chan[T any] struct {
	hub *openHub

	mutex      sync.Mutex
	prefetched []T // taken ahead by a Receiver that ended before they were received
	err        error
}

// Open opens a port or fifo, waiting for its name.
func Open[T any](ctx context.Context, s *Session, name string) (*Chan[T], error) {
	valueType, err := typeOf(new(T))
	if err != nil {
		return nil, err
	}
	hub, err := s.open(ctx, name, anyKind, valueType)
	if err != nil {
		return nil, err
	}
	if hub.kind != kindPort && hub.kind != kindFifo {
		return nil, hub.fail(ErrOtherKind, "it is not a port or fifo")
	}
	return &Chan[T]{hub: hub}, nil
}

// Name returns the name of the hub.
func (c *Chan[T]) Name() string { return c.hub.name }

// Send sends a value. It waits for a receiver if the hub is a port, and for room if it is a fifo. After an
// error the value was not sent, unless the hub was lost or its server did not answer.
func (c *Chan[T]) Send(ctx context.Context, value T) error {
	return c.put(ctx, value, c.hub.service.session.micros(ctx))
}

// TrySend sends a value if it need not wait, and otherwise returns ErrWouldBlock.
func (c *Chan[T]) TrySend(ctx context.Context, value T) error { return c.put(ctx, value, 0) }

func (c *Chan[T]) put(ctx context.Context, value T, micros uint32) error {
	_, err := c.hub.operate(ctx, request{operation: opPut, timeoutUs: micros, tail: encode(&value)})
	return err
}

// Recv receives a value, waiting for one. It returns ErrClosed when the hub is closed and empty.
func (c *Chan[T]) Recv(ctx context.Context) (T, error) {
	return c.get(ctx, c.hub.service.session.micros(ctx))
}

// TryRecv receives a value if there is one, and otherwise returns ErrWouldBlock.
func (c *Chan[T]) TryRecv(ctx context.Context) (T, error) { return c.get(ctx, 0) }

func (c *Chan[T]) get(ctx context.Context, micros uint32) (T, error) {
	if value, ok := c.takePrefetched(); ok {
		return value, nil
	}
	got, err := c.hub.operate(ctx, request{operation: opGet, timeoutUs: micros})
	if err != nil {
		var none T
		return none, err
	}
	return c.decodeValue(&got)
}

func (c *Chan[T]) decodeValue(got *answer) (T, error) {
	var value T
	if err := decode(&value, got.tail); err != nil {
		return value, c.hub.fail(ErrOtherType, err.Error())
	}
	return value, nil
}

func (c *Chan[T]) takePrefetched() (T, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var value T
	if len(c.prefetched) == 0 {
		return value, false
	}
	value, c.prefetched = c.prefetched[0], c.prefetched[1:]
	return value, true
}

// Close closes the hub for all: sends fail, and receivers drain it. Closing twice is an error.
func (c *Chan[T]) Close(ctx context.Context) error {
	_, err := c.hub.operate(ctx, request{operation: opClose})
	return err
}

// Receiver returns a native channel of received values, for range and select. It is closed when the hub is
// closed and empty, when the context ends or when the hub is lost; Err returns the reason.
//
// It takes one value ahead. If the context ends before that value is received, the next Recv or Receiver of
// this Chan returns it. A program that must not hold a value that it does not use should use Select instead.
func (c *Chan[T]) Receiver(ctx context.Context) <-chan T {
	values := make(chan T)
	go func() {
		defer close(values)
		for ctx.Err() == nil {
			value, err := c.Recv(ctx)
			if errors.Is(err, ErrTimedOut) && ctx.Err() == nil {
				continue
			}
			if err != nil {
				c.setErr(err)
				return
			}
			select {
			case values <- value:
			case <-ctx.Done():
				c.mutex.Lock()
				c.prefetched = append(c.prefetched, value)
				c.mutex.Unlock()
			}
		}
		c.setErr(ctx.Err())
	}()
	return values
}

// Sender returns a native channel whose values are sent to the hub, until the context ends. Closing it closes
// the hub. done is closed when all values have been sent, or a send failed, which Err reports.
//
// A send to the channel completes when the value is taken from it, before the hub has it.
func (c *Chan[T]) Sender(ctx context.Context) (values chan<- T, done <-chan struct{}) {
	in, finished := make(chan T), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			select {
			case value, ok := <-in:
				if !ok {
					c.setErr(c.Close(ctx))
					return
				}
				if err := c.sendAll(ctx, value); err != nil {
					c.setErr(err)
					return
				}
			case <-ctx.Done():
				c.setErr(ctx.Err())
				return
			}
		}
	}()
	return in, finished
}

func (c *Chan[T]) sendAll(ctx context.Context, value T) error {
	for {
		err := c.Send(ctx, value)
		if !errors.Is(err, ErrTimedOut) || ctx.Err() != nil {
			return err
		}
	}
}

func (c *Chan[T]) setErr(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.err == nil && !errors.Is(err, ErrClosed) {
		c.err = err
	}
}

// Err returns why a Receiver or Sender of this Chan ended; nil if the hub was closed.
func (c *Chan[T]) Err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.err
}
