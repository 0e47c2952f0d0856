// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

const serverConfiguration = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
listen: unix://DIR/agent.sock
statusSocket: DIR/status.sock
manifests: DIR/manifests
sandboxDirectories: [DIR/sandboxes]
refresh: DefaultPolicyOnly
node:
  clusterDNS: [10.96.0.10]
  clusterDomain: cluster.local
  resolvConf: DIR/resolv.conf
  nodeName: node1
`

// The host's file, before and after its change.
const (
	hostLines  = "nameserver 192.0.2.53\nsearch corp.example\noptions timeout:1\n"
	otherLines = "nameserver 192.0.2.54\nnameserver 192.0.2.55\nsearch corp.example lab.example\n"
)

const serverPod = `apiVersion: v1
kind: Pod
metadata: {name: "%d", namespace: shop}
spec: {dnsPolicy: Default, containers: [{name: c, image: i}]}
`

// TestServer_Refresh changes the host's file of an agent with 110 pods, and prints how long the
// first and the last file take to follow. The relay is simulated.
func TestServer_Refresh(t *testing.T) {
	const pods = 110
	dir := shortDir(t)
	write := func(name, text string) {
		t.Helper()
		writeFiles(t, dir, map[string]string{name: text})
	}
	write("agent.yaml", strings.ReplaceAll(serverConfiguration, "DIR", dir))
	write("resolv.conf", hostLines)
	for i := range pods {
		write(fmt.Sprintf("manifests/%d.yaml", i), fmt.Sprintf(serverPod, i))
		write(fmt.Sprintf("sandboxes/%d/resolv.conf", i), hostLines)
	}
	startServer(t, filepath.Join(dir, "agent.yaml"))
	relay := dial(t, filepath.Join(dir, "agent.sock"))
	defer relay.Close()
	announceNew(t, relay, dir, pods)
	client := StatusClient{Socket: filepath.Join(dir, "status.sock")}
	count := func(outcome, drift, text string) (n int) {
		t.Helper()
		list, err := client.Pods(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		want := resolvconf.Parse(text).Config()
		for _, p := range list.Pods {
			if p.Outcome == outcome && p.Drift == drift && resolvconf.Parse(p.Actual).Config().Equal(want) {
				n++
			}
		}
		return n
	}
	await(t, func() bool {
		if count("unknown_pod", "", hostLines) > 0 { // the agent has not read all manifests in time
			announceNew(t, relay, dir, pods)
			time.Sleep(time.Second) // any time is right
		}
		return count("unchanged", "", hostLines) == pods
	})
	began := time.Now()
	write("resolv.conf", otherLines)
	var first time.Duration
	await(t, func() bool {
		n := count("unchanged", "", otherLines)
		if n > 0 && first == 0 {
			first = time.Since(began)
		}
		return n == pods
	})
	t.Logf("%d pods: the first file after %v, the last after %v", pods, first.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))

	if _, err := client.Refresh(t.Context(), "shop/unknown"); err == nil || !strings.Contains(err.Error(), "unknown pod: shop/unknown") {
		t.Errorf("an unknown pod: %v", err)
	}
	results, err := client.Restore(t.Context(), "")
	if err != nil || len(results) != pods || results[0].Result != "restored" {
		t.Errorf("%d results, %v", len(results), err)
	}
	if n := count("unchanged", "", hostLines); n != pods {
		t.Errorf("%d restored files", n)
	}
	status, err := client.Status(t.Context())
	if err != nil || status.Pods != pods || status.Relays != 1 || len(status.Problems) != 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if info, err := os.Stat(client.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
}

// TestServer_Restart: a pod that has not changed its file follows that of the host, which has changed
// while no agent was running. A new pod confirms the node facts.
func TestServer_Restart(t *testing.T) {
	dir := shortDir(t)
	files := map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir), "resolv.conf": hostLines,
		"sandboxes/0/resolv.conf": hostLines, "sandboxes/1/resolv.conf": otherLines,
	}
	for i := range 2 {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = fmt.Sprintf(serverPod, i)
	}
	writeFiles(t, dir, files)
	client := StatusClient{Socket: filepath.Join(dir, "status.sock")}
	// run announces pods until their files have the text, and then ends the agent.
	run := func(name string, pods int, text string) {
		t.Run(name, func(t *testing.T) {
			startServer(t, filepath.Join(dir, "agent.yaml"))
			relay := dial(t, filepath.Join(dir, "agent.sock"))
			defer relay.Close()
			want, announced := resolvconf.Parse(text).Config(), time.Time{}
			await(t, func() bool {
				list, err := client.Pods(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				follow := 0
				for _, p := range list.Pods {
					if p.Outcome == "unchanged" && p.Drift == "" && resolvconf.Parse(p.Actual).Config().Equal(want) {
						follow++
					}
				}
				if follow < pods && time.Since(announced) > time.Second { // the agent has not read all manifests in time
					announced = time.Now()
					announceNew(t, relay, dir, pods)
				}
				return follow == pods
			})
		})
	}
	run("before", 1, hostLines)
	writeFiles(t, dir, map[string]string{"resolv.conf": otherLines})
	run("after", 2, otherLines)
}

const slowPod = `{"apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "0-node1", "namespace": "shop", "uid": "0"},
  "spec": {"nodeName": "node1", "dnsPolicy": "Default", "containers": [{"name": "c", "image": "i"}]}}`

// TestServer_LookupTimeout has an API server that takes a second for a pod: without lookupTimeout
// the pod would never be found.
func TestServer_LookupTimeout(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/0-node1") {
			<-r.Context().Done()
			return
		}
		time.Sleep(time.Second)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, slowPod) // fails if the lookup has ended
	}))
	t.Cleanup(api.Close)
	dir := shortDir(t)
	writeFiles(t, dir, map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir) + "lookupTimeout: 30s\nkubeconfig: " + dir + "/kubeconfig\n",
		"kubeconfig": kubeapi.Kubeconfig(api.URL), "resolv.conf": hostLines, "sandboxes/0/resolv.conf": hostLines,
	})
	startServer(t, filepath.Join(dir, "agent.yaml"))
	relay := dial(t, filepath.Join(dir, "agent.sock"))
	defer relay.Close()
	e := sandboxEvent(dir, 0)
	e.Sandbox.Annotations = nil // a pod of the API server
	for _, e := range []podfile.Event{{Kind: podfile.Reset}, e} {
		if err := podfile.Write(relay, e); err != nil {
			t.Fatal(err)
		}
	}
	client := StatusClient{Socket: filepath.Join(dir, "status.sock")}
	await(t, func() bool {
		list, err := client.Pods(t.Context(), "")
		return err == nil && len(list.Pods) == 1 && list.Pods[0].Outcome == "unchanged"
	})
}

const taintedNode = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
  "spec": {"taints": [{"key": "example.com/agent", "effect": "NoSchedule"}]}}`

