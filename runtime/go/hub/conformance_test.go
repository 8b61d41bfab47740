package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Random programs of goroutines over channels run on native channels and on hubs. Every outcome must be one
// that a model of Go's semantics allows: a search through all orders in which operations can begin, wait,
// time out and complete.
//
// Hubs are allowed two deviations from native channels, because a select on hubs sets items aside before it
// decides: a receive may skip an item that is set aside, and so values may arrive out of order beside a
// select. (A try may find nothing for the same reason; programs have tries or selects, not both.)

// op is an operation: its kind, channel and value. A select has two arms, one per channel.
type op struct {
	kind  string // send, recv, close, try-send, try-recv, select
	on    int
	value int
	arms  []op
}

// program has a list of operations per goroutine, and the capacities of two channels.
type program struct {
	capacities [2]int
	goroutines [][]op
}

// randomProgram generates a program with unique values.
func randomProgram(random *rand.Rand) program {
	p := program{capacities: [2]int{random.Intn(3), random.Intn(3)}}
	words := [2][]string{{"send", "send", "recv", "recv", "close", "try-send", "try-recv"},
		{"send", "send", "recv", "recv", "close", "select", "select"}}[random.Intn(2)]
	value := 0
	one := func(kind string, on int) op {
		value++
		return op{kind: kind, on: on, value: value}
	}
	for g := 0; g < 3; g++ {
		var ops []op
		for i := random.Intn(3); i >= 0; i-- {
			operation := one(words[random.Intn(len(words))], random.Intn(2))
			if operation.kind == "select" {
				sides := []string{"send", "recv"}
				operation.arms = []op{one(sides[random.Intn(2)], 0), one(sides[random.Intn(2)], 1)}
			}
			ops = append(ops, operation)
		}
		p.goroutines = append(p.goroutines, ops)
	}
	return p
}

// model is a state of a program in the search.
type model struct {
	buffers [2][]int
	closed  [2]bool
	next    []int
	waits   []bool
	logs    [][]string
}

func (m *model) clone() *model {
	n := &model{closed: m.closed, next: append([]int(nil), m.next...), waits: append([]bool(nil), m.waits...)}
	for i := range m.buffers {
		n.buffers[i] = append([]int(nil), m.buffers[i]...)
	}
	for _, log := range m.logs {
		n.logs = append(n.logs, append([]string(nil), log...))
	}
	return n
}

func outcome(logs [][]string) string {
	var parts []string
	for _, log := range logs {
		parts = append(parts, strings.Join(log, " "))
	}
	return strings.Join(parts, " | ")
}

// finish ends the operation of a goroutine.
func (m *model) finish(g int, result string) *model {
	n := m.clone()
	n.logs[g] = append(n.logs[g], result)
	n.next[g]++
	n.waits[g] = false
	return n
}

// search enumerates all outcomes.
type search struct {
	program  program
	asHubs   bool
	seen     map[string]bool
	outcomes map[string]bool
}

func possibleOutcomes(p program, asHubs bool) map[string]bool {
	s := &search{program: p, asHubs: asHubs, seen: map[string]bool{}, outcomes: map[string]bool{}}
	count := len(p.goroutines)
	s.visit(&model{next: make([]int, count), waits: make([]bool, count), logs: make([][]string, count)})
	return s.outcomes
}

func (s *search) visit(m *model) {
	key := fmt.Sprint(*m)
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	over := true
	for g, ops := range s.program.goroutines {
		if m.next[g] == len(ops) {
			continue
		}
		over = false
		of := ops[m.next[g]]
		if !m.waits[g] {
			s.begin(m, g, of)
			continue
		}
		// A waiting operation may time out or complete.
		s.visit(m.finish(g, "timeout"))
		for _, n := range s.completions(m, g, of) {
			s.visit(n)
		}
	}
	if over {
		s.outcomes[outcome(m.logs)] = true
	}
}

// begin starts an operation: one that can wait first enters the waiting state.
func (s *search) begin(m *model, g int, of op) {
	switch of.kind {
	case "close":
		if m.closed[of.on] {
			s.visit(m.finish(g, "closed"))
			return
		}
		n := m.finish(g, "ok")
		n.closed[of.on] = true
		s.visit(n)
	case "try-send", "try-recv":
		of.kind = of.kind[len("try-"):]
		ready := s.completions(m, g, of)
		for _, n := range ready {
			s.visit(n)
		}
		if len(ready) == 0 {
			s.visit(m.finish(g, "full"))
		}
	default:
		n := m.clone()
		n.waits[g] = true
		s.visit(n)
	}
}

