// Package gateway is what the gateways share. A gateway is a listener for the clients of an
// older delay queue: it speaks that system's HTTP, and its jobs are jobs like all others.
// Each of the packages below it is one system.
//
// # What lives here
//
//   - Jobs: jobs as those systems know them, by a topic and an id (jobs.go, take.go).
//   - Pack and Unpack: any text as the name of a tube or as a key (names.go).
//   - Check: what the user of a request may do, if there is a file of users (rights.go).
//   - Sites: whose pages may use a gateway from a browser (sites.go).
//   - Word: an error as the text that a client may see (errors.go).
//   - ReadBody, Answer: bodies of bounded length, and answers of which it is known
//     whether they could be written (http.go).
//
// # What does not
//
// Listening and the limits of connections: that is package httpserve. What a request of a
// system looks like, and the words of its answers: the packages below.
//
// # Topics and ids
//
// A topic is a tube, an id is a key in it. A topic that can be the name of a tube is that
// name, and an id that can be a key is that key, so clients of other listeners see and share
// these jobs. Other texts are escaped: a topic as $ and the text, an id as % and the text,
// where bytes that are not allowed are written as the same character and two hexadecimal
// digits. A text that is too long for that, too, is $( or %~ and its SHA-256 in
// base64url; the texts themselves are then a line of JSON before the body.
//
// A key is unique in its tube. The ids of the older systems are unique altogether. Jobs.Put
// sees to that: whoever puts an id takes the place of the job that had it, in whatever
// tube.
//
// # Invariants
//
// A job is reserved by a lease, which only its TTR ends: no connection and no instance
// holds it. A job that was taken for a client who is gone is given back. No job is
// removed before the one that takes its place is there.
package gateway
