package redis

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tube"
)

// worthWaking is from how many operations on it is better to wake run than to
// wait for Redis oneself: more can be collected meanwhile.
const worthWaking = 64

// partition is one part of the tubes and their jobs, which lives on one Redis
// node. It joins what all connections want into calls of the script, one call
// at a time: the next fills while one is under way.
//
// Whoever hands over a unit while no call is under way makes one himself, which
// saves waking another goroutine, and goes on if he can ask for more (overlap.go).
// Otherwise what has come meanwhile is left to run, which goes on until there
// is nothing more. If there are several partitions, run
// makes all calls: nobody who has something for one of them waits for another.
type partition struct {
	link      *link
	prefix    string // of all keys
	number    int
	of        int    // partitions in all
	shape     string // of them, as the script is told; "" if there is one
	order     *order // of ids, common to all partitions
	options   Options
	log       *slog.Logger
	listener  storage.Listener
	instance  atomic.Pointer[string]
	ailing    atomic.Bool // calls fail, see recover
	elsewhere atomic.Bool // the last tick has found something due that another instance has to do
	upkeep    upkeep

	tardiness *tardiness // common to all partitions

	mu     sync.Mutex
	more   *sync.Cond // handed, busy or ending has changed
	queue  []*unit
	busy   bool // somebody is making a call
	handed bool // run is to go on with that
	ending bool // nothing more is accepted; run ends with the queue
	done   chan struct{}

	// The rest belongs to whoever has set busy.
	flight               // the call that is put together, or made
	overlap      overlap // what goes on beside it
	serials      uint64  // the last one given out
	previous     string  // number of the last batch that Redis has recorded; "" before the registration
	registration uint64  // number of that
	renamed      bool    // it is not the first under this instance
	server       met
	counted      time.Time // when it was last known how many ids were given out; zero if never
	skipping     bool      // the next job has to have an id beyond those that order knows
	created      int64     // the time for new jobs, by the clock of Redis
	ahead        int64     // how many ms the clock of Redis is ahead of the local one
	synchronised bool      // that is known
	largest      int       // no record that was put here has more bytes, as Redis knows
	full         bool      // the call is for a Redis without memory
	fullErr      error
	void         bool // the call asks for its number only, see trouble.go
	garbled      bool // an answer could not be read, so nobody knows what this instance has
	failed       error
	trouble      time.Time // when a call last failed, or the instance began, by now
	beaten       time.Time // when it last sent a heartbeat, by the local clock
	holdings     *holdings
	bodies       *bodyCache
	attendance   *attendance
}

// flight is a call, and whose it is.
type flight struct {
	call      call
	units     []*unit
	serial    uint64    // number of the call
	sent      time.Time // when it was sent, by now
	confirmed time.Time // when a later call was sent that Redis has answered
	answer    *reply
}

// vouched is when the instance is known to have been alive.
func (f *flight) vouched() time.Time {
	if f.confirmed.After(f.sent) {
		return f.confirmed
	}
	return f.sent
}

func newPartition(l *link, o Options, ids *order, late *tardiness, number int) *partition {
	p := &partition{
		link: l, prefix: keyPrefix(o.Namespace, number), number: number, of: o.Partitions, order: ids, tardiness: late,
		options: o, log: o.Log, listener: deaf{}, done: make(chan struct{}),
		holdings: newHoldings(o.Partitions > 1), bodies: newBodyCache(o), attendance: newAttendance(),
	}
	if p.of > 1 {
		p.shape = fmt.Sprintf("partitions=%d number=%d ", p.of, p.number)
		p.log = o.Log.With("partition", number)
	}
	p.trouble = p.now() // Redis may have been away until now, see patience
	p.rename()
	p.more = sync.NewCond(&p.mu)
	return p
}

// keyPrefix is how all keys of a partition begin. The number is the hash tag.
func keyPrefix(namespace string, number int) string {
	return fmt.Sprintf("%s:{%d}:", namespace, number)
}

// rename begins anew as an instance that nobody knows.
func (p *partition) rename() {
	p.renamed = p.instance.Load() != nil
	name := newInstance()
	p.instance.Store(&name)
	p.serials++
	p.registration = p.serials
	p.previous, p.garbled, p.largest = "", false, 0
}

// now is the local time, moved as the clock of Redis is in tests.
func (p *partition) now() time.Time { return time.Now().Add(p.options.skew()) }

// listen names the listener. Whoever submits later is sure to be heard by it.
func (p *partition) listen(l storage.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
}

// submit queues units, and has them carried out if nobody else does that
// already; false if the partition has ended.
func (p *partition) submit(units ...*unit) bool { return p.submitGathering(nil, units...) }

