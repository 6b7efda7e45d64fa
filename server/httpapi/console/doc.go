// Package console is the console: pages by which people look at tubes and jobs in a browser, and
// do something about them. It serves files; all else it asks the HTTP API for, which checks the
// rights of whoever uses it.
//
// # What lives here
//
//   - Handler: the page, its style sheet and its modules, embedded in the program (console.go).
//   - assets/page.html, style.css; app.js: which view is shown, and who has signed in.
//     overview.js, tube.js, put.js, parked.js, server.js: the views. job.js: one job, and what
//     is done to several. policy.js: the policy of a tube. api.js: requests, rights and the
//     stream of changes. rows.js: tables of any length, of which only the rows that are seen
//     exist. chart.js: charts. body.js: how a body can be read. ui.js: elements, dialogs,
//     messages.
//
// # What does not
//
// State: what a browser is to remember (columns, samples of jobs) is in its localStorage, and
// who has signed in, until the tab is closed, in its sessionStorage. There is no framework, no
// step of building, and nothing from another host.
//
// # Invariants
//
// The content security policy allows the files of this package and requests to the same host,
// and nothing else: no inline script, no inline style, no evaluation. What comes from jobs is
// only ever put into the page as text.
//
// Tests and scripts find things by roles, labels, ids and data-attributes (data-view, data-action,
// data-dialog, data-column, data-id): they stay, or the tests of this package change with them.
package console
