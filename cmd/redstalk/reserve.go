package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func reserveCommand() *cli.Command {
	return &cli.Command{
		Name: "reserve", Action: withDialer(noArguments, reserve),
		Usage: "reserve a job and print its body, or run a command for each job",
		Description: "Without --exec, one job is reserved and its body printed. It stays reserved by a lease for its TTR; the lease is printed on " +
			"standard error, or with --json, and is accepted by delete, release, bury and touch. With --delete the job is deleted as soon as its body is written; " +
			"that also works with servers without leases.\n\n" +
			"With --exec the shell runs CMD for each job, with the body on standard input and REDSTALK_JOB_ID, REDSTALK_JOB_TUBE and REDSTALK_JOB_RESERVES " +
			"in the environment. With a server that has checkpoints, REDSTALK_CHECKPOINT is the path of a file with what a run before has left there; what CMD leaves in it, up to 64 KiB, is saved for the next run unless CMD exits with 0. Exit code 0 deletes the job; what CMD has printed, up to 64 KiB, is its result, if the server keeps one. With 75 the job is not finished: it is released at once, and that is no failure, unless its checkpoint cannot be saved. With any other the job has failed: see --on-failure. While CMD runs, redstalk touches the job " +
			"before its TTR ends. After the first SIGINT or SIGTERM redstalk takes no more jobs and waits for running commands; the second one kills these, and " +
			"their jobs are released. With a server that has leases, a job is reserved by one: commands go on while the server starts again, and a redstalk that is " +
			"killed keeps its jobs until their TTR ends.\n\n" +
			"If no job is ready, reserve ends at once: without --exec with exit code 3, with --exec with 0 (7 if a job failed). --wait makes it wait.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE` to reserve from; can be repeated (default: default)"},
			&cli.StringFlag{Name: "wait", Aliases: []string{"w"}, Value: "0", Usage: "`DURATION` to wait for a job, or forever; with --exec for each job, and lost connections are made again"},
			&cli.BoolFlag{Name: "delete", Usage: "delete the job after its body is written"},
			&cli.StringFlag{Name: "exec", Aliases: []string{"e"}, Usage: "`CMD` to run for each job"},
			&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Value: 1, Usage: "--exec: run `N` commands at the same time"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "--exec: end after `N` jobs; 0 for no limit"},
			&cli.StringFlag{Name: "on-failure", Value: "auto", Usage: "--exec: `WHAT` to do with a job whose command fails: release, bury, or auto, which releases if the job or its tube has retry or max, and buries otherwise"},
			durationFlag("delay", 0, "--exec: `DURATION` of the delay of failed jobs that are released"),
		},
	}
}

// forever is a wait without timeout.
const forever = time.Duration(-1)

// waitOf reads --wait.
func waitOf(t *task) (time.Duration, error) {
	if t.String("wait") == "forever" {
		return forever, nil
	}
	d, err := parseDuration(t.String("wait"))
	if err != nil {
		return 0, failure{exitUsage, fmt.Errorf("--wait: %w, or forever", err)}
	}
	return d, nil
}

// tubesOf reads the tubes to reserve from.
func tubesOf(t *task) ([]string, error) {
	tubes := t.StringSlice("tube")
	if len(tubes) == 0 {
		return []string{"default"}, nil
	}
	for _, tube := range tubes {
		if err := checkWord("--tube", tube); err != nil {
			return nil, err
		}
	}
	return tubes, nil
}

func reserve(t *task) error {
	tubes, err := tubesOf(t)
	if err != nil {
		return err
	}
	wait, err := waitOf(t)
	if err != nil {
		return err
	}
	if t.IsSet("exec") {
		return work(t, tubes, wait)
	}
	if t.conn, err = t.dialer.connect(); err != nil {
		return err
	}
	defer t.conn.Close()
	return reserveOne(t, tubes, wait)
}

