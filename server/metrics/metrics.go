package metrics

import dto "github.com/prometheus/client_model/go"

// Definition is one metric.
type Definition struct {
	Name   string
	Kind   dto.MetricType
	Labels []string
	Help   string
}

// The kinds, by shorter names.
const (
	counter   = dto.MetricType_COUNTER
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_HISTOGRAM
)

// Others is the label of all tubes that are not shown by name. No tube can be called so.
const Others = "all others"

var tubeLabel = []string{"tube"}

// definitions is the table of all metrics but those of Go and of the process, in the order
// of the documentation.
var definitions = []Definition{
	{"redstalk_tube_jobs", gauge, []string{"tube", "state"}, "Jobs of a tube by state: ready, reserved, delayed or buried."},
	{"redstalk_tube_urgent_jobs", gauge, tubeLabel, "Ready jobs of a tube with a priority below 1024."},
	{"redstalk_tube_oldest_ready_seconds", gauge, tubeLabel, "Time since the put of the oldest ready job of a tube; 0 if none is ready."},
	{"redstalk_tube_waiting_reserves", gauge, tubeLabel, "Reserves that wait for a job of a tube."},
	{"redstalk_tube_paused", gauge, tubeLabel, "Whether a tube is paused: 1 if it is."},
	{"redstalk_tube_puts_total", counter, tubeLabel, "Jobs that came into a tube: that were put, moved there, or are dead letters."},
	{"redstalk_tube_deliveries_total", counter, tubeLabel, "Jobs of a tube that were reserved; each time counts."},
	{"redstalk_tube_deletes_total", counter, tubeLabel, "Jobs of a tube that were deleted, or removed from it in another way."},
	{"redstalk_tube_timeouts_total", counter, tubeLabel, "Reservations of jobs of a tube whose TTR ran out."},
	{"redstalk_tube_releases_total", counter, tubeLabel, "Jobs of a tube that were released."},
	{"redstalk_tube_buries_total", counter, tubeLabel, "Jobs of a tube that were buried by their workers."},
	{"redstalk_tube_kicks_total", counter, tubeLabel, "Jobs of a tube that were kicked."},
	{"redstalk_tube_parked_total", counter, tubeLabel, "Jobs of a tube that were parked, or sent to a dead-letter tube: exhausted."},
	{"redstalk_tube_wait_seconds", histogram, tubeLabel, "Time from when a job was due until its first delivery."},
	{"redstalk_tube_run_seconds", histogram, tubeLabel, "Time from the delivery of a job until its worker deleted it."},

	{"redstalk_jobs", gauge, []string{"state"}, "Jobs of all tubes by state."},
	{"redstalk_urgent_jobs", gauge, nil, "Ready jobs of all tubes with a priority below 1024."},
	{"redstalk_tubes", gauge, nil, "Tubes that exist."},
	{"redstalk_instances", gauge, nil, "Instances that share the store; only if several can."},

	{"redstalk_connections", gauge, nil, "Connections to the beanstalk port."},
	{"redstalk_connections_accepted_total", counter, nil, "Connections to the beanstalk port so far."},
	{"redstalk_producer_connections", gauge, nil, "Connections that have put a job."},
	{"redstalk_worker_connections", gauge, nil, "Connections that have reserved a job."},
	{"redstalk_waiting_reserves", gauge, nil, "Reserves that wait for a job, of all doors."},
	{"redstalk_commands_total", counter, []string{"command", "result"}, "Commands of the beanstalk port that were answered, by what came of them."},
	{"redstalk_received_bytes_total", counter, nil, "Bytes that clients have sent to the beanstalk port."},
	{"redstalk_sent_bytes_total", counter, nil, "Bytes of replies from the beanstalk port."},

	{"redstalk_http_connections", gauge, []string{"door"}, "Connections to a door that speaks HTTP."},
	{"redstalk_http_requests_total", counter, []string{"door", "operation", "status"}, "Requests that were answered, by what they asked for and the status of the answer."},
	{"redstalk_http_request_seconds", histogram, []string{"door", "operation"}, "Time from the header of a request to the end of its answer, waiting for jobs included."},

	{"redstalk_store_up", gauge, nil, "Whether the store can be used: 0 while it is away or loading."},
	{"redstalk_store_call_seconds", histogram, nil, "How long calls of the store took: of Redis, from sending to the answer; else with the commit, if the call made one."},
	{"redstalk_store_call_operations", histogram, nil, "How many operations went to the store with one call."},
	{"redstalk_store_sync_seconds", histogram, nil, "How long jobs waited for a sync of the disk; embedded only."},
	{"redstalk_store_retries_total", counter, nil, "Calls of Redis that were sent again."},
	{"redstalk_store_replays_total", counter, nil, "Calls of Redis that were sent again and turned out to have been carried out before."},
	{"redstalk_store_silence_seconds", gauge, nil, "Time since Redis last answered."},
	{"redstalk_store_log_bytes", gauge, nil, "Size of the files of the log; embedded only."},
	{"redstalk_store_disk_free_bytes", gauge, nil, "Free space on the disk of the store; embedded only."},
	{"redstalk_store_records_written_total", counter, nil, "Records that were written to the log; embedded only."},
	{"redstalk_store_records_migrated_total", counter, nil, "Records that were written from the log to the tables; embedded only."},

	{"redstalk_push_tubes", gauge, nil, "Tubes whose jobs this instance pushes."},
	{"redstalk_push_waiting_tubes", gauge, nil, "Of these, tubes that may have jobs, which wait for concurrency, rate or target."},
	{"redstalk_push_running_calls", gauge, nil, "Calls of pushes and callbacks under way."},
	{"redstalk_push_calls_total", counter, []string{"tube", "result"}, "Calls by what came of them: delivered, postponed, gone, failed, timeout, broken, forbidden or skipped."},
	{"redstalk_push_late_total", counter, tubeLabel, "Calls that ended when the TTR of their job was over."},
	{"redstalk_push_seconds", histogram, tubeLabel, "How long calls took."},
	{"redstalk_push_breaker", gauge, []string{"target", "state"}, "1 for the state of a target: closed if all is well, open while it is left alone, half-open while it is tried."},

	{"redstalk_ready", gauge, nil, "Whether /readyz says yes: 1 if it does."},
	{"redstalk_draining", gauge, nil, "Whether puts are refused: 1 if they are."},
	{"redstalk_timer_lag_seconds", gauge, nil, "How late things happen that are due by time, such as the end of a delay."},
	{"redstalk_snapshot_age_seconds", gauge, nil, "How old the figures of the store in this answer are."},
	{"redstalk_build_info", gauge, []string{"version"}, "Version of the program; always 1."},
}

// Definitions returns the table of all metrics but those of Go and of the process.
func Definitions() []Definition { return append([]Definition(nil), definitions...) }