// submitGathering is submit for a caller who has more to submit now and then,
// which more does. It makes the calls as long as there is anything.
func (p *partition) submitGathering(more func() int, units ...*unit) bool {
	now := time.Now()
	for _, u := range units {
		if u.since.IsZero() {
			u.since = now
		}
	}
	p.mu.Lock()
	if p.ending {
		p.mu.Unlock()
		return false
	}
	p.queue = append(p.queue, units...)
	lead := !p.busy && p.of == 1 && (more != nil || opsOf(units) < worthWaking)
	if !p.busy && !lead {
		p.handed = true
		p.more.Signal()
	}
	p.busy = true
	p.mu.Unlock()
	if lead {
		p.lead(more)
	}
	return true
}

func opsOf(units []*unit) int {
	n := 0
	for _, u := range units {
		if n++; u.batch != nil {
			n += len(u.batch.Ops) - 1
		}
	}
	return n
}

// do queues upkeep and waits for it.
func (p *partition) do(upkeep func(*call)) error {
	done := make(chan error, 1)
	if !p.submit(&unit{upkeep: upkeep, after: func(err error) { done <- err }}) {
		return storage.ErrClosed
	}
	return <-done
}

// end lets run finish what is queued, and waits for it.
func (p *partition) end() {
	p.mu.Lock()
	p.ending = true
	p.more.Signal()
	p.mu.Unlock()
	<-p.done
}

// run makes calls while there is something to do.
func (p *partition) run() {
	defer close(p.done)
	for p.await() {
		if err := p.failed; err != nil {
			p.failed = nil
			p.goOnAfter(err)
		}
		for p.fill() {
			if err := p.makeCalls(p.of == 1, nil); err != nil {
				p.goOnAfter(err)
			}
		}
	}
}

// goOnAfter sees a call through that has failed, and then the one before it, should
// that have waited for it.
func (p *partition) goOnAfter(err error) {
	p.finish(p.recover(err))
	p.vouchForPast(p.overlap.past.sent)
}

// await returns when it is for run to make calls; false if the partition has
// ended.
func (p *partition) await() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.handed {
		if p.ending && !p.busy {
			return false
		}
		p.more.Wait()
	}
	p.handed = false
	return true
}

// fill encodes as many units as go into one call; false if there are none, and
// then nobody is busy any more.
func (p *partition) fill() bool {
	if !p.wanted() {
		return false
	}
	p.begin()
	p.load()
	return true
}

// load encodes units from the queue until it is empty or the call full.
func (p *partition) load() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 && !p.call.full() {
		u := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.units = append(p.units, u)
		p.mu.Unlock() // encoding may ask the listener, or submit
		p.encode(u)
		p.mu.Lock()
	}
}

// wanted returns whether there is anything to do; else nobody is busy any more.
func (p *partition) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = len(p.queue) > 0
	if p.ending {
		p.more.Signal()
	}
	return p.busy
}

// begin begins another call.
func (p *partition) begin() {
	p.renumber()
	clear(p.units)
	p.units = p.units[:0]
	p.full, p.confirmed = false, time.Time{}
	p.reset()
}

// renumber gives the call a number that none had before.
func (p *partition) renumber() {
	p.serials++
	p.serial = p.serials
}

// reset forgets what is encoded.
func (p *partition) reset() {
	p.call.reset(p.prefix)
	p.created = p.now().UnixMilli() + p.ahead
}

// seal ends the call with what units had put into its sections.
func (p *partition) seal() {
	c := &p.call
	if c.sealed {
		return
	}
	c.sealed = true
	for _, section := range [][]*storage.Op{c.gone, c.put, c.taken} {
		p.encodeSequences(section, nil)
	}
	for _, encode := range c.last {
		encode(c)
	}
	p.encodeOver()
}

