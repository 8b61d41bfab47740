// An island genetic algorithm finds the text of a program in C, as in the evaluation of Go's channels on the
// SCC (Go's Concurrency Constructs on the SCC): each island evolves a part of the population, and individuals
// migrate to the next. The result depends on the number of islands alone: not on where they are, nor on their
// language.
//
//	islands native ISLANDS [GENERATIONS]    goroutines and unbuffered channels of Go, in this process
//	islands channels [GENERATIONS]          an island of a job, for each of its domains, over channels of Tombolo
//	islands ports [GENERATIONS]             the same over ports, the hubs 'island-RANK'
//
// All islands of a job have the same generations, 300 unless given.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"tombolo"
	"tombolo/hub"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "islands:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	usage := errors.New("usage: islands native ISLANDS [GENERATIONS] | channels [GENERATIONS] | ports [GENERATIONS]")
	if len(words) == 0 {
		return usage
	}
	numbers := []int{1, 300}
	for i, word := range words[1:] {
		number, err := strconv.Atoi(word)
		if words[0] != "native" {
			i++
		}
		if err != nil || number < 1 || i >= len(numbers) {
			return usage
		}
		numbers[i] = number
	}
	size, generations := numbers[0], numbers[1]
	switch words[0] {
	case "native":
		if size > individuals/4 {
			return fmt.Errorf("%d islands; give 1 to %d", size, individuals/4)
		}
		start := time.Now()
		best, err := native(size, generations)
		if err == nil {
			tell("native channels", size, best, time.Since(start))
		}
		return err
	case "channels", "ports":
		return inJob(context.Background(), words[0] == "ports", generations)
	}
	return usage
}

func tell(over string, size int, best []byte, took time.Duration) {
	fitness := binary.LittleEndian.Uint64(best[len(target):])
	fmt.Printf("%d islands over %s: %q, fitness %d, %.3f s\n", size, over, best[:len(target)], fitness, took.Seconds())
}

// inProcess is the channels beside an island of this process.
type inProcess struct {
	in  <-chan []byte
	out chan<- []byte
}

func (n inProcess) send(message []byte) error {
	n.out <- message
	return nil
}

func (n inProcess) receive() ([]byte, error) { return <-n.in, nil }

// native evolves all islands in this process.
func native(size, generations int) ([]byte, error) {
	inboxes := make([]chan []byte, size)
	for i := range inboxes {
		inboxes[i] = make(chan []byte)
	}
	type result struct {
		best []byte
		err  error
	}
	results := make(chan result)
	for i := 0; i < size; i++ {
		go func(i int) {
			best, err := evolve(i, size, generations, inProcess{inboxes[i], inboxes[(i+1)%size]})
			results <- result{best, err}
		}(i)
	}
	first := <-results
	best, err := first.best, first.err
	for i := 1; i < size; i++ {
		next := <-results
		if err == nil && next.err == nil {
			best = better(best, next.best)
		} else if err == nil {
			err = next.err
		}
	}
	return best, err
}

// channels is the channels to the islands beside one of a job.
type channels struct {
	ctx         context.Context
	left, right *tombolo.Channel
}

func (n channels) send(message []byte) error { return n.right.Send(n.ctx, message) }

func (n channels) receive() ([]byte, error) { return n.left.Recv(n.ctx) }

// ports is hubs: the inbox of this island and that of the next.
type ports struct {
	ctx     context.Context
	in, out *hub.Chan[[]byte]
}

func (n ports) send(message []byte) error { return n.out.Send(n.ctx, message) }

func (n ports) receive() ([]byte, error) { return n.in.Recv(n.ctx) }

// beside opens the ways to the neighbours.
func beside(ctx context.Context, domain *tombolo.Domain, job *tombolo.Job, overHubs bool) (neighbours, error) {
	left, right := (job.Rank()+job.Size()-1)%job.Size(), (job.Rank()+1)%job.Size()
	if overHubs {
		session := hub.Join(domain)
		in, err := hub.Open[[]byte](ctx, session, fmt.Sprintf("island-%d", job.Rank()))
		if err != nil {
			return nil, err
		}
		out, err := hub.Open[[]byte](ctx, session, fmt.Sprintf("island-%d", right))
		return ports{ctx, in, out}, err
	}
	if job.Size() == 1 {
		return channels{}, nil
	}
	// In the order of ranks, so that none wait for each other in a circle.
	low, high := left, right
	if low > high {
		low, high = high, low
	}
	first, err := job.ChannelTo(ctx, low)
	if err != nil || low == high {
		return channels{ctx, first, first}, err
	}
	second, err := job.ChannelTo(ctx, high)
	if err != nil {
		return nil, err
	}
	if left == low {
		return channels{ctx, first, second}, nil
	}
	return channels{ctx, second, first}, nil
}

// inJob is one island of a job; rank 0 gathers the results.
func inJob(ctx context.Context, overHubs bool, generations int) error {
	domain, err := tombolo.Attach(ctx)
	if err != nil {
		return err
	}
	defer domain.Close()
	job, err := domain.Job()
	if err != nil {
		return err
	}
	var gather *tombolo.Listener
	if job.Rank() == 0 {
		if gather, err = domain.Export(ctx, job.Name("best")); err != nil {
			return err
		}
	}
	n, err := beside(ctx, domain, job, overHubs)
	if err != nil {
		return err
	}
	start := time.Now()
	best, err := evolve(job.Rank(), job.Size(), generations, n)
	if err != nil {
		return err
	}
	if job.Rank() > 0 {
		channel, err := domain.Connect(ctx, job.Name("best"))
		if err != nil {
			return err
		}
		defer channel.Close()
		return channel.Send(ctx, best)
	}
	for i := 1; i < job.Size(); i++ {
		channel, err := gather.Accept(ctx)
		if err != nil {
			return err
		}
		result, err := channel.Recv(ctx)
		if err != nil {
			return err
		}
		channel.Close()
		if len(result) != len(best) {
			return fmt.Errorf("a result of %d bytes", len(result))
		}
		best = better(best, result)
	}
	over := "channels"
	if overHubs {
		over = "ports"
	}
	tell(over, job.Size(), best, time.Since(start))
	return nil
}
