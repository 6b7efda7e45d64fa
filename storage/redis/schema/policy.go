package schema

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"redstalk/tube"
	"redstalk/tube/field"
)

// A policy is in Redis as a text of name:value words separated by spaces, in the order of field.OfPolicy, such as
// "retry:1000,2000 jitter:10 max:5 dead:graveyard". Times are ms. Unset fields are left out.
//
// Three readers need it: Go all of it ([ParsePolicy]), scripts the fields that they apply (lua/tagged/policies.lua, by the
// table of [PolicyWords]), and each put only whether its tube has a policy that concerns it. For the last one a policy is
// stored twice: [LimitsText] is in the hash quotas, whose mere existence a put checks, and which is not there in most
// servers. [LimitsStarts] is the same for takes, see lua/groups/tubes.lua. Both must say yes for each policy of which the put
// or take has to know; to say yes too often only costs time.
//
// The tables in package field say the fields. So a new field changes nothing here, unless it concerns puts or starts.

// PolicyWords returns the names of the words, in their order, and of what kind the value of each is for a script:
// number, text, or list of numbers.
func PolicyWords() iter.Seq2[string, string] {
	return func(yield func(name, kind string) bool) {
		for i := range field.OfPolicy {
			f, kind := &field.OfPolicy[i], "number"
			if f.Kind == field.Retry {
				kind = "list"
			} else if f.StoredAsText() {
				kind = "text"
			}
			if !yield(f.StoredName(), kind) {
				return
			}
		}
	}
}

// TextOfPolicy returns the text of a policy; "" for nil. An empty policy is a space.
func TextOfPolicy(p *tube.Policy) string {
	if p == nil {
		return ""
	}
	var words []string
	for i := range field.OfPolicy {
		f := &field.OfPolicy[i]
		if text := f.Store(p); text != "" {
			words = append(words, f.StoredName()+":"+text)
		}
	}
	if words == nil {
		return " "
	}
	return strings.Join(words, " ")
}

// LimitsStarts returns whether a policy limits which jobs may start.
func LimitsStarts(p *tube.Policy) bool {
	return p != nil && (p.Limits != tube.Limits{} || p.GroupLimits != tube.Limits{} || p.GroupOrder != tube.NoGroupOrder || p.Push.Rate > 0)
}

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

// ParsePolicy is the reverse of TextOfPolicy; nil for "".
func ParsePolicy(text string) (*tube.Policy, error) {
	if text == "" {
		return nil, nil
	}
	p := new(tube.Policy)
	for text := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(text, ":")
		i := slices.IndexFunc(field.OfPolicy, func(f field.Field[tube.Policy]) bool { return f.StoredName() == name })
		if i < 0 || !field.OfPolicy[i].Load(p, value) {
			return nil, fmt.Errorf("a policy says %q", text)
		}
	}
	return p, nil
}
