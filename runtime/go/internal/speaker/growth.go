package main

import (
	"context"
	"errors"
	"fmt"

	"tombolo"
	"tombolo/internal/speaker/before"
	"tombolo/internal/speaker/growth"
	"tombolo/stubs"
)

const (
	stampAt   = 0x0102030405060708
	stampNode = 0x0102

	// seenBy is the argument of event seen, as the test programs in other languages send it.
	seenBy = "some" + "body"
)

// currentHandler serves the current version of the interface.
type currentHandler struct{ server *growth.GrowthServer }

func (n *currentHandler) Look(_ context.Context, note growth.Note, detail bool) (growth.GrowthLookReply, error) {
	thing := growth.Thing{Case: growth.ThingCaseName, Name: "name"}
	if detail {
		thing = growth.Thing{Case: growth.ThingCaseNumber, Number: 4}
	}
	count := uint32(len(note.Tags))
	note.Tags = []string{"a", "ü"}
	return growth.GrowthLookReply{
		Note: note, Thing: thing, Stamp: growth.Stamp{AtNs: stampAt, Node: stampNode}, Count: &count,
	}, nil
}

func (n *currentHandler) Number(context.Context) (growth.GrowthNumberReply, error) {
	return growth.GrowthNumberReply{Id: 5}, nil
}

func (n *currentHandler) Forget(ctx context.Context, id uint32, why string) {
	if id == 3 && (why == "" || why == "old") {
		check("news", n.server.News(ctx))
		check("seen", n.server.Seen(ctx, 8, seenBy))
	}
}

func (n *currentHandler) Poke(context.Context) {}

func serveNow(ctx context.Context, channel *tombolo.Channel) {
	handler := &currentHandler{}
	server, err := growth.NewGrowthServer(channel, handler)
	check("bind", err)
	handler.server = server
	check("serve growth", server.Serve(ctx))
	expect("messages that were refused", server.Stub().Counts().Malformed, uint64(0))
	channel.Close()
}

// previousHandler serves the previous version of the interface.
type previousHandler struct{ server *before.GrowthServer }

func (t *previousHandler) Look(_ context.Context, note before.Note) (before.GrowthLookReply, error) {
	return before.GrowthLookReply{
		Note: note, Thing: before.Thing{Case: before.ThingCaseNumber, Number: 4},
		Stamp: before.Stamp{AtNs: stampAt, Node: stampNode},
	}, nil
}

func (t *previousHandler) Forget(ctx context.Context, id uint32) {
	if id == 3 {
		check("seen", t.server.Seen(ctx, 8))
	}
}

func serveBefore(ctx context.Context, channel *tombolo.Channel) {
	handler := &previousHandler{}
	server, err := before.NewGrowthServer(channel, handler)
	check("bind", err)
	handler.server = server
	check("serve growth as it was", server.Serve(ctx))
	expect("messages that were refused", server.Stub().Counts().Malformed, uint64(0))
	channel.Close()
}

// currentEvents receives the events of the current version.
type currentEvents chan string

func (s currentEvents) Seen(_ context.Context, id uint32, by string) { s <- fmt.Sprint(id, by) }

func (s currentEvents) News(context.Context) {}

// previousEvents receives the events of the previous version.
type previousEvents chan string

func (s previousEvents) Seen(_ context.Context, id uint32) { s <- fmt.Sprint(id) }

// callAsNow calls a server of either version with the current version.
func callAsNow(ctx context.Context, channel *tombolo.Channel, isNow bool) {
	events := make(currentEvents, 1)
	client, err := growth.NewGrowthClient(channel, events)
	check("bind", err)
	due := uint64(1)
	note := growth.Note{Text: because, Mood: 77, Tags: []string{"x", "x", "x", "x"}, Due: &due}
	reply, err := client.Look(ctx, note, true)
	check("look", err)
	// Fields that an older server does not send are zero or absent.
	expected := growth.GrowthLookReply{
		Note: growth.Note{Text: because}, Thing: growth.Thing{Case: growth.ThingCaseNumber, Number: 4},
		Stamp: growth.Stamp{AtNs: stampAt, Node: stampNode},
	}
	by := ""
	if isNow {
		count := uint32(4)
		expected.Note, expected.Count = note, &count
		expected.Note.Tags = []string{"a", "ü"}
		by = seenBy
	}
	expect("look, now", wire(&reply), wire(&expected))
	number, err := client.Number(ctx)
	expect("number", err == nil && number.Id == 5, isNow)
	expect("an unknown call", errors.Is(err, stubs.ErrUnknownCall), !isNow)
	check("poke", client.Poke(ctx))
	check("forget", client.Forget(ctx, 3, "old"))
	expect("told", wait(ctx, events), fmt.Sprint(8, by))
	check("close", client.Stub().Close())
}

// callAsBefore calls a server of either version with the previous version.
func callAsBefore(ctx context.Context, channel *tombolo.Channel, isNow bool) {
	events := make(previousEvents, 1)
	client, err := before.NewGrowthClient(channel, events)
	check("bind", err)
	reply, err := client.Look(ctx, before.Note{Text: "hello"})
	check("look", err)
	thing := before.ThingCaseNumber
	unknown := uint64(0)
	if isNow {
		thing, unknown = 2, 1
	}
	expect("look, before", fmt.Sprint(reply.Note.Text, reply.Thing.Case, reply.Stamp.Node), fmt.Sprint("hello", thing, stampNode))
	check("forget", client.Forget(ctx, 3))
	expect("told", wait(ctx, events), "8")
	// Of news it knows nothing.
	expect("unknown events", client.Stub().Counts().Unknown, unknown)
	check("close", client.Stub().Close())
}
