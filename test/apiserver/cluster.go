// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const (
	// token is the administrator's.
	token = "admin"

	// readyTime is how long a control plane may take until it is ready; it is four
	// seconds on a machine with nothing else to do.
	readyTime = 5 * time.Minute
)

// The addresses that the API server gives to Services.
const (
	ServiceRange4 = "10.96.0.0/16"
	ServiceRange6 = "fd00:10:96::/112"
)

// Cluster is a control plane.
type Cluster struct {
	Etcd, API *process.Process

	dir string

	apiAddr, etcdAddr, peerAddr string
}

// Start runs a control plane until the test ends, and returns when it is ready. flags
// are for kube-apiserver, after those that it has anyhow. When the test fails, the logs
// are kept.
func Start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, where all of 127.0.0.0/8 is the loopback interface")
	}
	etcd, api := installEtcd(t), build(t, "kube-apiserver")
	dir := must.Get(os.MkdirTemp("", "apiserver"))(t)
	c := &Cluster{dir: dir}
	t.Cleanup(func() { c.end(t) })
	addrs := process.Loopback(t, 3)
	c.apiAddr, c.etcdAddr, c.peerAddr = addrs[0], addrs[1], addrs[2]
	must.Succeed(t, c.writeFiles())
	c.Etcd = &process.Process{Program: etcd, LogFile: c.file("etcd.log"), Args: c.etcdArgs()}
	c.API = &process.Process{Program: api, LogFile: c.file("kube-apiserver.log"), Args: append(c.apiArgs(), flags...)}
	start := time.Now()
	must.Succeed(t, errors.Join(c.Etcd.Start(), c.API.Start(), c.Ready(t.Context())))
	t.Logf("etcd and kube-apiserver were ready after %v", time.Since(start).Round(100*time.Millisecond))
	text, err := c.Kubeconfig(c.Address(), "")
	must.Succeed(t, errors.Join(err, os.WriteFile(c.KubeconfigFile(), []byte(text), 0o600)))
	return c
}

// StartControllers runs these controllers of kube-controller-manager until the test ends.
func (c *Cluster) StartControllers(t testing.TB, names ...string) *process.Process {
	t.Helper()
	manager := &process.Process{
		Program: build(t, "kube-controller-manager"), LogFile: c.file("kube-controller-manager.log"),
		Args: []string{"--kubeconfig=" + c.KubeconfigFile(), "--leader-elect=false", "--secure-port=0",
			"--controllers=" + strings.Join(names, ",")},
	}
	must.Succeed(t, manager.Start())
	t.Cleanup(func() {
		manager.Kill()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", manager.LogFile, manager.Log())
		}
	})
	return manager
}

// end removes the files of the control plane; after a failure, only its data.
func (c *Cluster) end(t testing.TB) {
	for _, p := range []*process.Process{c.API, c.Etcd} {
		if p == nil {
			continue
		}
		p.Kill()
		if t.Failed() {
			t.Logf("the log is %s, its end:\n%s", p.LogFile, p.Log())
		}
	}
	remove := c.dir
	if t.Failed() {
		remove = c.file("data")
	}
	if err := os.RemoveAll(remove); err != nil {
		t.Error(err)
	}
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return errors.Join(
		os.WriteFile(c.file("service-accounts.key"), text, 0o600),
		os.WriteFile(c.file("tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600),
	)
}

func (c *Cluster) etcdArgs() []string {
	clients, peers := "http://"+c.etcdAddr, "http://"+c.peerAddr
	return []string{
		"--data-dir=" + c.file("data"), "--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers, "--log-level=warn",
	}
}

func (c *Cluster) apiArgs() []string {
	host, port, _ := net.SplitHostPort(c.apiAddr) // which Loopback has joined
	return []string{
		"--etcd-servers=http://" + c.etcdAddr, "--bind-address=" + host, "--secure-port=" + port, "--cert-dir=" + c.file("certs"),
		// Published in the cluster, where nothing uses it; a loopback address is refused.
		"--advertise-address=192.0.2.1",
		"--service-cluster-ip-range=" + ServiceRange4 + "," + ServiceRange6,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.file("service-accounts.key"),
		"--service-account-signing-key-file=" + c.file("service-accounts.key"),
		"--token-auth-file=" + c.file("tokens.csv"), "--authorization-mode=Node,RBAC", "--allow-privileged=true",
	}
}

// Address returns where the API server listens.
func (c *Cluster) Address() string { return c.apiAddr }

// ServiceAccountKey returns the file of the key that signs the tokens of service accounts.
func (c *Cluster) ServiceAccountKey() string { return c.file("service-accounts.key") }

// Authority returns the file of the certificate that clients of the API server trust.
func (c *Cluster) Authority() string { return c.file("certs/apiserver.crt") }

// Kubeconfig returns a kubeconfig file that leads an administrator to address, where
// the API server is, or something that passes connections on to it. With as, the
// administrator acts as the user of that name.
func (c *Cluster) Kubeconfig(address, as string) (string, error) {
	authority, err := os.ReadFile(c.Authority()) // which the server has made, and signed itself
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority-data: %s, tls-server-name: kubernetes.default.svc}}]
users: [{name: test, user: {token: %s, as: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, address, base64.StdEncoding.EncodeToString(authority), token, as), nil
}

// KubeconfigFile returns the kubeconfig file that leads an administrator to the API server.
func (c *Cluster) KubeconfigFile() string { return c.file("kubeconfig") }

// Config returns how an administrator reaches the API server, without a limit.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: "https://" + c.Address(), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.Authority(), ServerName: "kubernetes.default.svc"}}
}

// Ready waits until the API server says that it is ready.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var last error
	for tick := time.Tick(50 * time.Millisecond); ; {
		if last = c.ready(ctx); last == nil {
			return nil
		}
		if err := errors.Join(c.Etcd.Alive(), c.API.Alive()); err != nil {
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready after %v: %w", readyTime, last)
		}
	}
}

func (c *Cluster) ready(ctx context.Context) error {
	config := c.Config()
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", path, response.Status, text)
		}
	}
	return nil
}
