package kubernetes

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	strict "sigs.k8s.io/json"
)

func bufioReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// kinds are the types of all objects.
var kinds = map[string]func() any{
	"v1/Secret":                               func() any { return new(core.Secret) },
	"v1/Service":                              func() any { return new(core.Service) },
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"batch/v1/Job":                            func() any { return new(batch.Job) },
	"batch/v1/CronJob":                        func() any { return new(batch.CronJob) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"networking.k8s.io/v1/Ingress":            func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"keda.sh/v1alpha1/ScaledObject":           func() any { return new(scaledObject) },
}

// scaledObject has what the example uses of keda.sh/v1alpha1. KEDA's own types would bring in all of its module.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Triggers        []struct {
			Type       string            `json:"type"`
			MetricType string            `json:"metricType"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// typed returns an object as a value of the Go type of its kind. Unknown and repeated fields are errors.
func typed(t *testing.T, object map[string]any) any {
	t.Helper()
	kind, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	make, known := kinds[kind+"/"+name]
	if !known {
		t.Fatalf("there is no kind %s/%s", kind, name)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	into := make()
	wrong, err := strict.UnmarshalStrict(text, into)
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%s/%s: %v %v", kind, name, err, wrong)
	}
	return into
}

// deployed is a rendering by kind.
type deployed struct {
	workload string // its kind
	replicas int32
	selector map[string]string
	pod      core.PodTemplateSpec
	volumes  []core.PersistentVolumeClaim
	service  *core.Service
	secret   *core.Secret
	budget   *policy.PodDisruptionBudget
	policies []*networking.NetworkPolicy
	ingress  *networking.Ingress
	monitor  *monitoring.ServiceMonitor
	rule     *monitoring.PrometheusRule
	scaled   *scaledObject
	backup   *batch.CronJob
	outbox   *apps.Deployment
}

func sorted(t *testing.T, objects []map[string]any) (d deployed) {
	t.Helper()
	for _, object := range objects {
		switch o := typed(t, object).(type) {
		case *apps.Deployment:
			if strings.HasSuffix(o.Name, "-outbox") {
				d.outbox = o
				continue
			}
			d.workload, d.replicas, d.selector, d.pod = "Deployment", *o.Spec.Replicas, o.Spec.Selector.MatchLabels, o.Spec.Template
		case *apps.StatefulSet:
			d.workload, d.replicas, d.selector, d.pod, d.volumes = "StatefulSet", *o.Spec.Replicas, o.Spec.Selector.MatchLabels, o.Spec.Template, o.Spec.VolumeClaimTemplates
			if o.Spec.ServiceName != o.Name {
				t.Errorf("the service of the StatefulSet is %s", o.Spec.ServiceName)
			}
		case *core.Service:
			d.service = o
		case *core.Secret:
			d.secret = o
		case *policy.PodDisruptionBudget:
			d.budget = o
		case *networking.NetworkPolicy:
			d.policies = append(d.policies, o)
		case *networking.Ingress:
			d.ingress = o
		case *monitoring.ServiceMonitor:
			d.monitor = o
		case *monitoring.PrometheusRule:
			d.rule = o
		case *scaledObject:
			d.scaled = o
		case *batch.CronJob:
			d.backup = o
		}
	}
	return d
}

// TestObjects: each rendering consists of valid objects that fit together.
func TestObjects(t *testing.T) {
	for _, r := range renderings(t) {
		t.Run(r.name, func(t *testing.T) {
			d := sorted(t, r.objects)
			d.checkPolicies(t)
			if strings.Contains(r.name, "keda") {
				d.checkScaling(t)
				return
			}
			d.checkPod(t)
			d.checkSelectors(t)
			d.checkBackup(t)
			if d.checkOutbox(t); (d.outbox != nil) != strings.Contains(r.name, "everything") {
				t.Errorf("the outbox is %v", d.outbox)
			}
			d.checkIngress(t)
			if onRedis := d.workload == "Deployment"; onRedis != (d.budget != nil) || onRedis == (d.volumes != nil) || (d.replicas > 1) != onRedis {
				t.Errorf("%s with %d replicas, budget %v, volumes %v", d.workload, d.replicas, d.budget, d.volumes)
			}
			if want := strings.Contains(r.name, "monitoring") || strings.Contains(r.name, "everything"); want != (d.monitor != nil) || want != (d.rule != nil) {
				t.Errorf("ServiceMonitor: %v, PrometheusRule: %v", d.monitor, d.rule)
			}
		})
	}
}

// selects reports whether a selector has labels, and an object with other labels has all of them.
func selects(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// checkSelectors checks that what selects pods or the service selects them, by ports that exist.
func (d *deployed) checkSelectors(t *testing.T) {
	t.Helper()
	for what, selector := range map[string]map[string]string{"workload": d.selector, "service": d.service.Spec.Selector} {
		if !selects(selector, d.pod.Labels) {
			t.Errorf("the selector of the %s is %v, and pods have %v", what, selector, d.pod.Labels)
		}
	}
	if d.budget != nil && !selects(d.budget.Spec.Selector.MatchLabels, d.pod.Labels) {
		t.Errorf("the budget selects %v", d.budget.Spec.Selector)
	}
	for _, p := range d.service.Spec.Ports {
		if !d.hasPort(p.TargetPort) {
			t.Errorf("the service has the port %v, which pods do not have", p.TargetPort)
		}
	}
	if d.monitor == nil {
		return
	}
	if !selects(d.monitor.Spec.Selector.MatchLabels, d.service.Labels) || d.monitor.Spec.Endpoints[0].Path != "/metrics" {
		t.Errorf("the monitor: %+v", d.monitor.Spec)
	}
	if !slices.ContainsFunc(d.service.Spec.Ports, func(p core.ServicePort) bool { return p.Name == d.monitor.Spec.Endpoints[0].Port }) {
		t.Errorf("the service has no port %s", d.monitor.Spec.Endpoints[0].Port)
	}
}

// checkBackup checks that the job that asks for backups reaches the server, writes to its volume, and is no pod of the service.
func (d *deployed) checkBackup(t *testing.T) {
	t.Helper()
	if d.backup == nil {
		return
	}
	pod := d.backup.Spec.JobTemplate.Spec.Template
	if selects(d.service.Spec.Selector, pod.Labels) {
		t.Errorf("the service selects the job's pods, which have %v", pod.Labels)
	}
	c := pod.Spec.Containers[0]
	want := []string{"/usr/bin/redstalkd", "backup", "--server", d.service.Name + ":8080", "--dir", d.pod.Spec.Containers[0].VolumeMounts[0].MountPath + "/backups", "--keep", "7"}
	if !slices.Equal(c.Command, want) || c.Image != d.pod.Spec.Containers[0].Image || c.EnvFrom[0].SecretRef.Name != "redstalk-backup" {
		t.Errorf("the job runs %v of %s with %v, want %v", c.Command, c.Image, c.EnvFrom, want)
	}
}

// checkOutbox checks that the relays reach the server, have a database, and are no pods of the service.
func (d *deployed) checkOutbox(t *testing.T) {
	t.Helper()
	if d.outbox == nil {
		return
	}
	pod := d.outbox.Spec.Template
	if selects(d.service.Spec.Selector, pod.Labels) || !selects(d.outbox.Spec.Selector.MatchLabels, pod.Labels) {
		t.Errorf("the pods of the outbox have %v", pod.Labels)
	}
	c := pod.Spec.Containers[0]
	want := core.EnvVar{Name: "REDSTALK_SERVER", Value: d.service.Name + ":11300"}
	if !slices.Equal(c.Command[:2], []string{"/usr/bin/redstalk", "outbox"}) || c.Image != d.pod.Spec.Containers[0].Image || c.Env[0] != want || c.EnvFrom[0].SecretRef.Name != "database" {
		t.Errorf("the outbox runs %v of %s with %v and %v", c.Command, c.Image, c.Env, c.EnvFrom)
	}
}

// checkIngress checks that the ingress goes to HTTP, and that the policy lets its controller in there.
func (d *deployed) checkIngress(t *testing.T) {
	t.Helper()
	if d.ingress == nil {
		return
	}
	to := d.ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if to.Name != d.service.Name || to.Port.Name != "http" || d.ingress.Spec.Rules[0].Host != d.ingress.Spec.TLS[0].Hosts[0] {
		t.Errorf("the ingress: %+v", d.ingress.Spec)
	}
	lets := func(in networking.NetworkPolicyIngressRule) bool {
		return len(in.Ports) == 1 && in.Ports[0].Port.StrVal == "http" && slices.ContainsFunc(in.From, func(p networking.NetworkPolicyPeer) bool {
			return p.NamespaceSelector != nil && p.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == "ingress-nginx"
		})
	}
	if !slices.ContainsFunc(d.policies[0].Spec.Ingress, lets) {
		t.Errorf("the controller does not get in: %+v", d.policies[0].Spec.Ingress)
	}
}

func (d *deployed) hasPort(p intstr.IntOrString) bool {
	return slices.ContainsFunc(d.pod.Spec.Containers[0].Ports, func(c core.ContainerPort) bool { return c.Name == p.StrVal && p.StrVal != "" })
}

// variable matches a line of the table of flags.
var variable = regexp.MustCompile(`REDSTALK_[A-Z_]+`)

// checkPod checks the container: its variables exist and its store is set, its probes and preStop are those of the server,
// it has no rights, and it has time to end.
func (d *deployed) checkPod(t *testing.T) {
	t.Helper()
	spec, c := d.pod.Spec, d.pod.Spec.Containers[0]
	flags, err := os.ReadFile("../../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	known, env := variable.FindAllString(string(flags), -1), make(map[string]string)
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if !slices.Contains(known, e.Name) || (e.Value == "") == (e.ValueFrom == nil) {
			t.Errorf("the variable %s is %q", e.Name, e.Value)
		}
	}
	for _, arg := range c.Args {
		if name, _, _ := strings.Cut(arg, "="); !strings.Contains(string(flags), "`"+name) {
			t.Errorf("there is no flag %s", name)
		}
	}
	switch {
	case d.workload == "Deployment" && (env["REDSTALK_STORE"] != "" || c.EnvFrom[0].SecretRef.Name == ""):
		t.Errorf("the store: %v, %v", env, c.EnvFrom)
	case d.workload == "Deployment" && d.secret != nil && d.secret.Name != c.EnvFrom[0].SecretRef.Name:
		t.Errorf("the secret is %s and not %s", d.secret.Name, c.EnvFrom[0].SecretRef.Name)
	case d.workload == "StatefulSet" && (!strings.HasPrefix(env["REDSTALK_STORE"], "embedded:"+c.VolumeMounts[0].MountPath+"/") || d.volumes[0].Name != c.VolumeMounts[0].Name):
		t.Errorf("the store is %s, and the volume %v is at %v", env["REDSTALK_STORE"], d.volumes[0].Name, c.VolumeMounts)
	}
	for path, probe := range map[string]*core.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet.Path != path || !d.hasPort(probe.HTTPGet.Port) {
			t.Errorf("the probe %s is %v", path, probe)
		}
	}
	if c.Resources.Limits.Memory().IsZero() { // of which the server makes the soft limit of Go
		t.Error("there is no limit of memory")
	}
	stop := []string{"/usr/bin/redstalk", "drain", "--wait", "5s"}
	if d.workload == "Deployment" {
		stop = slices.Insert(stop, 2, "--after", "3s")
	}
	if got := c.Lifecycle.PreStop.Exec.Command; !slices.Equal(got, stop) {
		t.Errorf("preStop is %v, want %v", got, stop)
	}
	if *spec.TerminationGracePeriodSeconds < 3+5+20+10 || *spec.EnableServiceLinks || *spec.AutomountServiceAccountToken {
		t.Errorf("%+v", spec)
	}
	if s := c.SecurityContext; !*spec.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%+v, %+v", spec.SecurityContext, s)
	}
}

