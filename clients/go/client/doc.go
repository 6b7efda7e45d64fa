// Package client puts jobs into the tubes of a redstalk or beanstalkd server, and reserves them.
//
//	c := client.New("127.0.0.1:11300")
//	defer c.Close()
//	receipt, err := c.Put(ctx, "mails", body, client.Key("welcome-7"), client.Retry(10*time.Second, time.Minute))
//
// To handle jobs, use package worker. To look at tubes and jobs and to change them, use package
// inspect.
//
// # When a server fails
//
// A [Client] connects when it is needed, and again after a connection was lost, with growing
// waits. With several addresses it tries the others. A call waits for a connection, by
// default up to 10 seconds, and never longer than its context.
//
// Every method has one of these results:
//
//   - The server has answered: nil, or an error such as [ErrNotFound].
//   - The command was certainly not carried out: [ErrUnavailable], [ErrUnsupported],
//     [ErrInvalid], [ErrClosed], or the error of the context.
//   - The command was sent, changes something, and its reply is not known: an
//     [ErrUnknownOutcome], together with the reason. That is also the result if the
//     context ends after the command was sent.
//
// A command that only reads, and one that can be repeated without harm, is repeated by the client.
// Of puts these are the ones with [Key] and [KeyTTL].
//
// # Where to read
//
// [Client] (client.go) sends requests over links of a pool (pool.go), each of which is a
// connection (conn.go) that pipelines the calls of all goroutines. dial.go connects. put.go and
// putoptions.go have the put, typed.go jobs with a type, jobbatch.go batches, consumer.go, job.go and checkpoint.go what is reserved, wait.go and ended.go
// what became of jobs, commands.go the rest.
//
// The package imports only the standard library.
package client
