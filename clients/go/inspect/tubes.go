package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"redstalk/clients/go/client"
)

// A Tube is the state of a tube.
type Tube struct {
	Name                             string
	Ready, Reserved, Delayed, Buried int
	Total                            int           // jobs put since the tube exists
	Waiting                          int           // connections that wait for a job
	PauseLeft                        time.Duration // 0: not paused

	Fields map[string]string // everything that the server says, by its keys
}

// Tubes returns the names of the tubes that have jobs or are in use.
func (in *Inspector) Tubes(ctx context.Context) ([]string, error) {
	page, err := in.page(ctx, "", "list-tubes")
	return list(page), err
}

// Tube returns the state of a tube. One that has no jobs, and that nobody uses, is a [client.ErrNotFound].
func (in *Inspector) Tube(ctx context.Context, name string) (*Tube, error) {
	page, err := in.page(ctx, "", "stats-tube "+name)
	if err != nil {
		return nil, err
	}
	f := fields(page)
	return &Tube{
		Name: f["name"], Ready: number(f["current-jobs-ready"]), Reserved: number(f["current-jobs-reserved"]),
		Delayed: number(f["current-jobs-delayed"]), Buried: number(f["current-jobs-buried"]), Total: number(f["total-jobs"]),
		Waiting: number(f["current-waiting"]), PauseLeft: secs(f["pause-time-left"]), Fields: f,
	}, nil
}

// Server returns the statistics of the server, by its keys.
func (in *Inspector) Server(ctx context.Context) (map[string]string, error) {
	page, err := in.page(ctx, "", "stats")
	return fields(page), err
}

// Pause stops deliveries of a tube for d, in whole seconds rounded up; 0 ends a pause.
func (in *Inspector) Pause(ctx context.Context, tube string, d time.Duration) error {
	line := fmt.Sprintf("pause-tube %s %d", tube, (d+time.Second-1)/time.Second)
	_, err := in.change(ctx, "PAUSED", client.Command{Line: line, Repeat: true})
	return err
}

// Kick makes up to n buried jobs of a tube ready; if none is buried, delayed jobs. It returns how
// many.
func (in *Inspector) Kick(ctx context.Context, tube string, n int, opts ...KickOption) (int, error) {
	return in.change(ctx, "KICKED", kick(client.Command{Line: fmt.Sprintf("kick %d", n), Tube: tube}, opts))
}

// A KickOption changes what a kick or replay does with the checkpoints of jobs.
type KickOption string

// KeepCheckpoint lets the next delivery go on from the checkpoint, which is dropped otherwise.
const KeepCheckpoint KickOption = "keep-checkpoint"

// kick returns the command with the options.
func kick(cmd client.Command, opts []KickOption) client.Command {
	if slices.Contains(opts, KeepCheckpoint) {
		cmd.Line, cmd.Needs = cmd.Line+" "+string(KeepCheckpoint), client.Checkpoints
	}
	return cmd
}

// Flush deletes the jobs of a tube in a state, or with an empty state all that are not reserved. It returns how many.
func (in *Inspector) Flush(ctx context.Context, tube string, state State) (int, error) {
	line := "flush-tube " + tube
	if state != "" {
		line += " " + string(state)
	}
	return in.change(ctx, "FLUSHED", client.Command{Line: line, Needs: client.Flush})
}

// Move moves up to n jobs of a tube in a state other than reserved to another tube. They get new ids. It
// returns how many.
func (in *Inspector) Move(ctx context.Context, from string, state State, to string, n int) (int, error) {
	line := fmt.Sprintf("move-jobs %s %s %s %d", from, state, to, n)
	return in.change(ctx, "MOVED", client.Command{Line: line, Needs: client.Move})
}
