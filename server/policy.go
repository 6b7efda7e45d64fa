package server

import (
	"cmp"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file translates tags between the protocol and the rules, and has the commands about policies.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.SetPolicy:    {planSetPolicy, answerSetPolicy},
		protocol.GetPolicy:    {planGetPolicy, answerGetPolicy},
		protocol.ListPolicies: {planListPolicies, func(s *session, _ *request, a *storage.Answer) { s.list(s.administered(a.Names)) }},
	})
}

// setTags translates the tags of a put for package tube.
func setTags(to *tube.Tags, t *protocol.Tags) {
	if t.Reason != "" && t.FailedAt == 0 {
		t.FailedAt = time.Now().UnixMilli()
	}
	*to = tube.Tags{
		Delay: t.Delay, HasDelay: t.HasDelay, At: instantOf(t.At), HasAt: t.HasAt,
		Key: t.Key, OnDuplicate: t.OnDuplicate, Rules: t.Rules, Expire: t.Expire,
		Meta: metaOf(t.Meta), Trace: t.Trace, Group: t.Group,
		ExpiresAt: instantOf(t.ExpireAt), Reason: t.Reason, FailedAt: instantOf(t.FailedAt), Occurrence: occurrenceOf(t.Schedule),
		Batch: t.Batch.Name, BatchTTL: t.Batch.TTL, After: cmp.Or(t.Batch.After, t.Batch.AfterAll), AfterAll: t.Batch.AfterAll != "",
	}
}

// occurrenceOf returns which schedule has put a copy, nil if none has.
func occurrenceOf(t *protocol.ScheduleTags) *tube.Occurrence {
	if t == nil || t.Name == "" {
		return nil
	}
	return &tube.Occurrence{Schedule: t.Name, Nominal: instantOf(t.Nominal)}
}

// metaOf translates tags meta for package tube.
func metaOf(all []protocol.Meta) (meta []tube.Meta) {
	for _, m := range all {
		meta = append(meta, tube.Meta(m))
	}
	return meta
}

func planSetPolicy(s *session, c *protocol.Command, r *request) {
	var p *tube.Policy
	if t := c.Tags; t != nil {
		policy := t.Policy
		p = &policy
	}
	if !s.queue.MayPush(p) {
		r.reply = func(s *session) { s.out.Forbidden() }
		return
	}
	r.name = string(c.Name)
	s.addOp(r, storage.Op{Kind: storage.SetPolicy, Tube: string(c.Name), Args: &storage.Args{Policy: p}})
}

func answerSetPolicy(s *session, r *request, _ *storage.Answer) {
	s.queue.PolicyChanged(r.name)
	s.out.Done(r.verb)
}

func planGetPolicy(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.GetPolicy, Tube: string(c.Name)})
}

func planListPolicies(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Policies})
}

// answerGetPolicy writes a policy as the tags that set it.
func answerGetPolicy(s *session, _ *request, a *storage.Answer) {
	var page protocol.Page
	addFields(&page, a.Result.Policy, "jitter")
	s.out.OK(page.Bytes())
}

// addFields adds what a policy sets, as tags; jitter is the word for that of the retries.
func addFields(page *protocol.Page, p *tube.Policy, jitter string) {
	for i := range field.OfPolicy {
		f := &field.OfPolicy[i]
		name := f.Name
		if name == "jitter" {
			name = jitter
		}
		switch text := f.Format(p); {
		case f.In == 0 || text == "": // it is only stored, or not set
		case f.Quoted:
			page.Quoted(name, text)
		default:
			page.Bare(name, text)
		}
	}
}
