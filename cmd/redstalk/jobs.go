package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// jobCommands are the commands that change jobs by their ids.
func jobCommands() []*cli.Command {
	return []*cli.Command{
		deleteCommand(), finishCommand(), kickCommand(), replayCommand(), takeBackCommand(), buryCommand(), releaseCommand(), touchCommand(), checkpointCommand(), rescheduleCommand(), priorityCommand(),
	}
}

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", ArgsUsage: "[ID...|-]", Action: withConn(anyNumber, deleteJobs),
		Usage: "delete jobs that are not reserved, or a job by its lease; - reads ids from standard input",
		Flags: []cli.Flag{leaseFlag(), tubeFlag(), &cli.StringFlag{Name: "key", Usage: "`KEY` of the job in --tube, even if it is reserved (extension put-tags)"}},
	}
}

func leaseFlag() cli.Flag {
	return &cli.StringFlag{Name: "lease", Usage: "`LEASE` with which the job is reserved (extension lease)"}
}

func priFlag() cli.Flag {
	return &cli.UintFlag{Name: "pri", Aliases: []string{"p"}, Usage: "new `PRI` of the job (default: unchanged)"}
}

func deleteJobs(t *task) error {
	if key := t.String("key"); key != "" {
		if t.NArg() > 0 {
			return usage("delete takes either ids or --key")
		}
		if err := t.require("put-tags", "delete --key"); err != nil {
			return err
		}
		_, err := t.expect("deleting the job with key "+key, "DELETED", "delete-key "+t.tube()+" "+key)
		if err != nil {
			return err
		}
		return t.printDone(map[string]any{"deleted": 1}, "1 job deleted")
	}
	ids, err := idsFrom(t)
	if err != nil {
		return err
	}
	if lease := t.String("lease"); lease != "" {
		return byLease(t, ids, "deleting", "DELETED", func(id uint64) string { return fmt.Sprintf("delete-lease %d %s", id, lease) })
	}
	return forEachJob(t, ids, "deleted", "DELETED", client.AppendDelete)
}

// idsFrom reads the ids of the arguments, or of standard input if the argument is "-".
func idsFrom(t *task) ([]uint64, error) {
	words := t.Args().Slice()
	if len(words) == 0 {
		return nil, usage("%s needs the id of a job", t.Command.Name)
	}
	if len(words) == 1 && words[0] == "-" {
		text, err := readAll(t)
		if err != nil {
			return nil, err
		}
		words = strings.Fields(string(text))
	}
	return jobIDs(words)
}

// byLease sends a command about the one job of a lease.
func byLease(t *task, ids []uint64, doing, want string, command func(id uint64) string) error {
	if len(ids) != 1 {
		return usage("a lease is for one job")
	}
	if err := t.require("lease", "--lease"); err != nil {
		return err
	}
	doing = fmt.Sprintf("%s job %d by its lease", doing, ids[0])
	if _, err := t.expect(doing, want, command(ids[0])); err != nil {
		return err
	}
	return t.printDone(map[string]any{strings.ToLower(want): 1}, "job %d %s", ids[0], strings.ToLower(want))
}

// forEachJob sends a command for each job, and prints for how many it succeeded. If a job was not
// found it returns an error.
func forEachJob(t *task, ids []uint64, done, want string, command func(out []byte, id uint64) []byte) error {
	count, missing := 0, []uint64{}
	err := t.pipeline(done+" jobs", len(ids), func(out []byte, i int) []byte { return command(out, ids[i]) }, countReplies(ids, want, &count, &missing))
	if err != nil {
		return fmt.Errorf("%w (%d were %s)", err, count, done)
	}
	if err := t.printDone(map[string]any{done: count, "missing": missing}, "%s %s", nounFor(count, "job"), done); err != nil {
		return err
	}
	if len(missing) > 0 {
		return notFound("not found, or in a state that does not allow it: %s", formatIDs(missing))
	}
	return nil
}

// countReplies returns what takes the replies to commands about these jobs: it counts those with the wanted word, and collects the jobs that
// were not found.
func countReplies(ids []uint64, want string, count *int, missing *[]uint64) func(i int, r *client.Reply) error {
	return func(i int, r *client.Reply) error {
		switch {
		case string(r.Line) == want:
			*count++
		case r.Word == client.NotFound:
			*missing = append(*missing, ids[i])
		default:
			return replyError(fmt.Sprintf("job %d", ids[i]), r)
		}
		return nil
	}
}

// formatIDs returns the first few of the ids.
func formatIDs(ids []uint64) string {
	const most = 10
	text := strings.Trim(fmt.Sprint(ids[:min(most, len(ids))]), "[]")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}

func kickCommand() *cli.Command {
	return &cli.Command{
		Name: "kick", ArgsUsage: "[COUNT|all]", Action: withConn(arguments{0, 1}, kick),
		Usage: "make buried jobs of a tube ready, or delayed ones if none is buried",
		Flags: []cli.Flag{tubeFlag(), &cli.Uint64SliceFlag{Name: "id", Usage: "`ID` of a buried or delayed job; can be repeated"}, keepCheckpointFlag()},
	}
}

