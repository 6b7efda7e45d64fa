// Package zywaited is a listener for clients of zywaited/delay-queue: its HTTP paths and its gRPC
// service, and the callbacks by HTTP, HTTPS and gRPC when tasks are due.
//
//   - Service: tasks, whoever asks (service.go, task.go). It is a pb.DelayQueueServer.
//   - NewHTTP and NewGRPC: its two surfaces, as http.Handlers (http.go, grpc.go).
//   - callbacks: a Service is a push.Source, if its instance calls (callback.go, call.go).
//   - ReadConfig: the configuration file of the old program (config.go).
//
// # Tasks
//
// All tasks are jobs of the tube Tube. The key of a task is its uid, the MD5 of its content
// with the time made absolute, so the same task is added once. Its body is JSON: see task.
// It is due by the job's own delay, to the millisecond.
//
// What the old program keeps as counters and states follows from the job: retry_times is how
// often it was given to a worker and came back, the type follows from the job's state. A task
// that was called is gone, as from the old program's Redis.
//
// # Calls
//
// A worker calls a task up to Config.Tries times, with growing pauses. If that fails the
// task waits by the check schedule: 15, 30, 60 s; 15, 30, 60 min; 4, 8, 12 h. After that it is
// parked, and not dropped as by the old program: Get shows it as ignored. An instance that dies
// in a call holds up the task for its TTR, which is what the calls may take.
package zywaited
