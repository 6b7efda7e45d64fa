package tube

// named are the records of one kind of a Machine.
type named[T dueRecord] struct {
	of   *base
	list sorted[string, T]
	dues dues[T]
	wall bool // they are due at wall times
}

func newNamed[T dueRecord](of *base, wall bool) named[T] {
	return named[T]{of: of, dues: newDues[T](), wall: wall}
}

// ofKind is a named[T], whatever T is.
type ofKind interface {
	page(cursor string, count int) (page []NamedRecord, next string)
	claim(now Instant, count int) []NamedRecord
	takeDue() bool
}

func (m *Machine) records(kind RecordKind) ofKind {
	if kind == JobBatches {
		return &m.batches.named
	}
	return &m.schedules.named
}

// ListRecords returns the first count records of a kind whose names come after a cursor, in their order, without what only one of
// them is asked for: bodies, and after-jobs. next is the cursor of the next ones; "" if there are none. count can be up to MaxListed.
func (m *Machine) ListRecords(kind RecordKind, cursor string, count int) (page []NamedRecord, next string) {
	return m.records(kind).page(cursor, count)
}

// DueRecords returns up to count records of a kind that are due, at most MaxListed, the earliest first, and claims them: for
// ClaimTime they are not returned again, unless they become due anew. They must not be changed.
func (m *Machine) DueRecords(now Instant, kind RecordKind, count int) []NamedRecord {
	return m.records(kind).claim(now, count)
}

// TakeRecordsDue returns whether a Tick has found that a record of a kind is due, since the last call.
func (m *Machine) TakeRecordsDue(kind RecordKind) bool { return m.records(kind).takeDue() }

func (all *named[T]) page(cursor string, count int) (page []NamedRecord, next string) {
	count = min(count, MaxListed)
	for x := range all.list.after(cursor) {
		if len(page) == count {
			if count > 0 {
				next = page[count-1].RecordName()
			}
			return page, next
		}
		page = append(page, x.listed(all.of))
	}
	return page, ""
}

func (all *named[T]) claim(now Instant, count int) (due []NamedRecord) {
	for _, x := range all.dues.claim(all.clock(now), count) {
		due = append(due, x.handedOut(all.of))
	}
	all.rearm()
	return due
}

func (all *named[T]) takeDue() bool { return all.dues.take() }

// fire notices that a record is due.
func (all *named[T]) fire(_ *Machine, now Instant) {
	all.dues.fire(all.clock(now))
	all.rearm()
}

// clock returns the time by which the records are due.
func (all *named[T]) clock(now Instant) Instant {
	if all.wall {
		return all.of.Wall(now)
	}
	return now
}

// rearm sets the alarm of the records.
func (all *named[T]) rearm() {
	at := all.dues.next()
	if all.wall {
		at = all.of.fromWall(at)
	}
	all.of.alarms.set(&all.dues.alarm, at)
}
