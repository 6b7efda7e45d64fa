package client

import (
	"slices"
	"strings"
)

// Capability names a feature of the server, as its command capabilities lists it.
type Capability string

// The capabilities that this module uses.
const (
	PutTags   Capability = "put-tags"  // tags of put: keys, retries, dead letters
	Metas     Capability = "meta"      // the tags meta and trace of put
	Expires   Capability = "expire"    // the tags expire and on-expire
	Backoffs  Capability = "backoff"   // retry:exp and the tag jitter
	Reasons   Capability = "reason"    // the tags reason and failure:no of release and bury
	Policies  Capability = "policy"    // policies of tubes
	Leases    Capability = "lease"     // reserve-lease and its like
	ListJobs  Capability = "list-jobs" // list-jobs
	Flush     Capability = "flush"     // flush-tube
	Move      Capability = "move"      // move-jobs
	Replay    Capability = "replay"    // replay-job
	Drain     Capability = "drain"     // drain, undrain
	Batch     Capability = "batch"     // reserve-batch, delete-batch
	Groups    Capability = "groups"    // groups of jobs, limits and rates
	Schedules Capability = "schedules" // schedules
	Batches   Capability = "batches"   // batches of jobs, after which others run
	Results   Capability = "results"   // records of ended jobs: keep, finish, wait-job
	Info      Capability = "info"      // reserve-batch COUNT SECONDS lease info

	Checkpoints Capability = "checkpoint" // checkpoint, get-checkpoint, kicks that keep it
	Progress    Capability = "progress"   // the tag progress of touch
)

// capabilities is what a server can do beyond beanstalkd, which has none.
type capabilities []Capability

func parseCapabilities(page []byte) (all capabilities) {
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			all = append(all, Capability(name))
		}
	}
	return all
}

func (c capabilities) has(name Capability) bool { return slices.Contains(c, name) }

// need returns an [*UnsupportedError] for a feature unless the capability is there.
func (c capabilities) need(name Capability, feature string) error {
	if c.has(name) {
		return nil
	}
	return &UnsupportedError{Feature: feature}
}
