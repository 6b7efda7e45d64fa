package attack

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"redstalk/tools/conformance/child"
)

// A redisServer is the redis-server of a cluster, without persistence.
type redisServer struct {
	*child.Process
	port string
}

// slow is the duration in microseconds from which on Redis logs a call.
const slow = "1000"

func startRedis(dir string) (*redisServer, error) {
	port := child.FreePort()
	p, err := child.Start(exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--slowlog-log-slower-than", slow, "--slowlog-max-len", "100000", "--loglevel", "warning"))
	if err != nil {
		return nil, err
	}
	r := &redisServer{p, port}
	if err := r.AwaitWithin(10*time.Second, func() error { _, err := r.ask("PING"); return err }); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// ask sends a command with redis-cli, and returns the reply as JSON.
func (r *redisServer) ask(args ...string) ([]byte, error) {
	return exec.Command("redis-cli", append([]string{"--json", "-p", r.port}, args...)...).Output()
}

// forget resets longest. Clearing a long log is a long call itself, which is logged
// afterwards, so the log is cleared twice.
func (r *redisServer) forget() {
	r.ask("SLOWLOG", "RESET")
	r.ask("SLOWLOG", "RESET")
}

// longest returns the duration of the longest call of Redis since forget, and its beginning;
// 0 if it was less than a millisecond.
func (r *redisServer) longest() (time.Duration, string) {
	out, err := r.ask("SLOWLOG", "GET", "-1")
	if err != nil {
		return -1, ""
	}
	var entries [][]any // id, time, microseconds, command, ...
	if json.Unmarshal(out, &entries) != nil {
		return -1, ""
	}
	var most float64
	var call string
	for _, e := range entries {
		us, _ := e[2].(float64)
		words, _ := e[3].([]any)
		if us > most && len(words) > 0 {
			most, call = us, fmt.Sprintf("%.80s", fmt.Sprintln(words[:min(4, len(words))]...))
		}
	}
	return time.Duration(most) * time.Microsecond, strings.TrimSpace(call)
}
