package inspect

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"redstalk/clients/go/client"
)

// A Group is the state of a group of a tube.
type Group struct {
	Name                             string
	Ready, Reserved, Delayed, Buried int
	Concurrency                      int    // most reserved jobs; 0: no limit
	Rate                             string // such as 100/m,1000/h; empty: no limit
	Weight                           int
	PauseLeft                        time.Duration // 0: not paused
	Held                             string        // why its ready jobs wait: concurrency, rate or paused; empty: they do not
}

// GroupLimits are what applies to one group instead of the tube's policy.
type GroupLimits struct {
	Concurrency int           // most reserved jobs; 0: as the policy says
	Rate        string        // most reserves in a time, such as 100/m,1000/h; empty: as the policy says
	Weight      int           // its share among the groups, 1 to 1000; 0: 1
	TTL         time.Duration // forgotten when the group has had no jobs for so long; 0: 30 days
}

// Groups iterates over the groups of a tube, in the order of their names. It fetches them in pages. After an error it ends.
func (in *Inspector) Groups(ctx context.Context, tube string) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		cursor := ""
		for {
			page, err := in.page(ctx, client.Groups, strings.TrimSpace(fmt.Sprintf("list-groups %s 500 %s", tube, cursor)))
			if err != nil {
				yield(Group{}, err)
				return
			}
			for _, entry := range list(page) {
				if !yield(groupOf(flow(entry)), nil) {
					return
				}
			}
			if cursor = fields(page)["next"]; cursor == "" {
				return
			}
		}
	}
}

// Group returns the state of a group. One that has no job, no limits of its own and no pause is a [client.ErrNotFound].
func (in *Inspector) Group(ctx context.Context, tube, group string) (*Group, error) {
	page, err := in.page(ctx, client.Groups, "stats-group "+tube+" "+strconv.Quote(group))
	if err != nil {
		return nil, err
	}
	g := groupOf(fields(page))
	return &g, nil
}

// groupOf makes a Group of what the server says.
func groupOf(f map[string]string) Group {
	g := Group{
		Name: f["name"], Ready: number(f["ready"]), Reserved: number(f["reserved"]), Delayed: number(f["delayed"]), Buried: number(f["buried"]),
		Concurrency: number(f["concurrency"]), Weight: number(f["weight"]), PauseLeft: secs(f["pause-time-left"]),
	}
	if f["rate"] != "none" {
		g.Rate = f["rate"]
	}
	if f["held"] != "no" {
		g.Held = f["held"]
	}
	return g
}

// SetGroup sets what applies to a group instead of the tube's policy. It replaces what was set before. Neither the tube nor
// the group need exist.
func (in *Inspector) SetGroup(ctx context.Context, tube, group string, l GroupLimits) error {
	line := fmt.Sprintf("set-group %s %s weight:%d", tube, strconv.Quote(group), max(l.Weight, 1))
	if l.Concurrency > 0 {
		line += fmt.Sprintf(" concurrency:%d", l.Concurrency)
	}
	if l.Rate != "" {
		line += " rate:" + l.Rate
	}
	if l.TTL > 0 {
		line += fmt.Sprintf(" ttl:%dms", l.TTL.Milliseconds())
	}
	_, err := in.change(ctx, "SET", client.Command{Line: line, Repeat: true, Needs: client.Groups})
	return err
}

// ResetGroup removes what [Inspector.SetGroup] has set.
func (in *Inspector) ResetGroup(ctx context.Context, tube, group string) error {
	line := "set-group " + tube + " " + strconv.Quote(group)
	_, err := in.change(ctx, "SET", client.Command{Line: line, Repeat: true, Needs: client.Groups})
	return err
}

// PauseGroup stops deliveries of a group for d, in whole seconds rounded up; 0 ends a pause. Neither the tube nor the group
// need exist.
func (in *Inspector) PauseGroup(ctx context.Context, tube, group string, d time.Duration) error {
	line := fmt.Sprintf("pause-group %s %s %d", tube, strconv.Quote(group), (d+time.Second-1)/time.Second)
	_, err := in.change(ctx, "PAUSED", client.Command{Line: line, Repeat: true, Needs: client.Groups})
	return err
}

// FlushGroup deletes the jobs of a group that are not reserved. It returns how many.
func (in *Inspector) FlushGroup(ctx context.Context, tube, group string) (int, error) {
	line := "flush-group " + tube + " " + strconv.Quote(group)
	return in.change(ctx, "FLUSHED", client.Command{Line: line, Needs: client.Groups})
}
