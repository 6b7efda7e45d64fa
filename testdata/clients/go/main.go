// Command go exercises the server at HOST PORT with go-beanstalk. It exits with 0 if
// everything is correct. It prints "restart" to request that the server is stopped and started again,
// and waits for a line on its standard input that says that this was done.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

var addr string

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go HOST PORT")
		os.Exit(2)
	}
	addr = net.JoinHostPort(os.Args[1], os.Args[2])
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"life", life}, {"pause", pause}, {"waiting", waiting}, // up to here seconds matter
		{"holders", holders}, {"order", order}, {"statistics", statistics}, {"bodies", bodies}, {"restarts", restarts}, {"ledger", ledger},
	} {
		part.run()
		fmt.Println("ok", part.name)
	}
}

// check ends the program unless it is true that what.
func check(ok bool, what ...any) {
	if !ok {
		fmt.Fprintln(os.Stderr, append([]any{"FAILED:"}, what...)...)
		panic("see above") // says where, too
	}
}

func same[T comparable](what string, got, want T) {
	check(got == want, what, "is", fmt.Sprintf("%#v, want %#v", got, want))
}

func done(err error) { check(err == nil, err) }

func must[T any](v T, err error) T {
	check(err == nil, err)
	return v
}

func fails(what string, err, want error) {
	check(errors.Is(err, want), what, "says", err, "and not", want)
}

// within checks how long something took since begun. It may be late, as the
// machine may be busy, but never early.
func within(what string, begun time.Time, least, most time.Duration) {
	took := time.Since(begun)
	check(took >= least && took <= most, what, "took", took, "want", least, "to", most)
}

func dial() *beanstalk.Conn { return must(beanstalk.Dial("tcp", addr)) }

// queue is one connection, and a tube that it puts into and reserves from.
type queue struct {
	*beanstalk.Conn
	tube *beanstalk.Tube
	set  *beanstalk.TubeSet
}

func open(name string) queue {
	c := dial()
	return queue{c, beanstalk.NewTube(c, name), beanstalk.NewTubeSet(c, name)}
}

func (q queue) reserve(want uint64, body string) {
	id, got, err := q.set.Reserve(5 * time.Second)
	done(err)
	same("the reserved job", id, want)
	same("the body", string(got), body)
}

// job checks pairs of the page of a job.
func (q queue) job(id uint64, pairs ...string) {
	page := must(q.StatsJob(id))
	for i := 0; i < len(pairs); i += 2 {
		same(fmt.Sprint(pairs[i], " of job ", id), page[pairs[i]], pairs[i+1])
	}
}

func number(page map[string]string, key string) int {
	n, err := strconv.Atoi(page[key])
	check(err == nil, key, "is", page[key])
	return n
}

func life() {
	q := open("life")
	defer q.Close()
	id := must(q.tube.Put([]byte("a life"), 7, 0, time.Minute))
	q.job(id, "id", fmt.Sprint(id), "tube", "life", "state", "ready", "pri", "7", "delay", "0", "ttr", "60")
	same("peek", string(must(q.Peek(id))), "a life")
	peeked, _, err := q.tube.PeekReady()
	done(err)
	same("peek-ready", peeked, id)
	_, _, err = q.tube.PeekDelayed()
	fails("peek-delayed", err, beanstalk.ErrNotFound)
	_, _, err = q.tube.PeekBuried()
	fails("peek-buried", err, beanstalk.ErrNotFound)

	q.reserve(id, "a life")
	q.job(id, "state", "reserved")
	_, _, err = q.tube.PeekReady()
	fails("peek-ready of a reserved job", err, beanstalk.ErrNotFound)
	time.Sleep(1100 * time.Millisecond)
	check(number(must(q.StatsJob(id)), "time-left") <= 58, "the time to run does not run")
	done(q.Touch(id))
	check(number(must(q.StatsJob(id)), "time-left") >= 59, "touch has not touched")

	begun := time.Now()
	done(q.Release(id, 3, time.Second))
	q.job(id, "state", "delayed", "pri", "3", "delay", "1")
	peeked, _, err = q.tube.PeekDelayed()
	done(err)
	same("peek-delayed", peeked, id)
	q.reserve(id, "a life")
	within("the delay", begun, time.Second, 3*time.Second)
	done(q.Release(id, 4, 0))
	q.job(id, "state", "ready", "pri", "4")

	q.reserve(id, "a life")
	done(q.Bury(id, 5))
	q.job(id, "state", "buried", "pri", "5")
	peeked, _, err = q.tube.PeekBuried()
	done(err)
	same("peek-buried", peeked, id)
	same("kicked", must(q.tube.Kick(10)), 1)
	same("kicked", must(q.tube.Kick(10)), 0)
	q.reserve(id, "a life")
	done(q.Bury(id, 5))
	done(q.KickJob(id))
	q.job(id, "state", "ready")
	same("reserve-job", string(must(q.ReserveJob(id))), "a life")
	_, err = q.ReserveJob(id)
	fails("reserve-job of a reserved job", err, beanstalk.ErrNotFound)
	q.job(id, "state", "reserved", "reserves", "5", "releases", "2", "buries", "2", "kicks", "2", "timeouts", "0")
	done(q.Delete(id))
	gone(q, id)
}

