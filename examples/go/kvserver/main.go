// A key-value service in Go: `kvserver [NAME]`. See the book's chapter on Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"

	"examples/kv"
	"tombolo"
	"tombolo/stubs"
)

// store is values by name, for all clients.
type store struct {
	mutex   sync.Mutex
	entries map[string]kv.KvGetReply
}

// client serves one client. Its calls run in goroutines of their own.
type client struct {
	*store
	server *kv.KvServer
}

func (c *client) Get(ctx context.Context, key string) (kv.KvGetReply, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	entry, ok := c.entries[key]
	if !ok {
		return entry, stubs.Decline(kv.KvErrorNotFound)
	}
	return entry, nil
}

func (c *client) Put(ctx context.Context, key string, value []byte, expected *uint64) (kv.KvPutReply, error) {
	c.mutex.Lock()
	version := c.entries[key].Version
	if expected != nil && *expected != version {
		c.mutex.Unlock()
		return kv.KvPutReply{}, stubs.Decline(kv.KvErrorConflict)
	}
	version++
	c.entries[key] = kv.KvGetReply{Value: value, Version: version}
	c.mutex.Unlock()
	return kv.KvPutReply{Version: version}, c.server.Changed(ctx, key, version)
}

func (c *client) List(ctx context.Context, prefix string) (reply kv.KvListReply, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for key := range c.entries {
		if strings.HasPrefix(key, prefix) {
			reply.Keys = append(reply.Keys, key)
		}
	}
	sort.Strings(reply.Keys)
	if len(reply.Keys) > 64 {
		reply.Keys = reply.Keys[:64]
	}
	return reply, nil
}

func (c *client) AwaitChange(ctx context.Context, key string) (kv.KvAwaitChangeReply, error) {
	return kv.KvAwaitChangeReply{}, stubs.ErrUnserved
}

func (c *client) Forget(ctx context.Context, key string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.entries, key)
}

func main() {
	name := "kv"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := serve(context.Background(), name); err != nil {
		fmt.Fprintln(os.Stderr, "kvserver:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, name string) error {
	domain, err := tombolo.Attach(ctx)
	if err != nil {
		return err
	}
	defer domain.Close()
	listener, err := domain.ExportWith(ctx, name, tombolo.Options{InterfaceHash: kv.KvInterface.Hash})
	if err != nil {
		return err
	}
	fmt.Printf("serving %s on %s\n", name, domain.NodeName())
	shared := &store{entries: map[string]kv.KvGetReply{}}
	for {
		channel, err := listener.Accept(ctx)
		if errors.Is(err, tombolo.ErrMonitorLost) {
			return err
		}
		if err != nil {
			// None came in time, or one that does not fit.
			continue
		}
		go func() {
			defer channel.Close()
			handler := &client{store: shared}
			server, err := kv.NewKvServer(channel, handler)
			if err == nil {
				handler.server = server
				err = server.Serve(ctx)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "kvserver:", err)
			}
		}()
	}
}
