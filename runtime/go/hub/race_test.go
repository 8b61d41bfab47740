//go:build race

package hub

// isRace: sending on a channel that another goroutine closes is a race to the detector, whatever becomes of
// it.
const isRace = true
