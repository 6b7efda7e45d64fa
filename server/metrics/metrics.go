package metrics

import dto "github.com/prometheus/client_model/go"

// Definition defines one metric.
type Definition struct {
	Name   string
	Kind   dto.MetricType
	Labels []string
	Help   string
}

// Shorter names for the types.
const (
	counter   = dto.MetricType_COUNTER
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_HISTOGRAM
)

// Others is the label of all tubes that are not shown by name. No tube can have this name.
const Others = "all others"

var tubeLabel = []string{"tube"}

// definitions is the table of all metrics except those of the Go runtime and of the process,
// in the order of the documentation.
var definitions = []Definition{
	{"redstalk_tube_jobs", gauge, []string{"tube", "state"}, "Jobs of a tube by state: ready, reserved, delayed or buried."},
	{"redstalk_tube_urgent_jobs", gauge, tubeLabel, "Ready jobs of a tube with a priority below 1024."},
	{"redstalk_tube_oldest_ready_seconds", gauge, tubeLabel, "Time since the put of the oldest ready job of a tube; 0 if none is ready."},
	{"redstalk_tube_waiting_reserves", gauge, tubeLabel, "Reserves that wait for a job of a tube."},
	{"redstalk_tube_paused", gauge, tubeLabel, "1 if a tube is paused, else 0."},
	{"redstalk_tube_for_dead_letters", gauge, tubeLabel, "1 if a tube is for dead letters: a policy names it as dead, or nobody works on it and its first ready job is one (not of tubes with groups or limits); else 0."},
	{"redstalk_tube_puts_total", counter, tubeLabel, "Jobs added to a tube by a put, a move, or as dead letters."},
	{"redstalk_tube_deliveries_total", counter, tubeLabel, "Reservations of jobs of a tube; a job counts each time."},
	{"redstalk_tube_deletes_total", counter, tubeLabel, "Jobs of a tube that were deleted or removed in another way."},
	{"redstalk_tube_timeouts_total", counter, tubeLabel, "Reservations of jobs of a tube whose TTR ran out."},
	{"redstalk_tube_releases_total", counter, tubeLabel, "Jobs of a tube that were released."},
	{"redstalk_tube_buries_total", counter, tubeLabel, "Jobs of a tube that were buried by their workers."},
	{"redstalk_tube_kicks_total", counter, tubeLabel, "Jobs of a tube that were kicked."},
	{"redstalk_tube_expired_total", counter, tubeLabel, "Jobs of a tube whose time was over: deleted or parked."},
	{"redstalk_tube_parked_total", counter, tubeLabel, "Jobs of a tube that were parked or sent to a dead-letter tube, because they were exhausted or refused."},
	{"redstalk_tube_held_jobs", gauge, []string{"tube", "reason"}, "Ready jobs of a tube that limits hold: concurrency, rate or paused (their group); only of tubes with groups or limits."},
	{"redstalk_tube_groups", gauge, tubeLabel, "Groups of a tube that have a job."},
	{"redstalk_tube_full_groups", gauge, tubeLabel, "Groups of a tube with as many reserved jobs as they can have."},
	{"redstalk_tube_group_reserved_jobs", gauge, []string{"tube", "group"}, "Reserved jobs of the groups of a tube that have the most, up to ten."},
	{"redstalk_tube_holds_total", counter, tubeLabel, "How often ready jobs of a group, or of a tube, began to be held."},
	{"redstalk_tube_wait_seconds", histogram, tubeLabel, "Time from when a job became due until its first delivery."},
	{"redstalk_tube_run_seconds", histogram, tubeLabel, "Time from the delivery of a job until its worker deleted it."},

	{"redstalk_jobs", gauge, []string{"state"}, "Jobs of all tubes by state."},
	{"redstalk_urgent_jobs", gauge, nil, "Ready jobs of all tubes with a priority below 1024."},
	{"redstalk_tubes", gauge, nil, "Tubes that exist."},
	{"redstalk_ended_records", gauge, nil, "Records of ended jobs that the store keeps."},
	{"redstalk_hung_jobs", gauge, nil, "Jobs whose workers probably hang: they touch them for more than ten times the TTR."},
	{"redstalk_ended_bytes", gauge, nil, "Their size, as --history-bytes counts it."},
	{"redstalk_jobs_on_disk", gauge, nil, "Delayed and ready jobs of which nothing is in memory; embedded engine."},
	{"redstalk_held_keys", gauge, nil, "Keys that key-ttl keeps taken although their jobs are gone."},
	{"redstalk_checkpoints", gauge, nil, "Jobs that have a checkpoint."},
	{"redstalk_checkpoint_bytes", gauge, nil, "Their size."},
	{"redstalk_last_backup_timestamp_seconds", gauge, nil, "Moment of the last backup, in seconds since 1970; absent before the first; embedded engine."},
	{"redstalk_instances", gauge, nil, "Instances that share the store; absent if the store cannot be shared."},

	{"redstalk_connections", gauge, nil, "Open connections to the beanstalk port."},
	{"redstalk_connections_accepted_total", counter, nil, "Connections accepted by the beanstalk port."},
	{"redstalk_producer_connections", gauge, nil, "Connections that have put a job."},
	{"redstalk_worker_connections", gauge, nil, "Connections that have reserved a job."},
	{"redstalk_waiting_reserves", gauge, nil, "Reserves that wait for a job, of all listeners."},
	{"redstalk_commands_total", counter, []string{"command", "result"}, "Commands answered by the beanstalk port, by result."},
	{"redstalk_received_bytes_total", counter, nil, "Bytes received by the beanstalk port."},
	{"redstalk_sent_bytes_total", counter, nil, "Bytes sent by the beanstalk port."},

	{"redstalk_http_connections", gauge, []string{"listener"}, "Open connections to an HTTP listener."},
	{"redstalk_http_requests_total", counter, []string{"listener", "operation", "status"}, "Answered HTTP requests, by operation and status."},
	{"redstalk_http_request_seconds", histogram, []string{"listener", "operation"}, "Time from the header of a request to the end of its answer, including waits for jobs."},

	{"redstalk_store_up", gauge, nil, "1 if the store can be used, 0 while it is unavailable or loading."},
	{"redstalk_store_call_seconds", histogram, nil, "Duration of store calls. Redis: from sending to the answer; other engines: including the commit, if the call made one."},
	{"redstalk_store_call_operations", histogram, nil, "Operations per store call."},
	{"redstalk_store_sync_seconds", histogram, nil, "Duration of disk syncs that jobs waited for; embedded engine only."},
	{"redstalk_store_retries_total", counter, nil, "Calls to Redis that were sent again."},
	{"redstalk_store_replays_total", counter, nil, "Calls to Redis that were sent again although they had been carried out; they are never carried out twice."},
	{"redstalk_store_silence_seconds", gauge, nil, "Time since Redis last answered."},
	{"redstalk_store_log_bytes", gauge, nil, "Size of the log files; embedded engine only."},
	{"redstalk_store_disk_free_bytes", gauge, nil, "Free space on the disk of the store; embedded engine only."},
	{"redstalk_store_records_written_total", counter, nil, "Records written to the log; embedded engine only."},
	{"redstalk_store_records_migrated_total", counter, nil, "Records written from the log to the tables; embedded engine only."},

	{"redstalk_schedule_occurrences_total", counter, []string{"result"}, "Times of schedules that this instance has handled, by result: put, overlapped, refused, missed or stopped."},
	{"redstalk_schedule_lag_seconds", histogram, nil, "Time from when a job of a schedule was due until it was put."},

	{"redstalk_batches_total", counter, []string{"state"}, "Batches that this instance has found in a state: done, failed, failing, unsealed or cyclic."},
	{"redstalk_batch_after_jobs_total", counter, []string{"state"}, "After-jobs that this instance has let run, or parked, because of the state of their batch."},
	{"redstalk_batches_cancelled_total", counter, nil, "Batches that were cancelled by this instance."},

	{"redstalk_spans_dropped_total", counter, nil, "Spans of --otlp that were dropped, because the collector is too slow or away."},

	{"redstalk_push_tubes", gauge, nil, "Tubes whose jobs this instance pushes."},
	{"redstalk_push_waiting_tubes", gauge, nil, "Pushing tubes that may have jobs, but wait for concurrency, rate or target."},
	{"redstalk_push_running_calls", gauge, nil, "Webhook and callback calls under way."},
	{"redstalk_push_calls_total", counter, []string{"tube", "result"}, "Webhook and callback calls, by result: delivered, postponed, gone, failed, timeout, broken, forbidden or skipped."},
	{"redstalk_push_late_total", counter, tubeLabel, "Calls that ended after the TTR of their job."},
	{"redstalk_push_seconds", histogram, tubeLabel, "Duration of calls."},
	{"redstalk_push_breaker", gauge, []string{"target", "state"}, "1 for the state of a target's circuit breaker: closed (all is well), open (no calls), half-open (one call tries it)."},

	{"redstalk_ready", gauge, nil, "1 if /readyz answers 200, else 0."},
	{"redstalk_draining", gauge, nil, "1 while puts are refused, else 0."},
	{"redstalk_timer_lag_seconds", gauge, nil, "How late timed events are, such as the end of a delay; what was due before the start is late from then on."},
	{"redstalk_snapshot_age_seconds", gauge, nil, "Age of the store's figures in this answer."},
	{"redstalk_build_info", gauge, []string{"version"}, "Version of the program; always 1."},
}

// Definitions returns the table of all metrics except those of the Go runtime and of the
// process.
func Definitions() []Definition { return append([]Definition(nil), definitions...) }
