package kubernetes

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	goyaml "sigs.k8s.io/yaml"
)

// rendering is the set of objects that one way of deploying makes.
type rendering struct {
	name    string
	objects []map[string]any
}

// renderings are all ways of deploying that are checked.
func renderings(t *testing.T) []rendering {
	t.Helper()
	on := "serviceMonitor: {enabled: true, labels: {release: prometheus}}\nprometheusRule: {enabled: true, labels: {release: prometheus}}\n"
	return []rendering{
		{"kustomize/redis", build(t, "redis")},
		{"kustomize/embedded", build(t, "embedded")},
		{"kustomize/keda", build(t, "keda")},
		{"kustomize/redis with monitoring", buildWith(t, "redis", "monitoring")},
		{"kustomize/embedded with monitoring and backup", buildWith(t, "embedded", "monitoring", "backup")},
		{"helm on Redis", render(t, "redstalk", "redis: {url: 'redis://u:p@redis:6379/0'}")},
		{"helm embedded", render(t, "redstalk", "engine: embedded")},
		{"helm with everything", render(t, "queue", on+everything)},
		{"helm embedded with everything", render(t, "queue", on+everything+"engine: embedded\nbackup: {enabled: true, existingSecret: redstalk-backup}")},
	}
}

// everything sets all values of the chart that are empty or off by default.
const everything = `
replicas: 2
redis: {existingSecret: redis-url}
image: {tag: 1.2.3, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
volume: {storageClassName: fast, size: 5Gi, accessModes: [ReadWriteOncePod]}
settings: {max-job-size: 104857600, verbose: 1, quote-stats: true, access: /etc/redstalk/users.yml}
extraEnv: [{name: REDSTALK_AUTH_USER, value: admin}, {name: REDSTALK_SECRET, valueFrom: {secretKeyRef: {name: admin, key: secret}}}]
envFrom: [{secretRef: {name: more}}]
extraVolumes: [{name: users, secret: {secretName: users}}]
extraVolumeMounts: [{name: users, mountPath: /etc/redstalk, readOnly: true}]
service: {type: LoadBalancer, annotations: {a: b}, externalTrafficPolicy: Local}
ingress: {enabled: true, className: nginx, annotations: {h: i}, host: queue.example.com, tls: [{hosts: [queue.example.com], secretName: tls}]}
networkPolicy: {clients: [{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}
podAnnotations: {c: d}
podLabels: {e: f}
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: g, operator: Exists}]}]}}}
priorityClassName: high
outbox: {enabled: true, existingSecret: database}
`

// build runs Kustomize in a directory below kustomize.
func build(t *testing.T, dir string) []map[string]any {
	t.Helper()
	return buildOn(t, filesys.MakeFsOnDisk(), path.Join("kustomize", dir))
}

func buildOn(t *testing.T, files filesys.FileSystem, dir string) []map[string]any {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, string(text))
}

// buildWith runs Kustomize on an overlay of a directory that includes components.
func buildWith(t *testing.T, dir string, components ...string) []map[string]any {
	t.Helper()
	files := filesys.MakeFsInMemory()
	for _, from := range append([]string{"base", dir}, components...) {
		paths, err := filepath.Glob(filepath.Join("kustomize", from, "*"))
		if err != nil || len(paths) == 0 {
			t.Fatal(from, err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err == nil {
				err = files.WriteFile("/"+p, text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	files.WriteFile("/kustomize/mine/kustomization.yaml", []byte("resources: [../"+dir+"]\ncomponents: [../"+strings.Join(components, ", ../")+"]\n"))
	return buildOn(t, files, "/kustomize/mine")
}

// loadChart returns the chart.
func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("helm/redstalk")
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart with values on top of its own, as `helm install` does.
func render(t *testing.T, release, values string) []map[string]any {
	t.Helper()
	files, err := tryRender(t, release, values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			all = append(all, objects(t, files[name])...)
		}
	}
	return all
}

func tryRender(t *testing.T, release, values string) (map[string]string, error) {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	c := loadChart(t)
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

// objects are those of a text in YAML.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for r := yaml.NewYAMLReader(bufioReader(text)); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var object map[string]any
		if err == nil {
			err = goyaml.UnmarshalStrict(doc, &object) // it refuses a key that is there twice
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if object != nil {
			all = append(all, object)
		}
	}
}