// attempt makes the call, and reads the answers to its operations.
func (p *partition) attempt() (*reply, error) {
	r, err := p.exchange()
	if err == nil && r != nil {
		r.bare = p.void
	}
	if err == nil {
		err = p.read(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// exchange calls the script, unless nothing is encoded, and reads what comes
// before the answers.
func (p *partition) exchange() (*reply, error) {
	p.seal()
	if p.previous == "" {
		if err := p.register(); err != nil {
			return nil, err
		}
	}
	c := &p.call
	if len(c.args) == headArgs && !p.void {
		return nil, nil
	}
	args, extra := c.args, ""
	if p.void {
		args, extra = args[:headArgs], "void=1 "
	}
	if p.full || p.void {
		extra += "full=1 "
	}
	node, err := p.node()
	if err != nil {
		return nil, err
	}
	p.head(c, p.serial, extra)
	r, err := p.invoke(node, args)
	if err != nil {
		return nil, err
	}
	if r.recorded {
		p.previous = numberArg(p.serial)
	}
	if r.recorded && r.said != voided {
		p.largest = max(p.largest, c.largest)
		p.skipping = p.skipping && c.puts == 0
	}
	return r, nil
}

// read reads the answers to the operations; r is nil if nothing was sent.
func (p *partition) read(r *reply) error {
	if r == nil || r.said == voided {
		return nil
	}
	err := p.readSteps(&p.call, r)
	p.bodies.forget(p.call.since)
	p.garbled = p.garbled || err != nil
	p.rewind(r)
	return err
}

func (p *partition) readSteps(c *call, r *reply) error {
	for i := 0; i < len(c.steps) && r.err == nil; i++ {
		st := &c.steps[i]
		st.read(p, r, st.ops)
	}
	return r.err
}

// rewind has units go on from their first operation that was cut. What was answered
// behind it is not asked for again. Redis does answer, so their time begins anew.
func (p *partition) rewind(r *reply) {
	if len(r.cut) == 0 {
		return
	}
	for _, u := range p.units {
		if u.batch == nil {
			continue
		}
		if u.rewind(r.cut) {
			u.since = time.Now()
		}
	}
}

// head fills in what comes before the operations of a call.
func (p *partition) head(c *call, serial uint64, extra string) {
	puts := c.puts
	if strings.Contains(extra, "void=1") {
		puts = 0
	}
	a := c.args
	a[0], a[1], a[2], a[3] = "evalsha", script.Hash(), 1, p.prefix
	a[4], a[5], a[6], a[7] = *p.instance.Load(), numberArg(serial), p.previous, puts
	a[8] = p.terms(c, puts) + extra
	c.since = p.bodies.since(p.now())
	a[9] = c.since
	if p.garbled {
		a[6] = numberArg(0) // which no batch has: the script says LOST, and all is begun anew
	}
}

// terms are the words that say what is out of the ordinary about a call.
func (p *partition) terms(c *call, puts int) string {
	terms := p.shape
	if puts > 0 && (p.of > 1 || p.skipping) {
		terms += fmt.Sprintf("least=%d ", p.order.last.Load())
	}
	if puts > 0 && c.most > p.largest {
		c.largest = 1 << bits.Len(uint(c.most))
		terms += fmt.Sprintf("largest=%d ", c.largest)
	}
	if ahead := p.options.skew().Milliseconds(); ahead != 0 {
		terms += fmt.Sprintf("ahead=%d ", ahead)
	}
	if p.options.redisStep != nil {
		terms += fmt.Sprintf("step=%d ", p.options.redisStep().Milliseconds())
	}
	if n := p.options.leaseSetFrom; n != 0 {
		terms += fmt.Sprintf("group=%d ", n)
	}
	if n := p.options.budget; n != 0 {
		terms += fmt.Sprintf("budget=%d ", n)
	}
	return terms
}

func numberArg(n uint64) string { return fmt.Sprintf("%016d", n) }

// invoke sends a call, by its source where Redis does not know the script, and
// reads what comes before the answers to its operations.
func (p *partition) invoke(node *goredis.Client, args []any) (*reply, error) {
	begun := time.Now()
	p.sent = p.now()
	raw, err := p.send(node, args)
	if err != nil && codeOf(err) == "NOSCRIPT" {
		args[0], args[1] = "eval", scriptText
		raw, err = p.send(node, args)
	}
	if err != nil || time.Since(begun) > slow {
		p.trouble = p.now()
	}
	if err != nil {
		p.link.doubt()
		return nil, err
	}
	r, err := parseReply(raw, p.prefix, p.of)
	if err != nil {
		return nil, err
	}
	if r.clock != 0 {
		p.noteClock(r.clock)
	}
	return r, nil
}

// clockStep is by how much the clock of Redis may go ahead of the local one, or
// fall behind it, from one call to the next without being taken for set anew.
const clockStep = 500 * time.Millisecond

// noteClock compares the clock of Redis, in ms, with the local one. If either was
// set anew, the heartbeats in Redis say nothing for a while.
func (p *partition) noteClock(redis int64) {
	ahead := redis - time.Now().UnixMilli()
	by := time.Duration(ahead-p.ahead) * time.Millisecond
	if p.synchronised && by.Abs() > clockStep && !p.options.clocksApart {
		p.trouble = p.now()
	}
	p.ahead, p.synchronised = ahead, true
}

// node returns a client of the server that has the partition.
func (p *partition) node() (*goredis.Client, error) {
	node, err := p.link.node(context.Background(), p.prefix)
	if err == nil {
		p.lookOut(node)
	}
	return node, err
}

func (p *partition) send(node *goredis.Client, args []any) (any, error) {
	ctx := context.Background()
	if p.options.WaitReplicas > 0 {
		return p.awaitReplicas(ctx, node, args)
	}
	cmd := goredis.NewCmd(ctx, args...)
	err := node.Process(ctx, cmd)
	return cmd.Val(), err
}

// finish hands out what came of the call; r is nil if its units are answered
// already, or nothing was sent. Units that are not done go on with the next call, or
// after those who have come meanwhile: others are not held up by who asks for very
// much.
func (p *partition) finish(r *reply) {
	if r != nil {
		p.tell(r)
	}
	var first, last []*unit
	for _, u := range p.units {
		switch {
		case u.abandoned:
		case u.batch == nil || u.at == len(u.batch.Ops):
			u.end(nil)
		case u.yields:
			u.yields = false
			last = append(last, u)
		default:
			first = append(first, u)
		}
	}
	p.requeue(first, last)
}

// requeue has units go on before those that wait, and others behind them.
func (p *partition) requeue(first, last []*unit) {
	if len(first) == 0 && len(last) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(append(first, p.queue...), last...)
}

// end hands a unit back.
func (u *unit) end(err error) {
	if u.upkeep != nil {
		if u.after != nil {
			u.after(err)
		}
		return
	}
	if err != nil {
		for i := range u.batch.Ops {
			u.batch.Ops[i].Answer = storage.Answer{Err: err}
		}
	}
	u.batch.Done()
}

// tell passes on what else a call has said.
func (p *partition) tell(r *reply) {
	for _, name := range r.hints {
		p.hint(name)
	}
	if r.due >= 0 {
		p.upkeep.dueIn(p.now(), r.due)
		p.listener.Due(r.due)
	}
}

// hint tells the listener that there may be a job in a tube, or, if nobody
// here wants it, asks Redis to tell another instance.
func (p *partition) hint(name string) {
	if !p.listener.Ready(name) {
		p.submit(&unit{upkeep: func(c *call) { c.add(func(r *reply) { r.found() }, "pass", name) }})
	}
}

// encodeHeartbeat gives the heartbeat, and exchanges how far ids are.
func (p *partition) encodeHeartbeat(c *call) {
	home := boolArg(placeOf(tube.Default, p.of) == p.number)
	c.add(p.readHeartbeat, "beat", p.patience().Milliseconds(), maxMoves, home, p.created)
	least := uint64(0)
	if p.of > 1 || p.skipping {
		least = p.order.last.Load()
	}
	c.add(func(r *reply) {
		p.order.saw(uint64(r.int64()))
		p.counted = p.sent
	}, "ids", least)
}

// readHeartbeat has what is left to do about instances that were declared dead done with
// further calls.
func (p *partition) readHeartbeat(r *reply) {
	for range r.int64() {
		inst := r.text()
		p.reclaimLater(inst, r.int64())
	}
}

// reclaimed is what the script says of an instance about which nothing is left to
// do.
const reclaimed = -2

// reclaimLater has the next part done of what is to be done about an instance that
// was declared dead, from where the last one ended. The calls of others come in
// between. Should this fail another instance does it after some time.
func (p *partition) reclaimLater(inst string, from int64) {
	p.submit(&unit{upkeep: func(c *call) {
		c.add(func(r *reply) {
			if next := r.int64(); next != reclaimed && r.err == nil {
				p.reclaimLater(inst, next)
			}
		}, "reclaim", inst, maxMoves, from)
	}})
}

// maxTold bounds of how many tubes one call tells who attends them.
const maxTold = 250

// encodeAttendances tells what has changed of who attends which tube here.
func (p *partition) encodeAttendances() {
	p.attendance.review(p.listener.Waiting)
	p.encodeUntold()
}

// encodeUntold tells of tubes that were reviewed. What is too much for one call is
// told by the next ones.
func (p *partition) encodeUntold() {
	for _, name := range p.attendance.next(maxTold) {
		p.encodeAttendance(name)
	}
	if len(p.attendance.untold) > 0 {
		p.submit(&unit{upkeep: func(*call) { p.encodeUntold() }})
	}
}

// encodeTick does what is due. It comes last in the call: what expires in it is
// no longer held, which those before it need not know.
func (p *partition) encodeTick(c *call) {
	c.last = append(c.last, func(c *call) {
		c.add(func(r *reply) {
			p.tardiness.note(r.ms())
			p.elsewhere.Store(r.found())
			for range r.int64() {
				p.holdings.drop(r.key())
			}
			p.upkeep.nothingDue()
		}, "tick", tickLimit)
	})
}
