package checks

import "path/filepath"

// root is the root of the repository.
var root = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// at returns where a file of the repository is.
func at(path string) string { return filepath.Join(root, path) }
