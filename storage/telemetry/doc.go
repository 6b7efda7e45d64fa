// Package telemetry counts events on hot paths and limits repeated log messages. It does not
// know what it counts or logs.
//
//   - Histogram (histogram.go): any goroutine adds values without a lock. Reading is a snapshot
//     of it, for those who publish the counts. The engines, server/queue and server/httpserve
//     use it.
//   - Throttle (logthrottle.go): keeps a repeated message from filling the log.
package telemetry
