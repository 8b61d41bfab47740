package main

import (
	"bytes"
	"encoding/binary"
)

// target is the text to be found, of characters 32 to 126: a program in C.
const target = `int main(void) { puts("Hello, world!"); return 0; }`

const (
	// individuals is how many there are on all islands together.
	individuals = 1280

	// between is how many generations pass between migrations.
	between = 10

	// migrants is how many individuals migrate at once.
	migrants = 2
)

// individual is a text of the target's length.
type individual [len(target)]byte

// random is splitmix64, so that programs in other languages draw the same numbers.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) below(limit int) int { return int(r.next() >> 33 % uint64(limit)) }

// island is a part of the population.
type island struct {
	random  random
	all     []individual
	fitness []int
	other   []individual
}

func newIsland(rank, size int) *island {
	i := &island{random: random(rank + 1)}
	count := individuals / size
	i.all, i.other, i.fitness = make([]individual, count), make([]individual, count), make([]int, count)
	for k := range i.all {
		for c := range i.all[k] {
			i.all[k][c] = byte(32 + i.random.below(95))
		}
	}
	i.judge()
	return i
}

// judge computes the fitness of all: the sum of squared differences, which is 0 for the target.
func (i *island) judge() {
	for k := range i.all {
		i.fitness[k] = 0
		for c, letter := range i.all[k] {
			difference := int(letter) - int(target[c])
			i.fitness[k] += difference * difference
		}
	}
}

func (i *island) best() int {
	best := 0
	for k, fitness := range i.fitness {
		if fitness < i.fitness[best] {
			best = k
		}
	}
	return best
}

// fitter is the better of two that are drawn.
func (i *island) fitter() int {
	a, b := i.random.below(len(i.all)), i.random.below(len(i.all))
	if i.fitness[b] < i.fitness[a] {
		return b
	}
	return a
}

// generation replaces all by children of the fitter; the best stays.
func (i *island) generation() {
	i.other[0] = i.all[i.best()]
	for k := 1; k < len(i.other); k++ {
		mother, father, cut := i.fitter(), i.fitter(), i.random.below(len(target))
		child := i.all[mother]
		copy(child[cut:], i.all[father][cut:])
		if i.random.below(2) == 0 {
			// A letter changes by up to 3.
			c := i.random.below(len(target))
			letter := int(child[c]) + i.random.below(7) - 3
			if letter >= 32 && letter <= 126 {
				child[c] = byte(letter)
			}
		}
		i.other[k] = child
	}
	i.all, i.other = i.other, i.all
	i.judge()
}

// leave draws who migrates.
func (i *island) leave() []byte {
	var message []byte
	for m := 0; m < migrants; m++ {
		one := i.all[i.random.below(len(i.all))]
		message = append(message, one[:]...)
	}
	return message
}

// arrive puts those who come in place of others that are drawn, but not of the best.
func (i *island) arrive(message []byte) {
	best := i.best()
	for m := 0; m < migrants; m++ {
		k := i.random.below(len(i.all))
		if k != best && len(message) >= (m+1)*len(target) {
			copy(i.all[k][:], message[m*len(target):])
		}
	}
	i.judge()
}

// neighbours is how an island reaches those beside it.
type neighbours interface {
	send(message []byte) error
	receive() ([]byte, error)
}

// evolve is the life of an island, of as many generations on all, so that the result depends on the number of
// islands alone. Odd islands send first, so that no two wait for each other to receive.
func evolve(rank, size, generations int, n neighbours) ([]byte, error) {
	i := newIsland(rank, size)
	for g := 1; g <= generations; g++ {
		i.generation()
		if g%between != 0 || size == 1 {
			continue
		}
		leaving := i.leave()
		var coming []byte
		var err error
		if rank%2 == 1 {
			if err = n.send(leaving); err == nil {
				coming, err = n.receive()
			}
		} else {
			if coming, err = n.receive(); err == nil {
				err = n.send(leaving)
			}
		}
		if err != nil {
			return nil, err
		}
		i.arrive(coming)
	}
	best := i.best()
	return binary.LittleEndian.AppendUint64(append([]byte(nil), i.all[best][:]...), uint64(i.fitness[best])), nil
}

// better is the better of two results; of equals the first in the order of their bytes.
func better(a, b []byte) []byte {
	fitnessA, fitnessB := binary.LittleEndian.Uint64(a[len(target):]), binary.LittleEndian.Uint64(b[len(target):])
	if fitnessB < fitnessA || fitnessB == fitnessA && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}
