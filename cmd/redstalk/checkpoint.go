package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// This file has the command checkpoint, and the checkpoints of the jobs of reserve --exec.

func checkpointCommand() *cli.Command {
	return &cli.Command{
		Name: "checkpoint", ArgsUsage: "ID", Action: withConn(arguments{1, 1}, checkpoint),
		Usage:       "print the checkpoint of a job: what its worker has saved for the next one (extension checkpoint)",
		Description: "It is printed as it is. With --json it is in base64.",
	}
}

func checkpoint(t *task) error {
	id, err := jobID(t.Args().First())
	if err == nil {
		err = t.require("checkpoint", "checkpoint")
	}
	if err != nil {
		return err
	}
	doing := fmt.Sprintf("reading the checkpoint of job %d", id)
	r, err := t.request(doing, fmt.Sprintf("get-checkpoint %d", id))
	switch {
	case err != nil:
		return err
	case r.Word != client.OK:
		return replyError(doing, r)
	case t.Bool("json"):
		return t.printJSON(map[string]any{"id": id, "checkpoint": r.Body, "checkpoint_bytes": len(r.Body)})
	}
	return t.printBody(r.Body)
}

func keepCheckpointFlag() cli.Flag {
	return &cli.BoolFlag{Name: "keep-checkpoint", Usage: "the jobs keep their checkpoints: they go on where they were, and do not start anew (extension checkpoint)"}
}

// keepWord returns what a kick or replay has at its end.
func (t *task) keepWord() (string, error) {
	if !t.Bool("keep-checkpoint") {
		return "", nil
	}
	return " keep-checkpoint", t.require("checkpoint", "--keep-checkpoint")
}

// exitUnfinished is the exit code of a command of reserve --exec that has not finished its job, but not failed: EX_TEMPFAIL of sysexits.h.
const exitUnfinished = 75

// checkpointVariable is the environment variable with the path of the file with the checkpoint.
const checkpointVariable = "REDSTALK_CHECKPOINT"

// checkpointFile is the file in which a command finds the checkpoint of its job, and leaves the next one. It has a directory of its own,
// so that the command can replace it.
type checkpointFile struct {
	dir  string // "": there is none, because the server has no checkpoints
	last []byte // what the server has
}

func (f *checkpointFile) path() string { return filepath.Join(f.dir, "checkpoint") }

func (f *checkpointFile) remove() {
	if f.dir != "" {
		os.RemoveAll(f.dir)
	}
}

// env returns the variable for the command.
func (f *checkpointFile) env() []string {
	if f.dir == "" {
		return nil
	}
	return []string{checkpointVariable + "=" + f.path()}
}

// readCheckpoint requests the last checkpoint of the job, and makes the file with it.
func (c *current) readCheckpoint() (err error) {
	if !c.checkpoints {
		return nil
	}
	if c.job.CheckpointBytes > 0 || c.job.Tube == "" { // without the right to read, nothing is known of the job
		var refused error
		_, err := c.insist(fmt.Sprintf("get-checkpoint %d", c.id), func(r *client.Reply) {
			if c.checkpoint.last, refused = bytes.Clone(r.Body), nil; r.Word != client.OK {
				c.checkpoint.last, refused = nil, replyError(fmt.Sprintf("reading the checkpoint of job %d", c.id), r)
			}
		})
		if err == nil && refused != nil && codeOf(refused) != exitNothing {
			err = failure{exitServer, refused} // it may be read by the next attempt
		}
		if err != nil {
			return err
		}
	}
	if c.checkpoint.dir, err = os.MkdirTemp("", "redstalk-job"); err == nil {
		err = os.WriteFile(c.checkpoint.path(), c.checkpoint.last, 0o600)
	}
	if err != nil {
		return fmt.Errorf("storing the checkpoint for the command: %w", err)
	}
	return nil
}

// saveCheckpoint saves what the command has left in the file, if that is new.
func (c *current) saveCheckpoint() error {
	if c.checkpoint.dir == "" {
		return nil
	}
	data, err := os.ReadFile(c.checkpoint.path())
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && bytes.Equal(data, c.checkpoint.last):
		return nil
	case err == nil && len(data) > protocol.MaxCheckpoint:
		err = fmt.Errorf("it has more than %d bytes", protocol.MaxCheckpoint)
	case err == nil:
		var refused error
		_, err = c.insist(c.jobCommand("checkpoint", fmt.Sprintf(" %d\r\n%s", len(data), data)), func(r *client.Reply) {
			if refused = nil; string(r.Line) != "SAVED" {
				refused = fmt.Errorf("the server answered %s", r.Line)
			}
		})
		err = errors.Join(err, refused)
	}
	if err != nil {
		return fmt.Errorf("the checkpoint is not saved: %w", err)
	}
	return nil
}

// exitCodeOf returns the exit code of a command from its error; -1 if a signal has ended it, or it has not run.
func exitCodeOf(failed error) int {
	var exit *exec.ExitError
	switch {
	case failed == nil:
		return 0
	case errors.As(failed, &exit):
		return exit.ExitCode()
	}
	return -1
}