// gone checks that every command about a job reports that there is
// none.
func gone(q queue, id uint64) {
	fails("delete", q.Delete(id), beanstalk.ErrNotFound)
	fails("release", q.Release(id, 0, 0), beanstalk.ErrNotFound)
	fails("bury", q.Bury(id, 0), beanstalk.ErrNotFound)
	fails("touch", q.Touch(id), beanstalk.ErrNotFound)
	fails("kick-job", q.KickJob(id), beanstalk.ErrNotFound)
	_, err := q.Peek(id)
	fails("peek", err, beanstalk.ErrNotFound)
	_, err = q.StatsJob(id)
	fails("stats-job", err, beanstalk.ErrNotFound)
	_, err = q.ReserveJob(id)
	fails("reserve-job", err, beanstalk.ErrNotFound)
}

// holders: only the holder of a job may change it, and releases it when it
// disconnects.
func holders() {
	holder, other := open("holders"), open("holders")
	defer other.Close()
	id := must(holder.tube.Put([]byte("mine"), 0, 0, time.Minute))
	holder.reserve(id, "mine")
	fails("delete by another", other.Delete(id), beanstalk.ErrNotFound)
	fails("release by another", other.Release(id, 0, 0), beanstalk.ErrNotFound)
	fails("bury by another", other.Bury(id, 0), beanstalk.ErrNotFound)
	fails("touch by another", other.Touch(id), beanstalk.ErrNotFound)
	same("peek by another", string(must(other.Peek(id))), "mine")
	holder.Close()
	other.reserve(id, "mine")
	other.job(id, "reserves", "2", "timeouts", "0", "releases", "0")
	done(other.Delete(id))
}

// order: the smallest priority first, of all tubes that are watched; among equals
// the first that was put.
func order() {
	c := dial()
	defer c.Close()
	one, two := beanstalk.NewTube(c, "order-1"), beanstalk.NewTube(c, "order-2")
	nine := must(one.Put([]byte("9"), 9, 0, time.Minute))
	first := must(two.Put([]byte("5"), 5, 0, time.Minute))
	second := must(two.Put([]byte("5"), 5, 0, time.Minute))
	least := must(one.Put([]byte("1"), 1, 0, time.Minute))
	both, only := beanstalk.NewTubeSet(c, "order-1", "order-2"), beanstalk.NewTubeSet(c, "order-1")
	for _, want := range []uint64{least, first} {
		id, _, err := both.Reserve(0)
		done(err)
		same("the next job", id, want)
		done(c.Delete(id))
	}
	id, _, err := only.Reserve(0) // go-beanstalk ignores order-2 now
	done(err)
	same("the job of the only tube watched", id, nine)
	_, _, err = only.Reserve(0)
	fails("reserve", err, beanstalk.ErrTimeout)
	done(c.Delete(nine))
	done(c.Delete(second))
}

func pause() {
	q := open("paused")
	defer q.Close()
	id := must(q.tube.Put([]byte("later"), 0, 0, time.Minute))
	begun := time.Now()
	done(q.tube.Pause(2 * time.Second))
	page := must(q.tube.Stats())
	same("pause", page["pause"], "2")
	check(number(page, "pause-time-left") <= 2, "pause-time-left is", page["pause-time-left"])
	_, _, err := q.set.Reserve(0)
	fails("reserve from a paused tube", err, beanstalk.ErrTimeout)
	q.reserve(id, "later")
	within("the pause", begun, 2*time.Second, 4*time.Second)
	done(q.Delete(id))
	fails("pause of no tube", beanstalk.NewTube(q.Conn, "nowhere").Pause(time.Second), beanstalk.ErrNotFound)
}

