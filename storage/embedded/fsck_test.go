package embedded

import "testing"

// fsckOf returns what Fsck finds.
func fsckOf(t testing.TB, o Options, repair bool) (jobs, left int, faults []string) {
	t.Helper()
	jobs, left, err := Fsck(t.Context(), o, repair, FsckReport{
		Found: func(what string) { faults = append(faults, what) }, Skipped: func(string) {}, Progress: func(string, int) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return jobs, left, faults
}
