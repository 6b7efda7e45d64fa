// Package inspect shows and changes the tubes, jobs, policies, groups and schedules of a server.
//
//	in := inspect.New(c) // a *client.Client
//	tubes, err := in.Tubes(ctx)
//
// Errors are those of package client. A method that changes something returns [client.ErrUnknownOutcome] if
// its reply was lost; none of them does harm when it is called again. What beanstalkd does not have is an
// [client.ErrUnsupported] there.
package inspect
