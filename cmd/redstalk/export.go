package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
	"redstalk/tube/field"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Action: withConn(noArguments, export),
		Usage: "print jobs as JSON, one per line, with state, delay and tags; the jobs are not changed",
		Description: "The input of import. A job that changes its state meanwhile can be missed, or exported in its old state: for a complete copy, pause " +
			"producers and workers, or drain the server. Reserved jobs are exported, too. On a server without the extension list-jobs, every id from --from-id on is tried.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE`; can be repeated (default: all tubes)"},
			&cli.StringSliceFlag{Name: "state", Usage: "`STATE`; can be repeated (default: all states)"},
			&cli.Uint64Flag{Name: "from-id", Value: 1, Usage: "`ID` to begin with, on a server without list-jobs"},
		},
	}
}

// exporter is one run of export.
type exporter struct {
	*task
	out      *bufio.Writer
	tubes    []string // empty: all
	states   []string
	seen     map[uint64]bool              // ids of exported jobs: a job that changes its state can be listed twice
	policies map[string]map[string]string // what policyOf has found, by tube
	patterns []string                     // nil: not asked for yet
	bar      *progress
}

func export(t *task) error {
	e := &exporter{task: t, out: bufio.NewWriter(t.stdio.out), tubes: t.StringSlice("tube"), states: t.StringSlice("state"), seen: make(map[uint64]bool), policies: make(map[string]map[string]string)}
	for _, tube := range e.tubes {
		if err := checkWord("--tube", tube); err != nil {
			return err
		}
	}
	if len(e.states) == 0 {
		e.states = states
	}
	for _, s := range e.states {
		if err := checkState(s, states...); err != nil {
			return err
		}
	}
	if hides, err := t.supports("redacted"); err != nil {
		return err
	} else if hides {
		return failure{exitForbidden, errors.New("the server hides values of bodies from this user: a copy needs the right admin on all tubes")}
	}
	lists, err := t.supports("list-jobs")
	if err != nil {
		return err
	}
	if lists {
		err = e.byLists()
	} else {
		err = e.byIDs()
	}
	e.bar.end()
	if err == nil {
		err = outputError(e.out.Flush())
	}
	if err == nil && t.Context.Context.Err() != nil {
		err = interrupted(nounFor(len(e.seen), "job") + " exported")
	}
	if err == nil {
		t.infof("redstalk: %s exported", nounFor(len(e.seen), "job"))
	}
	return err
}

