// Apiserver is the API server of Kubernetes, for the test that applies the manifests to it: TestServer of the directory above.
// It is a module of its own, so that what needs only the types of Kubernetes does not need all of it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
