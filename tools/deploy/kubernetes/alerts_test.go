package kubernetes

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	goyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the alerts of docs/alerts.yml into the manifests")

// ruleHead is what the manifest of Kustomize has before the rules.
const ruleHead = `# From docs/alerts.yml: cd tools/deploy/kubernetes && go test -run TestAlerts -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: redstalk
  labels: {app.kubernetes.io/name: redstalk}
spec:
`

// TestAlerts: the manifests have the alerts of docs/alerts.yml. Neither Helm nor Kustomize can read a file outside of its
// directory, so both have a copy.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(text), "\ngroups:")
	for file, want := range map[string]string{
		"helm/redstalk/alerts.yml":                 string(text),
		"kustomize/monitoring/prometheusrule.yaml": ruleHead + strings.ReplaceAll("  groups:"+rules, "\n", "\n  "),
	} {
		want = strings.ReplaceAll(strings.TrimSpace(want), "\n  \n", "\n\n") + "\n"
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not made from docs/alerts.yml (%v): go test -run TestAlerts -update", file, err)
		}
	}
	var want monitoring.PrometheusRuleSpec
	if err := goyaml.UnmarshalStrict(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, r := range renderings(t) {
		if rule := sorted(t, r.objects).rule; rule != nil && !reflect.DeepEqual(rule.Spec, want) {
			t.Errorf("%s has other alerts", r.name)
		}
	}
	const wiki = "https://wiki.example.com/redstalk/"
	rule := sorted(t, render(t, "redstalk", "engine: embedded\nprometheusRule: {enabled: true, runbooks: '"+wiki+"'}")).rule
	if got := rule.Spec.Groups[0].Rules[0].Annotations["runbook_url"]; got != wiki+want.Groups[0].Rules[0].Annotations["runbook_url"] {
		t.Errorf("runbook_url is %s", got)
	}
}
