package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// token lets the tests do everything in the API server.
const token = "the-token-of-the-tests"

// cluster is an API server of Kubernetes with an etcd. It has no controllers and no nodes: objects are checked and stored, and
// nothing runs.
type cluster struct {
	url    string
	client *http.Client
	paths  map[string]string // of each kind, as in kinds: where its objects are, with %s for the namespace
}

// startCluster starts both on free ports, and ends them with the test.
func startCluster(t *testing.T, apiserver string) *cluster {
	t.Helper()
	dir := t.TempDir()
	etcd, peers, port := freeAddr(t), freeAddr(t), freeAddr(t)
	start(t, dir, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd, "--listen-peer-urls", "http://"+peers,
		"--initial-advertise-peer-urls", "http://"+peers, "--initial-cluster", "default=http://"+peers)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, tokens := filepath.Join(dir, "key.pem"), filepath.Join(dir, "tokens.csv")
	for path, text := range map[string][]byte{
		key:    pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}),
		tokens: []byte(token + `,admin,1,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start(t, dir, apiserver, "--etcd-servers", "http://"+etcd, "--bind-address", "127.0.0.1", "--secure-port", port[strings.LastIndex(port, ":")+1:],
		"--cert-dir", dir, "--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16",
		"--endpoint-reconciler-type", "none", "--service-account-issuer", "https://"+port,
		"--service-account-key-file", key, "--service-account-signing-key-file", key)
	c := &cluster{url: "https://" + port, paths: make(map[string]string)}
	c.await(t, filepath.Join(dir, "apiserver.crt"))
	return c
}

// freeAddr returns an address of the loopback interface at which nobody listens, and which is the test's until it ends: see
// child.FreePort, whose range and locks these are.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12_000+mathrand.IntN(10_000)))
		lock, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() { lock.Close() })
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// start runs a program until the test ends, and then shows the end of its output if the test has failed.
func start(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	output, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		output.Close()
		if text, _ := os.ReadFile(output.Name()); t.Failed() {
			t.Logf("the end of the output of %s:\n%s", program, text[max(0, len(text)-1500):])
		}
	})
}

// await waits until the API server is ready, and trusts the certificate that it has then made.
func (c *cluster) await(t *testing.T, certificate string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for reason := error(nil); ; {
		if text, err := os.ReadFile(certificate); err == nil && c.client == nil {
			roots := x509.NewCertPool()
			if roots.AppendCertsFromPEM(text) {
				c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
			}
		}
		if c.client != nil {
			var got answer
			if got, reason = c.ask(ctx, http.MethodGet, "/readyz", nil); reason == nil && got.code == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the API server is not ready: %v", reason)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answer is what the API server says to a request.
type answer struct {
	code     int
	body     []byte
	warnings []string
}

// ask sends a request: object, if there is one, is applied on the server's side.
func (c *cluster) ask(ctx context.Context, method, path string, object map[string]any) (answer, error) {
	var body io.Reader
	if object != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return answer{}, fmt.Errorf("encoding an object: %w", err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return answer{}, fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if object != nil {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	reply, err := c.client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("asking the API server: %w", err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return answer{code: reply.StatusCode, body: text, warnings: reply.Header.Values("Warning")}, err
}

// apply applies an object in a namespace with strict validation, as `kubectl apply --server-side --validate=strict` does. A warning
// is an error, too. It waits for a kind that the API server does not serve yet, as after its own start and that of a definition.
func (c *cluster) apply(ctx context.Context, namespace string, object map[string]any, options string) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	for {
		path, err := c.path(ctx, namespace, object)
		if err == nil {
			return c.applyTo(ctx, path, object, options)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cluster) applyTo(ctx context.Context, path string, object map[string]any, options string) error {
	got, err := c.ask(ctx, http.MethodPatch, path+"?fieldManager=tests&fieldValidation=Strict"+options, object)
	if err != nil {
		return err
	}
	if got.code >= 300 || len(got.warnings) > 0 {
		var status struct{ Message string }
		json.Unmarshal(got.body, &status)
		return fmt.Errorf("%s: %d %s %q", path, got.code, status.Message, got.warnings)
	}
	return nil
}

// path returns where an object is, by what the API server says that it serves.
func (c *cluster) path(ctx context.Context, namespace string, object map[string]any) (string, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if c.paths[version+"/"+kind] == "" {
		if err := c.discover(ctx, version); err != nil {
			return "", err
		}
	}
	path := c.paths[version+"/"+kind]
	if path == "" {
		return "", fmt.Errorf("the API server knows no %s/%s", version, kind)
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return strings.Replace(path, "%s", namespace, 1) + "/" + name, nil
}

// discover adds the kinds of a version to paths.
func (c *cluster) discover(ctx context.Context, version string) error {
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	got, err := c.ask(ctx, http.MethodGet, root, nil)
	if err != nil {
		return err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if got.code != http.StatusOK {
		return fmt.Errorf("the kinds of %s: %d", version, got.code)
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		return fmt.Errorf("the kinds of %s: %w", version, err)
	}
	for _, r := range list.Resources {
		if strings.Contains(r.Name, "/") { // a part of another one, such as its status
			continue
		}
		at := root + "/" + r.Name
		if r.Namespaced {
			at = root + "/namespaces/%s/" + r.Name
		}
		c.paths[version+"/"+r.Kind] = at
	}
	return nil
}
