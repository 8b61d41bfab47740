// Package ring implements docs/specs/ring.md: one-way rings of slots in memory that two programs map.
//
// Memory consists of 8-byte words. Numbers are little-endian, and are loaded and stored with sync/atomic,
// whose sequential consistency is stronger than the release, acquire and fences that the specification
// requires. Payload is bytes in address order, copied as whole words; the control words order it.
package ring

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// bigEndian is whether this processor's byte order differs from the memory's.
const bigEndian = runtime.GOARCH == "s390x" || runtime.GOARCH == "ppc64" || runtime.GOARCH == "mips64"

func swap(value uint64) uint64 {
	if bigEndian {
		return bits.ReverseBytes64(value)
	}
	return value
}

// Load loads a number.
func Load(word *uint64) uint64 { return swap(atomic.LoadUint64(word)) }

// Store stores a number with release ordering: a side that loads it sees everything stored before it.
func Store(word *uint64, value uint64) { atomic.StoreUint64(word, swap(value)) }

// Add increments a number that others on this node increment too. It orders earlier stores as Store does.
func Add(word *uint64) {
	for {
		old := atomic.LoadUint64(word)
		if atomic.CompareAndSwapUint64(word, old, swap(swap(old)+1)) {
			return
		}
	}
}

// put stores bytes into words, and pads the last word with zeros.
func put(words []uint64, payload []byte) {
	for len(payload) >= 8 {
		words[0] = native(payload)
		words, payload = words[1:], payload[8:]
	}
	if len(payload) > 0 {
		var last [8]byte
		copy(last[:], payload)
		words[0] = native(last[:])
	}
}

// get appends bytes from words, loading each word once.
func get(target []byte, words []uint64, length int) []byte {
	var word [8]byte
	for length >= 8 {
		setNative(word[:], words[0])
		target = append(target, word[:]...)
		words, length = words[1:], length-8
	}
	if length > 0 {
		setNative(word[:], words[0])
		target = append(target, word[:length]...)
	}
	return target
}

// native returns the word that has these bytes in memory.
func native(bytes []byte) uint64 {
	if bigEndian {
		return binary.BigEndian.Uint64(bytes)
	}
	return binary.LittleEndian.Uint64(bytes)
}

func setNative(bytes []byte, word uint64) {
	if bigEndian {
		binary.BigEndian.PutUint64(bytes, word)
	} else {
		binary.LittleEndian.PutUint64(bytes, word)
	}
}
