// Package console is the browser console: pages that show tubes and jobs, and change them. It
// serves only static files. The pages call the HTTP API, which checks the rights of the user.
//
// # Reading order
//
//   - console.go: Handler, which serves the page, its style sheet and its modules, all embedded
//     in the program.
//   - assets/page.html, style.css and app.js: the frame, the choice of the view, and signing in.
//   - api.js: requests, rights and the event stream.
//   - The views: overview.js, tube.js, put.js, parked.js, search.js, ended.js, schedules.js, workers.js and server.js. job.js has
//     the dialog of one job and the actions on several; policy.js has the policy of a tube,
//     groups.js its groups.
//   - walk.js: searches and actions over many tubes, step by step. hung.js: the banner about jobs whose workers hang.
//   - rows.js: virtual tables, of which only the visible rows are in the DOM. chart.js: charts.
//     history.js: those of a tube, or of all tubes, of an hour to a quarter.
//     body.js: the formats of a body. ui.js: elements, dialogs and messages.
//
// # Not in this package
//
// State. What the browser remembers (columns, samples of jobs) is in its localStorage; the login
// is in its sessionStorage until the tab is closed. There is no framework and no build step, and
// nothing is loaded from another host.
//
// # Invariants
//
// The content security policy allows only the files of this package and requests to the same
// host: no inline script, no inline style, no eval. Data of jobs is only ever added to the page
// as text, never as HTML.
//
// Tests and scripts find elements by roles, labels, ids and data attributes (data-view,
// data-action, data-dialog, data-column, data-id). Change them only together with the tests of
// this package.
package console
