// Work handles jobs of the type pair. Each fails at its first delivery, and goes on from its checkpoint at the second.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

// Pair is what the job is about.
type Pair struct {
	From string `json:"from"`
	N    int    `json:"n"`
	Text string `json:"text"`
}

func main() {
	addr, tube, to := os.Args[1], os.Args[2], os.Args[3]
	c := client.New(addr)
	defer c.Close()
	mux := worker.NewMux()
	mux.HandleType(tube, "pair", worker.Reply(func(ctx context.Context, job *worker.Job, pair Pair) (map[string]any, error) {
		var at struct {
			Step int `json:"step"`
		}
		found, err := job.LastCheckpoint(&at)
		if err != nil {
			return nil, err
		}
		if !found {
			at.Step = 1
			job.Progress("1/2")
			if err := job.Checkpoint(ctx, at); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("first try of %s", to)
		}
		info, err := job.Info(ctx)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"to": to, "from": pair.From, "n": pair.N + 1, "text": pair.Text, "step": at.Step,
			"key": info.Key, "request": job.Meta["request"], "type": job.Meta["content-type"], "trace": info.Trace,
			"group": info.Group, "batch": info.Batch, "reason": job.Reason,
		}, nil
	}))
	if err := worker.New(c, worker.Config{}).Run(context.Background(), mux); err != nil {
		log.Fatal(err)
	}
}