// completions returns the states in which an operation has completed.
func (s *search) completions(m *model, g int, of op) (all []*model) {
	if of.kind == "select" {
		for i, arm := range of.arms {
			for _, n := range s.completions(m, g, arm) {
				log := n.logs[g]
				log[len(log)-1] = fmt.Sprint(i, ":", log[len(log)-1])
				all = append(all, n)
			}
		}
		return all
	}
	c := of.on
	capacity := s.program.capacities[c]
	if of.kind == "send" {
		switch {
		case m.closed[c]:
			return []*model{m.finish(g, "closed")}
		case len(m.buffers[c]) < capacity:
			n := m.finish(g, "ok")
			n.buffers[c] = append(n.buffers[c], of.value)
			return []*model{n}
		}
		return s.sendToReceiver(m, g, of)
	}
	for i := 0; i < len(m.buffers[c]) && i <= s.setAsideCount(g, c); i++ {
		n := m.finish(g, fmt.Sprint("v", m.buffers[c][i]))
		n.buffers[c] = append(n.buffers[c][:i:i], n.buffers[c][i+1:]...)
		all = append(all, n)
	}
	if len(all) > 0 {
		return all
	}
	if m.closed[c] {
		return []*model{m.finish(g, "closed")}
	}
	return s.receiveFromSender(m, g, c)
}

// setAsideCount returns how many items selects of other goroutines may have set aside.
func (s *search) setAsideCount(g, c int) (count int) {
	if !s.asHubs {
		return 0
	}
	for other, ops := range s.program.goroutines {
		for _, of := range ops {
			if other != g && of.kind == "select" && of.arms[c].kind == "recv" {
				count++
			}
		}
	}
	return count
}

// receiveFromSender returns the states after a receive from a waiting sender, for unbuffered channels. A
// receive finds a buffered channel empty only if no sender waits, as sends to an empty one complete at once.
func (s *search) receiveFromSender(m *model, g, c int) (all []*model) {
	if s.program.capacities[c] > 0 {
		return nil
	}
	for other := range s.program.goroutines {
		if other == g || !m.waits[other] {
			continue
		}
		of := s.program.goroutines[other][m.next[other]]
		if of.kind == "send" && of.on == c {
			all = append(all, m.finish(other, "ok").finish(g, fmt.Sprint("v", of.value)))
		}
		if of.kind == "select" && of.arms[c].kind == "send" {
			n := m.finish(other, fmt.Sprint(c, ":ok"))
			all = append(all, n.finish(g, fmt.Sprint("v", of.arms[c].value)))
		}
	}
	return all
}

// sendToReceiver returns the states after a send to a waiting receiver.
func (s *search) sendToReceiver(m *model, g int, of op) (all []*model) {
	for other := range s.program.goroutines {
		if other == g || !m.waits[other] || s.program.capacities[of.on] > 0 {
			continue
		}
		waits := s.program.goroutines[other][m.next[other]]
		if waits.kind == "recv" && waits.on == of.on {
			all = append(all, m.finish(other, fmt.Sprint("v", of.value)).finish(g, "ok"))
		}
		if waits.kind == "select" && waits.arms[of.on].kind == "recv" {
			n := m.finish(other, fmt.Sprint(of.on, ":v", of.value))
			all = append(all, n.finish(g, "ok"))
		}
	}
	return all
}

// runner performs operations, on native channels or on hubs.
type runner interface{ do(g int, of op) string }

func run(p program, r runner) string {
	logs := make([][]string, len(p.goroutines))
	var all sync.WaitGroup
	for g := range p.goroutines {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for _, of := range p.goroutines[g] {
				logs[g] = append(logs[g], r.do(g, of))
			}
		}(g)
	}
	all.Wait()
	return outcome(logs)
}

const opTimeout = 15 * time.Millisecond

// nativeChannels is Go's own channels.
type nativeChannels [2]chan int

func (n nativeChannels) do(_ int, of op) (result string) {
	defer func() {
		if recover() != nil {
			result = "closed"
			if of.kind == "select" {
				// The panicking arm is not visible: in the model, one that sends to a closed channel.
				result = "panic"
			}
		}
	}()
	got := func(value int, ok bool) string {
		if !ok {
			return "closed"
		}
		return fmt.Sprint("v", value)
	}
	c := n[of.on]
	timer := time.After(opTimeout)
	switch of.kind {
	case "send":
		select {
		case c <- of.value:
			return "ok"
		case <-timer:
			return "timeout"
		}
	case "recv":
		select {
		case value, ok := <-c:
			return got(value, ok)
		case <-timer:
			return "timeout"
		}
	case "close":
		close(c)
		return "ok"
	case "try-send":
		select {
		case c <- of.value:
			return "ok"
		default:
			return "full"
		}
	case "try-recv":
		select {
		case value, ok := <-c:
			return got(value, ok)
		default:
			return "full"
		}
	}
	// A nil channel is never ready: each case is one of two.
	var in, out [2]chan int
	for i, arm := range of.arms {
		if arm.kind == "send" {
			out[i] = n[i]
		} else {
			in[i] = n[i]
		}
	}
	select {
	case out[0] <- of.arms[0].value:
		return "0:ok"
	case out[1] <- of.arms[1].value:
		return "1:ok"
	case value, ok := <-in[0]:
		return "0:" + got(value, ok)
	case value, ok := <-in[1]:
		return "1:" + got(value, ok)
	case <-timer:
		return "timeout"
	}
}

