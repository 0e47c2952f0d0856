// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ErrNotFound is the error of a lookup when no source has a pod with this UID.
var ErrNotFound = errors.New("pod not found")

// DefaultTimeout is the timeout of a lookup.
const DefaultTimeout = time.Second

// Ref identifies a pod by the fields of a request for its sandbox.
type Ref struct {
	Namespace   string
	Name        string
	UID         string
	Annotations map[string]string // from the kubelet; not modified

	// NoMirror excludes the mirror pod of a static pod. Everyone who may create or change
	// pods in its namespace, and every webhook, can write the mirror pod; the kubelet
	// recognizes it by its name and an annotation.
	NoMirror bool
}

func (r Ref) String() string { return fmt.Sprintf("%s/%s (UID %s)", r.Namespace, r.Name, r.UID) }

// isStatic reports whether the kubelet has the pod from a file or a URL, not from the API.
func (r Ref) isStatic() bool {
	return r.isFromFile() || r.Annotations[kube.ConfigSourceAnnotation] == "http"
}

func (r Ref) isFromFile() bool { return r.Annotations[kube.ConfigSourceAnnotation] == "file" }

// PodsConfig configures a [Pods].
type PodsConfig struct {
	// Client is a client of core/v1 with the types Pod and PodList. nil: without an API
	// server, only static pods are found. Its rate limit must allow one call for each
	// pod that starts (rest.Config.QPS). It must have no timeout, which would end the
	// watch.
	Client rest.Interface

	// NodeName is the node's name on the API server. Required.
	NodeName string

	// Manifests is the kubelet's static pod directory, or its one manifest. "": static pods
	// are found through their mirror pods only.
	Manifests string

	// Timeout limits a lookup. 0: [DefaultTimeout].
	Timeout time.Duration

	// InformerWait is how long a lookup waits for the watch, which may lag behind the
	// kubelet's, before it calls the API server. 0: a quarter of Timeout.
	InformerWait time.Duration

	// GetTimeout limits a call to the API server. 0: half of Timeout. The last quarter is for
	// a machine that is too busy to end the other two in time.
	GetTimeout time.Duration

	// Logger receives changes of state. nil: no log.
	Logger *slog.Logger
}

// Pods finds the pods of one node. It is safe for concurrent use.
type Pods struct {
	cfg             PodsConfig
	table           *table
	lookups         singleflight.Group // of pods that are not in the table, by UID
	rereadManifests chan struct{}      // has a token when they are to be read at once
	breaker         breaker

	decoder runtime.Decoder // of pods in JSON and protobuf
	decoded slots           // of responses to small requests
	large   slots           // of large requests

	otherNode sync.Once // logs that NodeName is not the name of this node
}

// NewPods returns a Pods without any pod; Run fills it.
func NewPods(cfg PodsConfig) (*Pods, error) {
	if cfg.NodeName == "" {
		return nil, errors.New("watching pods: no node name")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.InformerWait = cmp.Or(cfg.InformerWait, cfg.Timeout/4)
	cfg.GetTimeout = cmp.Or(cfg.GetTimeout, cfg.Timeout/2)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{})
	metav1.AddToGroupVersion(kinds, corev1.SchemeGroupVersion)
	return &Pods{
		cfg: cfg, table: newTable(), rereadManifests: make(chan struct{}, 1), breaker: breaker{log: cfg.Logger},
		decoder: serializer.NewCodecFactory(kinds).UniversalDeserializer(),
		decoded: make(slots, decodedPods), large: make(slots, largeRequests),
	}, nil
}

// Run keeps the pods up to date with the API server and the manifests until ctx is done,
// and then returns nil. It retries failed requests. It must be called once.
func (p *Pods) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	if p.cfg.Manifests != "" {
		s := staticPods{path: p.cfg.Manifests, node: p.cfg.NodeName, publish: p.table.setManifests}
		w := kube.Watcher{
			Directories: []string{p.cfg.Manifests}, Read: s.read, Wake: p.rereadManifests,
			Logger: p.cfg.Logger, Message: "cannot read static pod manifests",
		}
		tasks.Go(func() { w.Run(ctx) })
	}
	if p.cfg.Client != nil {
		// The node authorizer forbids a kubelet's identity to list or watch pods without the field selector.
		lw := ListWatch(p.cfg.Client, pods.name, fields.OneTermEqualSelector("spec.nodeName", p.cfg.NodeName))
		r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, p.table, cache.ReflectorOptions{Name: "pods of node " + p.cfg.NodeName})
		tasks.Go(func() { r.RunWithContext(ctx) })
	}
	<-ctx.Done()
	tasks.Wait()
	return nil
}

// Synced returns a channel that is closed when the first complete list of the API server has
// arrived.
func (p *Pods) Synced() <-chan struct{} { return p.table.synced }

