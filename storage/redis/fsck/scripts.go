package fsck

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
)

var (
	jobsScript    = lua.Load("check/jobs.lua")
	membersScript = lua.Load("check/members.lua")
	countsScript  = lua.Load("check/counts.lua")
	keysScript    = lua.Load("check/keys.lua")
)

// ask runs a script that checks jobs, members or keys, and reports the faults. It returns how
// many of the arguments were checked, and the reply.
func (c *checker) ask(ctx context.Context, p *checkedPartition, script func() *goredis.Script, about []string) (n int, reply checkReply, err error) {
	if reply, err = c.call(ctx, p, script, about); err != nil {
		return 0, nil, err
	}
	c.found(p, reply.texts(1))
	return reply.int(0), reply, nil
}

// call runs a script.
func (c *checker) call(ctx context.Context, p *checkedPartition, script func() *goredis.Script, about []string) (checkReply, error) {
	args := []any{0, len(c.parts), c.work}
	if c.repair {
		args[0] = 1
	}
	for _, arg := range about {
		args = append(args, arg)
	}
	reply, err := script().Run(ctx, p.node.Client(), []string{p.prefix}, args...).Slice()
	if err != nil && conn.CodeOf(err) == "INSTANCES" {
		return nil, errRunning
	}
	return reply, err
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
