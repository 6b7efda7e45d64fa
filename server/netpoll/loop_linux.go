package netpoll

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
)

// loop watches many connections with one epoll descriptor, edge-triggered, in a goroutine of
// its own. An iteration waits for events once, runs the sessions of all connections that have
// one, and calls the store once.
type loop struct {
	queue   *queue.Queue
	store   storage.Store
	polling storage.PollingStore // the store, if it is one
	epoll   int
	waker   [2]int // a pipe: a byte in it ends the wait for events
	done    chan struct{}
	sends   batchedSends

	// These belong to the loop's goroutine.
	events     []syscall.EpollEvent
	iteration  loopIteration
	inner      loopIteration // within iteration, see pollAgain
	woken      []*epollWire  // by the last poll
	iterations uint64        // number of the current iteration
	yielded    time.Time     // when it last went through the scheduler
	sleeps     bool          // the queue does not count it as awake

	mu       sync.Mutex           // guards what follows
	wires    map[int32]*epollWire // by descriptor
	batches  []*storage.Batch     // to be submitted in the next iteration
	wakeNext []*epollWire         // to be woken in the next iteration
	blocked  bool                 // it waits for events without a limit, or is about to
	stopping bool
}

// maxEvents is how many ready connections one iteration serves.
const maxEvents = 256

func newLoop(q *queue.Queue) (*loop, error) {
	l := &loop{queue: q, store: q.Store(), done: make(chan struct{}), iterations: 1, wires: make(map[int32]*epollWire)}
	l.polling, _ = l.store.(storage.PollingStore)
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

// batchSends makes the replies of an iteration be sent together, if the store says when it
// begins something slow. It is called before run.
func (l *loop) batchSends() (err error) {
	if l.polling != nil {
		l.sends.sender, err = NewSender()
	}
	return err
}

func (l *loop) stop() {
	l.request(func() { l.stopping = true })
	<-l.done
}

func (l *loop) close() {
	if l.sends.sender != nil {
		l.sends.sender.Close()
	}
	syscall.Close(l.waker[1])
	syscall.Close(l.waker[0])
	syscall.Close(l.epoll)
}

// request changes what the next iteration does, and makes sure that there is one. It calls
// change with the lock held.
func (l *loop) request(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.blocked {
		l.blocked = false
		syscall.Write(l.waker[1], []byte{0})
	}
}

// edges are the events for which a connection is watched. EPOLLET, the last one, is negative
// in package syscall.
const edges = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | syscall.EPOLLPRI | 1<<31

// add begins to watch w. The loop can wake its session before add returns.
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

// drop stops watching w, whose descriptor is about to be closed.
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
	defer l.signOff()
	pollAgain := l.pollAgain // once, since it is allocated
	for l.poll(&l.iteration, l.timeout()) {
		l.sends.flush() // replies that needed no store do not wait for it
		switch {
		case len(l.iteration.batches) < 2 && l.queue.Waiters() == 0:
			l.sends.end()
			l.iteration.end(l.queue) // there seem to be no others to share a commit with
		case l.polling != nil:
			l.polling.DoPolling(pollAgain, l.iteration.batches...)
			l.iteration.clear()
		default:
			l.poll(&l.iteration, 0) // commands that have come meanwhile join this iteration
			l.iteration.end(l.queue)
		}
		l.sends.end()
		l.iterations++
	}
}

// timeout returns how long the next poll may wait, in milliseconds: 0 if something was
// requested or there is a dispatch to carry out, else without a limit (-1).
func (l *loop) timeout() (ms int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping || len(l.batches) > 0 || len(l.wakeNext) > 0 {
		return 0
	}
	if dispatch := l.queue.LoopSleeps(); dispatch != nil {
		l.batches = append(l.batches, dispatch)
		return 0
	}
	l.sleeps, l.blocked = true, true
	return -1
}

// signOff is for a loop that ends: it leaves waiters to the dispatcher.
func (l *loop) signOff() {
	for !l.sleeps {
		dispatch := l.queue.LoopSleeps()
		if l.sleeps = dispatch == nil; !l.sleeps {
			storage.DoBatch(l.store, dispatch)
		}
	}
}

// poll waits for events and wakes the sessions that they concern, which submit their batches
// to it. It returns false if the loop is to stop.
func (l *loop) poll(it *loopIteration, ms int) bool {
	l.yield(time.Now())
	n, err := syscall.EpollWait(l.epoll, l.events, ms)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		panic("epoll_wait: " + err.Error()) // nobody else uses the descriptor
	}
	l.addDispatch(it)
	if !l.collectEvents(it, l.events[:max(n, 0)]) {
		return false
	}
	if len(l.woken) > 1 {
		l.sends.begin(l.iterations)
	}
	for _, w := range l.woken {
		w.wake(it)
	}
	clear(l.woken)
	l.woken = l.woken[:0]
	return true
}

// pollAgain is called by a storage.PollingStore before it does something slow. It sends the
// deferred replies. With poll it then runs an iteration within the iteration, and returns how
// many batches that has submitted.
func (l *loop) pollAgain(poll bool) int {
	l.sends.flush()
	if !poll {
		return 0
	}
	l.poll(&l.inner, 0)
	l.sends.flush() // replies that needed no store do not wait for it
	defer l.inner.end(l.queue)
	return len(l.inner.batches)
}

// yieldEvery is how often a loop goes through the runtime's scheduler.
const yieldEvery = 2 * time.Millisecond

// yield goes through the scheduler from time to time, which a loop under load never does by
// itself. The runtime's monitor assumes that a goroutine that has not done so for 10 ms runs
// too long: it takes the processor away from it whenever it is in a system call, and itself
// wakes up every 20 µs. That costs a tenth of the throughput.
func (l *loop) yield(now time.Time) {
	if now.Sub(l.yielded) >= yieldEvery {
		l.yielded = now
		runtime.Gosched()
	}
}

// addDispatch adds a dispatch of the queue to the iteration, if there is one to carry
// out. A loop that has just woken up only tells the queue that it is awake: it asks for a
// dispatch before it sleeps again.
func (l *loop) addDispatch(it *loopIteration) {
	if l.sleeps {
		l.sleeps = false
		l.queue.LoopAwake()
	} else if dispatch := l.queue.NextDispatch(); dispatch != nil {
		it.Submit(dispatch)
	}
}

// collectEvents collects the connections that the events concern. What was requested since
// the last poll becomes part of the iteration. It returns false if the loop is to stop.
func (l *loop) collectEvents(it *loopIteration, events []syscall.EpollEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = false
	l.woken = append(l.woken, l.wakeNext...)
	it.batches = append(it.batches, l.batches...)
	clear(l.wakeNext)
	clear(l.batches)
	l.wakeNext, l.batches = l.wakeNext[:0], l.batches[:0]
	for i := range events {
		if events[i].Fd == int32(l.waker[0]) {
			var discarded [8]byte
			syscall.Read(l.waker[0], discarded[:])
			continue
		}
		// An event can be for a descriptor that was closed since, or even reused:
		// waking a session for nothing does no harm.
		if w := l.wires[events[i].Fd]; w != nil && w.handleEvents(events[i].Events, l.iterations) {
			l.woken = append(l.woken, w)
		}
	}
	return !l.stopping
}
