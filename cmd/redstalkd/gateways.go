//go:build !nogateways

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/server/gateway"
	"redstalk/server/gateway/ouqiang"
	"redstalk/server/gateway/ruffianjiang"
	"redstalk/server/gateway/zywaited"
	"redstalk/server/queue"
)

// taskService has the tasks of zywaited.
type taskService = zywaited.Service

// gatewaySettings are the settings of the gateways.
type gatewaySettings struct {
	wanted []gatewayAt
	wait   time.Duration // as ouqiang.Config.Block
	strict bool
	zone   *time.Location // nil: the default
	sites  *gateway.Sites
	tasks  zywaited.Config
	role   int // of zywaited; 0: not given
}

// gatewayOptions are the flags of the gateways to clients of older systems.
func (s *settings) gatewayOptions() []*option {
	return []*option{
		{name: "gateway", value: "NAME=ADDR", set: s.setGateway, repeated: true,
			help: "serve clients of an older system on an address like that of --http: ouqiang,\n" +
				"ruffianjiang, zywaited or zywaited-grpc; can be repeated, or several with commas"},
		{name: "gateway-wait", value: "DURATION", set: s.setGatewayWait, initial: ouqiang.DefaultBlock.String(),
			help: "how long a pop of ouqiang waits for a job; 0 for ever"},
		{name: "gateway-strict", set: setBool(&s.gateways.strict),
			help: "with ouqiang, pop returns a lease as well, and finish of a popped job needs it"},
		{name: "gateway-zone", value: "ZONE", set: s.setGatewayZone, initial: ruffianjiang.DefaultZone,
			help: "the time zone of dates from clients of ruffianjiang: +08:00, UTC, Asia/Shanghai"},
		{name: "gateway-origin", value: "ORIGINS", set: s.setGatewaySites,
			help: "other sites, such as https://ops.example.org, whose pages may use the gateways\nfrom a browser; several with commas; * is every site"},
	}
}

// gatewayAt is a gateway to serve at an address.
type gatewayAt struct{ name, addr string }

// gatewayTable has the function that opens each gateway, by its name.
var gatewayTable = map[string]func(p *program, q *queue.Queue) (h http.Handler, closed func()){
	"ouqiang": func(p *program, q *queue.Queue) (http.Handler, func()) {
		return ouqiang.New(q, ouqiang.Config{
			Block: p.gateways.wait, Strict: p.gateways.strict, MaxWaiting: p.http.maxWaiting, Log: p.log,
		}), nil
	},
	"zywaited": func(p *program, _ *queue.Queue) (http.Handler, func()) {
		return zywaited.NewHTTP(p.tasks), nil
	},
	"zywaited-grpc": func(p *program, _ *queue.Queue) (http.Handler, func()) {
		return zywaited.NewGRPC(p.tasks), nil
	},
	"ruffianjiang": func(p *program, q *queue.Queue) (http.Handler, func()) {
		return ruffianjiang.New(q, ruffianjiang.Config{Zone: p.gateways.zone, MaxWaiting: p.http.maxWaiting, Log: p.log}), nil
	},
}

// withoutCache keeps answers, which have jobs in them, out of caches.
func withoutCache(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			w.Header().Set("Cache-Control", "no-store")
		}
		h.ServeHTTP(w, r)
	})
}

// gatewayListeners are the listeners of the wanted gateways.
func (p *program) gatewayListeners() (listeners httpListeners) {
	for _, g := range p.gateways.wanted {
		open := gatewayTable[g.name]
		protected := func(p *program, q *queue.Queue) (http.Handler, func()) {
			h, closed := open(p, q)
			return withoutCache(p.gateways.sites.Protect(h)), closed
		}
		listeners = append(listeners, &httpListener{name: g.name, addr: g.addr, open: protected, http2: g.name == "zywaited-grpc"})
	}
	return listeners
}

func (s *settings) setGateway(v string) error {
	for one := range strings.SplitSeq(v, ",") {
		name, addr, found := strings.Cut(one, "=")
		if !found || gatewayTable[name] == nil {
			return fmt.Errorf("%q is not a gateway and its address, such as ouqiang=127.0.0.1:9277; there are ouqiang, ruffianjiang, zywaited and zywaited-grpc", one)
		}
		var checked string
		if err := setAddress(&checked)(addr); err != nil {
			return err
		}
		s.gateways.wanted = append(s.gateways.wanted, gatewayAt{name, checked})
	}
	return nil
}

func (s *settings) setGatewayWait(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as 178s or 5m", v)
	}
	if d == 0 {
		d = -1 // 0 asks the gateway for its default
	}
	s.gateways.wait, s.given["gateway-wait"] = d, true
	return nil
}

func (s *settings) setGatewayZone(v string) (err error) {
	s.gateways.zone, err = ruffianjiang.ParseZone(v)
	return err
}

func (s *settings) setGatewaySites(v string) (err error) {
	s.gateways.sites, err = gateway.ParseSites(v)
	return err
}

// An oldProgram is a program that redstalkd can replace: `redstalkd NAME FLAG FILE`.
type oldProgram struct {
	flag string // names its configuration file
	file string // the default file

	// read reads the file. apply applies its values to the settings, except where the command
	// line or the environment has set them.
	read func(file string) (apply func(*settings) error, err error)
}

