// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ErrNotFound is the error of a look-up when no source has a pod with this UID.
var ErrNotFound = errors.New("pod not found")

// Source is who knew a pod.
type Source string

// The sources.
const (
	Informer Source = "informer" // the list and watch of this node's pods
	API      Source = "api"      // a call for this one pod
	Manifest Source = "manifest" // a file in the kubelet's static pod directory
)

// Ref is what a request for a sandbox says of its pod.
type Ref struct {
	Namespace   string
	Name        string
	UID         string
	Annotations map[string]string // as the kubelet sends them; not changed
}

func (r Ref) String() string { return fmt.Sprintf("%s/%s (UID %s)", r.Namespace, r.Name, r.UID) }

// static tells whether the pod did not come from the API.
func (r Ref) static() bool {
	return r.fromFile() || r.Annotations[kube.ConfigSourceAnnotation] == "http"
}

func (r Ref) fromFile() bool { return r.Annotations[kube.ConfigSourceAnnotation] == "file" }

// Config is what a [Pods] works with.
type Config struct {
	// Client is one of core/v1 that knows Pod and PodList. nil: there is no API, only
	// static pods are known. Its rate limit must allow a call for each pod that
	// starts (rest.Config.QPS), and it must have no timeout of its own, which would
	// cut the watch.
	Client rest.Interface

	// NodeName is the node's name as the API spells it. Required.
	NodeName string

	// Manifests is the kubelet's static pod directory. "": static pods are known
	// through their mirror pods only.
	Manifests string

	// InformerWait is how long a look-up waits for the watch, which may be behind
	// the kubelet's, before it calls the API. 0: 250 ms.
	InformerWait time.Duration

	// GetTimeout is how long a call to the API may take. 0: 500 ms.
	GetTimeout time.Duration

	// Budget is how long a look-up may take in all. 0: 1 s.
	Budget time.Duration

	// Logger hears of changes of state. nil: nobody does.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	if c.NodeName == "" {
		return errors.New("the name of the node is missing")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"informer wait", &c.InformerWait, 250 * time.Millisecond},
		{"get timeout", &c.GetTimeout, 500 * time.Millisecond},
		{"budget", &c.Budget, time.Second},
	} {
		if *d.value < 0 {
			return fmt.Errorf("the %s is negative: %v", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Pods knows the pods of one node. Many goroutines may use it.
type Pods struct {
	cfg     Config
	known   *table
	flights singleflight.Group // look-ups of what is not known, by UID
	reread  chan struct{}      // holds a token when the manifests are to be read at once
	breaker breaker
}

// New returns a Pods that knows nothing until it runs.
func New(cfg Config) (*Pods, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &Pods{cfg: cfg, known: newTable(), reread: make(chan struct{}, 1), breaker: breaker{log: cfg.Logger}}, nil
}

// Run keeps up with the API and the manifests until ctx ends, and returns nil then.
// What fails is tried again. It is called once.
func (p *Pods) Run(ctx context.Context) error {
	var running sync.WaitGroup
	if p.cfg.Manifests != "" {
		d := directory{path: p.cfg.Manifests, node: p.cfg.NodeName, log: p.cfg.Logger, set: p.known.setManifests, now: p.reread}
		running.Go(func() { d.watch(ctx) })
	}
	if p.cfg.Client != nil {
		running.Go(func() { reflector(p.cfg.Client, p.cfg.NodeName, p.known).RunWithContext(ctx) })
	}
	<-ctx.Done()
	running.Wait()
	return nil
}

// Synced tells whether a complete list of the node's pods has come from the API.
func (p *Pods) Synced() bool { return p.known.isSynced() }

// Lookup returns the pod of ref, and who knew it. It asks, in this order:
//
//  1. the informer, for the UID;
//  2. for a static pod, the informer for its mirror pod and then the manifests;
//  3. again, for as long as InformerWait, as soon as something arrives; manifests
//     are read at once, since the kubelet has read the pod's already;
//  4. the API, with a call for the name.
//
// Concurrent look-ups of a UID share steps 3 and 4. Step 3 is left out while the
// informer has had no complete list, save for static pods that may have a manifest,
// and step 4 for 10 s after 5 failures in a row.
//
// An error that wraps [ErrNotFound] is an answer: there is no such pod, or there is
// another one of its name. One that wraps context.DeadlineExceeded means that the
// answer did not come in time.
func (p *Pods) Lookup(ctx context.Context, ref Ref) (policy.Pod, Source, error) {
	if ref.UID == "" || ref.Namespace == "" || ref.Name == "" {
		return policy.Pod{}, "", fmt.Errorf("pod %s: %w", ref, ErrNotFound)
	}
	if a, ok := p.known.find(ref); ok {
		return a.pod, a.source, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Budget)
	defer cancel()
	// A caller that leaves does not end the look-up for those who share it; the
	// look-up has its own end.
	flight := p.flights.DoChan(ref.UID, func() (any, error) { return p.ask(context.WithoutCancel(ctx), ref) })
	select {
	case r := <-flight:
		if r.Err != nil {
			return policy.Pod{}, "", fmt.Errorf("pod %s: %w", ref, r.Err)
		}
		a := r.Val.(answer)
		return a.pod, a.source, nil
	case <-ctx.Done():
		return policy.Pod{}, "", fmt.Errorf("pod %s: %w", ref, ctx.Err())
	}
}

// ask is steps 3 and 4 of Lookup.
func (p *Pods) ask(ctx context.Context, ref Ref) (a answer, err error) {
	defer func() {
		if r := recover(); r != nil { // it would end the process: singleflight runs us in a goroutine
			err = fmt.Errorf("panic in the look-up: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Budget)
	defer cancel()
	if ref.fromFile() {
		select {
		case p.reread <- struct{}{}:
		default:
		}
	}
	if p.mayArrive(ref) {
		wait, stop := context.WithTimeout(ctx, p.cfg.InformerWait)
		defer stop()
		if a, ok := p.known.await(wait, ref); ok {
			return a, nil
		}
	}
	if p.cfg.Client == nil {
		return answer{}, ErrNotFound
	}
	if err := ctx.Err(); err != nil { // no failure of the API's
		return answer{}, err
	}
	pod, err := p.get(ctx, ref)
	if err == nil {
		return answer{pod, API}, nil
	}
	if a, ok := p.known.find(ref); ok { // it came while we asked
		return a, nil
	}
	return answer{}, err
}

// mayArrive tells whether ref's pod is likely to arrive by itself.
func (p *Pods) mayArrive(ref Ref) bool {
	return p.known.isSynced() || ref.fromFile() && p.cfg.Manifests != ""
}
