// Two domains send a message back and forth: `tombolo run --on host,arm0 @name@.tbi`
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"tombolo"
)

const rounds = 10_000

func main() {
	if err := play(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "@name@:", err)
		os.Exit(1)
	}
}

// play plays the part of this domain's rank.
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
	if job.Size() != 2 {
		return errors.New("start two of me: tombolo run --on host,arm0 @name@.tbi")
	}
	channel, err := job.ChannelTo(ctx, 1-job.Rank())
	if err != nil {
		return err
	}
	defer channel.Close()
	if job.Rank() == 0 {
		return measure(ctx, domain, channel)
	}
	return returnAll(ctx, channel)
}

// measure sends each message when the one before has come back.
func measure(ctx context.Context, domain *tombolo.Domain, channel *tombolo.Channel) error {
	isa, err := channel.Recv(ctx)
	if err != nil {
		return err
	}
	times := make([]time.Duration, 0, rounds)
	message, answer := make([]byte, 8), make([]byte, 0, 8)
	for round := uint64(0); round < rounds; round++ {
		binary.LittleEndian.PutUint64(message, round)
		start := time.Now()
		if err := channel.Send(ctx, message); err != nil {
			return err
		}
		if answer, err = channel.RecvInto(ctx, answer); err != nil {
			return err
		}
		times = append(times, time.Since(start))
		if binary.LittleEndian.Uint64(answer) != round {
			return fmt.Errorf("round %d came back as % x", round, answer)
		}
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	fmt.Printf("%s on %s -> %s on %s: %d round trips, median %.2f us\n", tombolo.Isa(), domain.NodeName(), isa,
		channel.PeerNode(), rounds, times[rounds/2].Seconds()*1e6)
	return nil
}

// returnAll says what this domain runs on, and returns every message until the other closes the channel.
func returnAll(ctx context.Context, channel *tombolo.Channel) error {
	message := []byte(tombolo.Isa())
	for {
		err := channel.Send(ctx, message)
		if err == nil {
			message, err = channel.RecvInto(ctx, message)
		}
		if errors.Is(err, tombolo.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
