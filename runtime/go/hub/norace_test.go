//go:build !race

package hub

const isRace = false