// checkPolicies checks that each network policy selects pods of redstalk, and lets in to ports by names that pods have.
func (d *deployed) checkPolicies(t *testing.T) {
	t.Helper()
	if len(d.policies) != 1 {
		t.Fatalf("%d network policies", len(d.policies))
	}
	p := d.policies[0].Spec
	if labels := map[string]string{"app.kubernetes.io/name": "redstalk"}; !selects(labels, p.PodSelector.MatchLabels) || len(p.Ingress) == 0 {
		t.Errorf("%+v", p)
	}
	if d.workload != "" && !selects(p.PodSelector.MatchLabels, d.pod.Labels) {
		t.Errorf("the policy selects %v", p.PodSelector)
	}
	for _, in := range p.Ingress {
		if len(in.From) == 0 || len(in.Ports) == 0 {
			t.Errorf("everybody is let in: %+v", in)
		}
		for _, port := range in.Ports {
			if d.workload != "" && !d.hasPort(*port.Port) {
				t.Errorf("pods have no port %v", port.Port)
			}
		}
	}
	if d.workload == "" {
		return
	}
	var out []int
	for _, rule := range p.Egress {
		for _, port := range rule.Ports {
			out = append(out, port.Port.IntValue())
		}
	}
	if !slices.Contains(out, 53) || d.workload == "Deployment" && !slices.Contains(out, 6379) {
		t.Errorf("pods reach only the ports %v", out)
	}
}

