package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"tombolo"
	"tombolo/internal/speaker/everything"
	"tombolo/stubs"
)

var (
	largest = math.Float32frombits(0x7f7fffff)
	because = "größte Insel: 島"
)

// drawnNames is the shape of event drawn, and of the answer to other names.
func drawnNames() everything.Shape {
	return everything.Shape{Case: everything.ShapeCaseNames, Names: []string{"ä", "", "𝄞𝄞"}}
}

// mirror serves the interface by returning its arguments.
type mirror struct{ server *everything.EverythingServer }

func (m *mirror) Numbers(_ context.Context, a bool, b uint8, c uint16, d uint32, e uint64, f int8, g int16, h int32,
	i int64, j float32, k float64, colour everything.Colour, step everything.Step, rights everything.Rights,
	hints everything.Hints, domain stubs.DomainID) (everything.EverythingNumbersReply, error) {
	return everything.EverythingNumbersReply{A: a, B: b, C: c, D: d, E: e, F: f, G: g, H: h, I: i, J: j, K: k,
		Colour: colour, Step: step, Rights: rights, Hints: hints, Domain: domain}, nil
}

func (m *mirror) Parts(_ context.Context, text string, blob []byte, numbers []uint16, fixed [3]int32, flags []bool,
	entry everything.Entry, entries []everything.Entry, shape everything.Shape, shapes []everything.Shape,
	maybe *uint64, maybeText *string, maybePoint *everything.Point, maybeEntry *everything.Entry,
	matrix [3][2]uint8, nested [][]uint32) (reply everything.EverythingPartsReply, err error) {
	switch text {
	case "refused":
		return reply, stubs.Decline(everything.Failure{Case: everything.FailureCaseRefused})
	case "retry":
		return reply, stubs.Decline(everything.Failure{Case: everything.FailureCaseRetry, Retry: math.MaxUint32})
	case "because":
		return reply, stubs.Decline(everything.Failure{Case: everything.FailureCaseBecause, Because: because})
	}
	d := newDigest()
	d.parts(&everything.EverythingPartsRequest{Text: text, Blob: blob, Numbers: numbers, Fixed: fixed, Flags: flags,
		Entry: entry, Entries: entries, Shape: shape, Shapes: shapes, Maybe: maybe, MaybeText: maybeText,
		MaybePoint: maybePoint, MaybeEntry: maybeEntry, Matrix: matrix, Nested: nested})
	reply.Entry = entry
	reply.Shape = everything.Shape{Case: everything.ShapeCaseNumber, Number: uint64(*d)}
	reply.MaybeShape = answerShape(shape)
	return reply, nil
}

// answerShape returns the shape that answers a shape.
func answerShape(shape everything.Shape) *everything.Shape {
	switch shape.Case {
	case everything.ShapeCaseNothing:
		return nil
	case everything.ShapeCaseNames:
		shape = drawnNames()
	}
	return &shape
}

func (m *mirror) Null(context.Context) error { return nil }

func (m *mirror) Poke(ctx context.Context) {
	if err := m.server.Drawn(ctx, drawnNames()); err != nil {
		fail("draw", err)
	}
}

func serveEverything(ctx context.Context, channel *tombolo.Channel) {
	handler := &mirror{}
	server, err := everything.NewEverythingServer(channel, handler)
	check("bind", err)
	handler.server = server
	check("serve everything", server.Serve(ctx))
	counts := server.Stub().Counts()
	expect("messages that were refused or unknown", counts.Malformed+counts.Unknown, uint64(0))
	channel.Close()
}

// drawnEvents receives the digests of events.
type drawnEvents chan uint64

func (d drawnEvents) Drawn(_ context.Context, shape everything.Shape) {
	hash := newDigest()
	hash.shape(&shape)
	d <- uint64(*hash)
}

func allNumbers() []everything.EverythingNumbersRequest {
	allRights := everything.RightsRead | everything.RightsWrite | everything.RightsGrant
	return []everything.EverythingNumbersRequest{
		{A: true, B: 255, C: 65535, D: math.MaxUint32, E: math.MaxUint64, F: 127, G: math.MaxInt16, H: math.MaxInt32,
			I: math.MaxInt64, J: largest, K: math.Inf(1), Colour: everything.ColourGreen, Step: math.MaxInt16,
			Rights: allRights, Hints: math.MaxUint64, Domain: math.MaxUint64},
		{B: 1, C: 0x0102, D: 0x01020304, E: 0x0102030405060708, F: math.MinInt8, G: math.MinInt16, H: math.MinInt32,
			I: math.MinInt64, J: float32(math.Copysign(0, -1)), K: 0x1p-1022, Colour: everything.ColourRed,
			Step: everything.StepBack, Rights: everything.RightsWrite, Hints: everything.HintsFar, Domain: 1},
		{},
	}
}