// byLists exports the jobs that list-jobs lists.
func (e *exporter) byLists() error {
	all, err := e.allTubes()
	if err != nil {
		return err
	}
	if len(e.tubes) > 0 {
		all = slices.DeleteFunc(all, func(s tubeStats) bool { return !slices.Contains(e.tubes, s.Name) })
	}
	sum := uint64(0)
	for i := range all {
		sum += all[i].Ready + all[i].Delayed + all[i].Reserved + all[i].Buried
	}
	e.bar = startProgress(e.task, "exporting", sum)
	for i := range all {
		for _, state := range e.states {
			err := e.allJobs(all[i].Name, state, 1<<62, func(jobs []*job) error {
				return e.write(len(jobs), func(i int) uint64 { return jobs[i].ID })
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// byIDs tries every id that the server can have assigned.
func (e *exporter) byIDs() error {
	last, err := e.lastID()
	if err != nil {
		return err
	}
	first := e.Uint64("from-id")
	e.bar = startProgress(e.task, "trying ids", last-min(first, last)+1)
	for from := first; from <= last && e.Context.Context.Err() == nil; from += window {
		n := int(min(window, last-from+1))
		if err := e.write(n, func(i int) uint64 { return from + uint64(i) }); err != nil {
			return err
		}
	}
	return nil
}

// lastID finds the last assigned id. beanstalkd reports it in no other way, so lastID puts a
// delayed job, which nobody can reserve, and deletes it.
func (e *exporter) lastID() (uint64, error) {
	if err := e.use("redstalk-export"); err != nil {
		return 0, err
	}
	r, err := e.request("asking for the last id", "put 0 3600 60 0\r\n")
	if err != nil {
		return 0, err
	}
	if r.Word != client.Inserted {
		return 0, replyError("asking for the last id by a put", r)
	}
	last := r.ID
	_, err = e.expect("deleting that job", "DELETED", fmt.Sprintf("delete %d", last))
	return last - 1, err
}

// write exports those of n jobs that still exist and match the flags.
func (e *exporter) write(n int, id func(i int) uint64) error {
	found := make([]*job, 0, n)
	err := e.pipeline("reading jobs", n, func(out []byte, i int) []byte { return fmt.Appendf(out, "stats-job %d\r\n", id(i)) }, func(i int, r *client.Reply) error {
		if r.Word == client.NotFound {
			return nil
		}
		if r.Word != client.OK {
			return replyError("reading a job", r)
		}
		j := &job{ID: id(i)}
		j.readPage(client.Page(r.Body))
		if e.wants(j) {
			found = append(found, j)
		}
		return nil
	})
	if err == nil {
		err = e.writeFound(found)
	}
	e.bar.add(uint64(n))
	return err
}

func (e *exporter) wants(j *job) bool {
	return !e.seen[j.ID] && slices.Contains(e.states, j.State) && (len(e.tubes) == 0 || slices.Contains(e.tubes, j.Tube))
}

// writeFound writes jobs with their bodies.
func (e *exporter) writeFound(jobs []*job) error {
	for _, j := range jobs {
		if err := e.dropPolicyTags(j); err != nil {
			return err
		}
	}
	// Bodies can be large, so fewer of them are requested at a time.
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), 50)]
		jobs = jobs[len(some):]
		var there []*job
		err := e.pipeline("fetching bodies", len(some), func(out []byte, i int) []byte { return fmt.Appendf(out, "peek %d\r\n", some[i].ID) }, func(i int, r *client.Reply) error {
			switch r.Word {
			case client.Found:
				some[i].setBody(r.Body)
				there = append(there, some[i])
			case client.NotFound: // gone meanwhile
			default:
				return replyError(fmt.Sprintf("fetching the body of job %d", some[i].ID), r)
			}
			return nil
		})
		if err == nil {
			err = e.fetchCheckpoints(there)
		}
		for _, j := range there {
			if err == nil {
				err = e.writeJob(j)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchCheckpoints adds their checkpoints to the jobs that have one.
func (e *exporter) fetchCheckpoints(jobs []*job) error {
	some := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.CheckpointBytes == 0 })
	return e.pipeline("fetching checkpoints", len(some), func(out []byte, i int) []byte { return fmt.Appendf(out, "get-checkpoint %d\r\n", some[i].ID) }, func(i int, r *client.Reply) error {
		if r.Word == client.OK {
			some[i].Checkpoint = bytes.Clone(r.Body)
		} else if r.Word != client.NotFound { // else it is gone meanwhile
			return replyError("fetching a checkpoint", r)
		}
		return nil
	})
}

func (e *exporter) writeJob(j *job) error {
	line, err := lineOf(j)
	if err == nil {
		_, err = e.out.Write(line)
	}
	e.seen[j.ID] = true
	return outputError(err)
}

// dropPolicyTags removes tags that the job has from the policies of its tube: stats-job does not
// distinguish them from the job's own.
func (e *exporter) dropPolicyTags(j *job) error {
	if len(j.Retry) == 0 && j.Jitter == "" && j.Max == 0 && j.Dead == "" && j.OnExpire == "" && j.Keep == "" {
		return nil
	}
	policy, err := e.policyOf(j.Tube)
	if err != nil {
		return err
	}
	dropIf(strings.Join(j.Retry, ",") == policy["retry"], &j.Retry)
	jitter := policy["jitter"]
	if jitter == "" && j.Retry == nil && strings.HasPrefix(policy["retry"], "exp(") {
		jitter = strconv.Itoa(field.JitterOfDoubled) // what stats-job shows if nobody says otherwise
	}
	dropIf(j.Jitter == jitter, &j.Jitter)
	dropIf(optional(j.Max) == policy["max"], &j.Max)
	dropIf(j.Dead == policy["dead"], &j.Dead)
	dropIf(j.OnExpire == policy["on-expire"], &j.OnExpire)
	dropIf(j.Keep == policy["keep"], &j.Keep)
	return nil
}

func dropIf[T any](ofPolicy bool, tag *T) {
	if ofPolicy {
		*tag = *new(T)
	}
}

// policyOf returns the tags that the jobs of a tube have from its policy, or else from that of the
// longest prefix that sets them.
func (e *exporter) policyOf(tube string) (map[string]string, error) {
	if policy := e.policies[tube]; policy != nil {
		return policy, nil
	}
	if e.patterns == nil {
		r, err := e.request("asking for the policies", "list-policies")
		if err != nil {
			return nil, err
		}
		e.patterns = patternsIn(string(r.Body))
	}
	policy := make(map[string]string)
	for _, scope := range append([]string{tube}, e.patterns...) {
		if scope != tube && !strings.HasPrefix(tube, strings.TrimSuffix(scope, "*")) {
			continue
		}
		r, err := e.request("asking for the policy of "+scope, "get-policy "+scope)
		if err != nil {
			return nil, err
		}
		for _, rule := range field.OfRules {
			if value, ok := client.Page(r.Body).Value(rule.Name); ok && policy[rule.Name] == "" {
				policy[rule.Name] = unquoted(value)
			}
		}
	}
	e.policies[tube] = policy
	return policy, nil
}

// patternsIn returns the patterns in a page of list-policies, the longest first.
func patternsIn(page string) []string {
	patterns := []string{}
	for line := range strings.Lines(page) {
		name := unquoted(strings.TrimSpace(strings.TrimPrefix(line, "- ")))
		if strings.HasSuffix(name, "*") {
			patterns = append(patterns, name)
		}
	}
	slices.SortFunc(patterns, func(a, b string) int { return len(b) - len(a) })
	return patterns
}
