// Package kubernetes has no code: it contains what runs redstalk on Kubernetes, for Kustomize and for Helm, and
// tests that render both and check every object against the Go types of its kind. It is a module of its own, so
// that the server does not depend on those.
//
//   - kustomize/redis and kustomize/embedded, which share kustomize/base; kustomize/monitoring is a component with
//     a ServiceMonitor, kustomize/backup one with a CronJob, kustomize/keda an example that scales workers, and
//     kustomize/restore one that restores a backup.
//   - helm/redstalk: a chart for both engines.
//   - apiserver: the API server of Kubernetes, a module of its own, to which TestServer applies all of it.
//
// TestRollingUpdate replaces instances as the chart says, under the load of goLoad and testdata/load.py.
package kubernetes
