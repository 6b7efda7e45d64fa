package kubernetes

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goyaml "sigs.k8s.io/yaml"
)

var apiserver = flag.String("apiserver", "", "the program that make test-kubernetes-server builds: TestServer applies all objects to it")

// definitions are modules with the definitions of kinds that Kubernetes does not have, and files of them. Nothing is built from them.
var definitions = map[string][]string{
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"github.com/kedacore/keda/v2@v2.21.0": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
}

// TestServer: an API server of Kubernetes takes every object of every rendering, with strict validation and without a warning, such
// as of a pod with more rights than the standard "restricted" allows; and a new version of the chart over an old one.
func TestServer(t *testing.T) {
	if *apiserver == "" {
		t.Skip("without -apiserver: make test-kubernetes-server")
	}
	c := startCluster(t, *apiserver)
	c.define(t)
	for i, r := range append(renderings(t), rendering{"kustomize/restore", build(t, "restore")}) {
		t.Run(r.name, func(t *testing.T) {
			namespace := c.namespace(t, fmt.Sprintf("n%d", i))
			for _, options := range []string{"&dryRun=All", ""} {
				c.applyAll(t, namespace, r.objects, options)
			}
		})
	}
	t.Run("upgrades", func(t *testing.T) {
		for i, values := range []string{"redis: {url: 'redis://redis:6379/0'}", "engine: embedded"} {
			namespace := c.namespace(t, fmt.Sprintf("upgrade%d", i))
			c.applyAll(t, namespace, renderVersion(t, "0.0.1", values), "")
			c.applyAll(t, namespace, renderVersion(t, "0.0.2", values+"\nextraEnv: [{name: A, value: b}]"), "")
		}
	})
	t.Run("refused", func(t *testing.T) { c.refuses(t) })
}

// define adds the definitions of other kinds.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	for module, files := range definitions {
		cmd := exec.Command("go", "mod", "download", "-json", module)
		cmd.Dir = os.TempDir() // not in a module, whose go.sum would have to have its sum
		out, err := cmd.Output()
		var at struct{ Dir string }
		if err == nil {
			err = json.Unmarshal(out, &at)
		}
		if err != nil {
			t.Fatalf("downloading %s: %v %s", module, err, out)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(at.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects(t, string(text)) {
				if err := c.apply(t.Context(), "", object, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// namespace makes a namespace that warns of pods that are not as the standard "restricted" wants.
func (c *cluster) namespace(t *testing.T, name string) string {
	t.Helper()
	labels := map[string]any{"pod-security.kubernetes.io/warn": "restricted"}
	object := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}}
	if err := c.apply(t.Context(), "", object, ""); err != nil {
		t.Fatal(err)
	}
	return name
}

func (c *cluster) applyAll(t *testing.T, namespace string, objects []map[string]any, options string) {
	t.Helper()
	if len(objects) == 0 {
		t.Error("there are no objects")
	}
	for _, object := range objects {
		if err := c.apply(t.Context(), namespace, object, options); err != nil {
			t.Error(err)
		}
	}
}

// renderVersion renders the chart as if it had a version.
func renderVersion(t *testing.T, version, values string) []map[string]any {
	t.Helper()
	all := render(t, "redstalk", values)
	text, err := goyaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	current := loadChart(t).Metadata
	var changed []map[string]any
	if err := goyaml.Unmarshal([]byte(strings.NewReplacer("redstalk-"+current.Version, "redstalk-"+version, current.AppVersion, version).Replace(string(text))), &changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

// refuses checks that the API server sees what is wrong, each in an object that is else right.
func (c *cluster) refuses(t *testing.T) {
	t.Helper()
	namespace := c.namespace(t, "refused")
	for _, wrong := range []struct{ old, new, want string }{
		{"terminationGracePeriodSeconds", "terminationGracePeriod", ".spec.template.spec.terminationGracePeriod: field not declared in schema"},
		{"terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: -45", "must be >= 0"},
		{"targetPort: beanstalk", "targetPort: Beanstalk", "Invalid value"},
		{"memory: 64Mi", "memory: 2Gi", "must be less than or equal to memory limit"},
		{"port: 6379", "port: 637900", "must be between 1 and 65535"},
		{"interval: 15s", "interval: 15", "spec.endpoints"},
		{"runAsNonRoot: true", "runAsNonRoot: false", "would violate PodSecurity"},
	} {
		const values = "redis: {url: 'redis://redis:6379/0'}\nserviceMonitor: {enabled: true}"
		var errs []string
		for _, object := range render(t, "redstalk", values) {
			text, err := goyaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			var changed map[string]any
			if err := goyaml.Unmarshal([]byte(strings.ReplaceAll(string(text), wrong.old, wrong.new)), &changed); err != nil {
				t.Fatal(err)
			}
			if err := c.apply(t.Context(), namespace, changed, "&dryRun=All"); err != nil {
				errs = append(errs, err.Error())
			}
		}
		if all := strings.Join(errs, "\n"); len(errs) != 1 || !strings.Contains(all, wrong.want) {
			t.Errorf("%s: %q, want one error with %q", wrong.new, errs, wrong.want)
		}
	}
}
