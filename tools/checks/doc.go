// Package checks tests the whole repository: the layers of packages, the shape of the code, its names
// and words, and the pages against the programs. It has only tests. Their paths are relative to the root of the
// repository, which is in root_test.go.
//
//   - architecture_test.go: which package imports which. docs/architecture.md explains the layers.
//   - shape_test.go: the length of functions.
//   - names_test.go: the names in doc.go files, comments, pages and the Makefile.
//   - words_test.go: words that must not come back.
//   - docs_test.go: the README and the pages. follow_test.go does what their reader does,
//     and longjobs_test.go what the one of docs/long-jobs.md does.
//   - release_test.go: versions, and the renaming of the module.
package checks
