// Package aio sends to many sockets with one system call.
//
// It is the asynchronous I/O of Linux (io_submit(2)). To a socket that does not block that is
// not asynchronous, but a write at once. It is older than io_uring and as quick for this, and
// filters of system calls that forbid io_uring, as those of containers do, allow it.
//
// The door of beanstalk clients sends the replies of a turn by it, and stalkbench the commands.
// It imports nothing of ours. There is none on other systems than Linux.
package aio
