// A service and its clients: `tombolo run --on host,arm0 @name@.tbi`
package main

//go:generate tombolo idl compile greeter.tbl --lang go -o greeter/greeter.go

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"example.com/@name@/greeter"
	"tombolo"
	"tombolo/stubs"
)

func main() {
	if err := play(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "@name@:", err)
		os.Exit(1)
	}
}

// play plays the part of this domain's rank: the first serves the others.
func play(ctx context.Context) error {
	domain, err := tombolo.Attach(ctx)
	if err != nil {
		return err
	}
	defer domain.Close()
	job, err := domain.Job()
	if err != nil {
		return err
	}
	switch {
	case job.Size() == 1:
		return errors.New("start two of me or more: tombolo run --on host,arm0 @name@.tbi")
	case job.Rank() == 0:
		return serve(ctx, domain, job.Name("greeter"), job.Size()-1)
	default:
		return call(ctx, domain, job.Name("greeter"))
	}
}

// desk is the state of the server.
type desk struct {
	node  string
	mutex sync.Mutex
	count uint64
}

// Greet runs in a goroutine of its own for each call.
func (d *desk) Greet(ctx context.Context, name string) (greeter.GreeterGreetReply, error) {
	if name == "" {
		return greeter.GreeterGreetReply{}, stubs.Decline(greeter.GreetErrorNoName)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.count++
	return greeter.GreeterGreetReply{Greeting: fmt.Sprintf("hello %s, from %s", name, d.node), Count: d.count}, nil
}

// serve serves the other ranks, each in a goroutine, until all of them have left.
func serve(ctx context.Context, domain *tombolo.Domain, name string, clients int) error {
	listener, err := domain.ExportWith(ctx, name, tombolo.Options{InterfaceHash: greeter.GreeterInterface.Hash})
	if err != nil {
		return err
	}
	shared := &desk{node: domain.NodeName()}
	left := make(chan error, clients)
	for served := 0; served < clients; served++ {
		channel, err := listener.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			defer channel.Close()
			server, err := greeter.NewGreeterServer(channel, shared)
			if err == nil {
				err = server.Serve(ctx)
			}
			left <- err
		}()
	}
	for served := 0; served < clients; served++ {
		if err := <-left; err != nil {
			return err
		}
	}
	fmt.Printf("%d greetings from %s\n", shared.count, shared.node)
	return nil
}

// call is greeted; an empty name is declined, which is no failure of the call.
func call(ctx context.Context, domain *tombolo.Domain, name string) error {
	channel, err := domain.ConnectWith(ctx, name, tombolo.Options{InterfaceHash: greeter.GreeterInterface.Hash})
	if err != nil {
		return err
	}
	client, err := greeter.NewGreeterClient(channel)
	if err != nil {
		return err
	}
	defer client.Stub().Close()
	reply, err := client.Greet(ctx, domain.NodeName())
	if err != nil {
		return err
	}
	fmt.Println(reply.Greeting)
	_, err = client.Greet(ctx, "")
	if why, ok := stubs.DeclinedWith[greeter.GreetError](err); ok && why == greeter.GreetErrorNoName {
		fmt.Println("declined: no_name")
		return nil
	}
	return err
}
