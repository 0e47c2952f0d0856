// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const agentPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}
spec: {nodeName: worker, containers: [{name: c, image: i}]}
`

const agentConfiguration = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
refresh: All
node: {clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: ""}
autopath: {nodeCache: 169.254.20.10}
`

// inPod runs a command with the credentials of a service account where a pod has them, and
// without capabilities. Its mounts end with it.
const inPod = `mount -t tmpfs tmpfs /run && mkdir -p /var/run/secrets/kubernetes.io/serviceaccount &&
cp "$DIR/token" "$DIR/ca.crt" /var/run/secrets/kubernetes.io/serviceaccount/ &&
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`

// TestAPIServerAgent runs the agent with the service account and the role of deploy/agent: it
// finds a pod, writes its file, and creates an event. The file follows the pod's annotation.
func TestAPIServerAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: service accounts have a fixed path")
	}
	c := apiserver.Start(t)
	kubectl := c.Kubectl(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		return kubectl.MustRun(t, stdin, args...)
	}
	run("", "apply", "-f", "../../deploy/agent/rbac.yaml")
	run("", "create", "serviceaccount", "default")
	run(agentPod, "apply", "-f", "-")

	dir := t.TempDir()
	path := filepath.Join(dir, "sandboxes", "5e1f", "resolv.conf")
	authority, err := os.ReadFile(c.Authority())
	must.Succeed(t, errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755)))
	socket := filepath.Join(dir, "nri", "agent", "agent.sock")
	for file, text := range map[string]string{
		"ca.crt":     string(authority),
		"token":      run("", "create", "token", "dnsconfigurer-agent", "--namespace", "kube-system"),
		"agent.yaml": agentConfiguration + "listen: unix://" + socket + "\nsandboxDirectories: [" + filepath.Join(dir, "sandboxes") + "]\n",
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	writeAsRuntime(t, filepath.Dir(filepath.Dir(path)), "5e1f")
	host, port, err := net.SplitHostPort(c.Address())
	if err != nil {
		t.Fatal(err)
	}
	agent := &process.Process{Program: "unshare", LogFile: filepath.Join(dir, "log"), Args: []string{
		"--mount", "env", "DIR=" + dir, "KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port,
		"sh", "-c", inPod, "sh", process.Build(t), "agent", "--config", filepath.Join(dir, "agent.yaml"), "--node-name", "worker"}}
	must.Succeed(t, agent.Start())
	t.Cleanup(func() {
		agent.Kill()
		if t.Failed() {
			t.Log(agent.Log())
		}
	})
	await := func(what string, condition func() bool) {
		t.Helper()
		poll.Until(t, what, condition)
	}
	hasEvent := func(reason string) func() bool {
		return func() bool {
			return strings.Contains(run("", "get", "events", "-o", "jsonpath={.items[*].reason}"), reason)
		}
	}
	var conn net.Conn
	await("the agent's socket", func() bool {
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	defer conn.Close()
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory of the socket: %v, %v", info.Mode(), err)
	}
	sandbox := podfile.Sandbox{
		ID: "5e1f", Namespace: "default", Name: "web", UID: run("", "get", "pod", "web", "-o", "jsonpath={.metadata.uid}"),
		Annotations: map[string]string{"dnsconfigurer.dev/policy": "ClusterFirstWithAutopath"},
	}
	for _, e := range []podfile.Event{{Kind: podfile.Reset}, {Kind: podfile.Running, Sandbox: sandbox, Path: path}} {
		must.Succeed(t, podfile.Write(conn, e))
	}
	hasServer := func(server string) func() bool {
		return func() bool {
			text, err := os.ReadFile(path)
			return err == nil && slices.Equal(resolvconf.Parse(string(text)).Config().Nameservers, []string{server})
		}
	}
	await("the file is written", hasServer("169.254.20.10"))
	await("an event of the pod", hasEvent(node.ReasonConfigured))
	run("", "annotate", "pod", "web", "dnsconfigurer.dev/policy-")
	await("the file of a pod without the annotation", hasServer("10.96.0.10"))
	run("", "annotate", "pod", "web", "dnsconfigurer.dev/policy=ClusterFirstWithAutopath")
	await("the file of a pod with the annotation again", hasServer("169.254.20.10"))
	await("an event of the change", hasEvent(node.ReasonRefreshed))
	for _, right := range []string{"get secrets", "update pods", "get nodes"} {
		verb, resource, _ := strings.Cut(right, " ")
		out, _, _ := kubectl.Run(t.Context(), "", "auth", "can-i", verb, resource,
			"--as=system:serviceaccount:kube-system:dnsconfigurer-agent")
		if strings.TrimSpace(out) != "no" {
			t.Errorf("the agent can %s: %s", right, out)
		}
	}
}

// writeAsRuntime writes the file of a sandbox as a runtime creates it, without a pause before the text: it
// confirms the node facts.
func writeAsRuntime(t *testing.T, directory, sandbox string) {
	t.Helper()
	const text = "search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
	path := filepath.Join(directory, sandbox, "resolv.conf")
	for range 100 {
		must.Succeed(t, errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600)))
		f := must.Get(podfile.Open([]string{directory}, sandbox, path))(t)
		defer f.Close()
		if f.IsAsCreated() {
			return
		}
	}
	t.Fatal("a pause before each of 100 texts")
}
