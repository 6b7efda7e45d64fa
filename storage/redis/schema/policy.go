package schema

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// A policy is in Redis as a text of name:value words separated by spaces, such as
// "retry:1000,2000 doubled:9 jitter:10 max:5 dead:graveyard key-ttl:1000 expire:1000 on-expire:2
// on-duplicate:2 quota-jobs:10 quota-bytes:4096 concurrency:50 rate:200,0,0 group-concurrency:3
// group-rate:0,100,1000 group-order:2", and for a webhook "push:https://example.org/hook push-calls:8
// push-timeout:3000 push-rate:100 push-every:1000". Times are ms, on-duplicate is a
// tube.OnDuplicate, group-order a tube.GroupOrder, and rates are those of tube.RatePeriods. Unset
// fields are left out.

// PolicyText returns the text of a policy; "" for nil. An empty policy is a space.
func PolicyText(p *tube.Policy) string {
	if p == nil {
		return ""
	}
	var words []string
	add := func(ok bool, name, value string) {
		if ok {
			words = append(words, name+":"+value)
		}
	}
	var waits []string
	for _, wait := range p.Retry {
		waits = append(waits, msText(wait))
	}
	add(len(waits) > 0, "retry", strings.Join(waits, ","))
	add(p.Doubled > 0, "doubled", fmt.Sprint(p.Doubled))
	add(p.Jitter != tube.NoJitter, "jitter", fmt.Sprint(p.Percent()))
	add(p.Max > 0, "max", fmt.Sprint(p.Max))
	add(p.Dead != "", "dead", p.Dead)
	add(p.HasKeyTTL, "key-ttl", msText(p.KeyTTL))
	add(p.Expire != tube.NoLifetime, "expire", msText(p.Expire.Duration()))
	add(p.OnExpire != tube.NoOnExpire, "on-expire", fmt.Sprint(uint8(p.OnExpire)))
	add(p.OnDuplicate != tube.NotSaid, "on-duplicate", fmt.Sprint(p.OnDuplicate))
	add(p.HasQuotaJobs, "quota-jobs", fmt.Sprint(p.QuotaJobs))
	add(p.HasQuotaBytes, "quota-bytes", fmt.Sprint(p.QuotaBytes))
	addLimits(add, "", p.Limits)
	addLimits(add, "group-", p.GroupLimits)
	add(p.GroupOrder != tube.NoGroupOrder, "group-order", fmt.Sprint(uint8(p.GroupOrder)))
	add(p.Push.URL != "", "push", p.Push.URL)
	add(p.Push.Concurrency > 0, "push-calls", fmt.Sprint(p.Push.Concurrency))
	add(p.Push.Timeout > 0, "push-timeout", msText(p.Push.Timeout))
	add(p.Push.Rate > 0, "push-rate", fmt.Sprint(p.Push.Rate))
	add(p.Push.Rate > 0, "push-every", msText(p.Push.RateEvery))
	if words == nil {
		return " "
	}
	return strings.Join(words, " ")
}

// addLimits adds limits, whose names have a prefix.
func addLimits(add func(ok bool, name, value string), prefix string, l tube.Limits) {
	add(l.Concurrency > 0, prefix+"concurrency", fmt.Sprint(l.Concurrency))
	add(l.Rates != tube.Rates{}, prefix+"rate", RatesText(l.Rates))
}

// RatesText returns rates in the order of tube.RatePeriods, separated by commas; 0 for none.
func RatesText(r tube.Rates) string { return fmt.Sprintf("%d,%d,%d", r[0], r[1], r[2]) }

// LimitsStarts returns whether a policy limits which jobs may start.
func LimitsStarts(p *tube.Policy) bool {
	return p != nil && (p.Limits != tube.Limits{} || p.GroupLimits != tube.Limits{} || p.GroupOrder != tube.NoGroupOrder || p.Push.Rate > 0)
}

func msText(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// LimitsText returns what of a policy concerns puts without tags: its quotas, "JOBS BYTES", where -
// is no limit; "" if nothing does. That jobs expire concerns them too.
func LimitsText(p *tube.Policy) string {
	if p == nil || !p.HasQuotaJobs && !p.HasQuotaBytes && p.Expire == tube.NoLifetime {
		return ""
	}
	text := func(ok bool, n uint64) string {
		if ok {
			return strconv.FormatUint(n, 10)
		}
		return "-"
	}
	return text(p.HasQuotaJobs, p.QuotaJobs) + " " + text(p.HasQuotaBytes, p.QuotaBytes)
}

// ParsePolicy is the reverse of PolicyText; nil for "".
func ParsePolicy(text string) (*tube.Policy, error) {
	if text == "" {
		return nil, nil
	}
	p := new(tube.Policy)
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, ":")
		if err := setPolicyWord(p, name, value); err != nil {
			return nil, fmt.Errorf("a policy says %q", word)
		}
	}
	return p, nil
}

// parseRates is the reverse of RatesText, for the word of a policy with a name.
func parseRates(p *tube.Policy, name, text string) error {
	r := &p.Limits.Rates
	if name == "group-rate" {
		r = &p.GroupLimits.Rates
	}
	_, err := fmt.Sscanf(text, "%d,%d,%d", &r[0], &r[1], &r[2])
	return err
}

func setPolicyWord(p *tube.Policy, name, value string) (err error) {
	var n uint64
	switch name {
	case "dead":
		p.Dead = value
		return nil
	case "push":
		p.Push.URL = value
		return nil
	case "rate", "group-rate":
		return parseRates(p, name, value)
	case "retry":
		for _, text := range strings.Split(value, ",") {
			if n, err = strconv.ParseUint(text, 10, 64); err != nil {
				return err
			}
			p.Retry = append(p.Retry, time.Duration(n)*time.Millisecond)
		}
		return nil
	}
	if n, err = strconv.ParseUint(value, 10, 64); err != nil {
		return err
	}
	switch name {
	case "doubled":
		p.Doubled = uint8(n)
	case "jitter":
		p.Jitter = tube.JitterOf(uint8(n))
	case "expire":
		p.Expire = tube.LifetimeOf(time.Duration(n) * time.Millisecond)
	case "on-expire":
		p.OnExpire = tube.OnExpire(n)
	case "max":
		p.Max = uint32(n)
	case "key-ttl":
		p.KeyTTL, p.HasKeyTTL = time.Duration(n)*time.Millisecond, true
	case "on-duplicate":
		p.OnDuplicate = tube.OnDuplicate(n)
	case "quota-jobs":
		p.QuotaJobs, p.HasQuotaJobs = n, true
	case "quota-bytes":
		p.QuotaBytes, p.HasQuotaBytes = n, true
	case "concurrency":
		p.Limits.Concurrency = uint32(n)
	case "group-concurrency":
		p.GroupLimits.Concurrency = uint32(n)
	case "group-order":
		p.GroupOrder = tube.GroupOrder(n)
	case "push-calls":
		p.Push.Concurrency = uint32(n)
	case "push-timeout":
		p.Push.Timeout = time.Duration(n) * time.Millisecond
	case "push-rate":
		p.Push.Rate = uint32(n)
	case "push-every":
		p.Push.RateEvery = time.Duration(n) * time.Millisecond
	}
	return nil
}