func allParts() []everything.EverythingPartsRequest {
	points := []everything.Point{{X: 1.5, Y: -2, Tag: 7}, {X: -largest, Y: largest, Tag: 255}}
	green, most, zero, digits, none := everything.ColourGreen, uint64(math.MaxUint64), uint64(0), "12345678", ""
	whole := everything.Entry{Name: "島島島島島x", Points: append(points[:2:2], points...), Colour: &green}
	small := everything.Entry{}
	number := func(number uint64) everything.Shape {
		return everything.Shape{Case: everything.ShapeCaseNumber, Number: number}
	}
	full := everything.EverythingPartsRequest{
		Text: "🏝🏝🏝🏝🏝🏝🏝🏝", Blob: []byte(strings.Repeat("\xff", 32)), Numbers: []uint16{0, 1, 65535, 0x0102, 5, 6, 7, 8},
		Fixed: [3]int32{math.MinInt32, -1, math.MaxInt32},
		Flags: []bool{true, false, true, true, false, true, false, false, true},
		Entry: whole, Entries: []everything.Entry{whole, small, whole},
		Shape: everything.Shape{Case: everything.ShapeCaseEntry, Entry: whole},
		Shapes: []everything.Shape{number(math.MaxUint64), drawnNames(),
			{Case: everything.ShapeCasePoint, Point: points[0]}},
		Maybe: &most, MaybeText: &digits, MaybePoint: &points[1], MaybeEntry: &small,
		Matrix: [3][2]uint8{{1, 2}, {3, 4}, {5, 255}}, Nested: [][]uint32{{1, math.MaxUint32}, {}, {0x01020304}},
	}
	with := full
	with.Shape = number(0x0102030405060708)
	empty := everything.EverythingPartsRequest{Shape: everything.Shape{Case: everything.ShapeCaseNothing}}
	pointed, named := empty, empty
	pointed.Shape, pointed.Maybe = everything.Shape{Case: everything.ShapeCasePoint, Point: points[1]}, &zero
	named.Shape, named.MaybeText = everything.Shape{Case: everything.ShapeCaseNames}, &none
	return []everything.EverythingPartsRequest{full, with, pointed, named, empty}
}

func callParts(ctx context.Context, client *everything.EverythingClient, p everything.EverythingPartsRequest) error {
	reply, err := client.Parts(ctx, p.Text, p.Blob, p.Numbers, p.Fixed, p.Flags, p.Entry, p.Entries, p.Shape, p.Shapes,
		p.Maybe, p.MaybeText, p.MaybePoint, p.MaybeEntry, p.Matrix, p.Nested)
	if err != nil {
		return err
	}
	sent := newDigest()
	sent.parts(&p)
	expected := everything.EverythingPartsReply{
		Entry: p.Entry, Shape: everything.Shape{Case: everything.ShapeCaseNumber, Number: uint64(*sent)},
		MaybeShape: answerShape(p.Shape),
	}
	expect("parts", wire(&reply), wire(&expected))
	return nil
}

// wire encodes a body as a message; equal values give equal messages.
func wire(body stubs.Body) string {
	message, err := stubs.Encode(nil, stubs.KindReply, 1, 1, body)
	check("encode", err)
	return fmt.Sprintf("%x", message)
}

func callEverything(ctx context.Context, channel *tombolo.Channel) {
	events := make(drawnEvents, 1)
	client, err := everything.NewEverythingClient(channel, events)
	check("bind", err)
	for _, n := range allNumbers() {
		reply, err := client.Numbers(ctx, n.A, n.B, n.C, n.D, n.E, n.F, n.G, n.H, n.I, n.J, n.K, n.Colour, n.Step,
			n.Rights, n.Hints, n.Domain)
		check("numbers", err)
		expect("numbers", wire(&reply), wire(&n))
	}
	check("null", client.Null(ctx))
	cases := allParts()
	for _, parts := range cases {
		check("parts", callParts(ctx, client, parts))
	}
	limits(ctx, client, cases[len(cases)-1])
	for text, expected := range map[string]everything.Failure{
		"refused": {Case: everything.FailureCaseRefused},
		"retry":   {Case: everything.FailureCaseRetry, Retry: math.MaxUint32},
		"because": {Case: everything.FailureCaseBecause, Because: because},
	} {
		declined := cases[len(cases)-1]
		declined.Text = text
		with, ok := stubs.DeclinedWith[everything.Failure](callParts(ctx, client, declined))
		expect("declined", fmt.Sprint(ok, with), fmt.Sprint(true, expected))
	}
	check("poke", client.Poke(ctx))
	shape, hash := drawnNames(), newDigest()
	hash.shape(&shape)
	expect("what was drawn", wait(ctx, events), uint64(*hash))
	check("close", client.Stub().Close())
}

// limits is values around what the interface allows.
func limits(ctx context.Context, client *everything.EverythingClient, empty everything.EverythingPartsRequest) {
	for _, of := range []struct {
		text    string
		numbers int
		allowed bool
	}{
		{strings.Repeat("x", 31), 0, true}, {strings.Repeat("x", 32), 0, true}, {strings.Repeat("x", 33), 0, false},
		{strings.Repeat("é", 16), 0, true}, {strings.Repeat("é", 17), 0, false},
		{"", 7, true}, {"", 8, true}, {"", 9, false},
	} {
		parts := empty
		parts.Text, parts.Numbers = of.text, make([]uint16, of.numbers)
		err := callParts(ctx, client, parts)
		var limit *stubs.OverLimit
		expect("within limits", err == nil || !errors.As(err, &limit), of.allowed)
	}
}
