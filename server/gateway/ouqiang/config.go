package ouqiang

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"gopkg.in/ini.v1"
)

// File is the configuration file of the old program.
type File struct {
	Bind  string        // HOST:PORT
	Redis string        // URL of the store, including the password if there is one
	Block time.Duration // see Config.Block

	// Remarks are for the log: keys without a meaning here, unknown keys, and values that the
	// old program ignored too. They contain no values except malformed numbers.
	Remarks []string
}

// The defaults of the old program.
const (
	defaultBind      = "0.0.0.0:9277"
	defaultRedisHost = "127.0.0.1:6379"
	defaultRedisDB   = 1
	maxBlock         = 10 * 365 * 24 * 60 * 60 // seconds
)

// ignoredKeys are the keys without a meaning here, and why.
var ignoredKeys = []struct{ key, why string }{
	{"bucket_size", "there are no buckets"},
	{"bucket_name", "there are no buckets; --namespace names the keys in Redis"},
	{"queue_name", "there are no lists of ready jobs; --namespace names the keys in Redis"},
	{"redis.max_idle", "an instance uses as many connections as it needs"},
	{"redis.max_active", "an instance uses as many connections as it needs"},
	{"redis.connect_timeout", "--store-timeout says how long requests are held up"},
	{"redis.read_timeout", "a pop that waits does not wait in Redis"},
	{"redis.write_timeout", "--store-timeout says how long requests are held up"},
}

// usedKeys are the keys with a meaning here.
var usedKeys = []string{"bind_address", "queue_block_timeout", "redis.host", "redis.db", "redis.password"}

// ReadConfig reads the configuration file of the old program; "" is no file, and gives its
// defaults. As in the old program, a malformed number counts as the default.
func ReadConfig(path string) (*File, error) {
	if path == "" {
		return newFile(ini.Empty().Section("")), nil
	}
	file, err := ini.Load(path)
	if err != nil {
		var notRead *fs.PathError
		if !errors.As(err, &notRead) {
			err = errors.New("a line is not KEY = VALUE") // the error quotes the line, which may contain a password
		}
		return nil, fmt.Errorf("reading the configuration of delay-queue, %s: %w", path, err)
	}
	f := newFile(file.Section(""))
	for _, s := range file.SectionStrings() {
		if s != ini.DefaultSection {
			f.remark("the section %q is not read: all keys stand before the first section", s)
		}
	}
	if _, _, err := net.SplitHostPort(f.Bind); err != nil {
		return nil, fmt.Errorf("bind_address in %s: %w", path, err)
	}
	return f, nil
}

func newFile(s *ini.Section) *File {
	f := &File{Bind: s.Key("bind_address").MustString(defaultBind)}
	store := url.URL{Scheme: "redis", Host: s.Key("redis.host").MustString(defaultRedisHost)}
	store.Path = "/" + strconv.Itoa(f.number(s, "redis.db", defaultRedisDB, 1<<31-1))
	if password := s.Key("redis.password").String(); password != "" {
		store.User = url.UserPassword("", password)
	}
	f.Redis = store.String()
	f.Block = time.Duration(f.number(s, "queue_block_timeout", int(DefaultBlock/time.Second), maxBlock)) * time.Second
	if f.Block == 0 {
		f.Block = -1
	}
	for _, p := range ignoredKeys {
		if s.HasKey(p.key) {
			f.remark("%s means nothing any more: %s", p.key, p.why)
		}
	}
	for _, key := range s.KeyStrings() {
		known := func(p struct{ key, why string }) bool { return p.key == key }
		if !slices.Contains(usedKeys, key) && !slices.ContainsFunc(ignoredKeys, known) {
			f.remark("%s is no key of delay-queue", key)
		}
	}
	return f
}

// number returns the value of a key, from 0 to most.
func (f *File) number(s *ini.Section, key string, initial, most int) int {
	if !s.HasKey(key) {
		return initial
	}
	n, err := s.Key(key).Int()
	if err != nil || n < 0 || n > most {
		f.remark("%s is not a number from 0 to %d: it counts as %d", key, most, initial)
		return initial
	}
	return n
}

func (f *File) remark(format string, args ...any) {
	f.Remarks = append(f.Remarks, fmt.Sprintf(format, args...))
}
