// Package zywaited is a gateway for clients of zywaited/delay-queue: its HTTP paths and its
// gRPC service, and callbacks by HTTP, HTTPS and gRPC when tasks are due.
//
//   - service.go, task.go: Service has the tasks, for both APIs. It is a pb.DelayQueueServer.
//   - http.go, grpc.go: NewHTTP and NewGRPC return its two APIs, as http.Handlers.
//   - callback.go, send.go: callbacks. A Service is a webhook.Source, if its instance makes
//     calls.
//   - config.go: ReadConfig reads the configuration file of the old program.
//
// # Tasks
//
// All tasks are jobs of the tube Tube. The key of a task is its uid, the MD5 of its content
// with the time made absolute, so the same task is added once. Its body is JSON: see task.
// The job's own delay says when it is due, to the millisecond.
//
// What the old program stores as counters and states follows from the job: retry_times is
// how often it was given to a worker and came back, the type follows from the job's state. A
// task that was called is gone, as in the old program's Redis.
//
// # Calls
//
// A worker calls a task up to Calls.Tries times, with growing pauses. If all fail, the task
// waits according to the check schedule: 15, 30, 60 s; 15, 30, 60 min; 4, 8, 12 h. After that
// it is parked, and not dropped as by the old program: Get shows it as ignored. An instance
// that dies during a call delays the task by its TTR, which is as long as the calls can take.
package zywaited
