// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// sandboxes is a runtime that records its requests.
type sandboxes struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	requests chan *runtimeapi.RunPodSandboxRequest
}

func (s *sandboxes) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "recorder"}, nil
}

func (s *sandboxes) RunPodSandbox(_ context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	s.requests <- q
	return &runtimeapi.RunPodSandboxResponse{}, nil
}

// clusterAPI is an API server that records events.
type clusterAPI struct {
	*kubeapi.Server
	url string

	mu     sync.Mutex
	events []*corev1.Event
}

func newClusterAPI(t *testing.T, pods ...*corev1.Pod) *clusterAPI {
	a := &clusterAPI{Server: kubeapi.New()}
	for _, p := range pods {
		a.Apply(p)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // runs first: a fault may block one
	a.url = server.URL
	return a
}

func (a *clusterAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		a.Server.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var o any
		if o, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			a.mu.Lock()
			a.events = append(a.events, o.(*corev1.Event))
			a.mu.Unlock()
			w.WriteHeader(http.StatusCreated)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusBadRequest)
}

// sent returns the events so far.
func (a *clusterAPI) sent() []*corev1.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*corev1.Event(nil), a.events...)
}

// shimNode is a node on which the command runs as a process, between a kubelet, which is
// the test, and a runtime.
type shimNode struct {
	t          *testing.T
	dir        string
	runtime    *sandboxes
	kubelet    runtimeapi.RuntimeServiceClient
	http       string
	kubeconfig string // "": none
	log        logbuffer.Buffer
	signal     func(os.Signal) error
	stop       func() // waits for it
}

const (
	nodeKubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: resolv.conf\n"
	// On a busy machine the time of a lookup decides nothing.
	nodeShim = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
		"node: {kubeletConfig: kubelet.yaml, nodeName: Worker}\nlookupTimeout: 30s\n"
)

// newShimNode starts the command on a kubeadm node. The files are added to the usual ones or
// replace them. url is that of the API server; "": there is none.
func newShimNode(t *testing.T, url string, files map[string]string) *shimNode {
	t.Helper()
	n := newMachine(t, files)
	if url != "" {
		n.write("kubeconfig", kubeapi.Kubeconfig(url))
		n.kubeconfig = n.dir + "/kubeconfig"
		n.configure(cmp.Or(files["shim.yaml"], nodeShim))
	}
	n.start("--config", n.dir+"/shim.yaml")
	return n
}

// newMachine returns a node on which the command does not run yet.
func newMachine(t *testing.T, files map[string]string) *shimNode {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the shim runs on Linux only")
	}
	n := &shimNode{t: t, dir: t.TempDir(), http: freeAddr(t),
		runtime: &sandboxes{requests: make(chan *runtimeapi.RunPodSandboxRequest, 1)}}
	all := map[string]string{"resolv.conf": "nameserver 192.0.2.53\nsearch corp.example\n",
		"kubelet.yaml": nodeKubelet, "shim.yaml": nodeShim}
	maps.Copy(all, files)
	for name, text := range all {
		n.write(name, text)
	}
	n.configure(all["shim.yaml"])
	l := must.Get(net.Listen("unix", filepath.Join(n.dir, "runtime.sock")))(t)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, n.runtime)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix://"+n.dir+"/run/shim.sock", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond},
			MinConnectTimeout: 20 * time.Second, // gRPC's own; without, each attempt has the 5 ms of the delay
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.kubelet = runtimeapi.NewRuntimeServiceClient(conn)
	return n
}

// configure writes the configuration file, with all paths in the directory of the node.
func (n *shimNode) configure(text string) {
	n.t.Helper()
	n.write("shim.yaml", fmt.Sprintf("%slisten: %s/run/shim.sock\nruntimeEndpoint: %s/runtime.sock\nmanifests: %s/manifests\n"+
		"http: %s\nkubeconfig: %q\n", text, n.dir, n.dir, n.dir, n.http, n.kubeconfig))
}

// start starts the command.
func (n *shimNode) start(args ...string) {
	n.t.Helper()
	n.signal, n.stop = startCommand(n.t, append([]string{"shim"}, args...), &n.log)
}

// startCommand runs the command as a process until the test ends. stop ends it earlier, and
// waits.
func startCommand(t *testing.T, args []string, log *logbuffer.Buffer) (signal func(os.Signal) error, stop func()) {
	t.Helper()
	command := newCommand(t, args, log)
	must.Succeed(t, command.Start())
	killed := false
	signal = func(s os.Signal) error {
		killed = killed || s == os.Kill
		return command.Process.Signal(s)
	}
	stop = sync.OnceFunc(func() {
		late := time.AfterFunc(2*time.Minute, func() { _ = command.Process.Kill() })
		defer late.Stop()
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil && !killed {
			t.Errorf("%v\n%s", err, log.String())
		}
	})
	t.Cleanup(stop)
	return signal, stop
}

// newCommand returns the command as a process that does not run yet.
func newCommand(t *testing.T, args []string, stderr io.Writer) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return &exec.Cmd{
		Path: self, Args: append([]string{"dnsconfigurer"}, args...), // TestMain runs the command of this name
		Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0"), Stderr: stderr,
	}
}

func (n *shimNode) write(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	must.Succeed(n.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Succeed(n.t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.Succeed(n.t, os.Rename(path+".new", path))
}

// sandbox sends a request as the kubelet does, and returns what the runtime receives.
func (n *shimNode) sandbox(q *runtimeapi.PodSandboxConfig) *runtimeapi.PodSandboxConfig {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := n.kubelet.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: q}, grpc.WaitForReady(true)); err != nil {
		n.t.Fatalf("%v\n%s", err, n.log.String())
	}
	return (<-n.runtime.requests).Config
}

// counted returns the counters of outcomes that are not 0.
func (n *shimNode) counted() map[string]int {
	n.t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(get(n.t, n.http, "/metrics")) {
		rest, ok := strings.CutPrefix(line, `dnsconfigurer_sandbox_decisions_total{outcome="`)
		if !ok {
			continue
		}
		outcome, number, _ := strings.Cut(rest, `"} `)
		var count int
		must.Get(fmt.Sscan(number, &count))(n.t)
		if count > 0 {
			counts[outcome] = count
		}
	}
	return counts
}

// eventually waits until ok returns true.
func (n *shimNode) eventually(what string, ok func() bool) {
	n.t.Helper()
	poll.Until(n.t, what, ok, &n.log)
}

// logs waits until the log has these words. The command does not wait for its log, so a line may
// be read after what it is about was seen.
func (n *shimNode) logs(words string) {
	n.t.Helper()
	n.eventually("the words "+words+" in the log", func() bool {
		return strings.Contains(strings.ReplaceAll(n.log.String(), `\"`, `"`), words)
	})
}

func freeAddr(t *testing.T) string {
	t.Helper()
	return process.Loopback(t, 1)[0]
}

// get returns a page of a server. A server that already accepts calls or queries may open the address
// of its pages a moment later.
func get(t *testing.T, addr, path string) string {
	t.Helper()
	var body []byte
	poll.UntilNil(t, "a reply of "+addr, func() error {
		r, err := http.Get(fmt.Sprintf("http://%s%s", addr, path))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err = io.ReadAll(r.Body)
		return err
	})
	return string(body)
}