// Lookup returns the pod of ref. It consults, in this order:
//
//  1. the informer, for the UID;
//  2. for a static pod from a file, the manifests;
//  3. the same again for up to InformerWait, as soon as an object arrives; the manifests
//     are read at once, because the kubelet has already read the pod's;
//  4. for a static pod, the informer for its mirror pod; before step 3 if there are no
//     manifests;
//  5. the API server, with a GET of the name.
//
// Concurrent lookups of a UID share the steps from 3 on. Step 3 is skipped before the
// informer's first complete list, except for static pods that may have a manifest, and for
// large pods, which the informer does not keep. Step 5 is skipped for 10 s after 5 consecutive
// failures. Pods of more than 128 KiB are requested a few at a time, and their failures do not count.
//
// The override of the pod is that of ref's annotations, which the kubelet sends unchanged:
// then all annotations have one source.
//
// An error that wraps [ErrNotFound] is definite: there is no such pod, or the name belongs
// to another one. One that wraps context.DeadlineExceeded means that no answer arrived in
// time.
func (p *Pods) Lookup(ctx context.Context, ref Ref) (policy.Pod, error) {
	pod, err := p.lookup(ctx, ref)
	if err != nil {
		return policy.Pod{}, fmt.Errorf("pod %s: %w", ref, err)
	}
	pod.Override = policy.Policy(ref.Annotations[policy.OverrideAnnotation])
	return pod, nil
}

// lookup is Lookup, but does not set the override.
func (p *Pods) lookup(ctx context.Context, ref Ref) (policy.Pod, error) {
	if ref.UID == "" || ref.Namespace == "" || ref.Name == "" {
		return policy.Pod{}, ErrNotFound
	}
	if pod, ok := p.table.get(p.beforeMirror(ref)); ok {
		return pod, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	// A caller that gives up does not end the lookup for the others that share it; the
	// lookup has a timeout of its own.
	done := p.lookups.DoChan(ref.UID, func() (any, error) { return p.lookupShared(context.WithoutCancel(ctx), ref) })
	select {
	case r := <-done:
		return r.Val.(policy.Pod), r.Err
	case <-ctx.Done():
		return policy.Pod{}, ctx.Err()
	}
}

// beforeMirror returns the ref for the steps in which the manifests have precedence over the
// mirror pod.
func (p *Pods) beforeMirror(ref Ref) Ref {
	ref.NoMirror = ref.NoMirror || ref.isFromFile() && p.cfg.Manifests != ""
	return ref
}

// lookupShared performs the steps of Lookup from 3 on, which concurrent lookups share.
func (p *Pods) lookupShared(ctx context.Context, ref Ref) (pod policy.Pod, err error) {
	defer func() {
		if v := recover(); v != nil { // singleflight's goroutine would end the process
			err = fmt.Errorf("panic in the lookup: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if ref.isFromFile() {
		select {
		case p.rereadManifests <- struct{}{}:
		default:
		}
	}
	if p.mayArrive(ref) {
		waiting, stop := context.WithTimeout(ctx, p.cfg.InformerWait)
		defer stop()
		if pod, ok := p.table.wait(waiting, p.beforeMirror(ref)); ok {
			return pod, nil
		}
	}
	if pod, ok := p.table.get(ref); ok { // a mirror pod
		return pod, nil
	}
	if p.cfg.Client == nil || ref.isStatic() && ref.NoMirror {
		return policy.Pod{}, ErrNotFound
	}
	if err := ctx.Err(); err != nil { // not a failure of the API server
		return policy.Pod{}, err
	}
	pod, err = p.get(ctx, ref)
	if arrived, ok := p.table.get(ref); err != nil && ok { // during the call
		return arrived, nil
	}
	return pod, err
}

// mayArrive reports whether the watch or the manifests are likely to deliver ref's pod.
func (p *Pods) mayArrive(ref Ref) bool {
	return p.table.isSynced() && !p.table.isLarge(ref.UID) || ref.isFromFile() && p.cfg.Manifests != ""
}

// maxManifest is the size in bytes of the largest file that the kubelet reads
// (maxConfigLength in pkg/kubelet/config).
const maxManifest = 10 << 20

// staticPods reads the kubelet's static pods.
type staticPods struct {
	path    string // a directory or a file
	node    string
	publish func(map[types.NamespacedName]policy.Pod) // receives all pods after each reading
}

// read reads the manifests as the kubelet does: the one file, or in a directory every regular
// file whose name does not begin with a dot, in the order of their names. Of two manifests of
// a pod the later one wins. It returns the errors by path.
func (s *staticPods) read() map[string]error {
	failed := map[string]error{}
	pods := map[types.NamespacedName]policy.Pod{}
	files, err := s.list()
	if err != nil {
		failed[s.path] = err
	}
	for _, file := range files {
		var pod *corev1.Pod
		text, err := atomicfile.ReadRegular(file, maxManifest)
		if err == nil {
			pod, err = kube.ParseStaticPod(text, s.node)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since the directory was read
		case err != nil:
			failed[file] = err
		default:
			pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = kube.FromPod(pod)
		}
	}
	s.publish(pods)
	return failed
}

// list returns the files to read: those of the directory, or the one file (staticPodPath may be
// either).
func (s *staticPods) list() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, syscall.ENOTDIR) {
		return []string{s.path}, nil
	}
	var files []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(s.path, e.Name()))
		}
	}
	return files, err
}
