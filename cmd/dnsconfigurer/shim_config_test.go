// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// fileNode is a node whose shim is configured by a file alone, with an API server. In its files,
// $DIR is the directory of the node and $HTTP its address for metrics.
type fileNode struct {
	*shimNode
	files map[string]string
}

const fileShim = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
	"listen: unix://$DIR/run/shim.sock\nruntimeEndpoint: $DIR/runtime.sock\nhttp: $HTTP\n" +
	"lookupTimeout: 30s\nkubeconfig: $DIR/kubeconfig\nmanifests: $DIR\nnode: {kubeletConfig: kubelet.yaml, nodeName: Worker}\n"

func newFileNode(t *testing.T) *fileNode {
	t.Helper()
	n := &fileNode{newMachine(t, nil), map[string]string{
		"shim.yaml": fileShim, "kubelet.yaml": nodeKubelet, "kubeconfig": kubeapi.Kubeconfig(newClusterAPI(t, podOf("web", "u1")).url),
	}}
	n.writeAll(n.files)
	return n
}

// writeAll writes the files. A file without content is removed.
func (n *fileNode) writeAll(files map[string]string) {
	n.t.Helper()
	for name, text := range files {
		n.write(name, strings.NewReplacer("$DIR", n.dir, "$HTTP", n.http).Replace(text))
		if text == "" {
			must.Succeed(n.t, os.Remove(filepath.Join(n.dir, name)))
		}
	}
}

// check runs `config check` and returns its exit code and output.
func (n *fileNode) check() (int, string) {
	var out bytes.Buffer
	code := run(n.t.Context(), []string{"config", "check", n.dir + "/shim.yaml"}, nil, &out, &out)
	return code, out.String()
}

// version calls Version.
func (n *fileNode) version() {
	n.t.Helper()
	v, err := n.kubelet.Version(n.t.Context(), &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil || v.RuntimeName != "recorder" {
		n.t.Errorf("Version: %v, %v\n%s", v, err, n.log.String())
	}
}

// TestShim_BadConfig starts the shim with files that are invalid: it serves, sandboxes pass, and when the files are valid
// the next sandbox is decided. `config check` finds the same error. TestSource_ErrorLocations of internal/shim and
// TestCheckValues of internal/config have more errors.
func TestShim_BadConfig(t *testing.T) {
	place := regexp.MustCompile(`:[0-9]+:[0-9]+`)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // words of the error
	}{
		{"no kubeconfig", map[string]string{"kubeconfig": ""}, "kubeconfig: no such file or directory"},
		{"half a kubeconfig", map[string]string{"kubeconfig": "apiVersion: v1\nclusters: [{na"}, "kubeconfig: "},
		{"no client certificate",
			map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\n" +
				"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
				"users: [{name: u, user: {client-certificate: /nowhere/cert.pem, client-key: /nowhere/key.pem}}]\n" +
				"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"},
			"/nowhere/cert.pem"},
		{"a misspelled mode", map[string]string{"shim.yaml": fileShim + "mode: Guess\n"},
			`mode: "Guess": want Generate, Force or Observe`},
		{"http is not an address", map[string]string{"shim.yaml": strings.Replace(fileShim, "$HTTP", "nonsense", 1)},
			`http: "nonsense" is not an address with a port`},
		{"half a kubelet file", map[string]string{"kubelet.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nki"}, "kubelet.yaml:"},
		{"no kubelet file", map[string]string{"kubelet.yaml": ""}, "kubelet.yaml: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newFileNode(t)
			n.writeAll(tt.files)
			if code, out := n.check(); code != exitFailed || !strings.Contains(place.ReplaceAllString(out, ""), tt.want) {
				t.Errorf("config check: exit code %d, want %q:\n%s", code, tt.want, out)
			}
			n.start("--config", n.dir+"/shim.yaml")
			n.version()
			n.expect("with a bad configuration", request("web", "u1", "api"), request("web", "u1", "api"))
			if !strings.Contains(tt.files["shim.yaml"], "nonsense") {
				n.expectCounts(map[string]int{"bad_config": 1})
				if ready := get(t, n.http, "/readyz?verbose"); !strings.HasPrefix(ready, "ok\n") || !strings.Contains(ready, tt.want) {
					t.Errorf("/readyz?verbose:\n%s", ready)
				}
			}
			n.logs(tt.want)
			if text := n.log.String(); strings.Count(text, "level=ERROR") != 1 {
				t.Errorf("the log has not one error:\n%s", text)
			}
			n.writeAll(n.files)
			n.hangup()
			n.expect("with a good one", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
		})
	}
}

