package hub

import (
	"context"
	"encoding/binary"
)

// SendMany sends values in order. For a fifo it packs up to 256 of them into a message, so that values do not
// cost a round trip each. It waits for room as Send does. It returns how many of the first values were sent,
// and the error that stopped the others.
func (c *Chan[T]) SendMany(ctx context.Context, values ...T) (int, error) {
	if c.hub.kind != kindFifo {
		for sent, value := range values {
			if err := c.Send(ctx, value); err != nil {
				return sent, err
			}
		}
		return len(values), nil
	}
	encoded := make([][]byte, len(values))
	for index := range values {
		encoded[index] = encode(&values[index])
		if len(encoded[index]) > maxBatchBytes {
			return 0, c.hub.fail(ErrTooLong, "no hub carries more than 16384 bytes")
		}
	}
	sent := 0
	for sent < len(values) {
		batch, count := join(encoded[sent:])
		put, err := c.putMany(ctx, batch, count)
		sent += put
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// putMany sends a batch, and returns how many of its values are in the hub and why the others are not.
func (c *Chan[T]) putMany(ctx context.Context, batch []byte, count int) (int, error) {
	p := c.hub
	r := request{operation: opPutMany, timeoutUs: p.service.session.micros(ctx), tail: batch}
	got, err := p.operate(ctx, r)
	if err != nil {
		return 0, err
	}
	if got.kind != answerPartial {
		return count, nil
	}
	put := int(binary.LittleEndian.Uint32(got.tail))
	if got.detail == 0 {
		return put, p.contextError(ctx)
	}
	return put, p.fail(Fault(got.detail), detail(&got))
}

// RecvMany receives the available values, waiting for the first; for a fifo up to `most` in one message. It
// returns ErrClosed when the hub is closed and empty.
func (c *Chan[T]) RecvMany(ctx context.Context, most int) ([]T, error) {
	if value, ok := c.takePrefetched(); ok || c.hub.kind != kindFifo {
		if !ok {
			received, err := c.Recv(ctx)
			if err != nil {
				return nil, err
			}
			value = received
		}
		return []T{value}, nil
	}
	p := c.hub
	if most < 1 {
		most = 1
	} else if most > maxBatch {
		most = maxBatch
	}
	got, err := p.operate(ctx, request{operation: opGetMany, timeoutUs: p.service.session.micros(ctx), argument: uint64(most)})
	if err != nil {
		return nil, err
	}
	values, _ := split(got.tail)
	received := make([]T, 0, len(values))
	for _, bytes := range values {
		value, err := c.decodeValue(&answer{tail: bytes})
		if err != nil {
			return received, err
		}
		received = append(received, value)
	}
	return received, nil
}
