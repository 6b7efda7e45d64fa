package storetest

import (
	"testing"
	"time"

	"redstalk/storage"
)

// Engine is one engine with data of its own.
type Engine struct {
	// Open opens a store on the data, which is empty the first time.
	Open func(t testing.TB) storage.Store

	// Crash ends a store as if its process had been killed, without Close.
	// Nil if the engine keeps nothing.
	Crash func(storage.Store)

	// Advance moves the clock of the store forward. Before it was called the first time
	// that was about the local time.
	Advance func(time.Duration)

	// Durable says that another Open finds what was acknowledged before.
	Durable bool

	// KeepsTubes says that another Open finds the counters and the order of
	// tubes as well, and the totals.
	KeepsTubes bool

	// RestartEvery is after how many steps on average a random history opens
	// the store anew; 0 means 100. If it is 1, cases open it anew as well: after
	// every batch, unless a reservation or an attendance would end by that.
	RestartEvery int

	// Unit is how many seconds the times of random histories are multiples of; 0
	// means 1. It is for a store whose clock goes on by itself: on a busy machine a
	// second passes within few operations.
	Unit int

	// Brief makes random histories that many times shorter; 0 means 1.
	Brief int

	// LargeBodies makes one of so many bodies in a random history large, up to
	// 100 KB; 0 means none.
	LargeBodies int

	// LateDeadLetters says that a job whose body has to be read first goes to its
	// dead-letter tube a little later. Then in a random history with rules either no job
	// has a body or none goes there.
	LateDeadLetters bool

	// Plain, if not nil, is the engine with the ids that it gives, which cannot be
	// foretold: those of jobs that the store makes by itself, dead letters and jobs that are
	// moved, nor those that are put after them. Dead letters may take their time. Then
	// random histories with rules are on this engine, and the model learns the ids.
	Plain *Engine

	// LearnIDs says that this is such an engine, see Plain.
	LearnIDs bool

	// LateReserves says that a Crash may lose the counters of the last reserves:
	// of all after the last acknowledged change of another kind.
	LateReserves bool

	// CleanCrash says that after a Crash another Open finds no reservations, as
	// after Close. Then histories end the store in both ways.
	CleanCrash bool
}

// Run runs the suite. fresh returns an engine with no data.
func Run(t *testing.T, fresh func(testing.TB) *Engine) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			b := newRig(t, fresh(t))
			b.reopens = b.engine.RestartEvery == 1 && b.engine.Durable && !countsOn[name]
			test(b)
		})
	}
	t.Run("histories", func(t *testing.T) { runHistories(t, fresh, false) })
	t.Run("histories with rules", func(t *testing.T) { runHistories(t, fresh, true) })
}

// RunImport runs those cases that are about imports: for a store whose ids are not as Run wants
// them, because it is divided.
func RunImport(t *testing.T, fresh func(testing.TB) *Engine) {
	for _, name := range []string{"import", "import beside others"} {
		t.Run(name, func(t *testing.T) { cases[name](newRig(t, fresh(t))) })
	}
}