// TestShim_LastGood starts with files that became invalid after a good start: the last good
// settings are used, with their sockets, and what they need is tried again.
func TestShim_LastGood(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	n := newFileNode(t)
	n.start("--config", n.dir+"/shim.yaml")
	n.expect("a good configuration", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.stop()
	n.writeAll(map[string]string{"shim.yaml": "apiVersion: [", "kubelet.yaml": "", "kubeconfig": "half: ["})
	n.start("--config", n.dir+"/shim.yaml")
	n.version()
	n.expect("no API client", request("web", "u1", "api"), request("web", "u1", "api"))
	n.writeAll(map[string]string{"kubeconfig": n.files["kubeconfig"]})
	n.logs("API client created")
	n.expect("the last good settings", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.expectCounts(map[string]int{"bad_config": 1, "edited": 1})
	if metrics := get(t, n.http, "/metrics"); !strings.Contains(metrics, `dnsconfigurer_config_source{source="last_good"} 1`) {
		t.Errorf("metrics:\n%s", metrics)
	}
}

// TestShim_NotifySocket: the service manager's variables may be wrong.
func TestShim_NotifySocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "relative")
	n := newFileNode(t)
	n.start("--config", n.dir+"/shim.yaml")
	n.expect("a good configuration", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	if ready := get(t, n.http, "/readyz?verbose"); !strings.Contains(ready, `systemd: NOTIFY_SOCKET "relative"`) {
		t.Errorf("/readyz?verbose:\n%s", ready)
	}
}

// TestShim_BadFlags: a flag that this version does not know must not take the node's CRI away.
func TestShim_BadFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"an unknown flag", []string{"--new-flag", "x"}, "unknown flag: --new-flag"},
		{"an unknown flag with a value", []string{"--new-flag=x"}, "unknown flag: --new-flag"},
		{"a flag of an earlier release", []string{"--kubelet-config", "x"},
			"unknown flag: --kubelet-config: set node.kubeletConfig in the file of --config"},
		{"a flag without its value", []string{"--node-name"}, "flag needs an argument: --node-name"},
		{"a log format", []string{"--log-format", "json"}, "unknown flag: --log-format: set logFormat in the file of --config"},
		{"an argument", []string{"extra"}, `unexpected argument "extra"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newFileNode(t)
			n.start(append([]string{"--config", n.dir + "/shim.yaml"}, tt.args...)...)
			n.version()
			n.expect("with a bad flag", request("web", "u1", "api"), request("web", "u1", "api"))
			n.expectCounts(map[string]int{"bad_config": 1})
			n.logs(tt.want)
		})
	}
}

// TestShim_KubeconfigChanged: another content of the kubeconfig leads to another API server.
func TestShim_KubeconfigChanged(t *testing.T) {
	n := newFileNode(t)
	n.writeAll(map[string]string{"kubeconfig": kubeapi.Kubeconfig(newClusterAPI(t).url)})
	n.start("--config", n.dir+"/shim.yaml")
	n.expect("a server without the pod", request("web", "u1", "api"), request("web", "u1", "api"))
	n.writeAll(n.files)
	n.hangup()
	n.expect("a server with the pod", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.writeAll(map[string]string{"kubeconfig": "half: ["})
	n.hangup()
	n.expect("the previous client", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.expectCounts(map[string]int{"unknown_pod": 1, "edited": 2})
	n.logs("cannot create the API client, retrying")
}

// TestShim_ForceUnknown: in mode Force a pod that cannot be looked up fails, and is edited when
// the API server is back.
func TestShim_ForceUnknown(t *testing.T) {
	api := newClusterAPI(t, podOf("web", "u1"))
	n := newFileNode(t)
	n.writeAll(map[string]string{"shim.yaml": strings.Replace(fileShim, "lookupTimeout: 30s", "mode: Force", 1),
		"kubeconfig": kubeapi.Kubeconfig(api.url)})
	fails := func(want string) {
		t.Helper()
		_, err := n.kubelet.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: request("web", "u1", "api")})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	api.SetFault(kubeapi.Stall)
	n.start("--config", n.dir+"/shim.yaml")
	n.version()
	fails("lookup_timeout")
	static := request("etcd-worker", "h1", "file")
	n.expect("a static pod", static, static)
	api.SetFault(kubeapi.Forbid)
	n.writeAll(map[string]string{"shim.yaml": fileShim + "mode: Force\n"}) // the time of the other lookups decides nothing
	n.hangup()
	fails("unknown_pod")
	api.SetFault(nil)
	n.expect("the retry", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.eventually("the events", func() bool {
		failed := 0
		for _, e := range api.sent() {
			if e.Reason == "PodLookupFailed" && e.Type == "Warning" {
				failed++
			}
		}
		return failed >= 2
	})
}

// TestConfigCheck_Shim: `config check` also looks for what a shim finds after its start.
func TestConfigCheck_Shim(t *testing.T) {
	n := newFileNode(t)
	want := "dnsconfigurer: " + n.dir + "/shim.yaml: ShimConfiguration: no errors\n"
	if code, out := n.check(); code != exitOK || out != want {
		t.Errorf("a good configuration: exit code %d, want %q:\n%s", code, want, out)
	}
	n.writeAll(map[string]string{"shim.yaml": strings.Replace(fileShim, "manifests: $DIR", "manifests: /nowhere", 1)})
	if code, out := n.check(); code != exitFailed || !strings.Contains(out, "manifests: /nowhere: no such file or directory") {
		t.Errorf("no manifests: exit code %d:\n%s", code, out)
	}
}
