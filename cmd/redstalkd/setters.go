package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"redstalk/server/httpapi"
	"redstalk/server/httpserve"
	"redstalk/server/sight"
	"redstalk/server/tracing"
	"redstalk/storage/redis"
	"redstalk/storage/redis/schema"
)

func (s *settings) setListen(v string) error {
	switch {
	case v == "":
		return errors.New("empty address; 0.0.0.0 is every one of this machine")
	case v == unixPrefix:
		return errors.New("unix: needs a path")
	case strings.Contains(v, "://"):
		return fmt.Errorf("%q is a URL, not an address", v)
	}
	s.addr, s.given["listen"] = v, true
	return nil
}

func (s *settings) setPort(v string) error {
	port, err := net.LookupPort("tcp", v)
	if err != nil || v == "" {
		return fmt.Errorf("%q is neither a port from 0 to 65535 nor a known service", v)
	}
	s.port, s.given["port"] = port, true
	return nil
}

// setAddress accepts the address of a listener: HOST:PORT, :PORT or unix:PATH.
func setAddress(to *string) func(string) error {
	return func(v string) error {
		*to = v
		if path, isUnix := strings.CutPrefix(v, unixPrefix); isUnix {
			if path == "" {
				return errors.New("unix: needs a path")
			}
			return nil
		}
		_, port, err := net.SplitHostPort(v)
		if err == nil && port != "" {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil || port == "" {
			return fmt.Errorf("%q is neither HOST:PORT, :PORT nor unix:PATH", v)
		}
		return nil
	}
}

// setOrigins accepts origins, separated by commas.
func (s *settings) setOrigins(v string) error {
	s.http.origins = nil
	for origin := range strings.SplitSeq(v, ",") {
		origin = strings.TrimSpace(origin)
		if httpapi.ValidateOrigin(origin) != nil {
			return fmt.Errorf("%q is not an origin such as https://ops.example.org", origin)
		}
		s.http.origins = append(s.http.origins, origin)
	}
	return nil
}

// setHosts accepts host names, separated by commas.
func (s *settings) setHosts(v string) error {
	for one := range strings.SplitSeq(v, ",") {
		name, err := httpserve.Host(strings.TrimSpace(one))
		if err != nil {
			return err
		}
		s.http.hosts = append(s.http.hosts, name)
	}
	return nil
}

// setProxies accepts what access.Proxies can trust, separated by commas.
func (s *settings) setProxies(v string) error {
	for one := range strings.SplitSeq(v, ",") {
		if err := s.http.proxies.Add(strings.TrimSpace(one)); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) setMaxWaiting(v string) error {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a number of requests", v)
	}
	s.http.maxWaiting = int(n)
	return nil
}

func (s *settings) setStore(v string) error {
	scheme, rest, found := strings.Cut(v, ":")
	authority := strings.HasPrefix(rest, "//") && len(rest) > 2
	switch {
	case !found:
	case scheme == "memory" && rest == "",
		scheme == "embedded" && rest != "",
		redisSchemes[scheme] && authority:
		s.engine.url, s.given["store"] = v, true
		return nil
	}
	return fmt.Errorf("%q is none of memory:, embedded:DIR, redis://..., rediss://..., redis+sentinel://..., redis+cluster://... and unix:///PATH", v)
}

func (s *settings) setNamespace(v string) error {
	s.engine.namespace = v
	return schema.CheckNamespace(v)
}

func (s *settings) setPartitions(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n == 0 || n > redis.MaxPartitions {
		return fmt.Errorf("%q is not a number of partitions, 1 to %d", v, redis.MaxPartitions)
	}
	s.engine.partitions = int(n)
	return nil
}

func (s *settings) setBinlog(dir string) error {
	if dir == "" {
		return errors.New("empty directory name")
	}
	s.engine.url, s.given["binlog"] = "embedded:"+dir, true
	return nil
}

func (s *settings) setSync(v string) error {
	ms, err := parseSize(v)
	s.engine.syncEvery = time.Duration(min(ms, maxSyncMS)) * time.Millisecond
	return err
}

func (s *settings) setNoSync(v string) error {
	var never bool
	err := setBool(&never)(v)
	if never {
		s.engine.syncEvery = neverSync
	}
	return err
}

func (s *settings) setFileSize(v string) error {
	n, err := parseSize(v)
	s.engine.fileSize = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setReserve(v string) error {
	n, err := parseSize(v)
	s.engine.reserve = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setHistory(v string) error {
	n, err := parseSize(v)
	s.engine.history = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setMaxUnread(v string) error {
	n, err := parseSize(v)
	s.limits.unread = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setMaxIncoming(v string) error {
	n, err := parseSize(v)
	s.limits.incoming = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setMaxJobSize(v string) error {
	n, err := parseSize(v)
	if err != nil {
		return err
	}
	if n > maxMaxJobSize {
		n = maxMaxJobSize
		s.warn("maximum job size was set to %d", n)
	}
	s.maxJobSize, s.given["max-job-size"] = int(n), true
	if n == 0 {
		s.maxJobSize = -1 // 0 asks the server for its default
	}
	return nil
}

func (s *settings) setGrace(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
	}
	s.grace = d
	return nil
}

func (s *settings) setOTLP(v string) error {
	if err := tracing.CheckURL(v); err != nil {
		return err
	}
	s.otlp = v
	return nil
}

func (s *settings) setMaxConnections(v string) error {
	if v == "auto" {
		s.limits.connections = autoConnections
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is neither a number of connections nor auto", v)
	}
	s.limits.connections = int(n)
	return nil
}

// setTimeout accepts a duration, of which 0 means no timeout.
func setTimeout(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
		}
		*to = d
		return nil
	}
}

func (s *settings) setRedaction(v string) (err error) {
	s.guards.redaction, err = sight.ParseRedaction(v)
	return err
}

func (s *settings) setAuthTimeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
	}
	s.guards.authTimeout = d
	return nil
}

func (s *settings) setMaxUnauthenticated(v string) error {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a number of connections", v)
	}
	s.guards.unauthenticated = int(n)
	return nil
}

