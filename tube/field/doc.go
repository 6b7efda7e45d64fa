// Package field has the fields of policies, and of what a put says about failures and keys: their types, and for each
// field one row that says everything about it. The wire, HTTP, the stored forms of both engines, the command line and
// the pages are derived from the rows. So a new field is a field of a struct, its line in Over, and a row. A tag that only a
// put has, such as meta, is not here: docs/CONTRIBUTING.md says where it goes.
//
// The package imports nothing of redstalk, because protocol and tube both import it and know nothing of each other.
//
//   - rules.go: Rules, which puts and policies have, and their rows. policy.go: Policy, and its rows.
//   - field.go: what a row says. rows.go: functions that make rows.
//   - values.go: the types of the values. duration.go, retry.go, rate.go, names.go: values with a text form of their own.
package field