func statistics() {
	q := open("figures")
	defer q.Close()
	before := must(q.Stats())
	id := must(q.tube.Put([]byte("x"), 10, 0, time.Minute))
	buried := must(q.tube.Put([]byte("y"), 2000, 0, time.Minute))
	must(q.ReserveJob(buried))
	done(q.Bury(buried, 2000))
	after := must(q.Stats())
	for key, more := range map[string]int{
		"cmd-put": 2, "cmd-bury": 1, "cmd-stats": 1, "total-jobs": 2, "current-jobs-ready": 1, "current-jobs-urgent": 1,
		"current-jobs-buried": 1, "current-jobs-reserved": 0, "current-jobs-delayed": 0, "job-timeouts": 0,
	} {
		same("more "+key, number(after, key)-number(before, key), more)
	}
	same("max-job-size", after["max-job-size"], "65535")
	same("draining", after["draining"], "false")
	check(number(after, "current-connections") >= 1 && number(after, "uptime") >= 0 && after["version"] != "", after)
	page := must(q.tube.Stats())
	for key, want := range map[string]string{
		"name": "figures", "current-jobs-ready": "1", "current-jobs-urgent": "1", "current-jobs-buried": "1", "total-jobs": "2",
		"current-using": "1", "current-watching": "0", "current-waiting": "0", "pause": "0",
	} {
		same(key+" of the tube", page[key], want)
	}
	tubes := must(q.ListTubes())
	slices.Sort(tubes)
	same("list-tubes", fmt.Sprint(tubes), "[default figures]")
	done(q.Delete(id))
	done(q.Delete(buried))
	same("cmd-delete of the tube", must(q.tube.Stats())["cmd-delete"], "2")
	_, err := beanstalk.NewTube(q.Conn, "nowhere").Stats()
	fails("stats-tube of no tube", err, beanstalk.ErrNotFound)
}

func bodies() {
	q := open("bodies")
	defer q.Close()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	largest := make([]byte, 65535)
	seed := rand.NewChaCha8([32]byte{1})
	seed.Read(largest)
	for _, body := range [][]byte{every, {}, []byte("\r\n"), []byte("a\r\ndelete 1\r\n\r\n"), []byte("\x00"), largest} {
		id := must(q.tube.Put(body, 0, 0, time.Minute))
		check(bytes.Equal(must(q.Peek(id)), body), "peek: another body of", len(body), "bytes")
		got, back, err := q.set.Reserve(5 * time.Second)
		done(err)
		same("the job", got, id)
		check(bytes.Equal(back, body), "reserve: another body of", len(body), "bytes:", len(back))
		done(q.Delete(id))
	}
	_, err := q.tube.Put(append(largest, 0), 0, 0, time.Minute)
	fails("put of 65536 bytes", err, beanstalk.ErrJobTooBig)
}

func waiting() {
	q, other := open("waiting"), open("waiting")
	defer q.Close()
	defer other.Close()
	begun := time.Now()
	_, _, err := q.set.Reserve(0)
	fails("reserve", err, beanstalk.ErrTimeout)
	within("no timeout", begun, 0, 900*time.Millisecond)
	begun = time.Now()
	_, _, err = q.set.Reserve(time.Second)
	fails("reserve", err, beanstalk.ErrTimeout)
	within("a timeout of 1 s", begun, time.Second, 2*time.Second)

	put := make(chan uint64)
	go func() {
		time.Sleep(300 * time.Millisecond)
		put <- must(other.tube.Put([]byte("comes late"), 0, 0, 3*time.Second))
	}()
	begun = time.Now()
	id, _, err := q.set.Reserve(10 * time.Second)
	done(err)
	same("the job that came", id, <-put)
	within("waiting for it", begun, 300*time.Millisecond, 2*time.Second)

	// Two seconds after the reservation there is one left.
	begun = time.Now()
	_, _, err = q.set.Reserve(10 * time.Second)
	fails("reserve", err, beanstalk.ErrDeadline)
	within("DEADLINE_SOON", begun, 1700*time.Millisecond, 3*time.Second)
	done(q.Touch(id))
	_, _, err = q.set.Reserve(0)
	fails("reserve after touch", err, beanstalk.ErrTimeout)
	done(q.Delete(id))

	id = must(q.tube.Put([]byte("too slow"), 0, 0, time.Second))
	q.reserve(id, "too slow")
	time.Sleep(1300 * time.Millisecond)
	must(q.ListTubes()) // beanstalkd may notice only now
	other.reserve(id, "too slow")
	other.job(id, "reserves", "2", "timeouts", "1")
	fails("delete by the late holder", q.Delete(id), beanstalk.ErrNotFound)
	done(other.Delete(id))
}

