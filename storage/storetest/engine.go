package storetest

import (
	"testing"
	"time"

	"redstalk/storage"
)

// Engine is an engine with its own data.
type Engine struct {
	// Open opens a store on the data, which is empty the first time.
	Open func(t testing.TB) storage.Store

	// Crash ends a store as if its process had been killed, without Close.
	// Nil if the engine keeps nothing.
	Crash func(storage.Store)

	// Advance moves the clock of the store forward. Before the first call the clock must
	// show about the local time.
	Advance func(time.Duration)

	// Now is the clock of the store. If it is nil, random histories contain no put with a time
	// of day.
	Now func() time.Time

	// TwoInstances says that the store is two servers on the same data. It carries out a batch in
	// the server of its holder: holders with an odd number are connected to one, the others to
	// the other. In a random history only one of them has reservations at a time, because the
	// order in which those of two servers end is undefined.
	TwoInstances bool

	// Durable says that the next Open finds what was acknowledged before.
	Durable bool

	// KeepsTubes says that the next Open finds the counters and the order of tubes as
	// well, and the totals.
	KeepsTubes bool

	// RestartEvery is after how many steps on average a random history reopens the
	// store; 0 means 100. If it is 1, cases reopen it as well: after every batch, unless
	// that would end a reservation or a use of a tube.
	RestartEvery int

	// Unit is the unit of the times in random histories, in seconds; 0 means 1. It is for
	// a store whose clock runs by itself: on a busy machine a second passes within few
	// operations.
	Unit int

	// Brief divides the length of random histories; 0 means 1.
	Brief int

	// LargeBodies makes one body in this number large in a random history, up to 100 KB;
	// 0 means none.
	LargeBodies int

	// LateDeadLetters says that a job whose body has to be read first goes to its
	// dead-letter tube a little later. Then in a random history with rules either no job
	// has a body or no job goes to a dead-letter tube.
	LateDeadLetters bool

	// Plain, if not nil, is the engine without any changes to its ids, which the model cannot
	// predict: those of jobs that the store creates by itself (dead letters and moved jobs) and
	// of jobs that are put after them. Dead letters can take some time there. If it is set,
	// random histories with rules use it, and the model learns the ids.
	Plain *Engine

	// LearnIDs says that this is such an engine, see Plain.
	LearnIDs bool

	// LateReserves says that a Crash can lose the counters of the last reserves: of all
	// after the last acknowledged change of another kind.
	LateReserves bool

	// ReadsJobs says that the store may have to read a job before it carries out any of the operations of a batch, which it
	// then carries out in parts.
	ReadsJobs bool

	// CleanCrash says that the next Open after a Crash finds no reservations, as after
	// Close. Then histories end the store in both ways.
	CleanCrash bool
}

// Run runs the suite. fresh returns an engine without data.
func Run(t *testing.T, fresh func(testing.TB) *Engine) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t, fresh(t))
			b.reopens = b.engine.RestartEvery == 1 && b.engine.Durable && !countsOn[name]
			test(b)
		})
	}
	t.Run("histories", func(t *testing.T) { runHistories(t, fresh, false, false) })
	RunRules(t, fresh)
}

// RunRules runs only the random histories with rules and schedules, and with groups.
func RunRules(t *testing.T, fresh func(testing.TB) *Engine) {
	t.Run("histories with rules", func(t *testing.T) { runHistories(t, fresh, true, false) })
	t.Run("histories with groups", func(t *testing.T) { runHistories(t, fresh, true, true) })
}

// RunImport runs only the cases about imports. It is for a store whose ids are not as Run
// expects them, because it is divided.
func RunImport(t *testing.T, fresh func(testing.TB) *Engine) {
	for _, name := range []string{"import", "import beside others", "import: limits"} {
		t.Run(name, func(t *testing.T) { cases[name](newHarness(t, fresh(t))) })
	}
}
