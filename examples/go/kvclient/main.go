// A client of the key-value service in Go: `kvclient [NAME]`. See the book's chapter on Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"examples/kv"
	"tombolo"
	"tombolo/stubs"
)

// changes adds up what the server tells.
type changes struct{ versions atomic.Uint64 }

func (c *changes) Changed(ctx context.Context, key string, version uint64) { c.versions.Add(version) }

func main() {
	name := "kv"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := use(ctx, name); err != nil {
		fmt.Fprintln(os.Stderr, "kvclient:", err)
		os.Exit(1)
	}
}

func use(ctx context.Context, name string) error {
	domain, err := tombolo.Attach(ctx)
	if err != nil {
		return err
	}
	defer domain.Close()
	channel, err := domain.ConnectWith(ctx, name, tombolo.Options{InterfaceHash: kv.KvInterface.Hash})
	if err != nil {
		return err
	}
	told := &changes{}
	client, err := kv.NewKvClient(channel, told)
	if err != nil {
		return err
	}
	defer client.Stub().Close()
	none, large := uint64(0), make([]byte, kv.MaxValue)
	if _, err := client.Put(ctx, "isle", []byte("sand"), &none); err != nil {
		return err
	}
	_, err = client.Put(ctx, "isle", []byte("rock"), &none)
	if why, ok := stubs.DeclinedWith[kv.KvError](err); !ok || why != kv.KvErrorConflict {
		return fmt.Errorf("a second value without a conflict: %w", err)
	}
	if _, err := client.Put(ctx, "größte Insel: 島", large, &none); err != nil {
		return err
	}
	var limit *stubs.OverLimit
	if _, err := client.Put(ctx, "more", append(large, 0), nil); errors.As(err, &limit) {
		fmt.Println(limit)
	}

	// Two calls in flight.
	var calls sync.WaitGroup
	for _, key := range []string{"größte Insel: 島", "more"} {
		calls.Add(1)
		go func(key string) {
			defer calls.Done()
			entry, err := client.Get(ctx, key)
			if why, ok := stubs.DeclinedWith[kv.KvError](err); ok {
				fmt.Println("declined:", why)
			} else if err != nil || len(entry.Value) != kv.MaxValue {
				fmt.Println(len(entry.Value), "bytes,", err)
			}
		}(key)
	}
	calls.Wait()
	if err := client.Forget(ctx, "isle"); err != nil {
		return err
	}
	list, err := client.List(ctx, "")
	if err != nil {
		return err
	}
	for _, key := range list.Keys {
		fmt.Println("key:", key)
	}
	if _, err := client.AwaitChange(ctx, "isle"); errors.Is(err, stubs.ErrUnserved) {
		fmt.Println("await_change:", stubs.ErrUnserved)
	}
	fmt.Println(client.Stub().Counts().Calls, "calls, versions", told.versions.Load())
	return nil
}
