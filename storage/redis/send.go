package redis

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// slow is how long a call may take before heartbeats of others are doubted.
const slow = time.Second

// exchange sends a call, unless nothing is encoded, and reads what comes before the
// answers to its operations.
func (p *partition) exchange(c *call) error {
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
	r, err := p.ask(c)
	if err != nil {
		return err
	}
	r.bare = c.kind == void
	if r.recorded {
		p.instance.recorded = numberArg(c.number)
	}
	if r.recorded && r.said != voided {
		p.instance.largest = max(p.instance.largest, c.largest)
		p.ids.skipping = p.ids.skipping && c.puts == 0
	}
	c.reply = r
	return nil
}

// ask sends a call to the server that has the partition, and reads what comes before
// the answers to its operations.
func (p *partition) ask(c *call) (*reply, error) {
	node, err := p.node()
	if err != nil {
		return nil, err
	}
	return p.invoke(node, c)
}

// node returns a client of the server that has the partition.
func (p *partition) node() (*goredis.Client, error) {
	node, err := p.link.node(context.Background(), p.prefix)
	if err == nil {
		p.ids.meet(node.Options().Addr, p.link.servers.seen(), p.clock.now())
	}
	return node, err
}

// writeHead fills in what comes before the operations of a call, and returns the words
// to be sent.
func (p *partition) writeHead(c *call) []any {
	words, puts := c.args, c.puts
	if c.kind == void {
		words, puts = words[:headArgs], 0
	}
	follows := p.instance.recorded
	if p.instance.garbled {
		follows = numberArg(0) // which no call has: the script says LOST, and all is begun anew
	}
	terms := p.terms(c, puts)
	c.since = p.bodies.since(p.clock.now())
	copy(words, []any{
		"evalsha", script.Hash(), 1, p.prefix,
		p.instance.name(), numberArg(c.number), follows, puts, terms, c.since,
	})
	return words
}

// terms are the words that say what is out of the ordinary about a call.
func (p *partition) terms(c *call, puts int) string {
	var terms strings.Builder
	terms.WriteString(p.shape)
	if puts > 0 && p.ids.bound() {
		fmt.Fprintf(&terms, "least=%d ", p.ids.order.last.Load())
	}
	if puts > 0 && c.most > p.instance.largest {
		c.largest = 1 << bits.Len(uint(c.most))
		fmt.Fprintf(&terms, "largest=%d ", c.largest)
	}
	p.addTestTerms(&terms)
	if c.kind == registration {
		terms.WriteString("register=1 ")
	}
	if c.kind == void {
		terms.WriteString("void=1 ")
	}
	if c.kind == void || c.noMemory != nil {
		terms.WriteString("full=1 ")
	}
	return terms.String()
}

// addTestTerms adds what only tests ask for.
func (p *partition) addTestTerms(terms *strings.Builder) {
	o := &p.options
	if ahead := o.skew().Milliseconds(); ahead != 0 {
		fmt.Fprintf(terms, "ahead=%d ", ahead)
	}
	if o.redisStep != nil {
		fmt.Fprintf(terms, "step=%d ", o.redisStep().Milliseconds())
	}
	if o.leaseSetFrom != 0 {
		fmt.Fprintf(terms, "group=%d ", o.leaseSetFrom)
	}
	if o.budget != 0 {
		fmt.Fprintf(terms, "budget=%d ", o.budget)
	}
}

// invoke sends a call, by the source of the script where Redis does not know it, and
// reads what comes before the answers to its operations.
func (p *partition) invoke(node *goredis.Client, c *call) (*reply, error) {
	args, begun := p.writeHead(c), time.Now()
	c.sent = p.clock.now()
	raw, err := p.send(node, args)
	if err != nil && codeOf(err) == "NOSCRIPT" {
		args[0], args[1] = "eval", scriptText
		raw, err = p.send(node, args)
	}
	if err != nil || time.Since(begun) > slow {
		p.heartbeat.doubt(p.clock.now())
	}
	if err != nil {
		p.link.doubt()
		return nil, err
	}
	r, err := parseReply(raw, p.prefix, p.of, c.sent)
	if err != nil {
		return nil, err
	}
	if r.clock != 0 && p.clock.note(r.clock) {
		p.heartbeat.doubt(p.clock.now())
	}
	return r, nil
}

// send has Redis carry out a command, and returns what it has answered.
func (p *partition) send(node *goredis.Client, args []any) (any, error) {
	ctx := context.Background()
	if p.options.WaitReplicas > 0 {
		return p.awaitReplicas(ctx, node, args)
	}
	cmd := goredis.NewCmd(ctx, args...)
	err := node.Process(ctx, cmd)
	return cmd.Val(), err
}
