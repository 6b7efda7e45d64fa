package fsck

import (
	"context"
	"fmt"
	"slices"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
)

var (
	jobsScript       = lua.Load("check/jobs.lua")
	membersScript    = lua.Load("check/members.lua")
	countsScript     = lua.Load("check/counts.lua")
	keysScript       = lua.Load("check/keys.lua")
	endedScript      = lua.Load("check/ended.lua")
	expiringScript   = lua.Load("check/expiring.lua")
	reportsScript    = lua.Load("check/reports.lua")
	groupsScript     = lua.Load("check/groups.lua")
	flagsScript      = lua.Load("check/flags.lua")
	namedScript      = lua.Load("check/named.lua")
	jobBatchesScript = lua.Load("check/jobbatches.lua")
)

// ask runs a script that checks jobs, members, keys or expiring, and reports the faults. It returns how
// many of the arguments were checked, and the reply.
func (c *checker) ask(ctx context.Context, p *checkedPartition, script func() *conn.Script, about []string) (n int, reply checkReply, err error) {
	if reply, err = c.call(ctx, p, script, about); err != nil {
		return 0, nil, err
	}
	c.found(p, reply.texts(1))
	return reply.int(0), reply, nil
}

// askInParts does that with any number of arguments, each time with as many as are left, after about. what they are is for
// the progress.
func (c *checker) askInParts(ctx context.Context, p *checkedPartition, script func() *conn.Script, about, args []string, what string) error {
	for len(args) > 0 {
		n, _, err := c.ask(ctx, p, script, slices.Concat(about, args[:min(len(args), 3*jobsPerCheck)]))
		if err != nil {
			return err
		}
		args = args[n:]
		c.reportProgress(what, n)
	}
	return nil
}

// call runs a script.
func (c *checker) call(ctx context.Context, p *checkedPartition, script func() *conn.Script, about []string) (checkReply, error) {
	args := []any{0, len(c.parts), c.work}
	if c.repair {
		args[0] = 1
	}
	for _, arg := range about {
		args = append(args, arg)
	}
	r := p.node.Run(ctx, script(), []string{p.prefix}, args...)
	if err := r.Err; err != nil && conn.CodeOf(err) == "INSTANCES" {
		return nil, errRunning
	}
	reply, _ := r.Value.([]any)
	return reply, r.Err
}

// checkReply is what a script answers.
type checkReply []any

func (r checkReply) int(at int) int {
	n, _ := r[at].(int64)
	return int(n)
}

func (r checkReply) texts(at int) []string {
	all, _ := r[at].([]any)
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = fmt.Sprint(text)
	}
	return texts
}