// TestServer_StartupTaint removes the taint of the node when the relay has announced the sandboxes
// of the runtime, and not before.
func TestServer_StartupTaint(t *testing.T) {
	var requests, patches atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated) // an event
			return
		case r.URL.Path != "/api/v1/nodes/node1":
			<-r.Context().Done() // the watch of pods
			return
		case r.Method == http.MethodPatch:
			patches.Add(1)
		}
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, taintedNode)
	}))
	t.Cleanup(api.Close)
	dir := shortDir(t)
	writeFiles(t, dir, map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir) +
			"startupTaint: example.com/agent:NoSchedule\nkubeconfig: " + dir + "/kubeconfig\n",
		"kubeconfig": kubeapi.Kubeconfig(api.URL), "resolv.conf": hostLines,
	})
	startServer(t, filepath.Join(dir, "agent.yaml"))
	relay := dial(t, filepath.Join(dir, "agent.sock"))
	defer relay.Close()
	if err := relay.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	// The relay is connected, and the runtime is not.
	creating := podfile.Event{Kind: podfile.Creating, Sequence: 1, Sandbox: podfile.Sandbox{ID: "a"}}
	for _, e := range []podfile.Event{{Kind: podfile.Reset}, creating} {
		if err := podfile.Write(relay, e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := relay.Read(make([]byte, 1)); err != nil { // both are handled
		t.Fatal(err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests about the node before the runtime is connected", n)
	}
	if err := podfile.Write(relay, podfile.Event{Kind: podfile.Synchronized}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return patches.Load() > 0 })
}

// TestServer_RuntimeLost: an agent whose relay has lost the runtime says so, and keeps what it knows about
// the sandboxes.
func TestServer_RuntimeLost(t *testing.T) {
	dir := shortDir(t)
	writeFiles(t, dir, map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir), "resolv.conf": hostLines,
		"manifests/0.yaml": fmt.Sprintf(serverPod, 0), "sandboxes/0/resolv.conf": hostLines,
	})
	startServer(t, filepath.Join(dir, "agent.yaml"))
	relay := dial(t, filepath.Join(dir, "agent.sock"))
	defer relay.Close()
	client := StatusClient{Socket: filepath.Join(dir, "status.sock")}
	report := func(kind podfile.Kind) {
		t.Helper()
		if err := podfile.Write(relay, podfile.Event{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	// awaitProblems waits until the agent has this number of problems, and one pod, which is decided.
	awaitProblems := func(problems int) {
		t.Helper()
		announced := time.Now()
		await(t, func() bool {
			status, err := client.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Pods(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			decided := len(list.Pods) == 1 && list.Pods[0].Outcome == "unchanged"
			if !decided && time.Since(announced) > time.Second { // the agent has not read the manifest in time
				announced = time.Now()
				announce(t, relay, dir, 1)
				report(podfile.Synchronized)
			}
			return decided && len(status.Problems) == problems
		})
	}
	announce(t, relay, dir, 1)
	report(podfile.Synchronized)
	awaitProblems(0)
	report(podfile.Unsynchronized)
	awaitProblems(1)
	announce(t, relay, dir, 1)
	report(podfile.Synchronized)
	awaitProblems(0)
}

// TestServer_HostFileEvents: an unusable resolv.conf of the host, and its end, are events on the node.
func TestServer_HostFileEvents(t *testing.T) {
	var unusable, usable atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			<-r.Context().Done() // the watch of pods
			return
		}
		body, _ := io.ReadAll(r.Body)
		switch text := string(body); {
		case strings.Contains(text, "HostResolvConfUnusable") && strings.Contains(text, "node1"):
			unusable.Add(1)
		case strings.Contains(text, "HostResolvConfUsable") && strings.Contains(text, "node1"):
			usable.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(api.Close)
	dir := shortDir(t)
	writeFiles(t, dir, map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir) + "kubeconfig: " + dir + "/kubeconfig\n",
		"kubeconfig": kubeapi.Kubeconfig(api.URL), "resolv.conf": hostLines,
	})
	startServer(t, filepath.Join(dir, "agent.yaml"))
	writeFiles(t, dir, map[string]string{"resolv.conf": "# nothing\n"})
	await(t, func() bool { return unusable.Load() > 0 })
	writeFiles(t, dir, map[string]string{"resolv.conf": otherLines})
	await(t, func() bool { return usable.Load() > 0 })
}

// TestServer_StatusSocketInUse: an agent whose statusSocket another process serves, such as a shim,
// serves its relay, and its log names the field.
func TestServer_StatusSocketInUse(t *testing.T) {
	dir := shortDir(t)
	writeFiles(t, dir, map[string]string{
		"agent.yaml": strings.ReplaceAll(serverConfiguration, "DIR", dir), "resolv.conf": hostLines,
	})
	other, err := cri.Listen(filepath.Join(dir, "status.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	log := new(logbuffer.Buffer)
	startServerWithLog(t, filepath.Join(dir, "agent.yaml"), log)
	await(t, func() bool {
		return strings.Contains(log.String(), "statusSocket: "+dir+"/status.sock.lock is locked by another process, a shim or an agent")
	})
	dial(t, filepath.Join(dir, "agent.sock")).Close()
}

// shortDir returns a directory for sockets, whose paths are limited.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// writeFiles writes files with these names and texts below dir.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// announce sends the sandboxes of all pods as a relay does that connects.
func announce(t *testing.T, relay net.Conn, dir string, pods int) {
	t.Helper()
	events := []podfile.Event{{Kind: podfile.Reset}}
	for i := range pods {
		events = append(events, sandboxEvent(dir, i))
	}
	for _, e := range events {
		if err := podfile.Write(relay, e); err != nil {
			t.Fatal(err)
		}
	}
}

// announceNew is announce for pods, and starts the last one: its file confirms the node facts.
func announceNew(t *testing.T, relay net.Conn, dir string, pods int) {
	t.Helper()
	announce(t, relay, dir, pods-1)
	e := sandboxEvent(dir, pods-1)
	e.Kind, e.First = podfile.Creating, true
	if err := podfile.Write(relay, e); err != nil {
		t.Fatal(err)
	}
}

// sandboxEvent describes the sandbox of a static pod that runs.
func sandboxEvent(dir string, i int) podfile.Event {
	return podfile.Event{
		Kind: podfile.Running, Path: filepath.Join(dir, fmt.Sprintf("sandboxes/%d/resolv.conf", i)),
		Sandbox: podfile.Sandbox{
			ID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprintf("%d-node1", i), UID: fmt.Sprint(i),
			Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
	}
}

// startServer runs an agent until the test ends.
func startServer(t *testing.T, file string) { startServerWithLog(t, file, io.Discard) }

func startServerWithLog(t *testing.T, file string, out io.Writer) {
	t.Helper()
	source := AgentKind().FromFile(file)
	c, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	writer, err := daemon.NewLogWriter(out, "text")
	if err != nil {
		t.Fatal(err)
	}
	stop := writer.Start()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		log := slog.New(slog.NewTextHandler(writer, nil)) // Logger sets that of client-go, too, for all tests
		s := Agent{Source: source, Version: "test", Log: log, Writer: writer}
		ended <- s.Run(ctx, c)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
	})
	dial(t, filepath.Join(filepath.Dir(file), "status.sock")).Close()
}

// dial waits until a socket is served, and connects. The file of a socket is there before the
// process listens.
func dial(t *testing.T, socket string) (conn net.Conn) {
	t.Helper()
	await(t, func() bool {
		c, err := net.Dial("unix", socket)
		conn = c
		return err == nil
	})
	return conn
}

// await returns when done is true.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("no change in time")
}
