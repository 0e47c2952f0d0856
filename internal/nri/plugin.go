// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// plugin handles the calls of NRI. Its methods have the names and the types that package stub
// looks for.
type plugin struct {
	link    *podfile.Link
	metrics *metrics
	log     *slog.Logger

	configured   chan struct{} // has a token after Configure
	synchronized atomic.Bool   // changed with mu, read without
	wait         atomic.Value  // see waitsFor

	mu        sync.Mutex
	sandboxes map[string]*sandbox // by ID
}

type sandbox struct {
	podfile.Sandbox
	path string // source of the mount of /etc/resolv.conf; "": no container has it

	// isNew reports whether this connection has seen the sandbox start, before its containers.
	// Synchronize does not list containers that have exited: they may have written the file.
	isNew bool
}

// Configure is the first call of a connection.
func (p *plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	daemon.Notify(p.configured)
	p.log.Info("connected to the container runtime", "runtime", runtime, "version", version)
	return 0, nil // the events that the methods handle
}

// Synchronize replaces all sandboxes.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	defer p.recoverPanic("Synchronize")
	sandboxes := map[string]*sandbox{}
	for _, pod := range pods {
		sandboxes[pod.GetId()] = &sandbox{Sandbox: describe(pod)}
	}
	for _, c := range containers {
		if s := sandboxes[c.GetPodSandboxId()]; s != nil {
			if path := mountSource(c, s.ID); path != "" {
				s.path = path
			}
		}
	}
	withoutPredecessors(sandboxes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sandboxes = sandboxes
	if ctx.Err() == nil { // the connection has not ended meanwhile, see lose
		p.synchronized.Store(true)
	}
	for _, e := range p.replayLocked() {
		p.link.Send(e)
	}
	return nil, nil
}

// lose tells the agent that the connection to the runtime has ended, if it was synchronized. The
// context of its calls must have ended: one that still runs must not report the opposite later.
func (p *plugin) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.synchronized.Swap(false) {
		p.link.Send(podfile.Event{Kind: podfile.Unsynchronized})
	}
}

// RunPodSandbox is called when a sandbox has started.
func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	defer p.recoverPanic("RunPodSandbox")
	s := describe(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sandboxes[s.ID] = &sandbox{Sandbox: s, isNew: true}
	p.link.Send(podfile.Event{Kind: podfile.Started, Sandbox: s})
	return nil
}

// StopPodSandbox is called when the containers of a sandbox have stopped: no other one is created
// in it. The kubelet removes it later, often after it has started another sandbox for the pod.
func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	defer p.recoverPanic("StopPodSandbox")
	p.end(pod)
	return nil
}

// RemovePodSandbox is called when a sandbox was removed.
func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	defer p.recoverPanic("RemovePodSandbox")
	p.end(pod)
	return nil
}

// end removes a sandbox, here and in the agent, unless it was stopped before.
func (p *plugin) end(pod *api.PodSandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := pod.GetId(); p.sandboxes[id] != nil {
		delete(p.sandboxes, id)
		p.link.Send(podfile.Event{Kind: podfile.Removed, Sandbox: podfile.Sandbox{ID: id}})
	}
}

// CreateContainer is called before a container is created. A container that mounts another file,
// such as a volume of the pod, is ignored.
func (p *plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox,
	c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	defer p.recoverPanic("CreateContainer")
	path := mountSource(c, pod.GetId())
	if path == "" {
		return nil, nil, nil
	}
	e := p.creating(pod, path)
	_, result := p.link.Ask(ctx, e)
	p.metrics.containers.WithLabelValues(string(result)).Inc()
	return nil, nil, nil
}

// withoutPredecessors removes sandboxes without a container whose pod has another sandbox with
// one: they have stopped, and the kubelet has not removed them yet.
func withoutPredecessors(sandboxes map[string]*sandbox) {
	hasContainer := map[string]bool{} // by the UID of the pod
	for _, s := range sandboxes {
		hasContainer[s.UID] = hasContainer[s.UID] || s.path != ""
	}
	maps.DeleteFunc(sandboxes, func(_ string, s *sandbox) bool { return s.path == "" && hasContainer[s.UID] })
}

// creating returns the event for a container with this source of its resolv.conf.
func (p *plugin) creating(pod *api.PodSandbox, path string) podfile.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sandboxes[pod.GetId()]
	if s == nil { // created while the relay was not connected: some runtimes do not wait for plugins
		s = &sandbox{Sandbox: describe(pod), path: path}
		p.sandboxes[s.ID] = s
	}
	first := s.path == "" && s.isNew
	s.path = path
	return podfile.Event{Kind: podfile.Creating, Sandbox: s.Sandbox, Path: path, First: first}
}

