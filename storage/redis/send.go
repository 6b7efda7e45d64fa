package redis

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
)

// exchange sends a call, unless it is empty, and reads what comes before the answers. If calls
// can overlap, it works on other calls while Redis works on this one.
func (p *partition) exchange(c *call, overlapping bool) error {
	c.reply = nil
	p.seal(c)
	if !p.instance.isRegistered() {
		if err := p.register(); err != nil {
			return err
		}
	}
	if c.isEmpty() && c.kind == work {
		return nil
	}
	if err := p.send(c); err != nil {
		return err
	}
	if overlapping {
		p.completeAnswered()
		p.collect(c)
	}
	if err := p.receive(c); err != nil {
		return err
	}
	p.noteRecorded(c)
	return nil
}

// noteRecorded records what Redis knows since it has answered a call.
func (p *partition) noteRecorded(c *call) {
	r := c.reply
	r.recordless = c.kind == void
	if !r.recorded {
		return
	}
	p.instance.recorded = numberArg(c.number)
	if r.unread != lua.Voided {
		p.instance.largest = max(p.instance.largest, c.largest)
		p.ids.skipping = p.ids.skipping && c.puts == 0
	}
}

// ask sends a call without units, and reads what comes before the answers.
func (p *partition) ask(c *call) error {
	if err := p.send(c); err != nil {
		return err
	}
	return p.receive(c)
}

// send sends a call to the server that has the partition.
func (p *partition) send(c *call) error {
	node, err := p.pool.Node(context.Background(), p.prefix)
	if err != nil {
		return err
	}
	changes, err := p.link.Connect(node)
	if err != nil {
		p.noteFailure()
		return err
	}
	p.ids.meet(node.Addr(), changes, p.clock.now())
	if err := p.checkCapabilities(c, node); err != nil {
		return err
	}
	c.sentAs = c.number
	p.writeHead(c)
	c.node, c.begun, c.sent = node, time.Now(), p.clock.now()
	p.calling.begin(c.begun)
	if err := p.transmit(c); err != nil {
		p.calling.end()
		p.noteFailure()
		p.server.noteFailure(err)
		return err
	}
	return nil
}

// transmit sends the commands of a call.
func (p *partition) transmit(c *call) error {
	commands := p.addStaging(c, nil)
	c.before = len(commands)
	commands = append(commands, c.request())
	if p.options.WaitReplicas > 0 {
		limit := p.options.attempt() / 2
		commands = append(commands, []any{"wait", p.options.WaitReplicas, limit.Milliseconds()})
	}
	return p.link.Send(c.node, commands...)
}

// receive waits for the reply to a call, reads what comes before the answers, and completes the
// records in it. If Redis does not know the script, the call is sent again with its source.
func (p *partition) receive(c *call) error {
	defer p.calling.end()
	r, err := p.receiveReply(c)
	if err != nil {
		return err
	}
	if err := p.fetch(c.node, r); err != nil {
		p.noteFailure()
		return err
	}
	if time.Since(c.begun) > schema.SlowCall {
		p.heartbeat.doubt(p.clock.now())
	}
	p.noteAnswered(c)
	if r.clock == 0 { // it was recorded before, and what was staged now is not needed
		p.stats.replays.Add(1)
		p.leaveStaged(c)
	}
	c.reply = r
	return nil
}

// receiveReply is receive up to the records.
func (p *partition) receiveReply(c *call) (*reply, error) {
	answer, err := p.receiveStaged(c)
	if err != nil && conn.CodeOf(err) == conn.NoScript {
		c.args[0], c.args[1] = "eval", lua.MainText()
		if err = p.transmit(c); err == nil {
			answer, err = p.receiveStaged(c)
		}
	}
	if err != nil {
		if reactionTo(err) != withhold { // a Redis without memory does answer
			p.noteFailure()
		}
		p.server.noteFailure(err)
		return nil, err
	}
	r, err := parseReply(answer, p.prefix, p.of, c.sent)
	if err == nil && r.clock != 0 {
		if step := p.clock.setRedisTime(r.clock, c.begun); step <= -leastSetBack || step >= leastSetAhead {
			p.clockSet(step)
		}
	}
	return r, err
}

// clockSet is called when the clock of Redis was set by that much.
func (p *partition) clockSet(by time.Duration) {
	p.log.Warn("the clock of Redis was set, unless this machine was suspended: what is due shifts by the step", "by", by.Round(time.Second))
	if by < 0 {
		p.listener.ClockSetBack(-by)
	}
}

// noteFailure is called after a call that could not be sent or was not answered.
func (p *partition) noteFailure() {
	p.stepSizes.quickest.Store(0) // the next server can be farther away
	p.heartbeat.doubt(p.clock.now())
	p.pool.ReloadTopology()
}

// errFewReplicas: a batch was carried out, but is not on enough replicas yet.
var errFewReplicas = errors.New("too few replicas have the batch")