func kick(t *task) error {
	keep, err := t.keepWord()
	if err != nil {
		return err
	}
	if ids := t.Uint64Slice("id"); len(ids) > 0 {
		if t.NArg() > 0 {
			return usage("kick takes either a count or --id")
		}
		return forEachJob(t, ids, "kicked", "KICKED", func(out []byte, id uint64) []byte { return fmt.Appendf(out, "kick-job %d%s\r\n", id, keep) })
	}
	count := uint64(1)
	if t.NArg() > 0 {
		if count, err = countOf(t.Args().First()); err != nil {
			return err
		}
	}
	if err := t.checkTube(t.tube()); err != nil { // use would create it
		return err
	}
	if err := t.use(t.tube()); err != nil {
		return err
	}
	kicked, err := t.expect("kicking jobs of "+t.tube(), "KICKED", fmt.Sprintf("kick %d%s", count, keep))
	if err != nil {
		return err
	}
	var n uint64
	fmt.Sscan(kicked, &n)
	return t.printDone(map[string]any{"kicked": n}, "%s kicked", nounFor(n, "job"))
}

// countOf reads a number of jobs, or all.
func countOf(text string) (uint64, error) {
	var n uint32
	if text == "all" {
		return 1<<32 - 1, nil
	}
	if _, err := fmt.Sscanf(text+" ", "%d ", &n); err != nil || fmt.Sprint(n) != text {
		return 0, usage("%q is neither a number of jobs nor all", text)
	}
	return uint64(n), nil
}

func buryCommand() *cli.Command {
	return &cli.Command{
		Name: "bury", ArgsUsage: "ID", Action: withConn(arguments{1, 1}, bury),
		Usage: "bury a job that is ready or delayed, or a reserved one by its lease",
		Flags: []cli.Flag{leaseFlag(), priFlag(), reasonFlag()},
	}
}

func reasonFlag() cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: "`TEXT` that says why it has failed (extension reason)"}
}

// reasonOf returns --reason as the end of a command, "" without it.
func reasonOf(t *task) (string, error) {
	reason := t.String("reason")
	if reason == "" {
		return "", nil
	}
	if !protocol.ValidReason(reason) {
		return "", usage("--reason must have at most %d bytes, and no control characters", protocol.MaxReason)
	}
	return reasonWord(reason), t.require("reason", "--reason")
}

// reasonWord returns the tag reason with a space before it, "" if there is none.
func reasonWord(reason string) string {
	if reason == "" {
		return ""
	}
	return " reason:" + protocol.Quote(reason)
}

func bury(t *task) error {
	ids, err := jobIDs(t.Args().Slice())
	if err != nil {
		return err
	}
	pri, err := priOf(t, ids[0])
	if err != nil {
		return err
	}
	reason, err := reasonOf(t)
	if err != nil {
		return err
	}
	if lease := t.String("lease"); lease != "" {
		return byLease(t, ids, "burying", "BURIED", func(id uint64) string { return fmt.Sprintf("bury-lease %d %s %d%s", id, lease, pri, reason) })
	}
	return reserveAndExpect(t, ids[0], "burying", "BURIED", fmt.Sprintf("bury %d %d%s", ids[0], pri, reason))
}

func releaseCommand() *cli.Command {
	return &cli.Command{
		Name: "release", ArgsUsage: "ID", Action: withConn(arguments{1, 1}, release),
		Usage: "release a reserved job by its lease, or make a job that is not reserved ready or delayed",
		Flags: []cli.Flag{leaseFlag(), priFlag(), durationFlag("delay", 0, "`DURATION` until it is due again, in whole seconds"), reasonFlag(),
			&cli.BoolFlag{Name: "no-failure", Usage: "count it neither as a failure nor as a delivery (extension reason)"}},
	}
}

func release(t *task) error {
	ids, err := jobIDs(t.Args().Slice())
	if err != nil {
		return err
	}
	pri, err := priOf(t, ids[0])
	if err != nil {
		return err
	}
	reason, err := reasonOf(t)
	if err != nil {
		return err
	}
	if t.Bool("no-failure") {
		if reason != "" {
			return usage("--reason and --no-failure cannot be used together")
		}
		if err := t.require("reason", "--no-failure"); err != nil {
			return err
		}
		reason = " failure:no"
	}
	delay := wholeSeconds(t.duration("delay"))
	if lease := t.String("lease"); lease != "" {
		return byLease(t, ids, "releasing", "RELEASED", func(id uint64) string {
			return fmt.Sprintf("release-lease %d %s %d %d%s", id, lease, pri, delay, reason)
		})
	}
	return reserveAndExpect(t, ids[0], "releasing", "RELEASED", fmt.Sprintf("release %d %d %d%s", ids[0], pri, delay, reason))
}

