//go:build race || poison

package body

// poison says that memory is overwritten at the last Release, see the package comment.
const poison = true
