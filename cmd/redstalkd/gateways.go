package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"redstalk/server/gateway/ouqiang"
	"redstalk/server/gateway/ruffianjiang"
	"redstalk/server/queue"
)

// gatewaySettings are those of the gateways.
type gatewaySettings struct {
	wanted []gatewayAt
	wait   time.Duration // as ouqiang.Config.Block
	strict bool
	zone   *time.Location // nil: the default
}

// gatewayAt is a gateway that is wanted at an address.
type gatewayAt struct{ name, addr string }

// gatewayTable is how each gateway is opened.
var gatewayTable = map[string]func(p *program, q *queue.Queue) (h http.Handler, closed func()){
	"ouqiang": func(p *program, q *queue.Queue) (http.Handler, func()) {
		return ouqiang.New(q, ouqiang.Config{Block: p.gateways.wait, Strict: p.gateways.strict, Log: p.log}), nil
	},
	"ruffianjiang": func(p *program, q *queue.Queue) (http.Handler, func()) {
		return ruffianjiang.New(q, ruffianjiang.Config{Zone: p.gateways.zone, Log: p.log}), nil
	},
}

// gatewayDoors are the doors of the gateways that are wanted.
func (p *program) gatewayDoors() (doors httpDoors) {
	for _, g := range p.gateways.wanted {
		doors = append(doors, &httpDoor{name: g.name, addr: g.addr, open: gatewayTable[g.name]})
	}
	return doors
}

func (s *settings) setGateway(v string) error {
	for one := range strings.SplitSeq(v, ",") {
		name, addr, found := strings.Cut(one, "=")
		if !found || gatewayTable[name] == nil {
			return fmt.Errorf("%q is not a gateway and its address, such as ouqiang=127.0.0.1:9277; there are ouqiang and ruffianjiang", one)
		}
		var checked string
		if err := setDoor(&checked)(addr); err != nil {
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
	s.gateways.wait, s.said["gateway-wait"] = d, true
	return nil
}

func (s *settings) setGatewayZone(v string) (err error) {
	s.gateways.zone, err = ruffianjiang.ParseZone(v)
	return err
}

// oldProgram takes `ouqiang -c FILE` off the arguments: redstalkd then serves in the place
// of ouqiang/delay-queue, and the file is that program's. The file is nil if the arguments
// begin otherwise.
func oldProgram(args []string) (rest []string, file *ouqiang.File, err error) {
	if len(args) == 0 || args[0] != "ouqiang" {
		return args, nil, nil
	}
	path := ""
	for args = args[1:]; len(args) > 0; args = args[1:] {
		name, value, joined := strings.Cut(args[0], "=")
		if name != "-c" && name != "--c" {
			rest = append(rest, args[0])
			continue
		}
		if !joined && len(args) > 1 {
			args = args[1:]
			value = args[0]
		}
		if path = value; path == "" {
			return nil, nil, usageError("-c needs the name of a file")
		}
	}
	if file, err = ouqiang.ReadConfig(path); err != nil {
		return nil, nil, failure(exitUsage, "%w", err)
	}
	return rest, file, nil
}

// takeOver makes the settings those of the old program, where the command line and the
// environment do not say otherwise. The beanstalk door is then on any free port.
func (s *settings) takeOver(file *ouqiang.File) {
	if file == nil {
		return
	}
	s.gateways.wanted = append(s.gateways.wanted, gatewayAt{"ouqiang", file.Bind})
	if !s.said["gateway-wait"] {
		s.gateways.wait = file.Block
	}
	if !s.said["store"] && !s.said["binlog"] {
		s.engine.url = file.Redis
	}
	if !s.said["port"] && !s.said["listen"] {
		s.port = 0
	}
	for _, r := range file.Remarks {
		s.warn("configuration of delay-queue: %s", r)
	}
}
