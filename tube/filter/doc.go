// Package filter decides which jobs a list, a search, or an action on many jobs is about. The HTTP API and the command
// line share it, so that the same filter finds the same jobs.
//
// # Contents
//
//   - filter.go: Filter, what a user asks for, and Matcher, which examines jobs.
//   - json.go: JSON values compared by value.
package filter
