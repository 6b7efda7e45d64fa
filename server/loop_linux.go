package server

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"

	"redstalk/server/aio"
	"redstalk/server/queue"
	"redstalk/storage"
)

// loop watches many connections with one epoll descriptor, edge-triggered, on a
// goroutine of its own: a turn is one wait, the sessions of all connections on
// which something happened, and one call of the store.
type loop struct {
	queue   *queue.Queue
	store   storage.Store
	gathers storage.PollingStore // the store, if it is one
	epoll   int
	waker   [2]int // a pipe: a byte in it ends the wait
	done    chan struct{}
	sends   sends

	// These belong to the loop's goroutine.
	events  []syscall.EpollEvent
	turn    loopIteration
	inner   loopIteration // within turn, see gather
	woken   []*epollWire  // by the poll
	turns   uint64        // how many there were
	yielded time.Time     // when it last let others run
	sleeps  bool          // the queue does not count it as awake

	mu       sync.Mutex           // guards what follows
	wires    map[int32]*epollWire // by descriptor
	batches  []*storage.Batch     // to be handed over with the next turn
	again    []*epollWire         // to be woken in the next turn
	asleep   bool                 // it waits, or is about to, for events only
	stopping bool
}

// maxEvents is how many ready connections one turn takes.
const maxEvents = 256

func newLoop(q *queue.Queue) (*loop, error) {
	l := &loop{queue: q, store: q.Store(), done: make(chan struct{}), turns: 1, wires: make(map[int32]*epollWire)}
	l.gathers, _ = l.store.(storage.PollingStore)
	l.events = make([]syscall.EpollEvent, maxEvents)
	var err error
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = syscall.Pipe2(l.waker[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		syscall.Close(l.epoll)
		return nil, err
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(l.waker[0])}
	if err = syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, l.waker[0], &event); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// sendTogether has replies of a turn sent together from now on, if the store says when it
// begins something slow. It is called before run.
func (l *loop) sendTogether() (err error) {
	if l.gathers != nil {
		l.sends.aio, err = aio.NewSender()
	}
	return err
}

func (l *loop) stop() {
	l.ask(func() { l.stopping = true })
	<-l.done
}

func (l *loop) close() {
	if l.sends.aio != nil {
		l.sends.aio.Close()
	}
	syscall.Close(l.waker[1])
	syscall.Close(l.waker[0])
	syscall.Close(l.epoll)
}

// ask changes what the next turn does, and sees to it that there is one. change
// runs with the lock held.
func (l *loop) ask(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.asleep {
		l.asleep = false
		syscall.Write(l.waker[1], []byte{0})
	}
}

// edges is what a connection is watched for. EPOLLET is negative in package
// syscall.
const edges = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | syscall.EPOLLPRI | 1<<31

// add begins to watch w. Its session may be woken before add returns.
func (l *loop) add(w *epollWire) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires[int32(w.fd)] = w
	event := syscall.EpollEvent{Events: edges, Fd: int32(w.fd)}
	err := syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, w.fd, &event)
	if err != nil {
		delete(l.wires, int32(w.fd))
	}
	return err
}

// drop ends watching w, whose descriptor is about to be closed.
func (l *loop) drop(w *epollWire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wires, int32(w.fd))
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.done)
	defer l.close()
	l.queue.LoopAwake()
	defer l.fallAsleep()
	gather := l.gather // once, as it is allocated
	for l.poll(&l.turn, l.timeout()) {
		l.sends.send() // what needed no store must not wait for it
		switch {
		case len(l.turn.batches) < 2 && l.queue.Waiters() == 0:
			l.sends.end()
			l.turn.end(l.queue) // there seem to be no others to share with
		case l.gathers != nil:
			l.turn.handOff(l.queue)
			l.gathers.DoPolling(gather, l.turn.batches...)
			l.turn.clear()
		default:
			l.poll(&l.turn, 0) // what has come meanwhile can join this turn
			l.turn.end(l.queue)
		}
		l.sends.end()
		l.turns++
	}
}

// timeout is how long the next poll may wait, in milliseconds: no time if something
// was asked for, or a round is to be carried out, else for ever (-1).
func (l *loop) timeout() (ms int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping || len(l.batches) > 0 || len(l.again) > 0 {
		return 0
	}
	if round := l.queue.LoopSleeps(); round != nil {
		l.batches = append(l.batches, round)
		return 0
	}
	l.sleeps, l.asleep = true, true
	return -1
}

// fallAsleep is for a loop that ends, and leaves waiters to the usher.
func (l *loop) fallAsleep() {
	for !l.sleeps {
		round := l.queue.LoopSleeps()
		if l.sleeps = round == nil; !l.sleeps {
			storage.DoBatch(l.store, round)
		}
	}
}

// poll waits for events and wakes the sessions that they concern, which hand their
// batches to t; false if the loop is to stop.
func (l *loop) poll(t *loopIteration, ms int) bool {
	l.yield(time.Now())
	n, err := syscall.EpollWait(l.epoll, l.events, ms)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		panic("epoll_wait: " + err.Error()) // the descriptor is ours alone
	}
	l.takeRound(t)
	if !l.takeEvents(t, l.events[:max(n, 0)]) {
		return false
	}
	if len(l.woken) > 1 {
		l.sends.begin(l.turns)
	}
	for _, w := range l.woken {
		w.wake(t)
	}
	clear(l.woken)
	l.woken = l.woken[:0]
	return true
}

// gather is for storage.Gatherer: it sends what waits to be sent, and then, with look, is a turn
// within a turn. It returns how many batches that has handed over.
func (l *loop) gather(look bool) int {
	l.sends.send()
	if !look {
		return 0
	}
	l.poll(&l.inner, 0)
	l.sends.send() // what needed no store must not wait for it
	defer l.inner.end(l.queue)
	return len(l.inner.batches)
}

// yieldEvery is how often a loop goes through the runtime's scheduler.
const yieldEvery = 2 * time.Millisecond

// yield goes through the scheduler now and then, which a loop under load never
// does by itself. A goroutine that has not for 10 ms is taken for one that runs
// too long: the runtime's monitor takes the processor away from it whenever it
// is in a system call, and is awake itself every 20 µs, which costs a tenth of
// the throughput.
func (l *loop) yield(now time.Time) {
	if now.Sub(l.yielded) >= yieldEvery {
		l.yielded = now
		runtime.Gosched()
	}
}

// takeRound makes a round of the queue part of the turn, if there is one to carry out.
// A loop that has just woken up only says so: it asks for a round before it sleeps
// again.
func (l *loop) takeRound(t *loopIteration) {
	if l.sleeps {
		l.sleeps = false
		l.queue.LoopAwake()
	} else if round := l.queue.NextDispatch(); round != nil {
		t.Submit(round)
	}
}

// takeEvents collects the connections that the events concern. What was asked for
// since the last poll becomes part of the turn. It returns false if the loop is to
// stop.
func (l *loop) takeEvents(t *loopIteration, events []syscall.EpollEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = false
	l.woken = append(l.woken, l.again...)
	t.batches = append(t.batches, l.batches...)
	clear(l.again)
	clear(l.batches)
	l.again, l.batches = l.again[:0], l.batches[:0]
	for i := range events {
		if events[i].Fd == int32(l.waker[0]) {
			var spent [8]byte
			syscall.Read(l.waker[0], spent[:])
			continue
		}
		// An event may be for a descriptor that was closed since, or has even
		// been given out again: being woken in vain does no harm.
		if w := l.wires[events[i].Fd]; w != nil && w.note(events[i].Events, l.turns) {
			l.woken = append(l.woken, w)
		}
	}
	return !l.stopping
}
