// What channels of Go take between two goroutines, beside hubs: `go run channels.go COUNT`.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

// Receives whose time is taken together, as `tombolo bench hub` does.
const batch = 10

type value [64]byte

// measure returns the mean and the median of count receives, from the second on.
func measure(capacity, count int) (mean, median float64) {
	values := make(chan value, capacity)
	go func() {
		for i := 0; i <= count; i++ {
			values <- value{7}
		}
	}()
	<-values
	var times []float64
	begun := time.Now()
	for left := count; left > 0; left -= batch {
		n := min(left, batch)
		at := time.Now()
		for i := 0; i < n; i++ {
			<-values
		}
		times = append(times, float64(time.Since(at).Nanoseconds())/float64(n))
	}
	mean = float64(time.Since(begun).Nanoseconds()) / float64(count)
	sort.Float64s(times)
	return mean, times[len(times)/2]
}

func main() {
	count := 0
	if len(os.Args) == 2 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	if count < 1 {
		fmt.Fprintln(os.Stderr, "usage: channels COUNT")
		os.Exit(2)
	}
	for _, capacity := range []int{0, 64} {
		mean, median := measure(capacity, count)
		fmt.Println(capacity, mean, median)
	}
}
