package embedded

import (
	"fmt"
	"maps"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// tallies are what the engine knows of tallies without the tables. The lock of the engine guards them.
type tallies struct {
	from    string // of the last AddTallies
	number  uint64
	present [tube.NumPeriods]presentTallies
	unsaved map[tables.TallyKey]tube.Tally // those that the tables lack, a zero one if there is none any more; without a journal all
}

// presentTallies are the tallies of the present hour or day.
type presentTallies struct {
	number uint64
	rows   map[string]tube.Tally // by tube; nil: nothing was added yet
}

func newTallies() tallies { return tallies{unsaved: make(map[tables.TallyKey]tube.Tally)} }

// addTallies carries out an AddTallies. It returns false if it has to be tried again later.
func (e *Engine) addTallies(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBegin() {
		return false
	}
	add := op.Args.Tallies
	e.spend(2 * len(add.Rows))
	if add.From == e.tallies.from && add.Number <= e.tallies.number {
		return true
	}
	for period := range tube.NumPeriods {
		if op.Answer.Err = e.openTallies(period, period.At(e.machine.Wall(now))); op.Answer.Err != nil {
			return true
		}
	}
	if e.journal != nil && !e.journal.guard.reserveRoom(0) {
		op.Answer.Err = storage.ErrNoSpace
		return true
	}
	e.tallies.from, e.tallies.number = add.From, add.Number
	for period := range tube.NumPeriods {
		rows := e.tallies.present[period].rows
		for i := range add.Rows {
			t := rows[add.Rows[i].Tube]
			t.Add(&add.Rows[i].Tally)
			e.setTally(period, add.Rows[i].Tube, t)
		}
		for _, name := range tube.LeastBusy(rows) {
			e.setTally(period, name, tube.Tally{})
		}
	}
	return true
}

// openTallies makes a period the present one: the next one, or another one if the clock was set.
func (e *Engine) openTallies(period tube.Period, number uint64) error {
	p := &e.tallies.present[period]
	if p.rows != nil && p.number == number {
		return nil
	}
	rows := make(map[string]tube.Tally)
	if e.journal != nil {
		if err := e.journal.tables.Tallies(period, number, func(name string, t tube.Tally) { rows[name] = t }); err != nil {
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
	}
	first := period.First(number, period.Kept())
	maps.DeleteFunc(e.tallies.unsaved, func(k tables.TallyKey, t tube.Tally) bool {
		if k.Period == period && k.Number == number {
			rows[k.Tube] = t
		}
		return k.Period == period && k.Number < first
	})
	maps.DeleteFunc(rows, func(_ string, t tube.Tally) bool { return t == tube.Tally{} })
	p.number, p.rows = number, rows
	return nil
}

// setTally sets a tally of the present period. A zero one is removed.
func (e *Engine) setTally(period tube.Period, name string, t tube.Tally) {
	p := &e.tallies.present[period]
	k := tables.TallyKey{Period: period, Number: p.number, Tube: name}
	if p.rows[name] = t; t == (tube.Tally{}) {
		delete(p.rows, name)
	}
	e.tallies.unsaved[k] = t
	if e.journal != nil {
		e.journal.tallySet(k, t)
	}
}

// talliesRead is what a ReadTallies has found.
type talliesRead struct {
	first   uint64
	numbers []tube.Tally      // of each period from first on; zero: there is none
	missing []tables.TallyKey // are to be read from the tables
	err     error
}

// readTallies carries out a ReadTallies. It returns false if tallies are to be read from the tables.
func (e *Engine) readTallies(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	period, wall := op.Args.Tallies.Period, e.machine.Wall(now)
	if p.tallies == nil {
		p.begun, p.tallies = true, e.findTallies(period, period.At(wall), op)
		if e.journal != nil && len(p.tallies.missing) > 0 {
			return false
		}
	}
	result := &storage.Result{Now: wall}
	for i, t := range p.tallies.numbers {
		if t != (tube.Tally{}) {
			result.Tallies = append(result.Tallies, tube.PeriodTally{Begin: period.Begin(p.tallies.first + uint64(i)), Tally: t})
		}
	}
	op.Answer.Result, op.Answer.Err = result, p.tallies.err
	return true
}

// findTallies returns what is known of the last periods without the tables.
func (e *Engine) findTallies(period tube.Period, last uint64, op *storage.Op) *talliesRead {
	first := period.First(last, op.Args.Tallies.Count)
	r, present := &talliesRead{first: first}, &e.tallies.present[period]
	for number := first; number <= last; number++ {
		k := tables.TallyKey{Period: period, Number: number, Tube: op.Tube}
		t, known := e.tallies.unsaved[k]
		if !known && present.rows != nil && number == present.number {
			t, known = present.rows[op.Tube], true
		}
		if r.numbers = append(r.numbers, t); !known {
			r.missing = append(r.missing, k)
		}
	}
	return r
}

// loadTallies reads the tallies that a task lacks, on a goroutine of its own, and then gives the task back to the worker. Those that
// get into the tables meanwhile were found without them. The lock is held.
func (e *Engine) loadTallies(t *task) {
	go func() {
		r := t.tallies
		for _, k := range r.missing {
			tally, err := e.journal.tables.Tally(k)
			if err != nil {
				r.err = fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
				break
			}
			r.numbers[k.Number-r.first] = tally
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		r.missing = nil
		e.enqueue(t)
	}()
}

// talliesSaved is called when tallies are in the tables. It removes old ones there, if a period has begun.
func (j *journal) talliesSaved(saved map[tables.TallyKey]tube.Tally) error {
	kept := j.kept
	j.mu.Lock()
	for k, t := range saved {
		if j.tallies.unsaved[k] == t {
			delete(j.tallies.unsaved, k)
		}
		kept[k.Period] = max(kept[k.Period], k.Period.First(k.Number, k.Period.Kept()))
	}
	j.mu.Unlock()
	for period := range tube.NumPeriods {
		if kept[period] > j.kept[period] {
			if err := j.tables.ForgetTallies(period, kept[period]); err != nil {
				return err
			}
		}
	}
	j.kept = kept
	return nil
}
