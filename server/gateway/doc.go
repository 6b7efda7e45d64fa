// Package gateway has what all gateways share. A gateway is a listener for the clients of an
// older delay queue: it speaks that system's HTTP, and its jobs are jobs like all others.
// Each of the packages below it is one system.
//
// # Reading order
//
//   - jobs.go, take.go: Jobs, the jobs in the form that those systems know, by a topic and an
//     id.
//   - names.go: Pack and Unpack map any text to the name of a tube or to a key.
//   - rights.go: Check, whether the user of a request has a right, if there is a file of
//     users.
//   - sites.go: Sites, whose pages may use a gateway from a browser.
//   - errors.go: Word, an error in the form that a client may see.
//   - http.go: ReadBody and Answer, bodies of limited length, and answers of which it is
//     known whether they could be written.
//
// # What is elsewhere
//
// Package httpserve limits connections and shuts down. The packages below know what the
// requests of a system look like, and the words of its answers.
//
// # Topics and ids
//
// A topic is a tube, an id is a key in it. A topic that is a valid tube name is that name,
// and an id that is a valid key is that key, so clients of other listeners see and share
// these jobs. Other texts are escaped: a topic as $ and the text, an id as % and the text,
// where invalid bytes are written as the same character and two hexadecimal digits. A text
// that is too long even for that is $( or %~ and its SHA-256 in base64url; a line of JSON
// before the body then has the texts themselves.
//
// A key is unique in its tube, but the ids of the older systems are unique in all topics.
// Jobs.Put ensures that: a put replaces the job that has its id, in whatever tube.
//
// # Invariants
//
// A job is reserved by a lease, which only its TTR ends: no connection and no instance holds
// it. A job that was taken for a client that has left is given back. No job is removed
// before the one that replaces it is there.
package gateway
