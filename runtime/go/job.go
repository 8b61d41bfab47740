package tombolo

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// A Job is the set of domains that one `tombolo run` started, with ranks from 0, and this domain's rank.
type Job struct {
	domain *Domain
	rank   int
	size   int
	id     string
}

// Job returns the job that this program was started in.
func (d *Domain) Job() (*Job, error) {
	const op = "find the job"
	id := os.Getenv("TOMBOLO_JOB")
	rank, rankErr := strconv.Atoi(os.Getenv("TOMBOLO_RANK"))
	size, sizeErr := strconv.Atoi(os.Getenv("TOMBOLO_SIZE"))
	if id == "" || rankErr != nil || sizeErr != nil || rank < 0 || rank >= size {
		return nil, failure(ErrInvalidArgument, op, "this program is not part of a job; start it with `tombolo run`")
	}
	return &Job{domain: d, rank: rank, size: size, id: id}, nil
}

// Rank returns this domain's rank, in the order in which nodes were given to `tombolo run`.
func (j *Job) Rank() int { return j.rank }

// Size returns the number of domains in the job.
func (j *Job) Size() int { return j.size }

// Name returns a name that is private to the job.
func (j *Job) Name(name string) string { return j.id + "/" + name }

// ChannelTo opens the channel to another domain of the job, which must make the matching call. There is one
// channel per pair.
func (j *Job) ChannelTo(ctx context.Context, rank int) (*Channel, error) {
	if rank < 0 || rank >= j.size || rank == j.rank {
		return nil, failure(ErrInvalidArgument, fmt.Sprintf("open a channel to rank %d", rank),
			"this is rank %d of %d", j.rank, j.size)
	}
	low, high := j.rank, rank
	if low > high {
		low, high = high, low
	}
	name := j.Name(fmt.Sprintf("channel/%d-%d", low, high))
	if rank < j.rank {
		return j.domain.Connect(ctx, name)
	}
	listener, err := j.domain.Export(ctx, name)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return listener.Accept(ctx)
}

// Isa returns the machine's name for the instruction set that this program runs on.
func Isa() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	case "386":
		return "i386"
	case "arm":
		return "armv7"
	}
	return runtime.GOARCH
}