var oldPrograms = map[string]oldProgram{
	"ouqiang": {"-c", "", func(file string) (func(*settings) error, error) {
		f, err := ouqiang.ReadConfig(file)
		return func(s *settings) error { return s.applyOuqiang(f) }, err
	}},
	"zywaited": {"-f", zywaited.DefaultPath, func(file string) (func(*settings) error, error) {
		f, err := zywaited.ReadConfig(file)
		return func(s *settings) error { return s.applyZywaited(f) }, err
	}},
}

// readOldProgram removes `NAME FLAG FILE` from the arguments, and reads the file. If the arguments
// do not begin with the name of an old program, apply does nothing.
func readOldProgram(args []string) (rest []string, apply func(*settings) error, err error) {
	var old oldProgram
	ok := len(args) > 0
	if ok {
		old, ok = oldPrograms[args[0]]
	}
	if !ok {
		return args, func(*settings) error { return nil }, nil
	}
	path := old.file
	for args = args[1:]; len(args) > 0; args = args[1:] {
		name, value, joined := strings.Cut(args[0], "=")
		if name != old.flag && name != "-"+old.flag {
			rest = append(rest, args[0])
			continue
		}
		if !joined && len(args) > 1 {
			args = args[1:]
			value = args[0]
		}
		if path = value; path == "" {
			return nil, nil, usageError("%s needs the name of a file", old.flag)
		}
	}
	change, err := old.read(path)
	if err != nil {
		return nil, nil, failure(exitUsage, "%w", err)
	}
	return rest, func(s *settings) error {
		before := *s
		err := change(s)
		s.recordFile(path, &before)
		return err
	}, nil
}

// recordFile notes what the file of an old program has changed, for --check.
func (s *settings) recordFile(path string, before *settings) {
	if s.engine.url != before.engine.url {
		s.origins["store"] = origin{s.engine.url, path}
	}
	if s.gateways.wait != before.gateways.wait {
		s.origins["gateway-wait"] = origin{s.gateways.wait.String(), path}
	}
	if s.maxJobSize != before.maxJobSize {
		s.origins["max-job-size"] = origin{strconv.Itoa(s.maxJobSize), "in place of an old program"}
	}
	if s.port != before.port {
		s.origins["port"] = origin{strconv.Itoa(s.port), "in place of an old program"}
	}
	all := make([]string, len(s.gateways.wanted))
	for i, g := range s.gateways.wanted {
		all[i] = g.name + "=" + g.addr
	}
	source := path
	if from := s.origins["gateway"].source; from != "" {
		source = from + ", " + path
	}
	s.origins["gateway"] = origin{strings.Join(all, ","), source}
}

func (s *settings) applyOuqiang(f *ouqiang.File) error {
	s.gateways.wanted = append(s.gateways.wanted, gatewayAt{"ouqiang", f.Bind})
	if !s.given["gateway-wait"] {
		s.gateways.wait = f.Block
	}
	s.applyOldStore(f.Redis, f.Remarks)
	return nil
}

func (s *settings) applyZywaited(f *zywaited.File) error {
	s.gateways.tasks = zywaited.Config{Base: f.Base, Timeout: f.Timeout, Calls: f.Calls}
	for name, addr := range map[string]string{"zywaited": f.HTTP, "zywaited-grpc": f.GRPC} {
		if addr != "" {
			s.gateways.wanted = append(s.gateways.wanted, gatewayAt{name, addr})
		}
	}
	s.gateways.role = f.Role
	if f.Role&zywaited.RoleWorker != 0 && s.pushes.allow == nil {
		return usageError("an instance with role 2 or 3 calls: --push-allow has to say where it may")
	}
	s.applyOldStore(f.Redis, f.Remarks)
	return nil
}

// oldMaxJobSize is the default --max-job-size in place of an old program, which had no limit except
// that of Redis.
const oldMaxJobSize = 16 << 20

// applyOldStore uses the old program's Redis as the store, and accepts large jobs. The beanstalk
// port is then any free port.
func (s *settings) applyOldStore(url string, remarks []string) {
	if !s.given["max-job-size"] {
		s.maxJobSize = oldMaxJobSize
	}
	if url != "" && !s.given["store"] && !s.given["binlog"] {
		s.engine.url = url
	}
	if !s.given["port"] && !s.given["listen"] {
		s.port = 0
	}
	for _, r := range remarks {
		s.warn("configuration of delay-queue: %s", r)
	}
}

// startTasks starts the calls of zywaited's tasks, if this instance has that role.
func (p *program) startTasks(q *queue.Queue) error {
	isTasks := func(g gatewayAt) bool { return g.name == "zywaited" || g.name == "zywaited-grpc" }
	if p.gateways.role == 0 && !slices.ContainsFunc(p.gateways.wanted, isTasks) {
		return nil
	}
	c, d := p.gateways.tasks, p.dispatcher.Load()
	c.Log = p.log
	calls := d != nil && (p.gateways.role == 0 || p.gateways.role&zywaited.RoleWorker != 0)
	if calls {
		c.Allowed = p.pushes.allow.Target
	}
	p.tasks = zywaited.NewService(q, c)
	if !calls {
		p.log.Info("tasks of zywaited are not called by this instance")
		return nil
	}
	_, err := p.tasks.Serve(d) // until the dispatcher ends
	return err
}