// checkScaling checks the example for KEDA: it asks the service for a length and for an age that exist.
func (d *deployed) checkScaling(t *testing.T) {
	t.Helper()
	metrics, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	length, age := d.scaled.Spec.Triggers[0], d.scaled.Spec.Triggers[1]
	if length.Type != "beanstalkd" || length.Metadata["server"] != "redstalk:11300" || length.Metadata["tube"] == "" || length.Metadata["value"] == "" {
		t.Errorf("%+v", length)
	}
	name, selector, _ := strings.Cut(age.Metadata["valueLocation"], "{")
	if !strings.Contains(string(metrics), "| `"+name+"` | gauge | `tube` |") || selector != `tube="`+length.Metadata["tube"]+`"}` {
		t.Errorf("%+v", age)
	}
	if age.Type != "metrics-api" || age.MetricType != "Value" || age.Metadata["url"] != "http://redstalk:8080/metrics" || age.Metadata["format"] != "prometheus" || age.Metadata["targetValue"] == "" {
		t.Errorf("%+v", age)
	}
}

// TestRestore: the example of a restore works on the volume of the StatefulSet, as its user, and with flags of the command.
func TestRestore(t *testing.T) {
	job := typed(t, build(t, "restore")[0]).(*batch.Job).Spec.Template.Spec
	set := sorted(t, build(t, "embedded"))
	c, volume := job.Containers[0], set.volumes[0].Name
	if claim := job.Volumes[0].PersistentVolumeClaim.ClaimName; claim != volume+"-redstalk-0" || job.Volumes[0].Name != volume {
		t.Errorf("the claim is %s", claim)
	}
	if !reflect.DeepEqual(c.VolumeMounts, set.pod.Spec.Containers[0].VolumeMounts) || !reflect.DeepEqual(job.SecurityContext, set.pod.Spec.SecurityContext) ||
		!reflect.DeepEqual(c.SecurityContext, set.pod.Spec.Containers[0].SecurityContext) || c.Image != set.pod.Spec.Containers[0].Image {
		t.Errorf("%+v, but the server has %+v", job, set.pod.Spec)
	}
	page, err := os.ReadFile("../../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	from, to := c.Command[3], c.Command[5]
	if !slices.Equal(c.Command, []string{"/usr/bin/redstalkd", "restore", "--from", from, "--to", to}) {
		t.Errorf("the command is %v", c.Command)
	}
	restored := sorted(t, render(t, "redstalk", "engine: embedded\nvolume: {directory: "+strings.TrimPrefix(to, "/data/")+"}")).pod.Spec.Containers[0]
	if got := restored.Env[0].Value; got != "embedded:"+to || !strings.Contains(string(page), "REDSTALK_STORE="+got) || !strings.Contains(string(page), "--to "+from+"\n") {
		t.Errorf("the store is %s, and the page says something else", got)
	}
}

// TestSamePods: Kustomize and Helm make the same pods, policies and services.
func TestSamePods(t *testing.T) {
	for dir, values := range map[string]string{"redis": "redis: {url: 'redis://redis:6379/0'}", "embedded": "engine: embedded\nnetworkPolicy: {egress: []}"} {
		a, b := sorted(t, build(t, dir)), sorted(t, render(t, "redstalk", values))
		a.pod.Spec.Containers[0].ImagePullPolicy = "IfNotPresent"
		for _, d := range []*deployed{&a, &b} {
			d.service.Spec.Type, d.service.Spec.Selector = "", nil
			d.policies[0].Spec.PodSelector.MatchLabels = nil
			for i := range d.pod.Spec.TopologySpreadConstraints {
				d.pod.Spec.TopologySpreadConstraints[i].LabelSelector = nil
			}
			if d.secret != nil {
				d.pod.Spec.Containers[0].EnvFrom[0].SecretRef.Name = "" // with a suffix in Kustomize
			}
		}
		for what, pair := range map[string][2]any{
			"pods": {a.pod.Spec, b.pod.Spec}, "services": {a.service.Spec, b.service.Spec}, "policies": {a.policies[0].Spec, b.policies[0].Spec},
			"volumes": {a.volumes, b.volumes}, "replicas": {a.replicas, b.replicas},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s of %s: Kustomize makes\n%+v\nand Helm\n%+v", what, dir, pair[0], pair[1])
			}
		}
	}
}

