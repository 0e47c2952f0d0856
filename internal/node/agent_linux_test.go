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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const serverConfiguration = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
listen: unix://DIR/agent.sock
manifests: DIR/manifests
sandboxDirectories: [DIR/sandboxes]
refresh: DefaultPolicyOnly
node:
  clusterDNS: [10.96.0.10]
  clusterDomain: cluster.local
  resolvConf: DIR/resolv.conf
  nodeName: node1
`

const serverPod = `apiVersion: v1
kind: Pod
metadata: {name: "%d", namespace: shop}
spec: {dnsPolicy: Default, containers: [{name: c, image: i}]}
`

// TestServer_Refresh changes the host's file of an agent with 110 pods, and prints how long the
// first and the last file take to follow. The relay is simulated.
func TestServer_Refresh(t *testing.T) {
	const pods = 110
	files := map[string]string{}
	for i := range pods {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = fmt.Sprintf(serverPod, i)
		files[fmt.Sprintf("sandboxes/%d/resolv.conf", i)] = hostText
	}
	s := newServerTest(t, serverConfiguration, files)
	s.connect()
	s.announceNew(pods)
	await(t, func() bool {
		if s.count("unknown_pod", hostText) > 0 { // the agent has not read all manifests in time
			s.announceNew(pods)
			time.Sleep(time.Second) // any time is right
		}
		return s.count("unchanged", hostText) == pods
	})
	began := time.Now()
	s.write("resolv.conf", otherHost)
	var first time.Duration
	await(t, func() bool {
		n := s.count("unchanged", otherHost)
		if n > 0 && first == 0 {
			first = time.Since(began)
		}
		return n == pods
	})
	t.Logf("%d pods: the first file after %v, the last after %v", pods, first.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))

	if _, err := s.client.Refresh(t.Context(), "shop/unknown"); err == nil || !strings.Contains(err.Error(), "unknown pod: shop/unknown") {
		t.Errorf("an unknown pod: %v", err)
	}
	results, err := s.client.Restore(t.Context(), "")
	if err != nil || len(results) != pods || results[0].Result != "restored" {
		t.Errorf("%d results, %v", len(results), err)
	}
	if n := s.count("unchanged", hostText); n != pods {
		t.Errorf("%d restored files", n)
	}
	status, err := s.client.Status(t.Context())
	if err != nil || status.Pods != pods || status.Relays != 1 || len(status.Problems) != 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if info, err := os.Stat(s.client.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
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
	s := newServerTest(t, serverConfiguration+"lookupTimeout: 30s\nkubeconfig: DIR/kubeconfig\n",
		map[string]string{"kubeconfig": kubeapi.Kubeconfig(api.URL), "sandboxes/0/resolv.conf": hostText})
	s.connect()
	e := sandboxEvent(s.dir, 0)
	e.Sandbox.Annotations = nil // a pod of the API server
	s.send(podfile.Event{Kind: podfile.Reset}, e)
	await(t, func() bool { return s.count("unchanged", hostText) == 1 })
}

// TestServer_Node: an unusable resolv.conf of the host, and its end, are events on the node.
func TestServer_Node(t *testing.T) {
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
	s := newServerTest(t, serverConfiguration+"kubeconfig: DIR/kubeconfig\n",
		map[string]string{"kubeconfig": kubeapi.Kubeconfig(api.URL)})
	s.write("resolv.conf", "# nothing\n")
	await(t, func() bool { return unusable.Load() > 0 })
	s.write("resolv.conf", otherHost)
	await(t, func() bool { return usable.Load() > 0 })
}

// TestServer_RuntimeLost: an agent whose relay has lost the runtime says so, and keeps what it knows about
// the sandboxes.
func TestServer_RuntimeLost(t *testing.T) {
	s := newServerTest(t, serverConfiguration,
		map[string]string{"manifests/0.yaml": fmt.Sprintf(serverPod, 0), "sandboxes/0/resolv.conf": hostText})
	s.connect()
	synchronize := func() {
		s.announce(1)
		s.send(podfile.Event{Kind: podfile.Synchronized})
	}
	// awaitProblems waits until the agent has this number of problems, and one pod, which is decided.
	awaitProblems := func(problems int) {
		t.Helper()
		announced := time.Now()
		await(t, func() bool {
			status := must.Get(s.client.Status(t.Context()))(t)
			decided := s.count("unchanged", hostText) == 1
			if !decided && time.Since(announced) > time.Second { // the agent has not read the manifest in time
				announced = time.Now()
				synchronize()
			}
			return decided && len(status.Problems) == problems
		})
	}
	synchronize()
	awaitProblems(0)
	s.send(podfile.Event{Kind: podfile.Unsynchronized})
	awaitProblems(1)
	synchronize()
	awaitProblems(0)
}

// TestServer_StatusSocketInUse: an agent whose status socket another process serves, such as a shim,
// serves its relay, and its log names the field.
func TestServer_StatusSocketInUse(t *testing.T) {
	s := prepareServerTest(t, serverConfiguration, nil)
	other := must.Get(cri.Listen(s.client.Socket))(t)
	defer other.Close()
	log := new(logbuffer.Buffer)
	s.start(log)
	await(t, func() bool {
		return strings.Contains(log.String(), "status socket: "+s.client.Socket+".lock is locked by another process, a shim or an agent")
	})
	s.connect()
}

// serverTest is an agent in a directory, with its client and its relay.
type serverTest struct {
	*testing.T
	dir    string
	client StatusClient
	relay  net.Conn
}

// prepareServerTest writes the configuration, in which DIR is the directory, resolv.conf and other files.
func prepareServerTest(t *testing.T, configuration string, files map[string]string) *serverTest {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &serverTest{T: t, dir: dir, client: StatusClient{Socket: filepath.Join(dir, "agent-status.sock")}}
	s.write("agent.yaml", strings.ReplaceAll(configuration, "DIR", dir))
	s.write("resolv.conf", hostText)
	for name, text := range files {
		s.write(name, text)
	}
	return s
}

// newServerTest is prepareServerTest, and starts the agent.
func newServerTest(t *testing.T, configuration string, files map[string]string) *serverTest {
	t.Helper()
	s := prepareServerTest(t, configuration, files)
	s.start(io.Discard)
	return s
}

// connect connects the relay.
func (s *serverTest) connect() {
	s.Helper()
	s.relay = dial(s.T, filepath.Join(s.dir, "agent.sock"))
	s.Cleanup(func() { s.relay.Close() })
}

func (s *serverTest) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	must.Succeed(s, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// send sends events of the relay.
func (s *serverTest) send(events ...podfile.Event) {
	s.Helper()
	for _, e := range events {
		must.Succeed(s, podfile.Write(s.relay, e))
	}
}

// announce sends the sandboxes of all pods as a relay does that connects.
func (s *serverTest) announce(pods int) {
	s.Helper()
	s.send(podfile.Event{Kind: podfile.Reset})
	for i := range pods {
		s.send(sandboxEvent(s.dir, i))
	}
}

// announceNew is announce for pods, and starts the last one: its file confirms the node facts.
func (s *serverTest) announceNew(pods int) {
	s.Helper()
	s.announce(pods - 1)
	e := sandboxEvent(s.dir, pods-1)
	e.Kind, e.First = podfile.Creating, true
	s.send(e, podfile.Event{Kind: podfile.Synchronized})
}

// count returns the number of pods with an outcome and without drift whose files have the DNS of a text.
func (s *serverTest) count(outcome, text string) (n int) {
	s.Helper()
	list := must.Get(s.client.Pods(s.Context(), ""))(s)
	want := resolvconf.Parse(text).Config()
	for _, p := range list.Pods {
		if p.Outcome == outcome && p.Drift == "" && resolvconf.Parse(p.Actual).Config().Equal(want) {
			n++
		}
	}
	return n
}

// start runs the agent until the test ends.
func (s *serverTest) start(out io.Writer) {
	s.Helper()
	source := AgentKind().FromFile(filepath.Join(s.dir, "agent.yaml"))
	c := must.Get(source.Load())(s)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	p := daemon.Process{Version: "test", Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(out, nil))}
	go func() { ended <- RunAgent(ctx, p, source, c) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	dial(s.T, s.client.Socket).Close()
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