var input = bufio.NewScanner(os.Stdin)

// restart requests a restart of the server.
func restart() {
	fmt.Println("restart")
	check(input.Scan(), "nobody has restarted the server")
}

// restarts: what is left of jobs when the server was stopped and started again.
// It is asked for twice: the server may be stopped in more than one way.
func restarts() {
	for range 2 {
		survive()
	}
}

func survive() {
	q, waiter := open("survivors"), open("deserted")
	buried := must(q.tube.Put([]byte("buried"), 1, 0, time.Minute))
	q.reserve(buried, "buried")
	done(q.Bury(buried, 6))
	held := must(q.tube.Put([]byte("held"), 1, 0, time.Minute))
	q.reserve(held, "held")
	ready := must(q.tube.Put([]byte("ready\r\n\x00"), 2, 0, time.Minute))
	delayed := must(q.tube.Put([]byte("delayed"), 3, 100*time.Second, time.Minute))
	deserted := make(chan error)
	go func() {
		_, _, err := waiter.set.Reserve(time.Minute)
		deserted <- err
	}()
	time.Sleep(100 * time.Millisecond)
	restart()

	err := <-deserted
	var known beanstalk.ConnError
	check(errors.As(err, &known), "the waiting reserve said", err)
	_, err = q.Stats()
	check(errors.As(err, &known), "the old connection said", err)

	q = open("survivors")
	defer q.Close()
	q.job(buried, "state", "buried", "pri", "6", "tube", "survivors")
	q.job(delayed, "state", "delayed", "pri", "3", "delay", "100", "ttr", "60")
	q.job(ready, "state", "ready", "pri", "2")
	bodies := map[uint64]string{held: "held", ready: "ready\r\n\x00"}
	for range 2 { // a killed instance's reservations may take a while
		id, body, err := q.set.Reserve(15 * time.Second)
		done(err)
		same("the body", string(body), bodies[id])
		delete(bodies, id)
		done(q.Delete(id))
	}
	done(q.KickJob(delayed))
	q.reserve(delayed, "delayed")
	done(q.Delete(delayed))
	same("kicked", must(q.tube.Kick(1)), 1)
	q.reserve(buried, "buried")
	done(q.Delete(buried))
	id := must(q.tube.Put([]byte("new"), 0, 0, time.Minute))
	check(id > delayed, "job", id, "after job", delayed)
	done(q.Delete(id))
}

// ledgerSize is how many jobs go from two producers to two consumers.
const ledgerSize = 500

func ledger() {
	names := make(chan string)
	var producers sync.WaitGroup
	for p := range 2 {
		producers.Go(func() { produce(p) })
	}
	var produced atomic.Bool
	go func() {
		producers.Wait()
		produced.Store(true)
	}()
	for range 2 {
		go consume(names, &produced)
	}
	times := make(map[string]int)
	for ended := 0; ended < 2; {
		if name := <-names; name == "" {
			ended++
		} else {
			times[name]++
		}
	}
	for n := range ledgerSize {
		same(fmt.Sprint("how often job ", n, " was done"), times[fmt.Sprint(n)], 1)
	}
	same("how many jobs were done", len(times), ledgerSize)
}

func produce(first int) {
	q := open("ledger")
	defer q.Close()
	for n := first; n < ledgerSize; n += 2 {
		var delay time.Duration
		if n%100 == 50 {
			delay = time.Second
		}
		must(q.tube.Put(fmt.Append(nil, n), uint32(n%7), delay, time.Minute))
	}
}

// consume sends the names of finished jobs, and "" when all jobs are produced and there are no
// more. It releases every fiftieth job once.
func consume(names chan<- string, produced *atomic.Bool) {
	q := open("ledger")
	defer q.Close()
	for {
		last := produced.Load()
		id, body, err := q.set.Reserve(3 * time.Second)
		if errors.Is(err, beanstalk.ErrTimeout) {
			if last {
				names <- ""
				return
			}
			continue
		}
		done(err)
		n := must(strconv.Atoi(string(body)))
		if n%50 == 7 && must(q.StatsJob(id))["releases"] == "0" {
			done(q.Release(id, 0, 0))
			continue
		}
		done(q.Delete(id))
		names <- string(body)
	}
}
