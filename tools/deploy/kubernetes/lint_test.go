package kubernetes

import (
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// TestLint: `helm lint --strict` finds nothing, with the values that are least and with all of them.
func TestLint(t *testing.T) {
	for _, values := range []string{"engine: embedded", "redis: {url: 'redis://redis'}", everything} {
		v, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All("helm/redstalk", v, "default", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", values, m)
			}
		}
	}
}
