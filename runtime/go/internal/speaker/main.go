// Test program for typed interfaces in Go, the counterpart of testing/e2e/src/bin/actor/typed in Rust: every
// language serves and calls every other.
//
//	speaker serve NAME CLIENTS
//	speaker call NAME...
//
// The words, channels and lines are those of the programs in Rust, C and Python, except that this one passes
// neither rights to memory nor buffers, which the SDK for Go does not have.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"tombolo"
	"tombolo/internal/speaker/before"
	"tombolo/internal/speaker/everything"
	"tombolo/internal/speaker/growth"
)

const (
	// patience is a timeout longer than any operation takes.
	patience = 100 * time.Second

	// nextClient is how long the next client may take to connect: it calls other servers first.
	nextClient = 1000 * time.Second
)

func fail(what string, why any) {
	fmt.Fprintf(os.Stderr, "speaker: %s: %v\n", what, why)
	os.Exit(1)
}

func check(what string, err error) {
	if err != nil {
		fail(what, err)
	}
}

// expect exits the program if the peer did not send the expected value.
func expect[T comparable](what string, actual, expected T) {
	if actual != expected {
		fail(what, fmt.Sprintf("%v, not %v", actual, expected))
	}
}

// wait waits for the expected events.
func wait[T any](ctx context.Context, events <-chan T) (value T) {
	select {
	case value = <-events:
	case <-ctx.Done():
		fail("wait", "nothing was told")
	}
	return value
}

func main() {
	ctx := context.Background()
	domain, err := tombolo.Attach(ctx)
	check("attach", err)
	domain.SetTimeout(patience)
	switch words := os.Args[1:]; {
	case len(words) == 3 && words[0] == "serve":
		clients, err := strconv.Atoi(words[2])
		check("read the number of clients", err)
		serve(ctx, domain, words[1], clients)
	case len(words) > 1 && words[0] == "call":
		for _, name := range words[1:] {
			call(domain, name)
			fmt.Println("understood", name)
		}
	default:
		fail("usage", "speaker serve NAME CLIENTS | speaker call NAME...")
	}
}

func serve(ctx context.Context, domain *tombolo.Domain, name string, clients int) {
	export := func(part string, hash uint64) *tombolo.Listener {
		listener, err := domain.ExportWith(ctx, name+"-"+part, tombolo.Options{InterfaceHash: hash})
		check("export", err)
		return listener
	}
	all := export("everything", everything.EverythingInterface.Hash)
	asNow := export("now", growth.GrowthInterface.Hash)
	asBefore := export("before", before.GrowthInterface.Hash)
	fmt.Println("serving", name)
	accept := func(listener *tombolo.Listener, within time.Duration) *tombolo.Channel {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		channel, err := listener.Accept(ctx)
		check("accept", err)
		return channel
	}
	for i := 0; i < clients; i++ {
		serveEverything(ctx, accept(all, nextClient))
		for j := 0; j < 2; j++ {
			serveNow(ctx, accept(asNow, patience))
			serveBefore(ctx, accept(asBefore, patience))
		}
	}
	fmt.Println("served", clients, "clients")
}

func call(domain *tombolo.Domain, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connect := func(part string, hash uint64) *tombolo.Channel {
		channel, err := domain.ConnectWith(ctx, name+"-"+part, tombolo.Options{InterfaceHash: hash})
		check("connect", err)
		return channel
	}
	callEverything(ctx, connect("everything", everything.EverythingInterface.Hash))
	callAsNow(ctx, connect("now", growth.GrowthInterface.Hash), true)
	callAsNow(ctx, connect("before", growth.GrowthInterface.Hash), false)
	callAsBefore(ctx, connect("now", growth.GrowthInterface.Hash), true)
	callAsBefore(ctx, connect("before", growth.GrowthInterface.Hash), false)
}