func (s *settings) setStoreTimeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
	}
	s.engine.timeout = d
	return nil
}

func (s *settings) setWaitReplicas(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a number of replicas", v)
	}
	s.engine.waitReplicas = int(n)
	return nil
}

func (s *settings) setLogFormat(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	s.logJSON = v == "json"
	return nil
}

// setVerbose counts how often the flag is given, or accepts the number.
func (s *settings) setVerbose(v string) error {
	if v == "true" {
		s.verbosity++
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is not a number of times", v)
	}
	s.verbosity = int(n)
	return nil
}

func (s *settings) ignore(flag string) func(string) error {
	return func(string) error {
		s.warn("flag %s is out of use and ignored", flag)
		return nil
	}
}

func setBool(to *bool) func(string) error {
	return func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		*to = b
		return nil
	}
}

func setNonEmpty(to *string) func(string) error {
	return func(v string) error {
		if v == "" {
			return errors.New("empty name")
		}
		*to = v
		return nil
	}
}

// wholeNumber returns a check that accepts decimal digits only, of a number up to most.
func wholeNumber(most uint64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil || n > most {
			return fmt.Errorf("%q is not a number from 0 to %d", v, most)
		}
		return nil
	}
}

// plainPort refuses signs and blanks, which a lookup of a port would ignore.
func plainPort(v string) error {
	if v[0] == '-' || v[0] == '+' || strings.ContainsAny(v, " \t\r\n") {
		return fmt.Errorf("%q is neither a port from 0 to 65535 nor a known service", v)
	}
	return nil
}

// parseSize reads a number as beanstalkd does, with C's strtoul: a number that is too
// large becomes the largest one, and a negative one wraps around.
func parseSize(v string) (uint64, error) {
	digits := strings.TrimPrefix(v, "-")
	if digits == v {
		digits = strings.TrimPrefix(v, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return math.MaxUint64, nil
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", v)
	case digits != v && v[0] == '-':
		return -n, nil
	}
	return n, nil
}
