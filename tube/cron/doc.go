// Package cron computes the times of schedules: cron expressions and fixed periods, in any
// time zone.
//
// Read parse.go for the expressions, next.go for the times, and zone.go for the time zones.
//
// # Daylight saving
//
// The rules are those of ISC cron (Vixie cron 4). A cron expression is a wildcard schedule
// if its second, minute or hour field begins with *, and a fixed-time schedule otherwise.
//
//   - A wildcard schedule fires whenever the local clock shows a matching time: never in
//     an hour that is skipped, and again in an hour that is repeated.
//   - A fixed-time schedule fires when the local clock first reaches or passes a matching
//     time. A time that is skipped fires at the end of the gap, and a time that is
//     repeated fires at its first occurrence only.
//   - A change of the local clock by three hours or more is not daylight saving. A fixed
//     time that is skipped then does not fire, and one that is repeated fires again. So
//     nothing fires for the day that Apia skipped in 2011.
//
// Two differences from ISC cron follow from Next being a function: several times in one gap
// fire once, where cron runs the job once for each; and a change of the system's own clock
// is not seen here, it is up to the caller, which keeps the time that fired last.
//
// # Why no library
//
// No library in the Go module proxy has these rules. github.com/robfig/cron/v3 (v3.0.1) and
// github.com/hashicorp/cronexpr (v1.1.3, a fork of gorhill/cronexpr) lose the fixed times
// of a gap and fire repeated ones twice. github.com/adhocore/gronx (v1.20.4) loses the times
// of a gap, and the second hour of wildcard schedules. github.com/netresearch/go-cron
// (v0.9.1, a fork of robfig/cron) knows only gaps of an hour away from midnight, fires 02:30 of
// such a gap at 03:30, does so for wildcard hours too, and fires repeated times twice.
// Parsing alone is not worth a dependency, and none of their parsers takes just what Parse takes.
package cron
