package client

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A PutOption changes how a job is put. Options other than [Priority], [TTR], [Delay] and [At]
// need a redstalk server; on others the put fails with [ErrUnsupported].
type PutOption func(*putOptions)

type putOptions struct {
	pri    uint32
	ttr    time.Duration
	delay  time.Duration
	at     time.Time
	tags   []tag
	key    bool
	keyTTL bool
	keep   bool // on-duplicate is keep, or not set
	err    error
}

type tag struct {
	name, value string
	needs       Capability // beyond PutTags; empty: none
	dispensable bool       // it is left out with servers that do not know it
}

func (t tag) knownTo(caps capabilities) bool {
	return caps.has(PutTags) && (t.needs == "" || caps.has(t.needs))
}

// Defaults of a put.
const (
	DefaultPriority = 1024        // the lowest number that is not urgent
	DefaultTTR      = time.Minute // time to run
)

func (o *putOptions) tag(name, value string) { o.tags = append(o.tags, tag{name: name, value: value}) }

// Options makes one option of several, such as those that all jobs of a kind have.
func Options(opts ...PutOption) PutOption {
	return func(o *putOptions) {
		for _, opt := range opts {
			opt(o)
		}
	}
}

// Priority sets the priority: 0 is the most urgent, and [DefaultPriority] the default.
func Priority(p uint32) PutOption { return func(o *putOptions) { o.pri = p } }

// TTR sets the time to run (visibility timeout): how long a worker has the job before it is
// delivered again, unless it touches it. Whole seconds, rounded up, at least one.
func TTR(d time.Duration) PutOption { return func(o *putOptions) { o.ttr = d } }

// Delay makes the job ready after d, to the millisecond. Beanstalkd rounds it up to seconds.
func Delay(d time.Duration) PutOption { return func(o *putOptions) { o.delay, o.at = d, time.Time{} } }

// At makes the job ready at t, by the server's clock. For beanstalkd the client turns it into a
// delay, by its own clock.
func At(t time.Time) PutOption { return func(o *putOptions) { o.at, o.delay = t, 0 } }

// Key sets the deduplication key: 1 to 128 printable ASCII characters without a space. At most
// one job of a tube has it.
func Key(key string) PutOption {
	return func(o *putOptions) {
		if o.key = true; key == "" || len(key) > 128 || !printable(key) {
			o.err = invalid("key %q: it must be printable ASCII without spaces, at most 128 bytes", key)
		}
		o.tag("key", key)
	}
}

// A Duplicate says what a put does if its key is taken.
type Duplicate string

// What a put does if its key is taken.
const (
	KeepOld     Duplicate = "keep"    // puts nothing and returns the other job; the default
	ReplaceOld  Duplicate = "replace" // deletes the other job, even if it is reserved
	FailIfTaken Duplicate = "fail"    // puts nothing and returns ErrDuplicate
)

// OnDuplicate says what to do if the key is taken.
func OnDuplicate(d Duplicate) PutOption {
	return func(o *putOptions) {
		o.keep = d == KeepOld
		o.tag("on-duplicate", string(d))
	}
}

// KeyTTL keeps the key taken for d after the job is gone. With [Key] and KeyTTL a put is safe
// to repeat, so the client repeats it by itself when a reply is lost.
func KeyTTL(d time.Duration) PutOption {
	return func(o *putOptions) {
		o.keyTTL = d > 0
		o.tag("key-ttl", duration(d))
	}
}

// Retry sets the waits after the 1st, 2nd, … failure, up to 32. After the last one the next
// failure exhausts the job: it is buried, or moved to its [Dead] tube.
func Retry(waits ...time.Duration) PutOption {
	return func(o *putOptions) {
		if len(waits) == 0 || len(waits) > 32 {
			o.err = invalid("%d retries", len(waits))
		}
		list := make([]string, len(waits))
		for i, d := range waits {
			list[i] = duration(d)
		}
		o.tag("retry", strings.Join(list, ","))
	}
}

// RetryExp makes the waits after failures double, from first up to longest, up to n times. Instead of [Retry].
func RetryExp(first, longest time.Duration, n int) PutOption {
	return func(o *putOptions) {
		o.tags = append(o.tags, tag{name: "retry", value: "exp(" + duration(first) + "," + duration(longest) + "," + strconv.Itoa(n) + ")", needs: Backoffs})
	}
}

// Jitter spreads each retry wait by up to so many percent, so that jobs that failed together do not come together. It is 10
// by default with [RetryExp], and 0 with [Retry].
func Jitter(percent int) PutOption {
	return func(o *putOptions) {
		o.tags = append(o.tags, tag{name: "jitter", value: strconv.Itoa(percent), needs: Backoffs})
	}
}

