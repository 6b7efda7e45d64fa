package embedded

import "time"

// breather has a goroutine that computes for long, the checkpointer, leave the processor now and
// then. It sleeps, since to yield is not enough: as long as anybody can run, the scheduler does not
// look who has something to read from the network, and on two processors that takes 10 ms.
type breather struct{ done int }

const (
	// breathWork is what is done without a pause, two or three milliseconds: as many
	// records are written, or times eight as many keys are compared.
	breathWork = 2048

	// breath is the pause.
	breath = 50 * time.Microsecond
)

// did notes some work, in records.
func (b *breather) did(work int) {
	if b.done += work; b.done >= breathWork {
		b.done = 0
		time.Sleep(breath)
	}
}

// sorting returns compare for a sort of very many.
func sorting[T any](compare func(a, b T) int) func(a, b T) int {
	var b breather
	n := 0
	return func(x, y T) int {
		if n++; n%8 == 0 {
			b.did(1)
		}
		return compare(x, y)
	}
}
