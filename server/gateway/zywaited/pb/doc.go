// Package pb is the protocol of zywaited/delay-queue: delayqueue.proto, and the code that
// `go generate` generates from it. That needs protoc (Debian's package protobuf-compiler);
// its plug-ins are tools of go.mod.
package pb

//go:generate sh generate.sh
