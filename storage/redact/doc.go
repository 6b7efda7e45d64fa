// Package redact keeps passwords out of logs and errors.
//
// It knows the URLs of stores. A server that does not know AUTH, or a proxy in front of one, can
// quote in its error what it was sent; and a person can write a URL where another value belongs.
// So errors and messages are redacted before they are logged or returned. There is one file,
// redact.go.
package redact
