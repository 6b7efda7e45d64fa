package zywaited

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"redstalk/server/access"
	"redstalk/server/gateway"
	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/queue"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Tube is the tube of all tasks.
const Tube = "zywaited"

// Config configures a Service. The zero value is useful.
type Config struct {
	// Base is the unit of times in requests. 0 means a millisecond.
	Base time.Duration

	// Timeout is how long the store can take before a request is answered with a timeout. 0
	// means DefaultTimeout.
	Timeout time.Duration

	// Allowed reports whether a URL may be called; nil: this instance does not know.
	Allowed func(*url.URL) bool

	// Calls configures how tasks are called.
	Calls Calls

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 3 * time.Second

// Service is the tasks of a queue. Its methods are safe for concurrent use.
type Service struct {
	pb.UnimplementedDelayQueueServer
	queue  *queue.Queue
	jobs   *gateway.Jobs
	config Config
	failed telemetry.Throttle
}

// NewService returns the tasks of a queue.
func NewService(q *queue.Queue, c Config) *Service {
	if c.Base == 0 {
		c.Base = time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Calls.setDefaults()
	return &Service{queue: q, jobs: gateway.NewJobs(q, 0), config: c}
}

// Add adds a task, or finds the one with the same content. Its errors are gRPC statuses, as
// are those of Get and Remove.
func (s *Service) Add(ctx context.Context, req *pb.AddReq) (*pb.AddResp, error) {
	t, uid, err := newTask(req, time.Now(), s.config.Base)
	if err != nil {
		return nil, err
	}
	if s.config.Allowed != nil && !s.config.Allowed(t.parsed()) {
		return nil, invalid("the address of the callback is not allowed here")
	}
	body, err := json.Marshal(t)
	if err == nil {
		err = gateway.CheckPut(ctx, Tube, "", len(body))
	}
	if err != nil {
		return nil, s.status(ctx, "add", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	job := queue.NewJob{Tube: Tube, Pri: gateway.Priority(time.Unix(0, t.Exec)), TTR: s.config.Calls.ttr(), Body: body, Envelope: len(body) - len(t.Args)}
	tags := &tube.Tags{Key: uid, OnDuplicate: tube.Keep, HasAt: true, At: wholeMilliseconds(t.Exec)}
	if _, err := s.queue.PutTagged(ctx, job, tags); err != nil {
		return nil, s.status(ctx, "add", err)
	}
	return &pb.AddResp{Uid: uid}, nil
}

// wholeMilliseconds rounds a time of at most tube.Latest up, so that no task is early.
func wholeMilliseconds(ns int64) tube.Instant {
	const ms = tube.Instant(time.Millisecond)
	at := tube.Instant(ns)
	if over := at % ms; over > 0 {
		at += ms - over
	}
	return at
}

// Get returns a task.
func (s *Service) Get(ctx context.Context, req *pb.RetrieveReq) (*pb.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	uid, err := readUID(req.GetUid())
	if err != nil {
		return nil, err
	}
	if err := gateway.Check(ctx, "find", Tube); err != nil {
		return nil, s.status(ctx, "get", err)
	}
	job, err := s.queue.PeekKey(ctx, Tube, uid)
	if err != nil {
		return nil, s.status(ctx, "get", err)
	}
	stats, err := s.queue.JobStats(ctx, job.ID)
	if err != nil {
		return nil, s.status(ctx, "get", err)
	}
	return show(uid, access.SightIn(ctx, Tube).Body(job.Body), stats)
}

// Remove removes a task in any state. It is no error if there is none.
func (s *Service) Remove(ctx context.Context, req *pb.RemoveReq) (*emptypb.Empty, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	uid, err := readUID(req.GetUid())
	if err != nil {
		return nil, err
	}
	if err = gateway.Check(ctx, "delete-key", Tube); err == nil {
		err = s.queue.DeleteKey(ctx, Tube, uid)
	}
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, s.status(ctx, "remove", err)
	}
	return &emptypb.Empty{}, nil
}

// readUID returns a uid in the form of a key. No other text is the uid of a task.
func readUID(text string) (string, error) {
	uid := strings.TrimSpace(text)
	if uid == "" {
		return "", invalid("uid is missing")
	}
	return gateway.Key(uid), nil
}

// status returns the gRPC status for an error.
func (s *Service) status(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(err, gateway.ErrForbidden) && access.Status(access.UserIn(ctx), nil) == http.StatusUnauthorized:
		return status.Error(codes.Unauthenticated, "a user is needed for this")
	case errors.Is(err, gateway.ErrForbidden):
		return status.Error(codes.PermissionDenied, gateway.Word(err))
	case errors.Is(err, gateway.ErrTooFast):
		return status.Error(codes.ResourceExhausted, gateway.Word(err))
	case errors.Is(err, queue.ErrNotFound):
		return status.Error(codes.NotFound, "there is no such task")
	case errors.Is(err, queue.ErrTooBig):
		return invalid("the task is too large")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the store takes too long")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the client is gone")
	case errors.Is(err, queue.ErrDraining):
		return status.Error(codes.Unavailable, gateway.Word(err))
	}
	if !gateway.Expected(err) {
		s.failed.Warn(s.config.Log, "a request has failed", "gateway", "zywaited", "request", what, "err", err)
	}
	return status.Error(codes.Internal, gateway.Word(err))
}