// TestSameBackup: Kustomize and Helm make the same job that asks for backups.
func TestSameBackup(t *testing.T) {
	a := sorted(t, buildWith(t, "embedded", "backup")).backup
	b := sorted(t, render(t, "redstalk", "engine: embedded\nbackup: {enabled: true, existingSecret: redstalk-backup}")).backup
	for _, job := range []*batch.CronJob{a, b} {
		job.Spec.JobTemplate.Spec.Template.Labels = nil
	}
	if a.Name != b.Name || !reflect.DeepEqual(a.Spec, b.Spec) {
		t.Errorf("Kustomize makes\n%+v\nand Helm\n%+v", a, b)
	}
}

// TestValues: the chart refuses values that are wrong, and says which.
func TestValues(t *testing.T) {
	for values, want := range map[string]string{
		"engine: nats":                                             "engine",
		"engine: redis":                                            "redis.url",
		"redis: {url: 'http://redis'}":                             "url",
		"engine: embedded\nreplica: 2":                             "replica",
		"engine: embedded\nsettings: {port: 7}":                    "port",
		"engine: embedded\nsettings: {MAX: 7}":                     "MAX",
		"engine: embedded\nvolume: {directory: ../x}":              "directory",
		"engine: embedded\ngrace: 20":                              "grace",
		"engine: embedded\nvolume: {size: big}":                    "size",
		"engine: embedded\nvolume: {accessModes: [ReadWriteMany]}": "accessModes",
		"engine: embedded\nservice: {type: LoadBalancer}":          "networkPolicy.clients",
		"engine: embedded\nprometheusRule: {runbooks: wiki}":       "runbooks",
		"redis: {url: 'redis://h'}\nreplicas: 0":                   "replicas",
		"engine: embedded\nextraEnv: [{name: REDSTALK_GRACE}]":     "extraEnv",
		"engine: embedded\ningress: {enabled: true}":               "ingress.host",
	} {
		if _, err := tryRender(t, "redstalk", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", values, err)
		}
	}
	args := sorted(t, render(t, "queue", everything)).pod.Spec.Containers[0].Args
	if want := []string{"--access=/etc/redstalk/users.yml", "--max-job-size=104857600", "--quote-stats=true", "--verbose=1"}; !slices.Equal(args, want) {
		t.Errorf("the arguments are %v, want %v", args, want)
	}
}
