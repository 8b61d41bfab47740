// Package ring implements docs/specs/ring.md: one-way rings of slots in memory that two programs map.
//
// Memory is words of eight bytes. Numbers are little-endian and are loaded and stored by sync/atomic, which
// is sequentially consistent: that is more than the release, acquire and fences that the specification asks
// for. Payload is bytes in address order, moved by whole words; its order comes from the control words.
package ring

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// bigEndian is whether this processor has the other byte order than the memory.
const bigEndian = runtime.GOARCH == "s390x" || runtime.GOARCH == "ppc64" || runtime.GOARCH == "mips64"

func swap(value uint64) uint64 {
	if bigEndian {
		return bits.ReverseBytes64(value)
	}
	return value
}

// Load loads a number.
func Load(word *uint64) uint64 { return swap(atomic.LoadUint64(word)) }

// Store stores a number: everything stored before it is visible to those who see it.
func Store(word *uint64, value uint64) { atomic.StoreUint64(word, swap(value)) }

// Add adds one to a number that others of this node add to as well. As with Store, everything stored before
// is visible to those who see it.
func Add(word *uint64) {
	for {
		old := atomic.LoadUint64(word)
		if atomic.CompareAndSwapUint64(word, old, swap(swap(old)+1)) {
			return
		}
	}
}

// put stores bytes into words, the last of which is filled with zeros.
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

// native is the word whose bytes in memory are these.
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
