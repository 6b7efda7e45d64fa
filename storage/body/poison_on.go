//go:build race || poison

package body

// poison says that memory is overwritten when it is given back, see the package
// comment.
const poison = true