// receiveStaged waits for the replies to staged records and to the call. If the script misses a
// record, the reason is that the record was refused. After a record that is too large Redis
// reads nothing more.
func (p *partition) receiveStaged(c *call) (any, error) {
	var refused error
	for ; c.before > 0; c.before-- {
		_, err := p.link.Receive()
		if err != nil && conn.CodeOf(err) == "" {
			if conn.CodeOf(refused) == conn.InvalidLength {
				err = refused
			}
			return nil, err
		}
		if refused == nil {
			refused = err
		}
	}
	answer, err := p.receiveConfirmed()
	if refused != nil && (conn.CodeOf(err) == lua.Unstaged || conn.CodeOf(refused) == conn.InvalidLength) {
		return nil, refused
	}
	return answer, err
}

// receiveConfirmed waits for the reply to a call, and if required until the call is on
// replicas. The WAIT for that was sent with it, because it applies to the writes of the same
// connection.
func (p *partition) receiveConfirmed() (any, error) {
	answer, err := p.link.Receive()
	if p.options.WaitReplicas == 0 || err != nil && conn.CodeOf(err) == "" {
		return answer, err
	}
	confirmed, waitErr := p.link.Receive()
	if err != nil {
		return nil, err
	}
	if waitErr != nil { // which is not about the call: that was carried out
		return nil, fmt.Errorf("%w: %v", errFewReplicas, waitErr)
	}
	if n, _ := confirmed.(int64); n < int64(p.options.WaitReplicas) {
		return nil, fmt.Errorf("%w: %d of %d", errFewReplicas, n, p.options.WaitReplicas)
	}
	return answer, nil
}

// request returns the command to be sent.
func (c *call) request() []any {
	if c.kind == void {
		return c.args[:lua.HeadArgs]
	}
	return c.args
}

// writeHead sets the arguments before the operations of a call.
func (p *partition) writeHead(c *call) {
	puts := c.puts
	if c.kind == void {
		puts = 0
	}
	follows := p.instance.recorded
	if p.instance.garbled {
		follows = numberArg(0) // no call has this number: the script answers LOST, and everything starts again
	}
	terms := p.terms(c, puts)
	c.since = p.bodies.since(p.clock.now())
	copy(c.args, []any{
		"evalsha", lua.Main().Hash(), 1, p.prefix,
		p.instance.name(), numberArg(c.number), follows, puts, terms, c.since,
	})
}

// terms returns the options of a call that differ from the usual.
func (p *partition) terms(c *call, puts int) string {
	var terms strings.Builder
	terms.WriteString(p.shape)
	if puts > 0 && p.ids.mustExceedKnown() {
		fmt.Fprintf(&terms, "least=%d ", p.ids.order.last.Load())
	}
	if (puts > 0 || c.imports && c.kind != void) && c.most > p.instance.largest {
		c.largest = 1 << bits.Len(uint(c.most))
		fmt.Fprintf(&terms, "largest=%d ", c.largest)
	}
	if len(c.staged) > 0 && c.kind != void {
		fmt.Fprintf(&terms, "staged=%d ", len(c.staged))
	}
	p.addTestTerms(&terms)
	if c.kind == registration {
		terms.WriteString("register=1 ")
	}
	if c.kind == void {
		terms.WriteString("void=1 ")
	}
	switch {
	case c.kind == void || c.kind == registration || c.noMemory != nil:
		terms.WriteString("full=1 ")
	case c.storesMuch:
		terms.WriteString("memory=1 ")
	}
	return terms.String()
}

// addTestTerms adds options for tests.
func (p *partition) addTestTerms(terms *strings.Builder) {
	o := &p.options
	if ahead := o.skew().Milliseconds(); ahead != 0 {
		fmt.Fprintf(terms, "ahead=%d ", ahead)
	}
	if o.redisStep != nil {
		fmt.Fprintf(terms, "step=%d ", o.redisStep().Milliseconds())
	}
	if o.leaseSetFrom != 0 {
		fmt.Fprintf(terms, "leaseset=%d ", o.leaseSetFrom)
	}
	if o.budget != 0 {
		fmt.Fprintf(terms, "budget=%d ", o.budget)
	}
	if o.largeFrom != schema.LargeFrom {
		fmt.Fprintf(terms, "large=%d ", o.largeFrom)
	}
}

// noteAnswered counts a call that Redis has answered.
func (p *partition) noteAnswered(c *call) {
	now := time.Now()
	p.answered.Store(now.UnixNano())
	p.adjustStepSizes(c, now.Sub(c.begun))
	p.stats.calls.Add(int64(now.Sub(c.begun)))
	p.stats.operations.Add(int64(c.ops))
}

// adjustStepSizes records how long a call has taken. The operations of clients in it are no
// reason for smaller steps.
func (p *partition) adjustStepSizes(c *call, took time.Duration) {
	quickest := &p.stepSizes.quickest
	if least := quickest.Load(); least == 0 || int64(took) < least {
		quickest.Store(int64(took))
	}
	for _, size := range c.measuredBy {
		size.adjust(took - time.Duration(quickest.Load()) - time.Duration(c.ops-c.moved)*assumedOpTime)
	}
}
