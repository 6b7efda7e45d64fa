package zywaited

import (
	"crypto/md5" //nolint:gosec // the old program's uid; nothing is secured by it
	"encoding/hex"
	"encoding/json"
	"math"
	"math/bits"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/webhook"
	"redstalk/tube"
)

// task is the body of a job.
type task struct {
	Name    string `json:"name"`
	Args    string `json:"args,omitempty"`
	Exec    int64  `json:"exec_time"` // nanoseconds since the Unix epoch
	Schema  string `json:"schema"`
	Address string `json:"address"`
	Path    string `json:"path,omitempty"`
}

// maxTexts limits everything but the arguments of a task, in bytes. The arguments are
// limited by the largest body of a job.
const maxTexts = 64 << 10

// schema is the protocol by which a task is called.
type schema string

const (
	byHTTP  schema = "HTTP"
	byHTTPS schema = "HTTPS"
	byGRPC  schema = "GRPC"
)

func schemaOf(s string) schema { return schema(strings.ToUpper(strings.TrimSpace(s))) }

// url returns what the old program calls the URL of a callback.
func (t *task) url() string {
	return strings.ToLower(strings.TrimSpace(t.Schema)) + "://" + strings.TrimSpace(t.Address) + "/" + strings.TrimLeft(strings.TrimSpace(t.Path), "/")
}

// parsed returns the parsed url; without a host if it is invalid.
func (t *task) parsed() *url.URL {
	u, err := url.Parse(t.url())
	if err != nil {
		return new(url.URL)
	}
	return u
}

// target returns the dispatcher's name of the callback server.
func (t *task) target() string {
	u, err := url.Parse(t.url())
	if err != nil {
		return t.url()
	}
	return webhook.TargetOf(u)
}

// newTask checks a request and returns its task and its uid. It changes the request: its
// time becomes absolute.
func newTask(req *pb.AddReq, now time.Time, base time.Duration) (t *task, uid string, err error) {
	c := req.GetCallback()
	switch {
	case req.GetName() == "": // blanks are accepted
		return nil, "", invalid("name is missing")
	case c == nil:
		return nil, "", invalid("callback is missing")
	case strings.TrimSpace(c.Schema) == "":
		return nil, "", invalid("callback.schema is missing")
	case strings.TrimSpace(c.Address) == "":
		return nil, "", invalid("callback.address is missing")
	}
	if err := makeAbsolute(req, now, base); err != nil {
		return nil, "", err
	}
	t = &task{
		Name: strings.TrimSpace(req.Name), Args: strings.TrimSpace(req.Args), Exec: req.Time.Duration,
		Schema: strings.TrimSpace(c.Schema), Address: strings.TrimSpace(c.Address), Path: strings.TrimSpace(c.Path),
	}
	if len(t.Name)+len(t.Schema)+len(t.Address)+len(t.Path) > maxTexts {
		return nil, "", invalid("name and callback are too long")
	}
	switch schemaOf(t.Schema) {
	case byHTTP, byHTTPS, byGRPC:
		if t.parsed().Hostname() == "" {
			return nil, "", invalid("the address of the callback makes no URL")
		}
	default:
		return nil, "", invalid("callback.schema is HTTP, HTTPS or GRPC")
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, "", invalid("a text is not UTF-8")
	}
	sum := md5.Sum(content) //nolint:gosec // see above
	return t, hex.EncodeToString(sum[:]), nil
}

// makeAbsolute converts the time of a request to nanoseconds since the Unix epoch.
func makeAbsolute(req *pb.AddReq, now time.Time, base time.Duration) error {
	if req.Time == nil {
		req.Time = &pb.ExecTime{Duration: now.UnixNano()}
		return nil
	}
	ns, ok := times(req.Time.Duration, int64(base))
	if req.Time.Relative {
		if ok = ok && ns <= math.MaxInt64-now.UnixNano(); ok {
			ns += now.UnixNano()
		}
	}
	if !ok || ns > int64(tube.Latest) {
		return invalid("time.duration is out of range")
	}
	req.Time = &pb.ExecTime{Duration: ns}
	return nil
}

// times multiplies by a positive number; false if that overflows.
func times(n, by int64) (int64, bool) {
	high, low := bits.Mul64(uint64(max(n, -n)), uint64(by))
	if n == math.MinInt64 || high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return n * by, true
}

func invalid(what string) error { return status.Error(codes.InvalidArgument, what) }

// show returns a job as a task.
func show(uid string, body []byte, s *tube.JobStats) (*pb.Task, error) {
	var t task
	if err := json.Unmarshal(body, &t); err != nil {
		return nil, status.Error(codes.Internal, "the job with this uid is no task")
	}
	failures := failuresOf(s)
	shown := &pb.Task{
		Uid: uid, Name: t.Name, RetryTimes: int32(failures), ExecTime: t.Exec, Schema: t.Schema, Address: t.Address, Path: t.Path,
		CreatedAt: int64(s.Created), UpdatedAt: int64(s.Created),
	}
	switch s.State {
	case tube.Delayed:
		shown.Type = pb.TaskType_TaskDelay
		if failures > 0 {
			shown.Type = pb.TaskType_TaskRetryDelay
			shown.NextExecTime = time.Now().Add(s.TimeLeft).UnixNano()
		}
	case tube.Ready:
		shown.Type = pb.TaskType_TaskReady
	case tube.Reserved:
		shown.Type = pb.TaskType_TaskReserved
	}
	return shown, nil // TaskType_Ignore if it is parked
}

func failuresOf(s *tube.JobStats) uint32 {
	if s.Metadata == nil {
		return s.Counters.Failures()
	}
	return s.Metadata.Failures(&s.Counters)
}
