// A worker of examples/pipeline in Go: it squares the jobs of a hub until that is closed, beside workers in
// other languages and on other nodes.
package main

import (
	"context"
	"fmt"
	"os"

	"tombolo"
	"tombolo/hub"
)

func main() {
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func work(ctx context.Context) error {
	domain, err := tombolo.Attach(ctx)
	if err != nil {
		return err
	}
	defer domain.Close()
	session := hub.Join(domain)
	defer session.Close()
	jobs, err := hub.Open[uint64](ctx, session, "jobs")
	if err != nil {
		return err
	}
	results, err := hub.Open[uint64](ctx, session, "results")
	if err != nil {
		return err
	}
	done, err := hub.OpenSemaphore(ctx, session, "done")
	if err != nil {
		return err
	}
	count := 0
	for job := range jobs.Receiver(ctx) {
		if err := results.Send(ctx, job*job); err != nil {
			return err
		}
		count++
	}
	if err := jobs.Err(); err != nil {
		return err
	}
	fmt.Printf("%d jobs on %s\n", count, domain.NodeName())
	return done.Signal(ctx)
}
