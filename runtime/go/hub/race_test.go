//go:build race

package hub

// isRace is whether the race detector is on: it reports a send on a channel that another goroutine closes,
// even if the send panics as expected.
const isRace = true