// reserveOne reserves one job and prints it.
func reserveOne(t *task, tubes []string, wait time.Duration) error {
	leased, err := t.supports("lease")
	if err != nil {
		return err
	}
	if !leased && !t.Bool("delete") {
		return failure{exitExtension, fmt.Errorf("this server has no leases, so the reservation would end with redstalk: use --delete or --exec")}
	}
	if err := watch(t.conn, tubes); err != nil {
		return err
	}
	command := "reserve-with-timeout"
	if leased {
		command = "reserve-lease"
	}
	var j job
	var body []byte
	err = awaitJob(t.Context.Context, t.conn, t.dialer.limit, command, wait, func(r *client.Reply) {
		j.ID, j.Lease, body = r.ID, string(r.Rest), append(body, r.Body...)
	})
	if err != nil {
		return err
	}
	if j.ID == 0 {
		return notFound("no job is ready in %s", strings.Join(tubes, ", "))
	}
	return t.printReserved(&j, body)
}

// printReserved prints a reserved job, and deletes it then if --delete is set. If it cannot
// be printed, it stays reserved until its TTR ends.
func (t *task) printReserved(j *job, body []byte) error {
	page, err := t.page("reading the job", fmt.Sprintf("stats-job %d", j.ID))
	if err != nil {
		return err
	}
	j.readPage(page)
	j.setBody(body)
	if t.Bool("json") {
		err = t.printJSON(j)
	} else {
		err = t.printBody(body)
	}
	if err != nil {
		return err
	}
	if !t.Bool("delete") {
		if !t.Bool("json") {
			t.infof("redstalk: job %d of tube %s is reserved for %s: redstalk delete %d --lease %s", j.ID, j.Tube, formatSeconds(int64(j.TTR)), j.ID, j.Lease)
		}
		return nil
	}
	command := fmt.Sprintf("delete %d", j.ID)
	if j.Lease != "" {
		command = fmt.Sprintf("delete-lease %d %s", j.ID, j.Lease)
	}
	_, err = t.expect(fmt.Sprintf("deleting job %d, which was printed", j.ID), "DELETED", command)
	return err
}

// watch makes a new connection watch these tubes and no others.
func watch(conn *client.Conn, tubes []string) error {
	var commands []byte
	n, byDefault := len(tubes), false
	for _, tube := range tubes {
		commands = fmt.Appendf(commands, "watch %s\r\n", tube)
		byDefault = byDefault || tube == "default"
	}
	if !byDefault {
		commands, n = append(commands, "ignore default\r\n"...), n+1
	}
	err := conn.Ask(commands, n, func(r *client.Reply) error {
		if r.Word != client.Watching {
			return replyError("watching tubes", r)
		}
		return nil
	})
	if err != nil {
		return connectionError("watching tubes", err)
	}
	return nil
}

// longestWait is the longest wait of one command. A longer wait uses several commands, so that a
// dead connection is noticed.
const longestWait = time.Minute

// awaitJob waits for a job and passes it to take. If the wait times out, take is not called and there
// is no error. When ctx is done, the connection is closed, and the server releases a job that it sends
// then; one with a lease still arrives, since the connection is first closed only for sending.
func awaitJob(ctx context.Context, conn *client.Conn, limit time.Duration, command string, wait time.Duration, take func(*client.Reply)) error {
	defer context.AfterFunc(ctx, func() {
		if half, ok := conn.Conn.(*firstReply); ok && command == "reserve-lease" && half.CloseWrite() == nil {
			time.AfterFunc(time.Second, func() { conn.Close() })
			return
		}
		conn.Close()
	})()
	for end := time.Now().Add(wait); ; {
		now := longestWait
		if wait != forever {
			now = min(now, max(0, time.Until(end)))
		}
		got, err := askForJob(conn, limit, command, wholeSeconds(now), take)
		if ctx.Err() != nil && !got {
			return interrupted("no job was taken")
		}
		if err != nil || got || wait != forever && !time.Now().Before(end) {
			return err
		}
	}
}

// askForJob sends one reserve command with a timeout in seconds.
func askForJob(conn *client.Conn, limit time.Duration, command string, seconds int64, take func(*client.Reply)) (got bool, err error) {
	patience := conn.Timeout
	conn.Timeout = limit + time.Duration(seconds)*time.Second
	defer func() { conn.Timeout = patience }()
	err = conn.Ask(fmt.Appendf(nil, "%s %d\r\n", command, seconds), 1, func(r *client.Reply) error {
		switch r.Word {
		case client.Reserved, client.Leased:
			got = true
			take(r)
		case client.TimedOut:
		default:
			return replyError("reserving a job", r)
		}
		return nil
	})
	if err != nil {
		return got, connectionError("waiting for a job", err)
	}
	return got, nil
}