// Expire sets how long the job is worth doing, from when it is first due. Then it is deleted if it is ready or delayed, or
// when it comes back.
func Expire(d time.Duration) PutOption {
	return func(o *putOptions) { o.tags = append(o.tags, tag{name: "expire", value: duration(d), needs: Expires}) }
}

// An Expiry says what becomes of a job that has expired.
type Expiry string

// What becomes of a job that has expired.
const (
	DeleteExpired Expiry = "delete" // the default
	ParkExpired   Expiry = "park"   // it is buried, or goes to its Dead tube
)

// OnExpire says what becomes of the job when the time of [Expire] is over.
func OnExpire(e Expiry) PutOption {
	return func(o *putOptions) { o.tags = append(o.tags, tag{name: "on-expire", value: string(e), needs: Expires}) }
}

// MaxDeliveries sets how often the job is delivered at most, lost connections included.
func MaxDeliveries(n int) PutOption {
	return func(o *putOptions) { o.tag("max", strconv.Itoa(n)) }
}

// Dead sets the dead-letter tube, where an exhausted job goes instead of being buried.
func Dead(tube string) PutOption {
	return func(o *putOptions) {
		if o.err == nil {
			o.err = checkTube(tube)
		}
		o.tag("dead", tube)
	}
}

// Keep keeps a record of the job for d after its end, with the result that its worker has given it, so that [Client.Wait] can
// wait for it.
func Keep(d time.Duration) PutOption {
	return func(o *putOptions) {
		o.tags = slices.DeleteFunc(o.tags, func(t tag) bool { return t.name == "keep" }) // of Call
		o.tags = append(o.tags, tag{name: "keep", value: duration(d), needs: Results})
	}
}

// Group puts the job into a group of its tube, such as a customer: 1 to 128 bytes of text. The policy of the tube can limit
// how many jobs of a group run at a time, and how many start in a time; groups take turns.
func Group(name string) PutOption {
	return func(o *putOptions) {
		if name == "" || len(name) > 128 || clean(name) != name {
			o.err = invalid("group %q", name)
		}
		o.tags = append(o.tags, tag{name: "group", value: quote(name), needs: Groups})
	}
}

// Meta adds a header for the worker, such as a request id: up to 16 of them, with up to 1 KiB together. The name has
// letters, digits, - and _; the value is UTF-8 text.
func Meta(name, value string) PutOption {
	return func(o *putOptions) {
		if name == "" || strings.Trim(name, letters+"-_") != "" || clean(value) != value {
			o.err = invalid("meta %q: %q", name, value)
		}
		o.tags = append(o.tags, tag{name: "meta", value: name + "=" + quote(value), needs: Metas})
	}
}

// Trace sends a W3C trace context with the job. The value is that of the header traceparent. The module otel makes it
// of a context.
func Trace(traceparent string) PutOption {
	return func(o *putOptions) {
		if !printable(traceparent) {
			o.err = invalid("trace %q", traceparent)
		}
		o.tags = append(o.tags, tag{name: "trace", value: traceparent, needs: Metas})
	}
}

// Tag sets a tag for which this package has no option.
func Tag(name, value string) PutOption {
	return func(o *putOptions) {
		if !printable(name) || !printable(value) || name == "" {
			o.err = invalid("tag %s:%s", name, value)
		}
		o.tag(name, value)
	}
}

// printable reports whether s is printable ASCII without spaces.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// duration writes a duration as tags have it, in whole milliseconds, rounded up.
func duration(d time.Duration) string {
	if d = max(d, 0); d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10) + "ms"
}

// seconds returns whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((max(d, 0) + time.Second - 1) / time.Second) }

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// tubeChars are the characters of a tube's name besides letters and digits.
const tubeChars = "-+/;.$_()"

// inTube has true for each byte that the name of a tube can have.
var inTube = func() (table [256]bool) {
	for _, c := range []byte(letters + tubeChars) {
		table[c] = true
	}
	return table
}()

// checkTube returns an error if no tube can have this name.
func checkTube(name string) error {
	ok := name != "" && len(name) <= 200 && name[0] != '-'
	for i := 0; ok && i < len(name); i++ {
		ok = inTube[name[i]]
	}
	if !ok {
		return invalid("tube %q: it must be letters, digits and +/;.$_()-, not begin with -, and have at most 200 bytes", name)
	}
	return nil
}

// unsupported returns an error that names the first tag which a server with these capabilities lacks.
func (o *putOptions) unsupported(caps capabilities) error {
	for _, t := range o.tags {
		if !t.knownTo(caps) && !t.dispensable {
			return &UnsupportedError{Feature: "put with " + t.name}
		}
	}
	return nil
}

// idempotent reports whether a put with these options can be repeated: it has no further effect
// while the key is taken.
func (o *putOptions) idempotent() bool { return o.key && o.keyTTL && o.keep }