// sendAll sends the events that describe all sandboxes.
func (p *plugin) sendAll(_ context.Context, send func(podfile.Event) error) error {
	p.mu.Lock()
	events := p.replayLocked()
	p.mu.Unlock()
	for _, e := range events {
		if err := send(e); err != nil {
			return err
		}
	}
	return nil
}

// replayLocked returns the events that describe all sandboxes, Reset first. The last one reports whether
// the runtime is connected. p.mu must be held.
func (p *plugin) replayLocked() []podfile.Event {
	events := []podfile.Event{{Kind: podfile.Reset}}
	for _, s := range p.sandboxes {
		kind := podfile.Started
		if s.path != "" {
			kind = podfile.Running
		}
		events = append(events, podfile.Event{Kind: kind, Sandbox: s.Sandbox, Path: s.path})
	}
	last := podfile.Unsynchronized
	if p.synchronized.Load() {
		last = podfile.Synchronized
	}
	return append(events, podfile.Event{Kind: last})
}

// recoverPanic contains a panic: an error or a crash would fail the container.
func (p *plugin) recoverPanic(method string) {
	if r := recover(); r != nil {
		p.metrics.panics.Inc()
		p.log.Error("panic in a call of the container runtime", "method", method, "error", fmt.Sprint(r))
	}
}

func describe(pod *api.PodSandbox) podfile.Sandbox {
	hostNetwork := true
	for _, n := range pod.GetLinux().GetNamespaces() {
		hostNetwork = hostNetwork && n.GetType() != "network"
	}
	return podfile.Sandbox{
		ID: pod.GetId(), Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid(), HostNetwork: hostNetwork, IPs: pod.GetIps(),
		Annotations: podfile.BoundAnnotations(pod.GetAnnotations()),
	}
}

// mountSource returns the path of the runtime's file that c mounts at /etc/resolv.conf, or ""
// if it mounts another file there: a volume of the pod, or nothing.
func mountSource(c *api.Container, sandbox string) string {
	source := ""
	for _, m := range c.GetMounts() {
		if m.GetDestination() == "/etc/resolv.conf" {
			source = m.GetSource()
		}
	}
	if strings.HasSuffix(source, "/sandboxes/"+sandbox+"/resolv.conf") || strings.HasSuffix(source, "/"+sandbox+"/userdata/resolv.conf") {
		return source
	}
	return ""
}

const (
	// stopLimit is the longest wait for pods that are being stopped. Grace periods of ten minutes are
	// common, on a busy node one stop follows another, and the pods that start meanwhile have the
	// kubelet's DNS.
	stopLimit = 15 * time.Minute

	// silenceLimit is the longest wait for an agent that knows the pods of the node.
	silenceLimit = 30 * time.Second

	stopPause = 250 * time.Millisecond // between two questions
	quietWait = time.Second            // a shorter wait is not logged: the agent connects
)

// startedByRuntime reports whether the container runtime has started the relay, and sets its name, its
// index and the connection.
func startedByRuntime() bool { return os.Getenv(api.PluginIdxEnvVar) != "" }

// awaitStops returns when the agent knows of no pod that is being stopped, or after a limit: a
// registration waits for the end of all stops, and containerd starts no pod before it. The runtime does
// not show its stops.
func (p *plugin) awaitStops(ctx context.Context, ask func(context.Context, podfile.Event) (podfile.Ack, podfile.Result)) {
	if startedByRuntime() { // it waits for the relay, and has no stops yet
		return
	}
	defer p.wait.Store("")
	began, logged := time.Now(), ""
	for lastKnown := began; ctx.Err() == nil; {
		ack, result := ask(ctx, podfile.Event{Kind: podfile.Registering})
		reason := waitReason(ack, result)
		if reason == "" {
			return
		}
		p.wait.Store(reason)
		if ack.Stopping > 0 {
			lastKnown = time.Now()
		}
		if time.Since(began) >= stopLimit || time.Since(lastKnown) >= silenceLimit {
			p.log.Warn("registering although pods may be stopping: containerd starts no pod until they have stopped", "reason", reason)
			return
		}
		if reason != logged && time.Since(began) >= quietWait {
			logged = reason
			p.log.Info("waiting to register with the container runtime", "reason", reason)
		}
		daemon.Sleep(ctx, stopPause)
	}
}

// waitReason returns why the relay must not register yet, "" if it may.
func waitReason(ack podfile.Ack, r podfile.Result) string {
	switch {
	case r == podfile.Disconnected:
		return "the agent is not connected"
	case r != podfile.Acknowledged:
		return "the agent does not reply"
	case ack.Unknown:
		return "the agent does not know the pods of this node yet"
	case ack.Stopping > 0:
		return fmt.Sprintf("pods that are being stopped on this node: %d", ack.Stopping)
	}
	return ""
}

// waitsFor returns why the relay waits, "" if it does not.
func (p *plugin) waitsFor() string {
	reason, _ := p.wait.Load().(string)
	return reason
}