// priOf returns --pri, or the priority that the job has.
func priOf(t *task, id uint64) (uint32, error) {
	if t.IsSet("pri") {
		if pri := t.Uint("pri"); uint64(pri) <= 1<<32-1 {
			return uint32(pri), nil
		}
		return 0, usage("--pri must be below 4294967296")
	}
	page, err := t.page(fmt.Sprintf("reading job %d", id), fmt.Sprintf("stats-job %d", id))
	var j job
	j.readPage(page)
	return j.Priority, err
}

// reserveAndExpect reserves a job and then sends the command on the same connection: the protocol
// allows it only to the holder. It fails for a job that another client holds.
func reserveAndExpect(t *task, id uint64, doing, want, command string) error {
	doing = fmt.Sprintf("%s job %d", doing, id)
	r, err := t.request(doing, fmt.Sprintf("reserve-job %d", id))
	switch {
	case err != nil:
		return err
	case r.Word == client.NotFound:
		return notFound("%s: it does not exist, or it is reserved: then only its holder can do that, or you with its lease (--lease)", doing)
	case r.Word != client.Reserved:
		return replyError(doing, r)
	}
	if _, err := t.expect(doing, want, command); err != nil {
		return err
	}
	return t.printDone(map[string]any{strings.ToLower(want): 1}, "job %d %s", id, strings.ToLower(want))
}

func touchCommand() *cli.Command {
	return &cli.Command{
		Name: "touch", ArgsUsage: "ID", Action: withConn(arguments{1, 1}, touch),
		Usage: "restart the TTR of a reserved job, by its lease (extension lease)",
		Flags: []cli.Flag{leaseFlag(), &cli.StringFlag{Name: "progress", Usage: "`TEXT` that says how far the job is (extension progress)"}},
	}
}

func touch(t *task) error {
	ids, err := jobIDs(t.Args().Slice())
	if err != nil {
		return err
	}
	lease := t.String("lease")
	if lease == "" {
		return usage("touch needs --lease: a reservation without a lease ends with its connection")
	}
	more := ""
	if text := t.String("progress"); t.IsSet("progress") {
		if !protocol.ValidProgress(text) {
			return usage("--progress must have at most %d bytes of text", protocol.MaxProgress)
		}
		if err := t.require("progress", "touch --progress"); err != nil {
			return err
		}
		more = " progress:" + protocol.Quote(text)
	}
	return byLease(t, ids, "touching", "TOUCHED", func(id uint64) string { return fmt.Sprintf("touch-lease %d %s%s", id, lease, more) })
}

func rescheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "reschedule", ArgsUsage: "ID DURATION", Action: withConn(arguments{2, 2}, reschedule),
		Usage: "make a ready or delayed job due that long from now (an extension)",
	}
}

func reschedule(t *task) error {
	in, err := parseDuration(t.Args().Get(1))
	if err != nil {
		return failure{exitUsage, err}
	}
	return t.changeJob("rescheduling", "RESCHEDULED", fmt.Sprintf("%dms", in.Milliseconds()), "reschedule")
}

func priorityCommand() *cli.Command {
	return &cli.Command{
		Name: "set-priority", ArgsUsage: "ID PRI", Action: withConn(arguments{2, 2}, setPriority),
		Usage: "give a ready, delayed or buried job another priority (an extension)",
	}
}

func setPriority(t *task) error {
	pri, err := countOf(t.Args().Get(1))
	if err != nil || t.Args().Get(1) == "all" {
		return usage("%q is not a priority", t.Args().Get(1))
	}
	return t.changeJob("changing the priority of", "UPDATED", fmt.Sprint(pri), "set-priority")
}

// changeJob sends a command about one job that beanstalkd does not have. The command has no
// capability of its own: a server that has list-jobs has it.
func (t *task) changeJob(doing, want, value, command string) error {
	id, err := jobID(t.Args().First())
	if err == nil {
		err = t.require("list-jobs", command)
	}
	if err != nil {
		return err
	}
	doing = fmt.Sprintf("%s job %d", doing, id)
	if _, err := t.expect(doing, want, fmt.Sprintf("%s %d %s", command, id, value)); err != nil {
		return err
	}
	return t.printDone(map[string]any{strings.ToLower(want): 1}, "job %d %s", id, strings.ToLower(want))
}

// confirm asks a person at a terminal to confirm. Scripts need --yes.
func confirm(t *task, question string) error {
	if t.Bool("yes") {
		return nil
	}
	if !onTerminal(t.in) {
		return usage("%s Use --yes to confirm", question)
	}
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(io.LimitReader(t.in, 100)).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
	case <-t.Context.Context.Done():
	}
	return interrupted("nothing was done")
}

// formatSeconds formats a number of seconds for people.
func formatSeconds(s int64) string { return (time.Duration(s) * time.Second).String() }
