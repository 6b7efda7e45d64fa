package zywaited

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// The roles of an instance, which can be combined.
const (
	RoleTimer  = 1 // accepts tasks
	RoleWorker = 2 // calls them
)

// File is the configuration file of the old program.
type File struct {
	Role    int    // RoleTimer, RoleWorker or both
	HTTP    string // HOST:PORT; "": not wanted
	GRPC    string // HOST:PORT; "": not wanted
	Redis   string // URL of the store, including the password if there is one; "": the file names none
	Base    time.Duration
	Timeout time.Duration
	Calls   Calls

	// Remarks are for the log: keys without a meaning here. They contain no values.
	Remarks []string
}

// contents are the keys with a meaning here.
type contents struct {
	BaseLevel   string `toml:"base_level"`
	ConfigScale int    `toml:"config_scale"`
	Role        int    `toml:"role"`
	DataSource  struct {
		Dst string `toml:"dst"`
	} `toml:"data_source"`
	Redis struct {
		Addr string `toml:"addr"`
		Auth string `toml:"auth"`
		DB   int    `toml:"db"`
	} `toml:"redis"`
	Timer struct {
		MaxCheckTime int `toml:"max_check_time"`
		Timeout      int `toml:"timeout"`
	} `toml:"timer"`
	Worker struct {
		RetryTimes int `toml:"retry_times"`
		Timeout    int `toml:"timeout"`
	} `toml:"worker"`
	Services struct {
		Types []string `toml:"types"`
		HTTP  struct {
			Addr string `toml:"addr"`
		} `toml:"http"`
		GRPC struct {
			Addr string `toml:"addr"`
		} `toml:"grpc"`
	} `toml:"services"`
	GP struct {
		Limit int `toml:"limit"`
	} `toml:"gp"`
}

// DefaultPath is the configuration file that the old program reads by default.
const DefaultPath = "config/config.toml"

// ReadConfig reads the configuration file of the old program.
func ReadConfig(path string) (*File, error) {
	var c contents
	c.ConfigScale, c.Role = 1, RoleTimer|RoleWorker
	c.Timer.Timeout, c.Worker.Timeout = 3, 3
	c.Services.Types = []string{"GRPC", "HTTP"}
	c.Services.HTTP.Addr, c.Services.GRPC.Addr = "0.0.0.0:80", "0.0.0.0:8000"
	meta, err := toml.DecodeFile(path, &c)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of delay-queue, %s: %w", path, redacted(err))
	}
	f, err := c.file()
	if err != nil {
		return nil, fmt.Errorf("the configuration of delay-queue, %s: %w", path, err)
	}
	for _, key := range meta.Undecoded() {
		if meta.Type(key...) != "Hash" {
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s means nothing any more", key))
		}
	}
	return f, nil
}

// redacted returns an error that does not quote the file, which may contain a password.
func redacted(err error) error {
	var bad toml.ParseError
	var notRead *fs.PathError
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("line %d is not TOML", bad.Position.Line)
	case errors.As(err, &notRead):
		return notRead
	}
	return errors.New("a value is not of the type that its key has")
}

// bases are the values of base_level.
var bases = map[string]time.Duration{
	"": time.Millisecond, "millisecond": time.Millisecond, "ms": time.Millisecond,
	"second": time.Second, "minute": time.Minute, "microsecond": time.Microsecond, "nanosecond": time.Nanosecond,
}

// minTimeout is the shortest timeout for a store or a callback: with the base level of the
// old program's code, a millisecond, its default would be 3 ms.
const minTimeout = time.Second

// maxUnits limits the numbers of the file that are multiplied by its base.
const maxUnits = 1_000_000

func (c *contents) file() (*File, error) {
	base, known := bases[strings.ToLower(c.BaseLevel)]
	switch {
	case !known:
		return nil, errors.New("base_level is second or millisecond")
	case c.Role < RoleTimer || c.Role > RoleTimer|RoleWorker:
		return nil, errors.New("role is 1, 2 or 3")
	case strings.EqualFold(c.DataSource.Dst, "mongo"):
		return nil, errors.New("data_source.dst: tasks are not kept in Mongo here; say redis")
	case c.Redis.DB < 0:
		return nil, errors.New("redis.db is less than 0")
	}
	for _, n := range []int{c.ConfigScale, c.Timer.Timeout, c.Worker.Timeout, c.Timer.MaxCheckTime, c.Worker.RetryTimes, c.GP.Limit} {
		if n < 0 || n > maxUnits {
			return nil, fmt.Errorf("a number is not from 0 to %d", maxUnits)
		}
	}
	f := &File{
		Role: c.Role, Base: base, Timeout: max(time.Duration(c.Timer.Timeout)*base, minTimeout),
		Calls: Calls{
			Tries: c.Worker.RetryTimes, Timeout: max(time.Duration(c.Worker.Timeout)*base, minTimeout), Pause: time.Duration(c.ConfigScale) * base,
			MaxChecks: c.Timer.MaxCheckTime, Concurrency: c.GP.Limit,
		},
	}
	if c.Role&RoleTimer != 0 {
		has := func(t string) bool {
			return slices.ContainsFunc(c.Services.Types, func(s string) bool { return strings.EqualFold(s, t) })
		}
		if has("HTTP") {
			f.HTTP = c.Services.HTTP.Addr
		}
		if has("GRPC") {
			f.GRPC = c.Services.GRPC.Addr
		}
	}
	if c.Redis.Addr != "" {
		store := url.URL{Scheme: "redis", Host: c.Redis.Addr, Path: "/" + strconv.Itoa(c.Redis.DB)}
		if c.Redis.Auth != "" {
			store.User = url.UserPassword("", c.Redis.Auth)
		}
		f.Redis = store.String()
	}
	return f, nil
}