// hubChannels is hubs, with a session for each goroutine.
type hubChannels [][2]*Chan[int64]

func (h hubChannels) do(g int, of op) string {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	long, cancelLong := context.WithTimeout(context.Background(), patience)
	defer cancelLong()
	chans := h[g]
	if of.kind == "select" {
		var cases [2]Case
		var values [2]int64
		for i, arm := range of.arms {
			if arm.kind == "send" {
				cases[i] = chans[i].Sending(int64(arm.value))
			} else {
				cases[i] = chans[i].Receiving(&values[i])
			}
		}
		i, err := Select(ctx, cases[:]...)
		result := resultText(err, "ok")
		if result == "timeout" {
			return result
		}
		if err == nil && of.arms[i].kind == "recv" {
			result = fmt.Sprint("v", values[i])
		}
		return fmt.Sprint(i, ":", result)
	}
	c := chans[of.on]
	switch of.kind {
	case "send":
		return resultText(c.Send(ctx, int64(of.value)), "ok")
	case "recv":
		value, err := c.Recv(ctx)
		return resultText(err, fmt.Sprint("v", value))
	case "try-send":
		return resultText(c.TrySend(long, int64(of.value)), "ok")
	case "try-recv":
		value, err := c.TryRecv(long)
		return resultText(err, fmt.Sprint("v", value))
	}
	return resultText(c.Close(long), "ok")
}

// resultText returns the outcome of an operation as the model writes it.
func resultText(err error, good string) string {
	switch {
	case err == nil:
		return good
	case errors.Is(err, ErrClosed), errors.Is(err, ErrClosedBefore):
		return "closed"
	case errors.Is(err, ErrWouldBlock):
		return "full"
	case errors.Is(err, ErrTimedOut):
		return "timeout"
	}
	return err.Error()
}

// isPossible reports whether an outcome is in a set; a select that panicked matches any failed one.
func isPossible(outcomes map[string]bool, found string) bool {
	if !strings.Contains(found, "panic") {
		return outcomes[found]
	}
	for _, arm := range []string{"0:closed", "1:closed"} {
		if isPossible(outcomes, strings.Replace(found, "panic", arm, 1)) {
			return true
		}
	}
	return false
}

// The model rejects impossible outcomes: otherwise it would prove nothing.
func TestModel(t *testing.T) {
	p := program{goroutines: [][]op{{{kind: "send", value: 1}}, {{kind: "recv"}}, {{kind: "recv"}}}}
	outcomes := possibleOutcomes(p, false)
	for found, is := range map[string]bool{
		"ok | v1 | timeout": true, "ok | timeout | v1": true, "timeout | timeout | timeout": true,
		"ok | v1 | v1": false, "ok | timeout | timeout": false, "timeout | v1 | timeout": false,
	} {
		if outcomes[found] != is {
			t.Errorf("%s: %v", found, outcomes[found])
		}
	}
}

func TestConformance(t *testing.T) {
	random := rand.New(rand.NewSource(6))
	count := 60
	if more, err := strconv.Atoi(os.Getenv("TOMBOLO_PROGRAMS")); err == nil {
		count = more
	}
	programs := make([]program, count)
	var hubs []string
	for i := range programs {
		programs[i] = randomProgram(random)
		for c, capacity := range programs[i].capacities {
			kind := "port"
			if capacity > 0 {
				kind = fmt.Sprint("fifo:", capacity)
			}
			hubs = append(hubs, fmt.Sprintf("go-c%d-%d:%s", i, c, kind))
		}
	}
	opened := func(int) hubChannels { return nil }
	if os.Getenv("TOMBOLO_COMMAND") != "" {
		domain := serveHubs(t, hubs...)
		sessions := []*Session{joinSession(t, domain), joinSession(t, domain), joinSession(t, domain)}
		opened = func(i int) (h hubChannels) {
			for _, s := range sessions {
				h = append(h, [2]*Chan[int64]{open[int64](t, s, fmt.Sprintf("go-c%d-0", i)),
					open[int64](t, s, fmt.Sprintf("go-c%d-1", i))})
			}
			return h
		}
	}
	limit := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i, p := range programs {
		all.Add(1)
		limit <- struct{}{}
		go func(i int, p program) {
			defer all.Done()
			defer func() { <-limit }()
			outcomes := possibleOutcomes(p, false)
			for again := 0; again < 3 && !isRace; again++ {
				found := run(p, nativeChannels{make(chan int, p.capacities[0]), make(chan int, p.capacities[1])})
				if !isPossible(outcomes, found) {
					t.Errorf("native channels: %+v\nended as %s", p, found)
				}
			}
			// Without a machine there are no hubs, and this only tests the model.
			if h := opened(i); h != nil {
				if found := run(p, h); !possibleOutcomes(p, true)[found] {
					t.Errorf("hubs: %+v\nended as %s", p, found)
				}
			}
		}(i, p)
	}
	all.Wait()
}
